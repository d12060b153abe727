//! Append and prepend: a third item is made from the old value and the new one. Joining an empty value copies
//! nothing: the item stays, and only its unique changes.

use super::commit::Actor;
use super::store::{Mode, StoreTerms, Stored};
use crate::counters::Counter;
use crate::engine::{Change, Decision, Lower, NoRoom, Swap, Swapped};
use crate::items::{Fields, ItemRef, Key, Unpublished};

impl Actor<'_> {
    /// Append and prepend: makes a third item from the old value and the new one.
    pub(super) fn join(
        &self,
        key: &Key<'_>,
        new: Unpublished,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Stored, (NoRoom, Unpublished)> {
        if new.value_bytes() == 0
            && how.explicit_cas.is_none()
            && let Some(stored) = self.join_nothing(key, how, now)
        {
            self.local.discard(new);
            return Ok(stored);
        }
        loop {
            let attempt = match self.peek(key, now) {
                Ok(old) if !old.is_withheld() => self.join_with(key, &old, &new, how, now),
                _ => self.join_with_none(key, &new, how, now),
            };
            match attempt {
                Ok(Some(stored)) => {
                    self.local.discard(new);
                    return Ok(stored);
                }
                Ok(None) => {}
                Err(no_room) => return Err((no_room, new)),
            }
        }
    }

    /// [`Actor::join`] of an empty value. Returns `None` if there is no such item, or if it must be copied to change
    /// its unique.
    fn join_nothing(&self, key: &Key<'_>, how: &StoreTerms, now: u32) -> Option<Stored> {
        let is_made = |stored: &Option<Stored>| matches!(stored, Some(Stored::Stored { .. }));
        let stored = self.features.around_change(key, is_made, || {
            let changed = self.local.change(key, now, |item, is_live| {
                if !is_live || item.is_withheld() || item.explicit_cas().is_some() {
                    return Change::Leave(None);
                }
                Change::Leave(Some(match self.compare(key, how.compare, Some(item), 0) {
                    Decision::Refuse(stored) => stored,
                    Decision::Put(_) => Stored::Stored {
                        // Uniques of other keys in the stripe don't wait for this key's place.
                        cas: self.local.engine.stripes.advance(key.hash),
                        value_bytes: item.value_bytes(),
                        class: item.class(),
                    },
                }))
            });
            changed.and_then(|(_, stored)| stored)
        });
        self.local.counts.add(Counter::TotalItems, is_made(&stored).into());
        stored
    }

    /// Tries [`Actor::join`] once where there is no item: creates the item, if that was asked for. Returns `None` if
    /// another thread created one meanwhile.
    fn join_with_none(
        &self,
        key: &Key<'_>,
        new: &Unpublished,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Option<Stored>, NoRoom> {
        let (Some(exptime), None) = (how.vivify, how.compare) else {
            return Ok(Some(how.compare.map_or(Stored::NotStored, |_| Stored::NotFound)));
        };
        let add = StoreTerms { mode: Mode::Add, exptime, vivify: None, ..*how };
        let copy = self.begin(key, new.value_bytes(), &add, now)?;
        let copy = self.local.filled(copy, new.parts(&self.local.engine.slab.chunks), now)?;
        let published = self.features.around_change(
            key,
            |stored| matches!(stored, Ok(Stored::Stored { .. })),
            || self.publish_as(key, copy, &add, now),
        );
        match published.map_err(|refused| self.local.discarded(refused))? {
            Stored::NotStored => Ok(None),
            stored => Ok(Some(stored)),
        }
    }

    /// Tries [`Actor::join`] once. Returns `None` if `old` was replaced meanwhile.
    fn join_with(
        &self,
        key: &Key<'_>,
        old: &ItemRef<'_>,
        new: &Unpublished,
        how: &StoreTerms,
        now: u32,
    ) -> Result<Option<Stored>, NoRoom> {
        let value_bytes = old.value_bytes() + new.value_bytes();
        if value_bytes > self.value_bytes_max {
            return Err(NoRoom::TooLarge);
        }
        let fields = Fields { cas: how.explicit_cas.is_some(), ..old.fields() };
        let joined = self.local.begin(key, value_bytes, fields, now)?;
        self.note_moved(value_bytes);
        let chunks = &self.local.engine.slab.chunks;
        let joined = match how.mode {
            Mode::Prepend => {
                self.local.filled(joined, new.parts(chunks).chain(old.value_parts()), now)?
            }
            _ => self.local.filled(joined, old.value_parts().chain(new.parts(chunks)), now)?,
        };
        let class = joined.class(chunks);
        let swap = Swap {
            inserts: false,
            explicit_cas: how.explicit_cas,
            advances: true,
            lower: Lower::Asks,
        };
        let decide = |live: Option<&ItemRef<'_>>| match live {
            Some(item) if item.location() == old.location() => {
                match self.compare(key, how.compare, live, item.life_word()) {
                    Decision::Put(life) => Decision::Put(life),
                    Decision::Refuse(stored) => Decision::Refuse(Some(stored)),
                }
            }
            _ => Decision::Refuse(None),
        };
        let swapped = self.swap_voiding(key, joined, &swap, now, decide);
        match swapped.map_err(|refused| self.local.discarded(refused))? {
            Swapped::Put { cas, .. } => Ok(Some(Stored::Stored { cas, value_bytes, class })),
            Swapped::Refused(stored) => Ok(stored),
        }
    }
}
