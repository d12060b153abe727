//! The version word of a bucket: a lock for writers, a stamp for readers, and one more bit for each slot's tag.
//!
//! MemC3 section 3.3 with the counter in the bucket's own line, so that a look-up touches nothing else, and with
//! the writers' lock in the same word. Three verbs: readers take a [`Version::stamp`] and ask
//! [`Version::is_unchanged`] afterwards; writers [`Version::lock`] (and unlock).
//!
//! # Layout
//! ```text
//! bit 31              20 19                                  1   0
//!     | a bit for a slot | counter of moves and removals     | LOCK |
//! ```
//! The slots' bits are there because the line has no other room, and every reader has the word in hand anyway.
//!
//! # Orderings
//! Locking acquires, unlocking releases, taking a stamp acquires. There are no fences: what a bucket holds is stored
//! with Release after the lock was taken and loaded with Acquire before the second look at the version. A reader
//! that saw a word written under a lock therefore sees, at that second look, the lock or what came after it.
//!
//! The counter wraps after 2^19 moves and removals in one bucket. To be fooled, a reader that misses would have to
//! sleep through an exact multiple of that, at the instant in which its key moved.

use crate::sync::{Acquire, AtomicU32, Backoff, Mutation, Relaxed, Release};

/// See the module's head. All zeroes is a valid, unlocked version.
#[derive(Default)]
#[cfg_attr(not(loom), derive(bytemuck::Zeroable))]
pub(crate) struct Version(AtomicU32);

/// What a version was at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp(u32);

impl Version {
    /// Reads the version before a look at the bucket. May be that of a locked bucket: hits don't care.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.0.load(Acquire))
    }

    /// True if no writer held the bucket when the stamp was taken, and nothing was moved or removed since.
    #[inline]
    pub(crate) fn is_unchanged(&self, since: Stamp) -> bool {
        let was_free = since.0 & LOCK == 0 || Mutation::OneIncrement.is_planted();
        was_free && self.0.load(Relaxed) == since.0
    }

    /// Waits for the lock; returns the stamp from before, which [`Version::unlock`] wants back.
    #[inline]
    pub(crate) fn lock(&self) -> Stamp {
        let mut backoff = Backoff::default();
        loop {
            if let Some(before) = self.try_lock() {
                return before;
            }
            backoff.pause();
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Stamp> {
        let seen = self.0.load(Relaxed);
        let free = seen & LOCK == 0;
        (free && self.0.compare_exchange(seen, seen | LOCK, Acquire, Relaxed).is_ok())
            .then_some(Stamp(seen))
    }

    /// Changes the slots' bits; for the holder of the lock.
    #[inline]
    pub(crate) fn set_bits(&self, held: &mut Stamp, bits: u32) {
        held.0 = (held.0 & (COUNTER | LOCK)) | bits << BITS_SHIFT;
        self.0.store(held.0 | LOCK, Relaxed);
    }

    /// Gives the lock back. `advance` if a reader that looked meanwhile may have missed a key for it; otherwise the
    /// counter stays and no reader needs to look again.
    #[inline]
    pub(crate) fn unlock(&self, held: Stamp, advance: bool) {
        let step = if advance { STEP } else { 0 };
        let counter = held.0.wrapping_add(step) & COUNTER;
        self.0.store((held.0 & !COUNTER) | counter, Release);
    }
}

impl Stamp {
    /// The slots' bits.
    #[inline]
    pub(crate) fn bits(self) -> u32 {
        self.0 >> BITS_SHIFT
    }
}

const LOCK: u32 = 1;
const STEP: u32 = 2;
const BITS_SHIFT: u32 = 20;
const COUNTER: u32 = (1 << BITS_SHIFT) - STEP;
