//! What the cache does besides storing and finding items: each feature is a type with its own state and rules.
//!
//! A feature knows items, but no command and no engine. It learns what happens to a key from the hooks of
//! [`Features`], which the commands call.
//!
//! # Costs
//! A feature that is not in use costs one load and one comparison per hook.

mod lease;
mod holdoff;
mod transient;
mod flush;
mod sample;

pub(crate) use flush::Flush;
pub use flush::FlushAsked;
pub(crate) use holdoff::HoldOff;
pub use lease::{LeaseTerms, StaleValue};
pub(crate) use lease::{Leases, Value};
pub(crate) use sample::{Sample, Sampled, Samples};
pub(crate) use transient::Transient;
pub use transient::Transients;

use crate::items::{ItemRef, Key};
use guira_index::{Hash, Location};
use sample::SAMPLES_MAX;
use std::cell::RefCell;

/// The state of the features that all threads share.
pub(crate) struct Features {
    pub(crate) leases: Leases,
    pub(crate) holdoff: HoldOff,
    pub(crate) transient: Transient,
    pub(crate) flush: Flush,
    pub(crate) samples: Samples,
}

/// What a turn has recorded for the features.
#[derive(Default)]
pub(crate) struct Pending {
    /// Items that expire soon: their expiry second and location.
    ending: RefCell<Vec<(u32, Location)>>,
    /// Sampled requests.
    noted: RefCell<Vec<Sample>>,
}

impl Features {
    /// Voids the key's lease token, before a change of the key that can't be refused.
    #[inline]
    pub(crate) fn before_change(&self, key: &Key<'_>) {
        if self.leases.in_use() {
            self.leases.void(key.hash.0);
        }
    }

    /// Makes a change that may be refused, and voids the key's lease token if `is_made`. The key's records are locked
    /// throughout: no store under the token comes between the change and the voiding.
    #[inline]
    pub(crate) fn around_change<T>(
        &self,
        key: &Key<'_>,
        is_made: impl FnOnce(&T) -> bool,
        change: impl FnOnce() -> T,
    ) -> T {
        let mut set = self.leases.lock(key.hash.0);
        let done = change();
        if let Some(set) = &mut set
            && is_made(&done)
            && let Some(record) = set.find(key.hash.0)
        {
            record.spend();
        }
        done
    }

    /// Forgets the key's stale value: the key has a value again.
    #[inline]
    pub(crate) fn has_value(&self, key: &Key<'_>) {
        if self.leases.in_use() {
            self.leases.forget_key(key.hash.0);
        }
    }

    /// Keeps the value of a deleted item as stale, if leases are in use. Returns `false` if there is no memory for
    /// the value.
    #[inline]
    pub(crate) fn deleted(&self, key: &Key<'_>, item: &ItemRef<'_>, now: u32) -> bool {
        !self.leases.in_use() || item.is_withheld() || self.keep_stale(key, item, now)
    }

    #[cold]
    fn keep_stale(&self, key: &Key<'_>, item: &ItemRef<'_>, now: u32) -> bool {
        let Some(mut set) = self.leases.lock(key.hash.0) else { return true };
        let (client_flags, bytes) = (item.client_flags(), item.value_bytes());
        let value = Value { client_flags, bytes, parts: item.value_parts() };
        self.leases.keep(&mut set, (key.hash.0, key.bytes), value, now)
    }

    /// Records that an item at `at` expires at this second (0: never), if that is soon.
    #[inline]
    pub(crate) fn expect_end(&self, pending: &Pending, exptime: u32, at: Location) {
        if self.transient.takes(exptime) {
            pending.ending.borrow_mut().push((exptime, at));
        }
    }

    /// Records a request, if its key is sampled.
    #[inline(always)]
    pub(crate) fn sample(
        &self,
        pending: &Pending,
        (hash, now): (Hash, u32),
        what: impl FnOnce() -> Sampled,
    ) {
        if self.samples.has(hash) {
            pending.note(Sample { hash, what: what(), now });
        }
    }

    /// Hands on what the turn has recorded.
    #[inline]
    pub(crate) fn turn_ended(&self, pending: &mut Pending) {
        if !pending.ending.get_mut().is_empty() || !pending.noted.get_mut().is_empty() {
            self.hand_on(pending);
        }
    }

    #[inline(never)]
    fn hand_on(&self, Pending { ending, noted }: &mut Pending) {
        if !ending.get_mut().is_empty() {
            self.transient.enter(ending.get_mut());
        }
        if !noted.get_mut().is_empty() {
            self.samples.hand_on(noted.get_mut());
        }
    }
}

impl Pending {
    #[cold]
    fn note(&self, sample: Sample) {
        let mut noted = self.noted.borrow_mut();
        if noted.len() < SAMPLES_MAX {
            noted.push(sample);
        }
    }
}
