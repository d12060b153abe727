//! Atomics from the standard library or, under `--cfg loom`, from the model checker.
//!
//! [`Mutation`] is how the models prove that they can fail: each variant is a fault that a model plants and must then
//! catch. In an ordinary build [`Mutation::is_planted`] is the constant `false`, and the branches vanish.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::AtomicU64;

pub(crate) use core::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

#[cfg(loom)]
pub(crate) use traced::AtomicU64;

/// A fault that a model plants, to show that the model detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A move does not increment the count.
    StillMove,
    /// A removal does not increment the count.
    StillRemove,
    /// A move increments the count before the fingerprint is in its new bucket.
    EarlyCount,
    /// A move increments the count after the fingerprint has left its old bucket.
    LateCount,
    /// Stores of buckets and counts are not release stores.
    UnorderedStores,
    /// A reader accepts a miss without reading the count again.
    UnvalidatedMiss,
    /// A reader reads the count after it has read the first bucket.
    LateStamp,
}

impl Mutation {
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) const fn is_planted(self) -> bool {
        false
    }
}

#[cfg(loom)]
mod planted {
    use super::Mutation;
    use core::cell::Cell;

    // Loom runs all threads of a model on the thread of its test, so this setting belongs to one test.
    std::thread_local! {
        static PLANTED: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    impl Mutation {
        pub(crate) fn is_planted(self) -> bool {
            PLANTED.get() == Some(self)
        }

        #[cfg(test)]
        pub(crate) fn plant(fault: Option<Self>) {
            PLANTED.set(fault);
        }
    }
}

/// Loom's atomic, with every access visible to its scheduler.
///
/// Loom 0.7 remembers only one access to each atomic: a writer's own load would replace an earlier reader's access. A
/// second atomic, which each access changes first, keeps all orders apart. It is relaxed, so it orders no memory.
#[cfg(loom)]
mod traced {
    use super::Relaxed;
    use core::sync::atomic::Ordering;

    pub(crate) struct AtomicU64 {
        value: loom::sync::atomic::AtomicU64,
        turn: loom::sync::atomic::AtomicBool,
    }

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            let value = loom::sync::atomic::AtomicU64::new(value);
            Self { value, turn: loom::sync::atomic::AtomicBool::default() }
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.turn.swap(true, Relaxed);
            self.value.load(order)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.turn.swap(true, Relaxed);
            self.value.store(value, order);
        }
    }
}
