//! Atomics from the standard library or, under `--cfg loom`, from the model checker.
//!
//! [`Mutation`] proves that the models can fail: each variant is a fault that a model plants and must then catch. In an
//! ordinary build [`Mutation::is_planted`] is the constant `false`, and the branches vanish.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(loom)]
pub(crate) use traced::{AtomicU32, AtomicU64};

pub(crate) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A fault that a model plants, to show that it would be detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// A move does not count.
    StillMove,
    /// A move counts before the entry is in its new bucket.
    EarlyCount,
    /// A move counts after the entry has left its old bucket.
    LateCount,
    /// Stores don't release.
    UnorderedStores,
    /// The place of an entry is stored without release.
    RelaxedPlace,
    /// A tag is stored before its place.
    EarlyTag,
    /// A reader trusts a miss without reading the count again.
    Unvalidated,
    /// A reader reads the count after it has looked at the first bucket.
    LateStamp,
}

impl Mutation {
    #[cfg(not(loom))]
    pub(super) const fn is_planted(self) -> bool {
        false
    }
}

#[cfg(loom)]
mod planted {
    use super::Mutation;
    use std::cell::Cell;

    // Loom runs all threads of a model on the thread of its test, so this is a setting for one test.
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

/// Loom's atomics, with every access visible to its scheduler.
///
/// Loom 0.7 remembers one access to each atomic: a writer's own load would replace an earlier load by a reader. So each
/// access first changes a second atomic, which keeps all orders apart. That atomic is relaxed, so it orders no memory.
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
            }
        };
    }

    traced!(AtomicU32, u32);
    traced!(AtomicU64, u64);
}
