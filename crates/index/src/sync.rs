//! Atomics and spinning, from the standard library or, under `--cfg loom`, from the model checker.
//!
//! [`Mutation`] is how the models prove that they can fail: each variant is a fault that a model plants and must then
//! catch. In an ordinary build [`Mutation::is_planted`] is the constant `false`, and the branches vanish.

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicIsize, AtomicU16, AtomicU32, AtomicU64, AtomicUsize},
    thread::yield_now,
};

pub(crate) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A value in its own cache line, so that writes to its neighbours don't slow its readers.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Padded<T>(pub(crate) T);

/// A lock for which no thread waits. Its holder grows the table. It is released when the guard that
/// [`Baton::try_hold`] returned is dropped, including by a panic in the caller's code.
#[derive(Default)]
pub(crate) struct Baton(AtomicBool);

impl Baton {
    #[inline]
    pub(crate) fn try_hold(&self) -> Option<Held<'_>> {
        let is_free = self.0.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        is_free.then(|| Held(self))
    }
}

/// The guard of a held [`Baton`].
pub(crate) struct Held<'a>(&'a Baton);

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(false, Release);
    }
}

/// Waiting for a lock's holder: spins first, then yields, since the holder may have lost its processor.
#[derive(Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn pause(&mut self) {
        if cfg!(loom) || self.0 >= SPINS {
            yield_now();
        } else {
            self.0 += 1;
            for _ in 0..1 << self.0 {
                std::hint::spin_loop();
            }
        }
    }
}

/// Rounds of doubling length before a waiter yields: about 250 pauses in total.
const SPINS: u32 = 7;

/// A fault that a model plants, to show that the model detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// One version increment instead of two: a reader accepts a miss in a bucket that was locked when the reader
    /// began.
    OneIncrement,
    /// A move does not advance the version of its source.
    StillMove,
    /// A move clears its source in one locked step and writes its destination in another.
    ForwardMove,
    /// A reader accepts a miss without checking the versions again.
    UnvalidatedMiss,
    /// A split publishes the new number of buckets after it has unlocked the old bucket.
    LatePublish,
    /// A reader does not check that its buckets are still those of the key.
    StaleReader,
    /// A writer does not check that the buckets it locked are still those of the key.
    StaleWriter,
    /// A move does not check its source again under the locks.
    BlindMove,
    /// A writer that had to release its first bucket's lock does not search that bucket again.
    LooseEntry,
    /// A writer accepts that a key is not in its second bucket, although it was disturbed when it looked there.
    UnvalidatedEntry,
    /// Removal does not advance the version.
    StillRemove,
    /// A reader reads the hop word before the version, not after it.
    EarlyHops,
    /// A reader that found its key in a later slot returns the location in the first slot: the original's mistake.
    HomesItem,
    /// A displacement clears its source in one locked step and writes its destination in another.
    ClearFirst,
    /// A writer that saw a free slot does not check that the slot is still free when taking it.
    DoubleTake,
    /// Growth frees the slot of a key that keeps its slot.
    FreeKept,
    /// A bucket's lock is taken in two steps: tested, then set.
    LooseLock,
    /// A split does not set the old bucket's has-moved bit.
    StillSplit,
    /// A split unlocks the old bucket before it fills the new one.
    LateHalf,
    /// A lookup does not check that the table is still in the round of splitting in which the lookup began.
    StaleRound,
    /// A split is published before it is made.
    EarlyPublish,
    /// A version that wraps is not counted.
    StillWrap,
    /// A reader that reads the count of wraps does not check the bucket's word again.
    EarlyWord,
}

impl Mutation {
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) const fn is_planted(self) -> bool {
        false
    }
}

#[cfg(loom)]
pub(crate) use traced::{AtomicU16, AtomicU32, AtomicU64};

/// Loom's atomics, with every access visible to its scheduler.
///
/// Loom 0.7 remembers only one access to each atomic. When a writer loads a word and then stores it, its own load
/// replaces an earlier reader's access, and the order in which that reader comes later is never tried. A second
/// atomic, which each access changes first, keeps all orders apart. It is relaxed, so it orders no memory.
#[cfg(loom)]
mod traced {
    use super::Relaxed;
    use std::sync::atomic::Ordering;

    macro_rules! traced {
        ($name:ident, $word:ty) => {
            #[derive(Default)]
            pub(crate) struct $name {
                value: loom::sync::atomic::$name,
                turn: loom::sync::atomic::AtomicBool,
            }

            impl $name {
                pub(crate) fn load(&self, order: Ordering) -> $word {
                    self.turn.swap(true, Relaxed);
                    self.value.load(order)
                }

                pub(crate) fn store(&self, value: $word, order: Ordering) {
                    self.turn.swap(true, Relaxed);
                    self.value.store(value, order);
                }

                pub(crate) fn compare_exchange(
                    &self,
                    current: $word,
                    new: $word,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$word, $word> {
                    self.turn.swap(true, Relaxed);
                    self.value.compare_exchange(current, new, success, failure)
                }
            }
        };
    }

    traced!(AtomicU16, u16);
    traced!(AtomicU32, u32);
    traced!(AtomicU64, u64);

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            let value = loom::sync::atomic::AtomicU64::new(value);
            Self { value, turn: loom::sync::atomic::AtomicBool::default() }
        }

        pub(crate) fn fetch_add(&self, step: u64, order: Ordering) -> u64 {
            self.turn.swap(true, Relaxed);
            self.value.fetch_add(step, order)
        }
    }
}

#[cfg(loom)]
mod planted {
    use super::Mutation;
    use std::cell::Cell;

    // Loom runs all threads of a model on the thread of its test, so this setting belongs to one test.
    std::thread_local! {
        static PLANTED: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    impl Mutation {
        pub(crate) fn is_planted(self) -> bool {
            PLANTED.get() == Some(self)
        }

        pub(crate) fn plant(this: Option<Self>) {
            PLANTED.set(this);
        }
    }
}
