//! The cache's locks and their order. A debug build checks the order wherever a lock is taken.
//!
//! | rank | what it guards | where it is taken |
//! |---|---|---|
//! | [`SLOTS`] | free handle slots | where a handle is made or dropped; a clean stop keeps it for good |
//! | [`MOVER`] | requested page moves | `upkeep/mover.rs` |
//! | [`FLUSH`] | how far the sweep is behind the flushes | `features/flush.rs` |
//! | [`LEASE`] | the lease records of a set of keys | `features/lease.rs` |
//! | [`CLASS`] | a slab class | `memory/slab.rs`, and the eviction policies |
//! | [`POOL`] | pages without a class | `memory/slab.rs` |
//! | [`LEAF`] | orphans, samples, short-lived items, sums of counters | a few lines each |
//! | [`KEY`] | a key, if items may be below memory | `engine/lower.rs` |
//! | [`PLACE`] | a key's place in the index: one or two buckets | `engine/swap.rs`, `engine/local.rs`, `persist/rebuild.rs` |
//!
//! # Invariants
//! 1. A thread waits for a lock only while every lock that it holds has a lower rank. So threads never wait for each
//!    other in a circle: of any such threads, the one that holds the highest rank doesn't wait for another.
//! 2. [`PLACE`] is the highest rank: while a key's place is locked, no lock is taken. Readers that miss may also wait
//!    for it.
//!
//! # Costs
//! In a release build, none beyond the standard library's mutex: [`Held`] is zero-sized. A debug build has one word
//! per thread. The standard mutex spins for less than a microsecond and then sleeps. A mutex that yields before it
//! sleeps costs other clients up to 40 ms when many change items at once. With few processors each yield runs another
//! waiter, and the thread that holds the lock waits for all of them.
//!
//! The index orders its buckets' locks among themselves by address; that order is not checked here.

use guira_index::{Entry, Location};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

pub(crate) const SLOTS: u8 = 0;
pub(crate) const MOVER: u8 = 1;
pub(crate) const FLUSH: u8 = 2;
pub(crate) const LEASE: u8 = 3;
pub(crate) const CLASS: u8 = 4;
pub(crate) const POOL: u8 = 5;
pub(crate) const LEAF: u8 = 6;
pub(crate) const KEY: u8 = 7;
const PLACE: u8 = 8;

/// A mutex with a rank in the lock order.
#[derive(Default)]
pub(crate) struct Lock<T, const RANK: u8>(Mutex<T>);

/// Access to the value of a [`Lock`] while the lock is held.
pub(crate) struct Guard<'l, T, const RANK: u8> {
    // Released first: fields are dropped in declaration order.
    guard: MutexGuard<'l, T>,
    _held: Held<RANK>,
}

impl<T, const RANK: u8> Lock<T, RANK> {
    pub(crate) fn new(value: T) -> Self {
        Lock(Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// In a debug build, if the thread holds a lock of this rank or a higher one.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T, RANK> {
        let held = Held::take();
        Guard { guard: self.0.lock().unwrap_or_else(PoisonError::into_inner), _held: held }
    }

    /// Returns the guard if the lock is free. A thread that doesn't wait can't be part of a deadlock, but must keep
    /// to the order all the same.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T, RANK>> {
        let held = Held::take();
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Guard { guard, _held: held })
    }
}

impl<T, const RANK: u8> Guard<'_, T, RANK> {
    /// Never releases the lock: a thread that asks for it waits forever.
    pub(crate) fn keep(self) {
        std::mem::forget(self.guard);
    }
}

impl<T, const RANK: u8> Deref for Guard<'_, T, RANK> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const RANK: u8> DerefMut for Guard<'_, T, RANK> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A key's place in the index, locked.
pub(crate) struct Place<E> {
    entry: E,
    _held: Held<PLACE>,
}

impl<E: Entry> Entry for Place<E> {
    #[inline]
    fn location(&self) -> Option<Location> {
        self.entry.location()
    }

    #[inline]
    fn put(&mut self, new: Location) -> Option<Location> {
        self.entry.put(new)
    }

    #[inline]
    fn remove(&mut self) -> Option<Location> {
        self.entry.remove()
    }
}

impl<E> Place<E> {
    /// Locks a key's place by calling `lock`, which may wait; or returns why there is none.
    #[inline]
    pub(crate) fn lock<X>(lock: impl FnOnce() -> Result<E, X>) -> Result<Place<E>, X> {
        let held = Held::take();
        Ok(Place { entry: lock()?, _held: held })
    }

    /// Locks a key's place by calling `lock`, which may wait; `None` if the key has none.
    #[inline]
    pub(crate) fn lock_if(lock: impl FnOnce() -> Option<E>) -> Option<Place<E>> {
        let held = Held::take();
        Some(Place { entry: lock()?, _held: held })
    }
}

/// Proof that the thread holds, or waits for, a lock of this rank. It stays with its thread.
struct Held<const RANK: u8>(std::marker::PhantomData<*const ()>);

#[cfg(debug_assertions)]
std::thread_local! {
    /// One bit per rank of which this thread holds a lock.
    static HELD: std::cell::Cell<u16> = const { std::cell::Cell::new(0) };
}

impl<const RANK: u8> Held<RANK> {
    #[inline]
    fn take() -> Self {
        #[cfg(debug_assertions)]
        {
            let before = HELD.get();
            assert!(
                before >> RANK == 0,
                "a lock of rank {RANK} is taken under one of rank {}",
                before.ilog2()
            );
            HELD.set(before | 1 << RANK);
        }
        Held(std::marker::PhantomData)
    }
}

#[cfg(debug_assertions)]
impl<const RANK: u8> Drop for Held<RANK> {
    fn drop(&mut self) {
        HELD.set(HELD.get() & !(1 << RANK));
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_the_order_of_their_ranks_and_again_when_given_back() {
        let (class, pool): (Lock<u8, CLASS>, Lock<u8, POOL>) = Default::default();
        for _ in 0..2 {
            let held = class.lock();
            drop(pool.lock());
            drop(held);
            drop(pool.lock());
        }
    }

    #[test]
    #[should_panic(expected = "a lock of rank 4 is taken under one of rank 5")]
    fn a_lock_taken_against_the_order_is_told() {
        let (class, pool): (Lock<u8, CLASS>, Lock<u8, POOL>) = Default::default();
        let _held = pool.lock();
        drop(class.lock());
    }

    #[test]
    #[should_panic(expected = "a lock of rank 4 is taken under one of rank 4")]
    fn two_classes_at_once_are_told() {
        let (one, other): (Lock<u8, CLASS>, Lock<u8, CLASS>) = Default::default();
        let _held = one.lock();
        drop(other.lock());
    }
}
