//! The default block index: 16.5 bits per block, and 40 ns per lookup.
//!
//! A block's fence is 16 bits of its first hash. Fences are grouped into buckets of about 64, each of which covers an
//! equal span of the hashes. A fence is the position of the hash in its bucket's span. The block of a hash is the last
//! one whose fence isn't above the hash.
//!
//! # Costs
//! A lookup reads two bucket starts and 128 bytes of fences. Sometimes two hashes share one of the 65 536 positions of
//! a bucket's span: one lookup in 2000 is sent to the block after the right one, whose first hash shows the mistake.

use super::locate::{BlockIndex, Located};
use super::scale::Scale;
use crate::hash::KeyHash;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    scale: Scale,
    /// The first block of each bucket; then the number of blocks.
    starts: Vec<u32>,
    slices: Vec<u16>,
}

impl Fence {
    /// Builds the index. `firsts` are the tops of the blocks' first hashes, `last` that of the last hash. None if they
    /// don't ascend.
    pub(super) fn new(firsts: &[u64], last: u64) -> Option<Self> {
        let min = firsts.first().copied().unwrap_or(last);
        let buckets = buckets(firsts.len());
        let scale = Scale::new(min, last, (buckets as u64) << 16)?;
        let mut starts = Vec::with_capacity(buckets + 1);
        let mut slices = Vec::with_capacity(firsts.len());
        for &first in firsts {
            let (bucket, slice) = place(scale.cell(first));
            let block = u32::try_from(slices.len()).ok()?;
            while starts.len() <= bucket {
                starts.push(block);
            }
            slices.push(slice);
        }
        let blocks = u32::try_from(slices.len()).ok()?;
        starts.resize(buckets + 1, blocks);
        let made = Self { scale, starts, slices };
        made.is_valid().then_some(made)
    }

    fn is_valid(&self) -> bool {
        let ascends = |slices: &[u16]| slices.windows(2).all(|pair| pair[0] <= pair[1]);
        self.starts.first() == Some(&0)
            && self.starts.last().is_some_and(|&last| last as usize == self.slices.len())
            && self.starts.windows(2).all(|pair| {
                self.slices.get(pair[0] as usize..pair[1] as usize).is_some_and(ascends)
            })
    }

    /// How many blocks it indexes.
    pub(super) fn blocks(&self) -> u64 {
        self.slices.len() as u64
    }

    /// Appends the index.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend((self.slices.len() as u64).to_le_bytes());
        self.scale.encode(out);
        self.starts.iter().for_each(|start| out.extend(start.to_le_bytes()));
        self.slices.iter().for_each(|slice| out.extend(slice.to_le_bytes()));
    }

    /// Decodes the index. None for bytes that `encode` doesn't write.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let (blocks, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        let blocks = usize::try_from(u64::from_le_bytes(*blocks)).ok()?;
        let buckets = buckets(blocks);
        let scale = Scale::decode(&mut bytes, (buckets as u64).checked_mul(1 << 16)?)?;
        let starts_bytes = buckets.checked_add(1)?.checked_mul(4)?;
        let (starts, slices) = bytes.split_at_checked(starts_bytes)?;
        if slices.len() != blocks.checked_mul(2)? {
            return None;
        }
        let starts = starts.as_chunks().0.iter().map(|it| u32::from_le_bytes(*it)).collect();
        let slices = slices.as_chunks().0.iter().map(|it| u16::from_le_bytes(*it)).collect();
        let read = Self { scale, starts, slices };
        read.is_valid().then_some(read)
    }
}

impl BlockIndex for Fence {
    #[inline]
    fn locate(&self, hash: KeyHash) -> Located {
        let cell = self.scale.cell(hash.top());
        let (bucket, slice) = place(cell);
        let (from, to) = (self.starts[bucket] as usize, self.starts[bucket + 1] as usize);
        let behind = from + self.slices[from..to].partition_point(|&it| it <= slice);
        let block = behind.saturating_sub(1);
        let mut first_bucket = bucket;
        while first_bucket > 0 && self.starts[first_bucket] as usize > block {
            first_bucket -= 1;
        }
        let first_slice = self.slices.get(block).copied().unwrap_or(0);
        let first = (first_bucket as u64) << 16 | u64::from(first_slice);
        let step = ((buckets(self.slices.len()) as u64) << 13) / (self.slices.len() as u64).max(1);
        Located { block: block as u64, steps: cell.saturating_sub(first) / step.max(1) }
    }

    fn bytes(&self) -> usize {
        self.starts.len() * 4 + self.slices.len() * 2
    }
}

/// The bucket of a cell, and the position in that bucket.
#[inline]
fn place(cell: u64) -> (usize, u16) {
    let bucket = usize::try_from(cell >> 16).expect("a bucket in memory");
    (bucket, (cell & 0xffff) as u16)
}

fn buckets(blocks: usize) -> usize {
    (blocks / BUCKET_BLOCKS).max(1)
}

/// The mean number of fences in a bucket: a lookup searches one bucket.
const BUCKET_BLOCKS: usize = 64;
