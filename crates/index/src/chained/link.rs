//! A link of a chain: two entries and the next link's number, in sixteen bytes. The first link of a chain is its
//! bucket.
//!
//! # Layout
//! ```text
//! word       bits 0..32   the next link's number; 0 = there is none
//!                 32..48  two tags; 0 = the slot is free
//!                 48      LOCK      \
//!                 49      ROUND      | of a bucket; 0 in the others
//!                 50..64  version   /
//! locations  two of 32 bits; without meaning where the tag is 0
//! ```
//! ROUND is the paper's has-moved bit. Its sense alternates: a split flips it, so the next round need not clear it.
//!
//! # Invariants
//! 1. Only the holder of the bucket's lock changes the links of its chain ([`Locked`] is the proof of holding it).
//! 2. A location is written before its tag, both with Release. The tag is read before the location, both with
//!    Acquire. So a reader that sees a tag gets the location written for it or a later one, never an older one.
//! 3. All zeroes is an empty bucket: fresh memory needs no constructor.

use super::lock::BucketLock;
use crate::sync::{Acquire, AtomicU32, AtomicU64, Backoff, Mutation, Relaxed, Release};
use crate::{Hash, Location};

/// See the module's head.
#[repr(C, align(16))]
#[derive(Default)]
#[cfg_attr(not(loom), derive(bytemuck::Zeroable))]
pub(crate) struct ChainLink {
    word: AtomicU64,
    locations: [AtomicU32; SLOTS],
}

impl ChainLink {
    #[inline]
    pub(super) fn word(&self) -> Word {
        Word(self.word.load(Acquire))
    }

    /// Only for the holder of the bucket's lock, or of a link that is in no chain.
    #[inline]
    pub(super) fn set_word(&self, word: Word) {
        self.word.store(word.0, Release);
    }

    #[inline]
    pub(super) fn location(&self, slot: usize) -> Location {
        Location(self.locations[slot].load(Acquire))
    }

    /// As for [`ChainLink::set_word`].
    #[inline]
    pub(super) fn set_location(&self, slot: usize, at: Location) {
        self.locations[slot].store(at.0, Release);
    }

    /// Waits for the lock of this bucket, which is at `address`.
    #[inline]
    pub(super) fn lock<'a, L: BucketLock>(&'a self, lock: &'a L, address: u32) -> Locked<'a, L> {
        let outer = lock.hold(address);
        let held = if L::TEST_AND_SET { self.test_and_set() } else { self.set_lock() };
        Locked { bucket: self, held: Word(held), _outer: outer }
    }

    /// Sets LOCK without a test. Only if no other writer can interfere.
    #[inline]
    fn set_lock(&self) -> u64 {
        let word = self.word.load(Relaxed);
        self.word.store(word | LOCK, Relaxed);
        word
    }

    #[inline]
    fn test_and_set(&self) -> u64 {
        let mut backoff = Backoff::default();
        loop {
            let word = self.word.load(Relaxed);
            let is_free = word & LOCK == 0;
            if is_free && Mutation::LooseLock.is_planted() {
                return self.set_lock();
            }
            if is_free && self.word.compare_exchange(word, word | LOCK, Acquire, Relaxed).is_ok() {
                return word;
            }
            backoff.pause();
        }
    }
}

/// A bucket locked by its holder. Dropping it stores `held`, which unlocks the bucket.
pub(super) struct Locked<'a, L: BucketLock> {
    bucket: &'a ChainLink,
    /// The bucket's next word.
    pub(super) held: Word,
    _outer: L::Held<'a>,
}

impl<'a, L: BucketLock> Locked<'a, L> {
    /// The bucket, for use beyond the lock.
    #[inline]
    pub(super) fn bucket(&self) -> &'a ChainLink {
        self.bucket
    }

    /// Shows readers what `held` has so far, marked as locked.
    #[inline]
    pub(super) fn publish(&self) {
        self.bucket.set_word(Word(self.held.0 | LOCK));
    }
}

impl<L: BucketLock> Drop for Locked<'_, L> {
    #[inline]
    fn drop(&mut self) {
        self.bucket.set_word(self.held);
    }
}

/// The fields of a link's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    /// The number of the next link; 0 = there is none.
    #[inline]
    pub(super) fn next(self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the low half of the word")]
        let next = self.0 as u32;
        next
    }

    #[must_use]
    #[inline]
    pub(super) fn with_next(self, next: u32) -> Self {
        Self(self.0 & !NEXT | u64::from(next))
    }

    /// The tag in a slot; `None` if the slot is free.
    #[inline]
    pub(super) fn tag(self, slot: usize) -> Option<Tag> {
        let tag = self.0.to_le_bytes()[4 + slot];
        (tag != 0).then_some(Tag(tag))
    }

    /// The word with a tag in a slot, or with the slot free.
    #[must_use]
    #[inline]
    pub(super) fn with_tag(self, slot: usize, tag: Option<Tag>) -> Self {
        let mut bytes = self.0.to_le_bytes();
        bytes[4 + slot] = tag.map_or(0, |tag| tag.0);
        Self(u64::from_le_bytes(bytes))
    }

    /// The word with both slots free and no next link.
    #[must_use]
    pub(super) fn emptied(self) -> Self {
        Self(self.0 & !(NEXT | TAGS))
    }

    #[inline]
    pub(super) fn has_entries(self) -> bool {
        self.0 & TAGS != 0
    }

    /// The first free slot.
    #[inline]
    pub(super) fn free(self) -> Option<usize> {
        (0..SLOTS).find(|&slot| self.tag(slot).is_none())
    }

    /// The slots that hold `tag`. Computed without a branch on which one it is, since that is random.
    #[inline]
    pub(super) fn matching(self, tag: Tag) -> impl Iterator<Item = usize> {
        let [.., first, second, _, _] = self.0.to_le_bytes();
        let mut left = u32::from(first == tag.0) | u32::from(second == tag.0) << 1;
        std::iter::from_fn(move || {
            let slot = left.trailing_zeros() as usize;
            let rest = left & left.wrapping_sub(1);
            (std::mem::replace(&mut left, rest) != 0).then_some(slot)
        })
    }

    #[inline]
    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Whether the bucket has been split in an odd number of rounds.
    #[inline]
    pub(super) fn is_odd(self) -> bool {
        self.0 & ROUND != 0
    }

    /// The word of a bucket that has been split in an odd, or even, number of rounds.
    #[must_use]
    pub(super) fn with_odd(self, is_odd: bool) -> Self {
        Self(if is_odd { self.0 | ROUND } else { self.0 & !ROUND })
    }

    /// The word with the version of the next change that readers must notice.
    #[must_use]
    #[inline]
    pub(super) fn advanced(self) -> Self {
        Self(self.0.wrapping_add(VERSION))
    }

    /// Whether the version has wrapped in [`Word::advanced`], so that it has occurred before.
    #[inline]
    pub(super) fn has_wrapped(self) -> bool {
        self.0 < VERSION
    }
}

/// Eight bits of a key's hash, never 0: one entry of another key in 255 is compared in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u8);

impl Tag {
    #[inline]
    pub(super) fn new(hash: Hash) -> Self {
        let [low, ..] = hash.0.to_le_bytes();
        Self(low.max(1))
    }
}

/// Entries of a link.
pub(super) const SLOTS: usize = 2;
const NEXT: u64 = 0xffff_ffff;
const TAGS: u64 = 0xffff << 32;
const LOCK: u64 = 1 << 48;
const ROUND: u64 = 1 << 49;
/// One step of the version. The version is in the top bits, so that an overflow affects nothing else. In models it
/// has one bit.
const VERSION: u64 = if cfg!(loom) { 1 << 63 } else { 1 << 50 };

#[cfg(not(loom))]
const _: () = assert!(size_of::<ChainLink>() == 16, "four links are a cache line");
