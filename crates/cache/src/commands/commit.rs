//! One thread's part of the cache: its part of the engine, and what the turn has recorded for the features.
//!
//! Commands are written on it. This module has what they share: an item takes a key's place, and the features are
//! notified.

use crate::counters::Counter;
use crate::engine::{Decision, Engine, Local, NoRoom, Swap, Swapped};
use crate::features::{Features, Pending, Sampled};
use crate::items::{ItemRef, Key, Unpublished};
use guira_index::{Hash, Location};
use std::cell::Cell;

/// See the module's head. Commands are documented at the methods of the same names on [`Handle`](crate::Handle).
pub(crate) struct Actor<'c> {
    pub(crate) local: Local<'c>,
    pub(crate) features: &'c Features,
    pending: Pending,
    /// Bytes of values that were read or copied for requests.
    pub(crate) moved: Cell<usize>,
    /// The largest value, in bytes, that a command may build from two values.
    pub(super) value_bytes_max: usize,
}

impl<'c> Actor<'c> {
    /// Makes an actor for the calling thread, which is online from here on.
    pub(crate) fn new(
        engine: &'c Engine,
        features: &'c Features,
        value_bytes_max: usize,
    ) -> Actor<'c> {
        Actor {
            local: Local::new(engine),
            features,
            pending: Pending::default(),
            moved: Cell::new(0),
            value_bytes_max,
        }
    }

    #[inline(always)]
    pub(crate) fn quiesce(&mut self) {
        self.features.turn_ended(&mut self.pending);
        self.local.end_turn();
    }

    pub(crate) fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.features.turn_ended(&mut self.pending);
        self.local.asleep(wait)
    }

    #[inline]
    pub(crate) fn note_moved(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes);
    }

    /// Records a request, if its key is sampled.
    #[inline(always)]
    pub(super) fn sample(&self, hash: Hash, now: u32, what: impl FnOnce() -> Sampled) {
        self.features.sample(&self.pending, (hash, now), what);
    }

    /// Records an item, if it will expire soon.
    #[inline]
    pub(crate) fn expect_end(&self, exptime: u32, at: Location) {
        self.features.expect_end(&self.pending, exptime, at);
    }

    /// Calls [`Local::swap`], and notifies the features.
    #[inline]
    pub(super) fn swap<R>(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        swap: &Swap,
        now: u32,
        decide: impl FnOnce(Option<&ItemRef<'_>>) -> Decision<R>,
    ) -> Result<Swapped<R>, (NoRoom, Unpublished)> {
        let swapped = self.local.swap(key, new, swap, now, decide)?;
        if let Swapped::Put { at, exptime, .. } = swapped {
            self.expect_end(exptime, at);
            self.sample(key.hash, now, || Sampled::Stored { expires: exptime });
        }
        Ok(swapped)
    }

    /// Like [`swap`](Self::swap), and voids the key's lease token unless the swap is refused.
    pub(super) fn swap_voiding<R>(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        swap: &Swap,
        now: u32,
        decide: impl FnOnce(Option<&ItemRef<'_>>) -> Decision<R>,
    ) -> Result<Swapped<R>, (NoRoom, Unpublished)> {
        let is_made = |swapped: &Result<_, _>| matches!(swapped, Ok(Swapped::Put { .. }));
        self.features.around_change(key, is_made, || self.swap(key, new, swap, now, decide))
    }

    /// Notifies the features that a delete has just taken an item out.
    pub(super) fn deleted(&self, key: &Key<'_>, item: &ItemRef<'_>, now: u32) {
        if !self.features.deleted(key, item, now) {
            self.local.counts.add(Counter::LeaseStaleDropped, 1);
        }
    }
}

impl Drop for Actor<'_> {
    fn drop(&mut self) {
        self.features.turn_ended(&mut self.pending);
    }
}
