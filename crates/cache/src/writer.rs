//! Storing and deleting. A published item never changes: every store writes a new one and swaps it in.
//!
//! The new item is complete before its key's place is locked; under the lock there is only the
//! decision (is the old one there, does its unique match), the swap, and the advance of the unique.
//! Whatever needs the old value (append, incr) reads it without a lock, and starts over if the item
//! was replaced before the swap.

use crate::counters::{ClassCounter, Counter};
use crate::engine::NoRoom;
use crate::handle::Handle;
use crate::items::{EXPTIME_MAX, Fields, Header, ItemRef, Key, Unpublished};
use crate::tune::Sampled;
use guira_index::{Entry, Index};

mod arithmetic;
mod join;
mod mutate;
#[cfg(test)]
mod tests;
pub use arithmetic::{Arithmetic, Counted};
pub use mutate::{Invalidate, Touched};

/// Under which condition a store takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Always.
    #[default]
    Set,
    /// Only if the key is absent.
    Add,
    /// Only if the key is present.
    Replace,
    /// The value goes behind the present one.
    Append,
    /// The value goes before the present one.
    Prepend,
}

/// What a store compares with the present item's cas unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Stores only if equal.
    Equal(u64),
    /// Also stores if the given unique is older than the item's; the item is then stale, and keeps
    /// the expiry and the claim of the one that it replaces (`ms` with `C` and `I`).
    EqualOrOlder(u64),
}

/// How to store an item.
#[derive(Clone, Copy, Debug, Default)]
pub struct Store {
    /// The condition.
    pub mode: Mode,
    /// The client's flags.
    pub client_flags: u32,
    /// When the item expires: a second of the cache's clock, 0 for never, [`crate::EXPIRED`] for at once.
    pub exptime: u32,
    /// A condition on the present item's unique, which it must then have.
    pub compare: Option<Compare>,
    /// The new item's unique, instead of the next of its stripe.
    pub explicit_cas: Option<u64>,
    /// The key was given in base64.
    pub key_binary: bool,
    /// With append and prepend: create the item if it is absent, with this expiry.
    pub vivify: Option<u32>,
    /// An add that a delete may hold off ([`Handle::delete_holding_off`]).
    pub may_be_held_off: bool,
    /// The item is born with the right to refresh it taken, and without a value unless it is stale
    /// (`mg` with `N`).
    pub won: bool,
    /// The item is born stale.
    pub stale: bool,
}

/// What a store came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Stored, with this unique; the value has so many bytes now.
    Stored {
        /// The item's cas unique.
        cas: u64,
        /// Bytes of the value, after an append the whole.
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
    /// Kept as a stale value only: the lease token was not the key's ([`Handle::lease_set`]).
    StaleStored,
}

/// What a delete came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Deleted (or marked), an item of this class.
    Deleted {
        /// The item's slab class.
        class: usize,
    },
    /// No such item.
    NotFound,
    /// The unique differs.
    Exists,
}

/// What is decided under the lock of the key's place.
pub(crate) enum Decision<R> {
    /// Publish the new item with this life word.
    Put(u32),
    /// Leave things as they are.
    Refuse(R),
}

/// What a publication leaves behind.
pub(crate) enum Published<R> {
    Put(u64),
    Refused(R),
}

impl<I: Index> Handle<'_, I> {
    /// Stores a value that is at hand in one piece.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing is stored then, and the present item is still there.
    pub fn store(
        &self,
        key: &Key<'_>,
        value: &[u8],
        how: &Store,
        now: u32,
    ) -> Result<Stored, NoRoom> {
        let mut new = self.begin(key, value.len(), how, now)?;
        if let Err(no_room) = self.local.fill(&mut new, value, now) {
            return Err(self.local.discarded((no_room, new)));
        }
        self.publish(key, new, how, now).map_err(|refused| self.local.discarded(refused))
    }

    /// An item to be filled as its bytes arrive, then published.
    ///
    /// # Errors
    /// [`NoRoom`].
    #[inline]
    pub fn begin(
        &self,
        key: &Key<'_>,
        value_bytes: usize,
        how: &Store,
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

    /// Publishes a filled item under the conditions of `how`, the same that it was begun with.
    ///
    /// # Errors
    /// [`NoRoom`] and the item: publish it again next turn, or discard it.
    #[inline]
    pub fn publish(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        how: &Store,
        now: u32,
    ) -> Result<Stored, (NoRoom, Unpublished)> {
        debug_assert_eq!(new.missing_bytes(), 0, "an item is filled before it is published");
        let stored = match (how.mode, how.compare) {
            (Mode::Append | Mode::Prepend, _) => self.join(key, new, how, now)?,
            (Mode::Set, None) => {
                self.void_lease(key);
                self.publish_as(key, new, how, now)?
            }
            _ => self.void_lease_if(
                key,
                |stored| matches!(stored, Ok(Stored::Stored { .. })),
                || self.publish_as(key, new, how, now),
            )?,
        };
        if matches!(stored, Stored::Stored { .. }) {
            self.forget_stale(key);
        }
        Ok(stored)
    }

    pub(crate) fn publish_as(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        how: &Store,
        now: u32,
    ) -> Result<Stored, (NoRoom, Unpublished)> {
        let value_bytes = new.value_bytes();
        let class = new.class(&self.local.engine.slab.chunks);
        let inserts = how.compare.is_none() && how.mode != Mode::Replace;
        let mark = |is: bool, bit: u32| if is { bit } else { 0 };
        let marks = mark(how.won, ItemRef::WON) | mark(how.stale, ItemRef::STALE);
        let life = how.exptime.min(EXPTIME_MAX) | marks;
        let swap = Swap { inserts, explicit_cas: how.explicit_cas, advances: true };
        let seen =
            |live: Option<&ItemRef<'_>>| live.is_some_and(|item| how.won || !item.is_withheld());
        let mut used = None;
        let published = self.swap(key, new, &swap, now, |live| match (how.mode, live) {
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
            // With the key's place free again: strict LRU takes the class's lock (locks.rs).
            self.mark_used(&ItemRef::new(&self.local.engine.slab.chunks, at), now);
        }
        Ok(match published {
            Published::Put(cas) => Stored::Stored { cas, value_bytes, class },
            Published::Refused(stored) => stored,
        })
    }

    /// The decision of a compare-and-swap: with the key's place locked, the stripe stands still.
    fn compare(
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

    /// Locks the key's place, lets `decide` look at the live item there, and puts the new one in if
    /// it says so. A refused item is discarded.
    pub(crate) fn swap<R>(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        swap: &Swap,
        now: u32,
        decide: impl FnOnce(Option<&ItemRef<'_>>) -> Decision<R>,
    ) -> Result<Published<R>, (NoRoom, Unpublished)> {
        debug_assert_eq!(
            new.shape.extras.cas,
            swap.explicit_cas.is_some(),
            "a unique has its field"
        );
        let chunks = &self.local.engine.slab.chunks;
        let moment = self.local.now(now);
        let is_key = |at| ItemRef::is_key(chunks, at, key.bytes);
        let mut entry = if swap.inserts {
            match self.local.engine.place(key.hash, is_key) {
                Ok(entry) => Some(entry),
                Err(_full) => return Err((NoRoom::OutOfMemory, new)),
            }
        } else {
            self.local.engine.find_place(key.hash, is_key)
        };
        let old = entry.as_ref().and_then(|e| e.location()).map(|at| ItemRef::new(chunks, at));
        let live = old.filter(|item| !item.is_past(moment));
        let life = match (decide(live.as_ref()), &entry) {
            (Decision::Put(life), Some(_)) => life,
            (Decision::Refuse(refusal), _) => {
                drop(entry);
                self.local.discard(new);
                return Ok(Published::Refused(refusal));
            }
            (Decision::Put(_), None) => unreachable!("nobody decides to put without a place"),
        };
        new.write_fields(chunks, life, swap.explicit_cas);
        let replaced = live.as_ref().map(|item| item.current_header());
        let evicts = self.local.engine.dial.is_wanted();
        let header = self
            .cache
            .engine
            .eviction
            .admitted(new.shape.header(), new.on_probation, replaced, evicts)
            .accessed(now)
            .of_generation(moment.generation);
        new.seal(chunks, header.0);
        let old = old.map(|item| (item, item.mark_retired()));
        let (charged_bytes, first_link) = (new.shape.charged(chunks), new.first_link());
        let at = new.into_published();
        let cas = entry.as_mut().map(|entry| {
            entry.put(at);
            if swap.advances {
                self.local.engine.stripes.advance(key.hash)
            } else {
                self.cas_unique(key)
            }
        });
        self.local.account(chunks.class_of(at), charged_bytes, header, 1);
        drop(entry);
        self.local.arrive(at, first_link, header);
        self.expect_end(life & EXPTIME_MAX, at);
        self.sample(key.hash, now, || Sampled::Stored { expires: life & EXPTIME_MAX });
        self.local.counts.add(Counter::TotalItems, 1);
        if let Some((old, header)) = old {
            if live.is_none() {
                let class = chunks.class_of(old.location());
                self.local.counts.add_class(ClassCounter::Reclaimed, class, 1);
            }
            self.local.retire(&old, header);
        }
        Ok(Published::Put(swap.explicit_cas.or(cas).unwrap_or_default()))
    }

    /// [`swap`](Self::swap), which voids the key's lease token unless it is refused.
    pub(crate) fn swap_voiding<R>(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        swap: &Swap,
        now: u32,
        decide: impl FnOnce(Option<&ItemRef<'_>>) -> Decision<R>,
    ) -> Result<Published<R>, (NoRoom, Unpublished)> {
        let is_made = |swapped: &Result<_, _>| matches!(swapped, Ok(Published::Put(_)));
        self.void_lease_if(key, is_made, || self.swap(key, new, swap, now, decide))
    }

    /// Deletes an item, and lets nobody add one for `hold_off_s` seconds, be it there or not.
    ///
    /// Scaling Memcache at Facebook (NSDI 2013), section 4.3.
    pub fn delete_holding_off(&self, key: &Key<'_>, hold_off_s: u32, now: u32) -> Deleted {
        self.local.counts.add(Counter::HoldoffDeletes, 1);
        let end = now.saturating_add(hold_off_s);
        self.cache.holdoff.lay(key.hash, end, now);
        let deleted = self.delete(key, None, now);
        if self.cache.holdoff.holds(key.hash, now) {
            return deleted;
        }
        // A set that came in between has lifted it, and its item is gone with the delete: the delete was the later.
        self.cache.holdoff.lay(key.hash, end, now);
        match self.delete(key, None, now) {
            Deleted::NotFound => deleted,
            again => again,
        }
    }

    /// Holds a key off no longer: for whoever is about to store a value that is no copy of an older one.
    /// Cost: a load, and a line where any delete held off.
    #[inline]
    pub fn end_hold_off(&self, key: &Key<'_>) {
        self.cache.holdoff.lift(key.hash);
    }

    fn is_held_off(&self, key: &Key<'_>, now: u32) -> bool {
        let holds = self.cache.holdoff.holds(key.hash, now);
        self.local.counts.add(Counter::HoldoffRefusals, holds.into());
        holds
    }

    /// Deletes an item, if its unique matches `compare`.
    pub fn delete(&self, key: &Key<'_>, compare: Option<u64>, now: u32) -> Deleted {
        let taken = match compare {
            None => {
                // Also where there is nothing: who deletes knows that older values are wrong.
                self.void_lease(key);
                self.take_out(key, None, now)
            }
            _ => self.void_lease_if(
                key,
                |taken| !matches!(taken, Err(Deleted::Exists)),
                || self.take_out(key, compare, now),
            ),
        };
        let (item, header, live) = match taken {
            Ok(taken) => taken,
            Err(deleted) => return deleted,
        };
        self.sample(key.hash, now, || Sampled::Deleted);
        let class = item.class();
        if live {
            self.keep_stale(key, &item, now);
        }
        self.local.retire(&item, header);
        if live { Deleted::Deleted { class } } else { Deleted::NotFound }
    }

    /// Takes an item out of the index: it, its last header, and whether it was live.
    fn take_out(
        &self,
        key: &Key<'_>,
        compare: Option<u64>,
        now: u32,
    ) -> Result<(ItemRef<'_>, Header, bool), Deleted> {
        let chunks = &self.local.engine.slab.chunks;
        let is_key = |at| ItemRef::is_key(chunks, at, key.bytes);
        let Some(mut entry) = self.local.engine.find_place(key.hash, is_key) else {
            return Err(Deleted::NotFound);
        };
        let item = ItemRef::new(chunks, entry.location().expect("a found entry is occupied"));
        let live = !item.is_past(self.local.now(now));
        if live && compare.is_some_and(|c| c != self.cas_of(&item, self.cas_unique(key))) {
            return Err(Deleted::Exists);
        }
        let header = item.mark_retired();
        entry.remove();
        self.local.engine.stripes.advance(key.hash);
        Ok((item, header, live))
    }
}

/// How an item takes its place.
pub(crate) struct Swap {
    /// Whether it may be put where none was.
    pub(crate) inserts: bool,
    pub(crate) explicit_cas: Option<u64>,
    /// Whether the key's unique changes.
    pub(crate) advances: bool,
}
