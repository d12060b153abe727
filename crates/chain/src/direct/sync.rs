//! Atomics and a lock from the standard library or, under `--cfg loom`, from the model checker.
//!
//! [`Mutation`] proves that the models can fail: each variant is a fault that a model plants and must then catch. In an
//! ordinary build [`Mutation::is_planted`] is the constant `false`, and the branches vanish.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, fence};

pub(super) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A fault that a model plants, to show that it would be detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// A reader doesn't look whether the slot stayed open.
    Unvalidated,
    /// What a reader reads isn't ordered before it looks again.
    NoFence,
    /// A slot is opened without release.
    RelaxedTurn,
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

#[cfg(loom)]
type Lock<T> = loom::sync::RwLock<T>;
#[cfg(not(loom))]
type Lock<T> = std::sync::RwLock<T>;

/// A lock that a panic doesn't poison: what it protects is replaced as a whole.
#[derive(Debug, Default)]
pub(super) struct RwLock<T>(Lock<T>);

#[cfg(loom)]
use loom::sync::{RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(loom))]
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

impl<T> RwLock<T> {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
