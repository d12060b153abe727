//! The version word of a bucket: a lock for writers, a stamp for readers, and one more bit for each slot's tag.
//!
//! The design is MemC3's (section 3.3), with the counter in the bucket's own line, so that a lookup touches nothing
//! else, and with the writers' lock in the same word. Readers take a [`Version::stamp`] and call
//! [`Version::is_unchanged`] afterwards. Writers call [`Version::lock`] and [`Version::unlock`].
//!
//! # Layout
//! ```text
//! bit 31              20 19                                  1   0
//!     | a bit for a slot | counter of moves and removals     | LOCK |
//! ```
//! The slots' bits are here because the line has no other room, and every reader reads this word anyway.
//!
//! # Orderings
//! Locking acquires, unlocking releases, and taking a stamp acquires. There are no fences. A bucket's content is
//! stored with Release after the lock was taken, and loaded with Acquire before the second look at the version. So a
//! reader that saw a word written under a lock sees the lock, or a later version, at that second look.
//!
//! The counter wraps after 2^19 moves and removals in one bucket. A reader accepts a wrong miss only if it sleeps
//! through an exact multiple of that, at the instant in which its key moves.

use crate::sync::{Acquire, AtomicU32, Backoff, Mutation, Relaxed, Release};

/// See the module's head. All zeroes is a valid, unlocked version.
#[derive(Default)]
#[cfg_attr(not(loom), derive(bytemuck::Zeroable))]
pub(crate) struct Version(AtomicU32);

/// The value of a version at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp(u32);

impl Version {
    /// Reads the version, before a look at the bucket. It may be that of a locked bucket: hits are not affected.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.0.load(Acquire))
    }

    /// Whether no writer held the bucket when the stamp was taken, and nothing was moved or removed since.
    #[inline]
    pub(crate) fn is_unchanged(&self, since: Stamp) -> bool {
        let was_free = since.0 & LOCK == 0 || Mutation::OneIncrement.is_planted();
        was_free && self.0.load(Relaxed) == since.0
    }

    /// Waits for the lock. Returns the stamp from before, which must be passed to [`Version::unlock`].
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

    /// Changes the slots' bits. Only for the holder of the lock.
    #[inline]
    pub(crate) fn set_bits(&self, held: &mut Stamp, bits: u32) {
        held.0 = (held.0 & (COUNTER | LOCK)) | bits << BITS_SHIFT;
        self.0.store(held.0 | LOCK, Relaxed);
    }

    /// Releases the lock. `advance` must be true if a reader that looked meanwhile may have missed a key because of
    /// the change. Otherwise the counter stays, and no reader needs to look again.
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
