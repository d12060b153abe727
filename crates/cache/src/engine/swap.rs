//! Changes of a key's item: lock its place, decide, and carry the decision out.
//!
//! A new item is complete before its key's place is locked. Under the lock there is only the decision (whether the
//! old item is there, whether its unique matches), the swap, and the advance of the unique. `decide` takes no lock,
//! and the key's unique does not change while it runs.

use super::local::Local;
use super::lower::{Lower, Under};
use super::room::NoRoom;
use crate::counters::{ClassCounter, Counter};
use crate::items::{EXPTIME_MAX, Header, ItemRef, Key, Unpublished};
use crate::orders;
use guira_index::{Entry, Location};

/// How a new item takes its place.
pub(crate) struct Swap {
    /// Whether the item may be put where the key has none.
    pub(crate) inserts: bool,
    pub(crate) explicit_cas: Option<u64>,
    /// Whether the key's unique changes.
    pub(crate) advances: bool,
    /// How the swap treats what is below memory.
    pub(crate) lower: Lower,
}

/// A decision about a new item.
pub(crate) enum Decision<R> {
    /// Publish it with this life word.
    Put(u32),
    /// Change nothing.
    Refuse(R),
}

/// The outcome of a swap.
pub(crate) enum Swapped<R> {
    /// The new item was published, with this unique and expiry.
    Put { cas: u64, at: Location, exptime: u32 },
    /// The new item was discarded.
    Refused(R),
}

/// A decision about a present item.
pub(crate) enum Change<R> {
    /// Leave the item as it is.
    Leave(R),
    /// The closure changed the item in place: the key's unique advances.
    Mark(R),
    /// Take the item out.
    Remove(R),
}

impl Local<'_> {
    /// Locks the key's place, shows the live item there to `decide`, and publishes the new item if `decide` returns
    /// [`Decision::Put`]. A refused item is discarded.
    ///
    /// # Errors
    /// The index is full, or an item of the key may be below memory. The new item is returned to the caller.
    pub(crate) fn swap<R>(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        swap: &Swap,
        now: u32,
        decide: impl FnOnce(Option<&ItemRef<'_>>) -> Decision<R>,
    ) -> Result<Swapped<R>, (NoRoom, Unpublished)> {
        debug_assert_eq!(new.shape.extras.cas, swap.explicit_cas.is_some(), "its field");
        let engine = self.engine;
        let chunks = &engine.slab.chunks;
        let under = engine.under.as_ref();
        let between_flushes = under.map(Under::between_flushes);
        let locked = under.map(|under| under.lock(key.hash));
        let moment = self.now(now);
        let is_key = |at| ItemRef::is_key(chunks, at, key.bytes);
        let mut entry = if swap.inserts {
            match engine.place(key.hash, is_key) {
                Ok(entry) => Some(entry),
                Err(_full) => return Err((NoRoom::OutOfMemory, new)),
            }
        } else {
            engine.find_place(key.hash, is_key)
        };
        let old = entry.as_ref().and_then(|e| e.location()).map(|at| ItemRef::new(chunks, at));
        let live = old.filter(|item| !item.is_past(moment));
        if under.is_some_and(|u| live.is_none() && self.must_look_below(u, key, swap.lower)) {
            return Err((NoRoom::Below, new));
        }
        let life = match (decide(live.as_ref()), &entry) {
            (Decision::Put(life), Some(_)) => life,
            (Decision::Refuse(refusal), _) => {
                drop((entry, locked, between_flushes));
                self.discard(new);
                return Ok(Swapped::Refused(refusal));
            }
            (Decision::Put(_), None) => unreachable!("nobody decides to put without a place"),
        };
        new.write_fields(chunks, life, swap.explicit_cas);
        let replaced = live.as_ref().map(|item| item.current_header());
        let evicts = engine.dial.is_wanted();
        let header = engine
            .eviction
            .admitted(new.shape.header(), new.on_probation, replaced, evicts)
            .accessed(now)
            .of_generation(moment.generation);
        new.seal(chunks, header.0);
        let old = old.map(|item| (item, item.mark_retired()));
        let (charged_bytes, first_link) = (new.shape.charged(chunks), new.first_link());
        let at = new.into_published();
        if let Some(under) = under {
            make_way(under, key, swap.lower);
        }
        let cas = entry.as_mut().map(|entry| {
            entry.put(at);
            let stripes = &engine.stripes;
            if swap.advances { stripes.advance(key.hash) } else { stripes.get(key.hash) }
        });
        if let (Some(under), Lower::Recalls { place, .. }) = (under, swap.lower) {
            under.below.remove(key.hash.0, place);
        }
        self.account(chunks.class_of(at), charged_bytes, header, 1);
        drop((entry, locked, between_flushes));
        self.arrive(at, first_link, header);
        self.counts.add(Counter::TotalItems, 1);
        if let Some(old) = old {
            self.retire_replaced(old, live.is_none());
        }
        let cas = swap.explicit_cas.or(cas).unwrap_or_default();
        Ok(Swapped::Put { cas, at, exptime: life & EXPTIME_MAX })
    }

    #[inline]
    fn retire_replaced(&self, (old, header): (ItemRef<'_>, Header), was_dead: bool) {
        if was_dead {
            let class = self.engine.slab.chunks.class_of(old.location());
            self.counts.add_class(ClassCounter::Reclaimed, class, 1);
        }
        self.retire(&old, header);
    }

    /// Whether a store must be put off because of what may be below memory. The key has no live item in memory.
    #[cold]
    fn must_look_below(&self, under: &Under, key: &Key<'_>, lower: Lower) -> bool {
        match lower {
            Lower::Replaces => false,
            Lower::Asks => self.has_below(under, key.hash),
            Lower::Recalls { place, generation } => {
                !under.below.is_current(key.hash.0, place, generation)
            }
        }
    }

    /// Locks the place of a key that is in the index, and shows its item to `decide`, together with whether it is
    /// live. Returns the item and the decision's answer. A mark and a removal advance the unique.
    pub(crate) fn change<R>(
        &self,
        key: &Key<'_>,
        now: u32,
        decide: impl FnOnce(&ItemRef<'_>, bool) -> Change<R>,
    ) -> Option<(ItemRef<'_>, R)> {
        let chunks = &self.engine.slab.chunks;
        let is_key = |at| ItemRef::is_key(chunks, at, key.bytes);
        let _locked = self.engine.under.as_ref().map(|under| under.lock(key.hash));
        let mut entry = self.engine.find_place(key.hash, is_key)?;
        let item = ItemRef::new(chunks, entry.location().expect("a found entry is occupied"));
        match decide(&item, !item.is_past(self.now(now))) {
            Change::Leave(answer) => Some((item, answer)),
            Change::Mark(answer) => {
                self.engine.stripes.advance(key.hash);
                Some((item, answer))
            }
            Change::Remove(answer) => {
                let header = item.mark_retired();
                entry.remove();
                self.engine.stripes.advance(key.hash);
                drop(entry);
                self.retire(&item, header);
                Some((item, answer))
            }
        }
    }

    /// Publishes a copy of the item in its place. If the item has left its place, the copy is returned to the caller.
    /// The unique stays, since nothing changed that a client could see. For the mover.
    pub(crate) fn relocate(
        &self,
        item: &ItemRef<'_>,
        key: &Key<'_>,
        copy: Unpublished,
    ) -> Result<ItemRef<'_>, Unpublished> {
        let slab = &self.engine.slab;
        let at = item.location();
        let Some(mut entry) = self.engine.find_place(key.hash, |found| found == at) else {
            return Err(copy);
        };
        let header = item.mark_retired();
        copy.write_fields(&slab.chunks, item.hand_over_life(), item.explicit_cas());
        copy.seal(&slab.chunks, header.0);
        let copy = ItemRef::new(&slab.chunks, copy.into_published());
        entry.put(copy.location());
        self.account(slab.chunks.class_of(copy.location()), copy.charged_bytes(), header, 1);
        drop(entry);
        if self.engine.eviction.keeps_list() {
            orders::inherit(slab, at, copy.location());
            if let (Some(old), Some(new)) = (item.links().next(), copy.links().next()) {
                orders::inherit(slab, old, new);
            }
        } else {
            self.arrive(copy.location(), copy.links().next(), header);
        }
        self.retire(item, header);
        Ok(copy)
    }
}

/// Removes what may be the key's below memory, before its new item becomes visible. An item that is being brought
/// back stays below until it is published.
#[cold]
fn make_way(under: &Under, key: &Key<'_>, lower: Lower) {
    if !matches!(lower, Lower::Recalls { .. }) {
        under.below.forget(key.hash.0);
    }
}
