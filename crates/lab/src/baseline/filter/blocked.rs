//! Blocked Bloom filter: an item sets k bits in one line (Putze, Sanders, Singler, 2007).
//!
//! # Layout
//! ```text
//! block 64 B  | 512 bits |        the block from the hash, nine more bits of it for each of the k bits
//! ```
//! # Invariants
//! 1. All k bits of an item that is in are set; no bit is ever cleared.
//!
//! # Costs
//! insert and lookup: one line. Bad at: low rates, since some blocks get many more items than others.

use super::{Set, reduce};
use guira_bench::mix;

/// See the module's head.
pub(crate) struct Blocked {
    blocks: Vec<Block>,
    hashes: u32,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Block([u64; WORDS]);

impl Blocked {
    /// Creates a filter of `bytes` bytes, a multiple of 64, with k = `hashes`.
    pub(crate) fn new(bytes: usize, hashes: u32) -> Self {
        Self { blocks: vec![Block([0; WORDS]); bytes / size_of::<Block>()], hashes }
    }
}

impl Set for Blocked {
    fn insert(&mut self, hash: u64) -> bool {
        let block = reduce(hash, self.blocks.len());
        for (word, bit) in bits(hash, self.hashes) {
            self.blocks[block].0[word] |= bit;
        }
        true
    }

    fn contains(&self, hash: u64) -> bool {
        let block = &self.blocks[reduce(hash, self.blocks.len())];
        bits(hash, self.hashes).all(|(word, bit)| block.0[word] & bit != 0)
    }

    fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>()
    }
}

/// Returns the word and the bit for each of an item's k bits. Each takes nine bits of hash; one hash has enough for
/// seven.
fn bits(hash: u64, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let mut left = hash;
    (0..count).map(move |n| {
        if n % 7 == 0 {
            left = mix(hash.wrapping_add(u64::from(n)));
        }
        let place = left & 511;
        left >>= 9;
        (usize::try_from(place >> 6).expect("eight words"), 1 << (place & 63))
    })
}

const WORDS: usize = 8;
