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

use super::local::Local;
use super::room::NoRoom;
use crate::items::{ItemRef, Key};
use crate::locks::{Guard, KEY, Lock};
use guira_index::{Entry, Hash, Index};
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

impl<I: Index> Local<'_, I> {
    /// Tells the places below that were looked at, and hold other keys' items or none that live.
    pub(crate) fn know_below(&self, places: &[u64]) {
        let mut known = self.known.borrow_mut();
        known.clear();
        known.extend_from_slice(places);
    }

    /// Whether something may be the key's below that nobody has looked at. The caller has the key locked.
    pub(crate) fn has_below(&self, under: &Under, hash: Hash) -> bool {
        under.below.may_have(hash.0, &self.known.borrow())
    }

    /// Makes sure that a key that was not found in memory is nowhere.
    ///
    /// # Errors
    /// [`NoRoom::Below`]: it may be below, or has come back.
    #[inline]
    pub(crate) fn absent(&self, key: &Key<'_>, now: u32) -> Result<(), NoRoom> {
        match &self.engine.under {
            None => Ok(()),
            Some(under) => self.absent_from(under, key, now),
        }
    }

    #[cold]
    fn absent_from(&self, under: &Under, key: &Key<'_>, now: u32) -> Result<(), NoRoom> {
        let _key = under.lock(key.hash);
        let live = self.find(key).filter(|item| !item.is_past(self.now(now)));
        let is_somewhere = match live {
            Some(item) => !item.is_withheld(),
            None => self.has_below(under, key.hash),
        };
        if is_somewhere { Err(NoRoom::Below) } else { Ok(()) }
    }

    /// Removes a key's item that is not in memory: what is at `place` in this generation, or, where none is given, whatever
    /// may be it. `None`: it is in memory, or what was read is no longer current.
    pub(crate) fn remove_below(&self, key: &Key<'_>, place: Option<(u64, u32)>) -> Option<()> {
        let under = self.engine.under.as_ref()?;
        let _key = under.lock(key.hash);
        if self.find(key).is_some() {
            return None;
        }
        match place {
            None => under.below.forget(key.hash.0),
            Some((place, generation)) => {
                let below = &under.below;
                let is_it = below.is_current(key.hash.0, place, generation);
                if !is_it || !below.remove(key.hash.0, place) {
                    return None;
                }
            }
        }
        self.engine.stripes.advance(key.hash);
        Some(())
    }

    /// Lets a live item go down, out of memory; whether it did. The key's unique stays.
    pub(crate) fn sink(&self, item: &ItemRef<'_>, hash: Hash) -> bool {
        let Some(under) = &self.engine.under else { return false };
        let (life, at) = (item.life_word(), item.location());
        if item.is_unfilled() {
            return false;
        }
        let mut gone = None;
        let has_sunk = under.below.take(hash.0, item, life, &mut |enter| {
            let _between = under.between_flushes();
            let _key = under.lock(hash);
            let is_live = item.header().generation() == self.engine.generation();
            let Some(mut entry) = self.engine.find_place(hash, |found| found == at) else {
                return false;
            };
            if !is_live || item.life_word() != life {
                return false;
            }
            // Whoever changes its life from here on sees that it is retired, and looks again.
            let header = item.mark_retired();
            let is_same = item.hand_over_life() == life;
            if is_same {
                enter();
            } else {
                // It was changed in between: evicted, as the copy is not it.
                self.engine.stripes.advance(hash);
            }
            entry.remove();
            gone = Some(header);
            is_same
        });
        if let Some(header) = gone {
            self.retire(item, header);
        }
        has_sunk
    }
}

/// Keys share as many locks.
const KEY_LOCKS: usize = 1024;
