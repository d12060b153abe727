//! Atomics and a lock from the standard library or, under `--cfg loom`, from the model checker.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, fence};

pub(super) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

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
