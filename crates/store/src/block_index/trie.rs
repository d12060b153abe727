//! The paper's entropy-coded trie: a key's rank among sorted keys, in 2.5 to 3 bits per key.
//!
//! SILT (SOSP 2011) §4 and *Practical Batch-Updatable External Hashing with Sorting* (ALENEX 2013). The first bits of a
//! key choose its bucket, which holds about 200 keys. Each bucket is a binary trie over the remaining bits. The trie is
//! written as the number of keys that go left at each node, with the left subtree before the right one. A *sparse* trie
//! also omits the nodes whose keys all lie in one block of k, for files that hold k entries per block.
//!
//! # Layout
//! ```text
//! order 1 B | skip 1 B | bucket bits 1 B | 0 | k, 4 B | keys, 8 B | bits, 8 B | buckets per group, 4 B
//! group bases, 8 B each: bits 4 B, keys 4 B | 2^bucket bits + 1 buckets, 4 B each: bits 2 B, keys 2 B | bits in words
//! ```
//! # Invariants
//! 1. Keys ascend and differ. Only then is the rank of a stored key exact.
//! 2. A lookup ends whatever the bits are: each split consumes at least one bit, and no path is longer than a key.
//!
//! # Costs
//! 33 bits per bucket. A lookup decodes about half of a bucket's splits, which takes microseconds. Bad at: lookups,
//! compared with an index of blocks; and absent keys, for which it returns any position.

mod code;

pub(crate) use code::Order;

use super::bits::Bits;
use crate::hash::KeyHash;

/// Builds a [`Trie`] from ascending keys. Holds the keys of one bucket in memory.
#[derive(Debug)]
pub(crate) struct TrieBuilder {
    shape: Shape,
    keys: Vec<u128>,
    /// The bits and keys before each bucket so far.
    ends: Vec<(u64, u64)>,
    bits: Bits,
    count: u64,
}

impl TrieBuilder {
    /// Creates a builder for about `expected` keys that share their first `skip` bits. A block holds `keys_per_block`
    /// of them.
    pub(crate) fn new(order: Order, expected: u64, skip: u32, keys_per_block: u32) -> Self {
        let buckets = expected.div_ceil(BUCKET_KEYS).max(1);
        let bucket_bits =
            buckets.next_power_of_two().ilog2().min(BUCKET_BITS_MAX).min(128 - skip.min(128));
        let shape = Shape {
            order,
            skip: skip.min(128),
            bucket_bits,
            keys_per_block: keys_per_block.max(1),
        };
        Self { shape, keys: Vec::new(), ends: vec![(0, 0)], bits: Bits::default(), count: 0 }
    }

    /// Adds the next key. A key that isn't above the last one, or lies outside the shared bits, is ignored: the result
    /// is false.
    pub(crate) fn push(&mut self, key: KeyHash) -> bool {
        let bucket = self.shape.bucket(key.0);
        let is_higher = self.keys.last().is_none_or(|&last| key.0 > last);
        if !is_higher || bucket + 1 < self.ends.len() {
            return false;
        }
        self.close_until(bucket);
        self.keys.push(key.0);
        true
    }

    /// Builds the trie. None for more than 2^32 keys or bits.
    pub(crate) fn finish(mut self) -> Option<Trie> {
        self.close_until(1 << self.shape.bucket_bits);
        Trie::assemble(self.shape, &self.ends, self.bits)
    }

    /// Encodes the buckets before `bucket`.
    fn close_until(&mut self, bucket: usize) {
        while self.ends.len() <= bucket {
            let depth = self.shape.depth();
            self.shape.encode(&self.keys, self.count, depth, &mut self.bits);
            self.count += self.keys.len() as u64;
            self.keys.clear();
            self.ends.push((self.bits.len(), self.count));
        }
    }
}

/// The parameters that the bits of a trie depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    order: Order,
    /// Bits that all keys share.
    skip: u32,
    bucket_bits: u32,
    keys_per_block: u32,
}

impl Shape {
    fn bucket(&self, key: u128) -> usize {
        let shifted = key.checked_shl(self.skip).unwrap_or(0);
        let bucket = shifted.checked_shr(128 - self.bucket_bits).unwrap_or(0);
        usize::try_from(bucket).expect("at most 2^24 buckets")
    }

    /// The first bit that a trie looks at.
    fn depth(&self) -> u32 {
        self.skip + self.bucket_bits
    }

    /// Returns whether no split is coded below a node: it has one key, or all its keys are in one block.
    #[inline]
    fn stops(&self, keys: u64, position: u64) -> bool {
        let block = |it: u64| it / u64::from(self.keys_per_block);
        keys <= 1 || (self.keys_per_block > 1 && block(position) == block(position + keys - 1))
    }

    fn encode(&self, keys: &[u128], position: u64, depth: u32, bits: &mut Bits) {
        if self.stops(keys.len() as u64, position) {
            return;
        }
        let left = keys.partition_point(|key| !goes_right(*key, depth));
        code::put(bits, self.order, keys.len() as u64, left as u64);
        self.encode(&keys[..left], position, depth + 1, bits);
        self.encode(&keys[left..], position + left as u64, depth + 1, bits);
    }
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trie {
    shape: Shape,
    directory: Directory,
    bits: Bits,
}

impl Trie {
    fn assemble(shape: Shape, ends: &[(u64, u64)], bits: Bits) -> Option<Self> {
        Some(Self { shape, directory: Directory::new(ends)?, bits })
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> u64 {
        self.directory.end().1
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bits.bytes() + self.directory.bytes()
    }

    /// The bits of the tries, without the directory.
    #[cfg(test)]
    pub(crate) fn trie_bits(&self) -> u64 {
        self.bits.len()
    }

    /// Returns the rank of a stored key (in a sparse trie: some rank in its block). For other keys any rank may be
    /// returned.
    pub(crate) fn position(&self, key: KeyHash) -> u64 {
        let bucket = self.shape.bucket(key.0);
        let ((mut at, mut position), (_, behind)) = self.directory.bucket(bucket);
        let mut keys = behind - position;
        let mut depth = self.shape.depth();
        while !self.shape.stops(keys, position) && depth < 128 {
            let Some(left) = code::take(&self.bits, &mut at, self.shape.order, keys) else { break };
            if self.shape.order == Order::Weak && left == 0 {
                depth += 1;
                continue;
            }
            if !goes_right(key.0, depth) {
                keys = left;
            } else if self.skip(&mut at, left, position, depth + 1).is_some() {
                position += left;
                keys -= left;
            } else {
                break;
            }
            depth += 1;
        }
        position.min(self.len().saturating_sub(1))
    }

    /// Moves `at` past the subtrie of `keys` keys. None if its bits are invalid.
    fn skip(&self, at: &mut u64, keys: u64, position: u64, depth: u32) -> Option<()> {
        if self.shape.stops(keys, position) {
            return Some(());
        }
        if depth >= 128 {
            return None;
        }
        let left = code::take(&self.bits, at, self.shape.order, keys)?;
        if self.shape.order == Order::Weak && left == 0 {
            return self.skip(at, keys, position, depth + 1);
        }
        self.skip(at, left, position, depth + 1)?;
        self.skip(at, keys - left, position + left, depth + 1)
    }

    /// Appends the trie to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let order = u8::from(self.shape.order == Order::Weak);
        let [skip, bits] = [self.shape.skip, self.shape.bucket_bits].map(|it| it.to_le_bytes()[0]);
        out.extend([order, skip, bits, 0]);
        out.extend(self.shape.keys_per_block.to_le_bytes());
        out.extend(self.len().to_le_bytes());
        out.extend(self.bits.len().to_le_bytes());
        self.directory.encode(out);
        self.bits.encode(out);
    }

    /// Decodes the trie from the front of `bytes`, and advances `bytes` past it. None for bytes of another form.
    /// Whether the bits are valid tries shows only when they are walked.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<24>()?;
        *bytes = rest;
        let number = |at: usize| head[at..].first_chunk().map(|it| u64::from_le_bytes(*it));
        let (len, bits_len) = (number(8)?, number(16)?);
        let order = match head[0] {
            0 => Order::Strict,
            1 => Order::Weak,
            _ => return None,
        };
        let (skip, bucket_bits) = (u32::from(head[1]), u32::from(head[2]));
        let keys_per_block = u32::from_le_bytes(*head[4..].first_chunk()?);
        let is_shape =
            head[3] == 0 && skip <= 128 && bucket_bits <= BUCKET_BITS_MAX.min(128 - skip);
        if !is_shape || keys_per_block == 0 || len > 1 << 32 || bits_len > 1 << 32 {
            return None;
        }
        let directory = Directory::decode(bytes, 1 << bucket_bits)?;
        let bits = Bits::decode(bytes, bits_len)?;
        let shape = Shape { order, skip, bucket_bits, keys_per_block };
        (directory.end() == (bits_len, len)).then_some(Self { shape, directory, bits })
    }
}

#[inline]
fn goes_right(key: u128, depth: u32) -> bool {
    key.checked_shl(depth).is_some_and(|it| it >> 127 == 1)
}

/// The start of each bucket: two bytes for its bits and two for its keys, relative to the base of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Directory {
    group: u32,
    bases: Vec<(u32, u32)>,
    buckets: Vec<(u16, u16)>,
}

impl Directory {
    /// Builds the directory. `ends` ascend, and are one more than the buckets. None for more than 2^32 bits or keys.
    fn new(ends: &[(u64, u64)]) -> Option<Self> {
        // With uniform keys, a group can have 64 buckets; with others, fewer. A group of one always works.
        (0..=GROUP_BUCKETS.ilog2()).rev().find_map(|log| Self::with_group(ends, 1 << log))
    }

    fn with_group(ends: &[(u64, u64)], group: u32) -> Option<Self> {
        let mut made = Self { group, bases: Vec::new(), buckets: Vec::new() };
        for group in ends.chunks(group as usize) {
            let base = group[0];
            made.bases.push((u32::try_from(base.0).ok()?, u32::try_from(base.1).ok()?));
            for end in group {
                let bits = u16::try_from(end.0 - base.0).ok()?;
                made.buckets.push((bits, u16::try_from(end.1 - base.1).ok()?));
            }
        }
        Some(made)
    }

    /// Returns the bits and keys before a bucket, and those before the next one.
    #[inline]
    fn bucket(&self, bucket: usize) -> ((u64, u64), (u64, u64)) {
        (self.before(bucket), self.before(bucket + 1))
    }

    #[inline]
    fn before(&self, bucket: usize) -> (u64, u64) {
        let (base, more) = (self.bases[bucket / self.group as usize], self.buckets[bucket]);
        (u64::from(base.0) + u64::from(more.0), u64::from(base.1) + u64::from(more.1))
    }

    /// Bits and keys in total.
    fn end(&self) -> (u64, u64) {
        self.before(self.buckets.len() - 1)
    }

    fn bytes(&self) -> usize {
        self.bases.len() * 8 + self.buckets.len() * 4
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.group.to_le_bytes());
        for base in &self.bases {
            out.extend(base.0.to_le_bytes());
            out.extend(base.1.to_le_bytes());
        }
        for bucket in &self.buckets {
            out.extend(bucket.0.to_le_bytes());
            out.extend(bucket.1.to_le_bytes());
        }
    }

    /// Decodes the directory of `buckets` buckets from the front of `bytes`, and advances `bytes` past it.
    fn decode(bytes: &mut &[u8], buckets: usize) -> Option<Self> {
        let (group, rest) = bytes.split_first_chunk()?;
        let group = u32::from_le_bytes(*group);
        if !group.is_power_of_two() || group > GROUP_BUCKETS {
            return None;
        }
        let (bases, rest) = rest.split_at_checked((buckets + 1).div_ceil(group as usize) * 8)?;
        let (ends, rest) = rest.split_at_checked((buckets + 1) * 4)?;
        *bytes = rest;
        let word = |it: &[u8; 4]| u32::from_le_bytes(*it);
        let bases = bases.as_chunks::<4>().0.as_chunks::<2>().0.iter();
        let half = |it: &[u8; 2]| u16::from_le_bytes(*it);
        let ends = ends.as_chunks::<2>().0.as_chunks::<2>().0.iter();
        let read = Self {
            group,
            bases: bases.map(|[bits, keys]| (word(bits), word(keys))).collect(),
            buckets: ends.map(|[bits, keys]| (half(bits), half(keys))).collect(),
        };
        let ascends = (0..buckets).all(|bucket| {
            let ((bits, keys), next) = read.bucket(bucket);
            bits <= next.0 && keys <= next.1
        });
        (read.before(0) == (0, 0) && ascends).then_some(read)
    }
}

/// Keys of a full bucket. If the number of keys was known in advance, buckets have at least half as many.
const BUCKET_KEYS: u64 = 256;

/// At 4 bits per key and 256 keys per bucket, a group's bits just fit an offset of 2 bytes.
const GROUP_BUCKETS: u32 = 64;

/// The directory of so many buckets takes 64 MiB.
const BUCKET_BITS_MAX: u32 = 24;

#[cfg(test)]
mod tests;
