//! Storing. A published item never changes: every store writes a new one and swaps it in.
//!
//! What is decided with the key's place locked (whether the old item is there, whether its unique matches) is a
//! closure of the command (engine/swap.rs). A command that needs the old value (append, incr) reads it without a
//! lock, and starts over if the item was replaced before the swap.

use super::commit::Actor;
use crate::counters::Counter;
use crate::engine::{Decision, Lower, NoRoom, Swap, Swapped};
use crate::items::{EXPTIME_MAX, Fields, ItemRef, Key, Unpublished};

#[cfg(test)]
mod tests;

/// The condition under which a store takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Always.
    #[default]
    Set,
    /// Only if the key is absent.
    Add,
    /// Only if the key is present.
    Replace,
    /// The value is added after the present one.
    Append,
    /// The value is added before the present one.
    Prepend,
}

/// The comparison of a store with the present item's cas unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Stores only if equal.
    Equal(u64),
    /// Also stores if the given unique is older than the item's. The new item is then stale, and keeps the expiry and
    /// the claim of the item that it replaces (`ms` with `C` and `I`).
    EqualOrOlder(u64),
}

/// How to store an item.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreTerms {
    /// The condition.
    pub mode: Mode,
    /// The client's flags.
    pub client_flags: u32,
    /// When the item expires: a second of the cache's clock, 0 for never, or [`crate::EXPIRED`] for immediately.
    pub exptime: u32,
    /// A condition on the present item's unique; there must be a present item.
    pub compare: Option<Compare>,
    /// The new item's unique, instead of its stripe's next one.
    pub explicit_cas: Option<u64>,
    /// The key was given in base64.
    pub key_binary: bool,
    /// With append and prepend: create the item if it is absent, with this expiry.
    pub vivify: Option<u32>,
    /// Whether a delete may hold this add off ([`Handle::delete_holding_off`](crate::Handle::delete_holding_off)).
    pub may_be_held_off: bool,
    /// Makes the item with the right to refresh it already taken, and without a value unless it is stale (`mg` with
    /// `N`).
    pub won: bool,
    /// Makes the item stale.
    pub stale: bool,
}

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The item was stored.
    Stored {
        /// The item's cas unique.
        cas: u64,
        /// Bytes of the item's whole value, also after an append.
        value_bytes: usize,
        /// The item's slab class.
        class: usize,
    },
    /// The condition of the mode did not hold.
    NotStored,
    /// The unique differs.
    Exists,
    /// There is no item to compare with.
    NotFound,
    /// Kept only as a stale value: the lease token was not the key's
    /// ([`Handle::lease_set`](crate::Handle::lease_set)).
    StaleStored,
}

impl Actor<'_> {
    pub(crate) fn store(
        &self,
        key: &Key<'_>,
        value: &[u8],
        how: &StoreTerms,
        now: u32,
    ) -> Result<Stored, NoRoom> {
        let mut new = self.begin(key, value.len(), how, now)?;
        if let Err(no_room) = self.local.fill(&mut new, value, now) {
            return Err(self.local.discarded((no_room, new)));
        }
        self.publish(key, new, how, now).map_err(|refused| self.local.discarded(refused))
    }

    #[inline]
    pub(crate) fn begin(
        &self,
        key: &Key<'_>,
        value_bytes: usize,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Unpublished, NoRoom> {
        let older = matches!(how.compare, Some(Compare::EqualOrOlder(_)));
        let fields = Fields {
            client_flags: how.client_flags,
            life: how.exptime != 0 || how.vivify.is_some_and(|e| e != 0) || how.won || older,
            cas: how.explicit_cas.is_some(),
            key_binary: how.key_binary,
            unfilled: how.won && !how.stale,
        };
        self.local.begin(key, value_bytes, fields, now)
    }

    #[inline]
    pub(crate) fn publish(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Stored, (NoRoom, Unpublished)> {
        debug_assert_eq!(new.missing_bytes(), 0, "an item is filled before it is published");
        let stored = match (how.mode, how.compare) {
            (Mode::Append | Mode::Prepend, _) => self.join(key, new, how, now)?,
            (Mode::Set, None) => {
                self.features.before_change(key);
                self.publish_as(key, new, how, now)?
            }
            _ => self.features.around_change(
                key,
                |stored| matches!(stored, Ok(Stored::Stored { .. })),
                || self.publish_as(key, new, how, now),
            )?,
        };
        if matches!(stored, Stored::Stored { .. }) {
            self.features.has_value(key);
        }
        Ok(stored)
    }

    pub(crate) fn publish_as(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Stored, (NoRoom, Unpublished)> {
        let value_bytes = new.value_bytes();
        let class = new.class(&self.local.engine.slab.chunks);
        let inserts = how.compare.is_none() && how.mode != Mode::Replace;
        let mark = |is: bool, bit: u32| if is { bit } else { 0 };
        let marks = mark(how.won, ItemRef::WON) | mark(how.stale, ItemRef::STALE);
        let life = how.exptime.min(EXPTIME_MAX) | marks;
        let is_blind = how.mode == Mode::Set && how.compare.is_none();
        let lower = if is_blind { Lower::Replaces } else { Lower::Asks };
        let swap = Swap { inserts, explicit_cas: how.explicit_cas, advances: true, lower };
        let seen =
            |live: Option<&ItemRef<'_>>| live.is_some_and(|item| how.won || !item.is_withheld());
        let mut used = None;
        let swapped = self.swap(key, new, &swap, now, |live| match (how.mode, live) {
            (Mode::Add, _) if how.may_be_held_off && self.is_held_off(key, now) => {
                Decision::Refuse(Stored::NotStored)
            }
            (Mode::Add, Some(item)) if seen(live) => {
                used = Some(item.location());
                Decision::Refuse(Stored::NotStored)
            }
            (Mode::Replace, live) if !seen(live) => Decision::Refuse(Stored::NotStored),
            _ => self.compare(key, how.compare, live, life),
        })?;
        if let Some(at) = used {
            // The key's place is unlocked again here: strict LRU takes the class's lock (locks.rs).
            self.mark_used(&ItemRef::new(&self.local.engine.slab.chunks, at), now);
        }
        Ok(match swapped {
            Swapped::Put { cas, .. } => Stored::Stored { cas, value_bytes, class },
            Swapped::Refused(stored) => stored,
        })
    }

    /// The decision of a compare-and-swap. The key's place is locked, so the key's unique does not change.
    pub(super) fn compare(
        &self,
        key: &Key<'_>,
        compare: Option<Compare>,
        live: Option<&ItemRef<'_>>,
        life: u32,
    ) -> Decision<Stored> {
        let Some(compare) = compare else { return Decision::Put(life) };
        let Some(item) = live else { return Decision::Refuse(Stored::NotFound) };
        let unique = self.cas_of(item, self.cas_unique(key));
        match compare {
            Compare::Equal(given) | Compare::EqualOrOlder(given) if given == unique => {
                Decision::Put(life)
            }
            Compare::EqualOrOlder(given) if given < unique => Decision::Put(item.life_as_stale()),
            _ => Decision::Refuse(Stored::Exists),
        }
    }

    fn is_held_off(&self, key: &Key<'_>, now: u32) -> bool {
        let holds = self.features.holdoff.holds(key.hash, now);
        self.local.counts.add(Counter::HoldoffRefusals, holds.into());
        holds
    }
}
