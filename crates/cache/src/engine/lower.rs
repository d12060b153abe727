//! The level below memory: live items move there when memory has no room for them, and come back from there.
//!
//! # Invariants
//! 1. With its key unlocked, an item is either in memory or below, never in both. Every change of a key takes the
//!    key's lock ([`Under::lock`]) before the key's place in the index: a store, a delete, an item that moves down or
//!    comes back.
//! 2. An item that moves down is entered below before it leaves memory. An item that comes back is published before
//!    it is removed below. So a lookup in memory and then below, with the key locked, misses nothing.
//! 3. A store removes everything below that may be the key's before it publishes.
//! 4. A flush and a move between memory and below exclude each other, so no item escapes a flush by moving.
//!
//! # Costs
//! If nothing is configured below memory: one branch per change.

use crate::items::ItemRef;
use crate::locks::{Guard, KEY, Lock};
use guira_index::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// A store for items that memory has no room for. A place is a number whose meaning only the implementation knows.
///
/// The methods are called with locks held, so they must not wait for a device.
pub trait Below: Send + Sync {
    /// Whether something below may be the key's and isn't at one of the places `known`.
    fn may_have(&self, hash: u64, known: &[u64]) -> bool;

    /// Removes everything that may be the key's.
    fn forget(&self, hash: u64);

    /// Removes the item at a place. Returns whether it was there.
    fn remove(&self, hash: u64, place: u64) -> bool;

    /// Whether the item that was read from a place in this generation is still the key's.
    fn is_current(&self, hash: u64, place: u64, generation: u32) -> bool;

    /// Takes an item, if the implementation wants it: copies it, with `life` as its expiry and marks, then calls
    /// `commit`. The function passed to `commit` makes the copy findable. Returns whether `commit` was called and
    /// returned `true`.
    fn take(
        &self,
        hash: u64,
        item: &ItemRef<'_>,
        life: u32,
        commit: &mut dyn FnMut(&mut dyn FnMut()) -> bool,
    ) -> bool;

    /// Turns every item below into a miss.
    fn flush(&self);
}

/// See the module's head.
pub(crate) struct Under {
    pub(crate) below: Arc<dyn Below>,
    keys: Box<[Lock<(), KEY>]>,
    flushing: RwLock<()>,
}

/// How a store treats what is below memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lower {
    /// The store considers only memory. So nothing may be below that may be the key's and that the caller has not
    /// examined.
    Asks,
    /// The store replaces whatever exists.
    Replaces,
    /// The store brings back an item from below, as it was read there.
    Recalls { place: u64, generation: u32 },
}

impl Under {
    pub(crate) fn new(below: Arc<dyn Below>) -> Under {
        let keys = (0..KEY_LOCKS).map(|_| Lock::default()).collect();
        Under { below, keys, flushing: RwLock::default() }
    }

    /// Locks a key against changes.
    pub(crate) fn lock(&self, hash: Hash) -> Guard<'_, (), KEY> {
        self.keys[(hash.0 >> 16) as usize % KEY_LOCKS].lock()
    }

    /// Excludes flushes while an item moves.
    pub(crate) fn between_flushes(&self) -> RwLockReadGuard<'_, ()> {
        self.flushing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes memory by calling `memory`, then flushes what is below.
    pub(crate) fn flush<T>(&self, memory: impl FnOnce() -> T) -> T {
        let _alone = self.flushing.write().unwrap_or_else(PoisonError::into_inner);
        let flushed = memory();
        self.below.flush();
        flushed
    }
}

/// The number of locks that keys share.
const KEY_LOCKS: usize = 1024;
