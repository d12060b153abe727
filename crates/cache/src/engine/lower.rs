//! What lies below memory: where live items go that memory has no room for, and from where they come back.
//!
//! # Invariants
//! 1. With its key unlocked, an item is in memory or below, never in both. Every change of a key takes the key's lock
//!    ([`Under::lock`]) before its place in the index: a store, a delete, an item that goes down or comes back.
//! 2. What goes down is entered below before it leaves memory; what comes back is published before it is removed below. So a
//!    look at memory and then below, with the key locked, misses nothing.
//! 3. A store removes what may be the key's below before it publishes.
//! 4. A flush and a move between memory and below exclude each other: no item is moved past a flush.
//!
//! # Costs
//! Where nothing lies below, a branch for each change.

use crate::items::ItemRef;
use crate::locks::{Guard, KEY, Lock};
use guira_index::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// What keeps items that memory has no room for. A place is a number that means something to it alone.
///
/// Its methods are called with locks held, so they wait for no device.
pub trait Below: Send + Sync {
    /// Whether something is there that may be the key's, and isn't at one of the places `known`.
    fn may_have(&self, hash: u64, known: &[u64]) -> bool;

    /// Removes everything that may be the key's.
    fn forget(&self, hash: u64);

    /// Removes what is at a place; whether it was there.
    fn remove(&self, hash: u64, place: u64) -> bool;

    /// Whether what was read of a place in this generation is still the key's.
    fn is_current(&self, hash: u64, place: u64, generation: u32) -> bool;

    /// Takes an item, if it wants it: copies it, with `life` for its expiry and marks, then calls `commit` with what makes
    /// the copy be found. Whether `commit` was called, and said so.
    fn take(
        &self,
        hash: u64,
        item: &ItemRef<'_>,
        life: u32,
        commit: &mut dyn FnMut(&mut dyn FnMut()) -> bool,
    ) -> bool;

    /// Makes all that is there a miss.
    fn flush(&self);
}

/// See the module's head.
pub(crate) struct Under {
    pub(crate) below: Arc<dyn Below>,
    keys: Box<[Lock<(), KEY>]>,
    flushing: RwLock<()>,
}

/// How a store stands to what is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lower {
    /// It counts only what is in memory as the key's item, so nothing may be below that nobody has looked at.
    Asks,
    /// It replaces whatever there is.
    Replaces,
    /// It brings back what is there, as it was read.
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

    /// Keeps flushes away while an item moves.
    pub(crate) fn between_flushes(&self) -> RwLockReadGuard<'_, ()> {
        self.flushing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes memory by `memory`, and what is below.
    pub(crate) fn flush<T>(&self, memory: impl FnOnce() -> T) -> T {
        let _alone = self.flushing.write().unwrap_or_else(PoisonError::into_inner);
        let flushed = memory();
        self.below.flush();
        flushed
    }
}

/// Keys share as many locks.
const KEY_LOCKS: usize = 1024;
