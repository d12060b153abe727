//! Addresses in a table that grows one bucket at a time (linear hashing, Litwin 1980).
//!
//! A key has two *positions* of 32 bits that never change: one from its hash, the other by exclusive or with a mask
//! that its tag determines (MemC3 section 3.2), so either follows from the other and the tag. A position's
//! *address*, its bucket, depends on the number of buckets:
//! ```text
//! size = 2^k + p     buckets  0 ......... p ............... 2^k ......... 2^k + p
//!                             | split     | not split yet    | split off 0..p |
//! bits of a position that count:   k + 1  |        k         |      k + 1
//! ```
//! Growth splits bucket p in two: what had k bits in common is told apart by one more.
//!
//! # Invariants
//! 1. The mask is odd, so that the two addresses differ whatever the size (>= 2).
//! 2. While `bits(bucket)` stays the same, so does the set of positions whose address it is.

use crate::Hash;
use crate::bucket::Tag;
use std::hint::select_unpredictable;

/// A number of buckets in use, at least 2, and the addressing that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    buckets: u32,
    /// 2^(k+1) - 1, which follows from `buckets`: kept so that look-ups need not compute it.
    mask: u32,
}

impl Size {
    pub(crate) fn new(buckets: u32) -> Self {
        Self { buckets, mask: u32::MAX >> buckets.leading_zeros() }
    }

    /// As one word, to be published at once.
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

    /// With one bucket more.
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

    /// How many splits ago the bucket was split, or split off. Those that wait longest for theirs are the oldest. Of any
    /// position, its bucket's.
    #[inline]
    pub(crate) fn age(self, bucket: u32) -> u32 {
        self.buckets.wrapping_sub(bucket).wrapping_sub(1) & (self.mask >> 1)
    }

    /// How many low bits the positions in a bucket have in common.
    #[inline]
    pub(crate) fn bits(self, bucket: u32) -> u32 {
        let is_split = bucket < self.next_split() || bucket > self.mask >> 1;
        self.mask.trailing_ones() - u32::from(!is_split)
    }

    /// The other bucket of an entry with this tag, if that follows from its bucket alone. It does not for an entry
    /// of a bucket not yet split whose other bucket is split: only the full hash tells on which side.
    #[inline]
    pub(crate) fn alternate(self, bucket: u32, tag: Tag) -> Option<u32> {
        let other = bucket ^ mask(tag);
        let is_whole = other & (self.mask >> 1) >= self.next_split();
        let follows = is_whole || self.bits(bucket) == self.mask.trailing_ones();
        follows.then(|| self.address(other))
    }

    /// The buckets among which an entry's other one is: the same one twice if it follows from bucket and tag.
    #[inline]
    pub(crate) fn alternates(self, bucket: u32, tag: Tag) -> [u32; 2] {
        let low = (bucket ^ mask(tag)) & (self.mask >> 1);
        let both = [low, low | (self.mask ^ self.mask >> 1)];
        self.alternate(bucket, tag).map_or(both, |known| [known; 2])
    }

    /// The age of an entry's other bucket, which follows even if the bucket doesn't: both sides of a split are of one.
    #[inline]
    pub(crate) fn age_of_alternate(self, bucket: u32, tag: Tag) -> u32 {
        self.age(bucket ^ mask(tag))
    }
}

/// What the table uses of a hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) tag: Tag,
    /// Where the key is put if there is room.
    pub(crate) first: u32,
    /// Where else it may be.
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

    /// True if one of the key's two addresses is `bucket`.
    pub(crate) fn has_address(&self, bucket: u32, size: Size) -> bool {
        size.addresses(*self).contains(&bucket)
    }

    /// Given one of the two buckets of this key, the other.
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
    // The high half of the product: its low bits depend on all bits of the tag, so small tables spread too.
    let product = u64::from(tag.bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let high = (product >> 32) as u32;
    high | 1
}
