//! Addresses in a table that grows one bucket at a time (linear hashing, Litwin 1980).
//!
//! A key has two *positions* of 32 bits that never change. One comes from its hash; the other is that position,
//! exclusive or a mask that the key's tag determines (MemC3 section 3.2). So either position follows from the other and the
//! tag. A position's *address*, its bucket, depends on the number of buckets:
//! ```text
//! size = 2^k + p     buckets  0 ......... p ............... 2^k ......... 2^k + p
//!                             | split     | not split yet    | split off 0..p |
//! bits of a position that count:   k + 1  |        k         |      k + 1
//! ```
//! Growth splits bucket p in two: positions that had k bits in common are separated by one more bit.
//!
//! # Invariants
//! 1. The mask is odd, so that the two addresses differ at any size (>= 2).
//! 2. While `bits(bucket)` is unchanged, the set of positions with that address is unchanged too.

use crate::Hash;
use crate::bucket::Tag;
use std::hint::select_unpredictable;

/// The number of buckets in use, at least 2, and the addressing that follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    buckets: u32,
    /// 2^(k+1) - 1. It follows from `buckets`, and is stored so that lookups need not compute it.
    mask: u32,
}

impl Size {
    pub(crate) fn new(buckets: u32) -> Self {
        Self { buckets, mask: u32::MAX >> buckets.leading_zeros() }
    }

    /// Packs the size into one word, to be published atomically.
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.mask) << 32 | u64::from(self.buckets)
    }

    #[inline]
    pub(crate) fn from_word(word: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the low half of the word")]
        let buckets = word as u32;
        Self { buckets, mask: (word >> 32) as u32 }
    }

    #[inline]
    pub(crate) fn buckets(self) -> u32 {
        self.buckets
    }

    /// The size with one more bucket.
    pub(crate) fn grown(self) -> Self {
        Self::new(self.buckets + 1)
    }

    /// The bucket of a position.
    #[inline]
    pub(crate) fn address(self, position: u32) -> u32 {
        let address = position & self.mask;
        let halved = address & (self.mask >> 1);
        select_unpredictable(address < self.buckets, address, halved)
    }

    /// The two buckets of a key.
    #[inline]
    pub(crate) fn addresses(self, probe: Probe) -> [u32; 2] {
        [self.address(probe.first), self.address(probe.second)]
    }

    /// The bucket that the next growth splits: p.
    #[inline]
    pub(crate) fn next_split(self) -> u32 {
        self.buckets & (self.mask >> 1)
    }

    /// How many splits ago the bucket was split, or split off. The buckets with the highest age have waited longest
    /// for their next split. For any position, this returns the age of its bucket.
    #[inline]
    pub(crate) fn age(self, bucket: u32) -> u32 {
        self.buckets.wrapping_sub(bucket).wrapping_sub(1) & (self.mask >> 1)
    }

    /// The number of low bits that all positions in a bucket have in common.
    #[inline]
    pub(crate) fn bits(self, bucket: u32) -> u32 {
        let is_split = bucket < self.next_split() || bucket > self.mask >> 1;
        self.mask.trailing_ones() - u32::from(!is_split)
    }

    /// The other bucket of an entry with this tag, if it follows from the entry's bucket alone. It does not if the
    /// entry's bucket is not yet split and the other bucket is: then only the full hash determines the side.
    #[inline]
    pub(crate) fn alternate(self, bucket: u32, tag: Tag) -> Option<u32> {
        let other = bucket ^ mask(tag);
        let is_whole = other & (self.mask >> 1) >= self.next_split();
        let follows = is_whole || self.bits(bucket) == self.mask.trailing_ones();
        follows.then(|| self.address(other))
    }

    /// The possible other buckets of an entry: the same one twice if it follows from bucket and tag.
    #[inline]
    pub(crate) fn alternates(self, bucket: u32, tag: Tag) -> [u32; 2] {
        let low = (bucket ^ mask(tag)) & (self.mask >> 1);
        let both = [low, low | (self.mask ^ self.mask >> 1)];
        self.alternate(bucket, tag).map_or(both, |known| [known; 2])
    }

    /// The age of an entry's other bucket. It follows even if the bucket doesn't: both sides of a split have the same
    /// age.
    #[inline]
    pub(crate) fn age_of_alternate(self, bucket: u32, tag: Tag) -> u32 {
        self.age(bucket ^ mask(tag))
    }
}

/// The parts of a hash that the table uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) tag: Tag,
    /// The position where the key is put if there is room.
    pub(crate) first: u32,
    /// The other position where the key may be.
    pub(crate) second: u32,
}

impl Probe {
    #[inline]
    pub(crate) fn new(hash: Hash) -> Self {
        let [low, high, ..] = hash.0.to_le_bytes();
        let tag = Tag::new(u16::from_le_bytes([low, high]));
        let [first, second] = positions(hash.0, tag);
        Self { tag, first, second }
    }

    /// Whether one of the key's two addresses is `bucket`.
    pub(crate) fn has_address(&self, bucket: u32, size: Size) -> bool {
        size.addresses(*self).contains(&bucket)
    }

    /// The key's other bucket, given one of the two. `None` if `bucket` is neither.
    pub(crate) fn other_than(&self, bucket: u32, size: Size) -> Option<u32> {
        let [first, second] = size.addresses(*self);
        if bucket == first { Some(second) } else { (bucket == second).then_some(first) }
    }
}

#[inline]
fn positions(hash: u64, tag: Tag) -> [u32; 2] {
    let first = (hash >> 32) as u32;
    [first, first ^ mask(tag)]
}

/// The bits in which the two positions of a key with this tag differ.
#[inline]
fn mask(tag: Tag) -> u32 {
    // The high half of the product: its low bits depend on all bits of the tag, so small tables spread keys too.
    let product = u64::from(tag.bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let high = (product >> 32) as u32;
    high | 1
}
