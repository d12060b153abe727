//! Leases: of all clients that miss a key, one is told to fetch its value, and no client stores a value that a delete
//! has made out of date.
//!
//! From Scaling Memcache at Facebook (Nishtala et al., NSDI 2013), section 3.2.1. A client that misses gets a token,
//! at most one per key in [`LeaseTerms::interval_s`](crate::LeaseTerms); the other clients are told to wait. A value
//! is stored only under the key's youngest token, and every change of the key voids the token. A value that a delete
//! removed may be read as stale for a while by clients that ask for leases; other clients never see it.
//!
//! # Why no stale value is stored
//! A change that can't be refused voids the token before it takes place. A change that may be refused holds the lock
//! of the key's records while it is made, and voids the token once it is made. A store under a token checks the token
//! and publishes the value under the same lock.
//!
//! Let client A get a token, read the database, and store. Let client B change the database after A's read, and then
//! change the key. The change of the key begins after the token was given, so it voids the token:
//! 1. If it does so before the store's check, the store is refused.
//! 2. If it does so after the check, the value was published before, and the change replaces or removes it.
//!
//! A refused change changes nothing, so the token stays valid. A change that sees no lease in use began before the
//! token was given, so A read the database later.
//!
//! # Two faces
//! `lease-get` and `lease-set` keep their records in features/lease.rs. A meta get with `N` keeps its promise as an
//! item without a value, and a meta delete with `I` leaves a stale item: such items are withheld from clients that
//! don't know of leases. Each face respects the other's promises.
//!
//! Bad at: a key whose token is voided before it was used gets no new token until the interval is over. Its readers
//! wait, then go to the database. This is the paper's choice against deletes that come faster than values.

use super::commit::Actor;
use super::get::Miss;
use super::store::{Mode, StoreTerms, Stored};
use crate::counters::Counter;
use crate::engine::NoRoom;
use crate::features::{StaleValue, Value};
use crate::items::{ItemRef, Key, Unpublished};
use std::sync::Arc;

#[cfg(test)]
mod refused;
#[cfg(test)]
mod tests;

/// The result of a lease-get.
#[derive(Debug)]
pub enum Leased<'h> {
    /// The value.
    Hit(ItemRef<'h>),
    /// No value, but a token: the caller must fetch the value.
    Granted {
        /// Never 0 or 1.
        token: u64,
        /// A stale value, for use meanwhile.
        stale: Option<Stale<'h>>,
        /// Why there is no value.
        miss: Miss,
    },
    /// No value, and another client is fetching it: wait and ask again.
    Wait {
        /// A stale value, for use meanwhile.
        stale: Option<Stale<'h>>,
        /// Why there is no value.
        miss: Miss,
    },
}

/// A value that is known to be out of date.
#[derive(Debug)]
pub enum Stale<'h> {
    /// The value of a deleted item, or of a lease-set that came too late.
    Kept(Arc<StaleValue>),
    /// Marked by a meta delete with `I`.
    Item(ItemRef<'h>),
}

/// The outcome of a meta get with `N` that missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vivified {
    /// The caller must fetch the value. Contains the item's unique.
    Won(u64),
    /// Another client is fetching the value. Contains the item's unique.
    Taken(u64),
    /// Another client stored an item meanwhile.
    Overtaken,
}

impl Actor<'_> {
    pub(crate) fn lease_get(&self, key: &Key<'_>, now: u32) -> Leased<'_> {
        let found = self.get_withheld(key, now);
        let (is_fetching, stale, miss) = match found {
            Ok(item) if !item.is_withheld() => return Leased::Hit(item),
            Ok(item) => {
                let is_fetching = item.claim() != crate::Claim::Won;
                let stale = (!item.is_unfilled()).then_some(Stale::Item(item));
                (is_fetching, stale, Miss::Absent)
            }
            Err(miss) => (false, None, miss),
        };
        let answer = self.features.leases.ask(key.hash.0, key.bytes, is_fetching, now);
        let stale = stale.or(answer.stale.map(Stale::Kept));
        self.local.counts.add(Counter::LeaseStaleHits, stale.is_some().into());
        match answer.token {
            Some(token) => {
                self.local.counts.add(Counter::LeaseTokens, 1);
                Leased::Granted { token, stale, miss }
            }
            None => {
                self.local.counts.add(Counter::LeaseWaits, 1);
                Leased::Wait { stale, miss }
            }
        }
    }

    pub(crate) fn lease_set(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        (how, token): (&StoreTerms, u64),
        now: u32,
    ) -> Result<Stored, (NoRoom, Unpublished)> {
        debug_assert_eq!(how.mode, Mode::Set, "a lease-set has no condition but its token");
        let leases = &self.features.leases;
        let mut set = leases.lock(key.hash.0);
        if let Some(record) = set.as_mut().and_then(|set| set.find(key.hash.0))
            && record.has(token)
        {
            let stored = self.publish_as(key, new, how, now)?;
            record.spend();
            leases.forget(record);
            self.local.counts.add(Counter::LeaseSets, 1);
            return Ok(stored);
        }
        let is_kept = match self.peek(key, now) {
            Ok(item) if !item.is_withheld() => {
                let (value_bytes, class) = (new.value_bytes(), item.class());
                drop(set);
                self.local.discard(new);
                let cas = self.cas_unique(key);
                return Ok(Stored::Stored { cas, value_bytes, class });
            }
            _ => set.as_mut().is_some_and(|set| {
                let parts = new.parts(&self.local.engine.slab.chunks);
                let (client_flags, bytes) = (how.client_flags, new.value_bytes());
                let value = Value { client_flags, bytes, parts };
                set.find(key.hash.0).is_some()
                    && leases.keep(set, (key.hash.0, key.bytes), value, now)
            }),
        };
        drop(set);
        self.local.discard(new);
        self.local.counts.add(Counter::LeaseRefusals, 1);
        Ok(if is_kept { Stored::StaleStored } else { Stored::NotStored })
    }

    pub(crate) fn lease_store(
        &self,
        key: &Key<'_>,
        value: &[u8],
        (how, token): (&StoreTerms, u64),
        now: u32,
    ) -> Result<Stored, NoRoom> {
        let new = self.begin(key, value.len(), how, now)?;
        let new = self.local.filled(new, std::iter::once(value), now)?;
        self.lease_set(key, new, (how, token), now).map_err(|refused| self.local.discarded(refused))
    }

    pub(crate) fn vivify(
        &self,
        key: &Key<'_>,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Vivified, NoRoom> {
        let leases = &self.features.leases;
        let stale = leases.stale(key.hash.0, key.bytes, now);
        let value = stale.as_ref().map_or(&[][..], |stale| stale.value());
        let how = StoreTerms {
            mode: Mode::Add,
            client_flags: stale.as_ref().map_or(0, |stale| stale.client_flags()),
            exptime: stale.as_ref().map_or(how.exptime, |stale| match how.exptime {
                0 => stale.until_s(),
                exptime => exptime.min(stale.until_s()),
            }),
            won: true,
            stale: stale.is_some(),
            ..*how
        };
        let new = self.begin(key, value.len(), &how, now)?;
        let new = self.local.filled(new, std::iter::once(value), now)?;
        let is_ours = leases.begin_elsewhere(key.hash.0, now);
        let stored = self
            .publish_as(key, new, &how, now)
            .map_err(|refused| self.local.discarded(refused))?;
        Ok(match stored {
            Stored::Stored { cas, .. } if is_ours => Vivified::Won(cas),
            Stored::Stored { cas, .. } => Vivified::Taken(cas),
            _ => Vivified::Overtaken,
        })
    }
}
