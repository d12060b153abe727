//! A thread's access to the level below memory (lower.rs): what it has examined there, and items that move down.

use super::local::Local;
use super::lower::Under;
use super::room::NoRoom;
use crate::items::{ItemRef, Key};
use guira_index::{Entry, Hash};

impl Local<'_> {
    /// Records the places below that were examined for a key: none of them holds a live item of the key.
    pub(crate) fn know_below(&self, hash: Hash, places: &[u64]) {
        let mut known = self.known.borrow_mut();
        known.0 = hash.0;
        known.1.clear();
        known.1.extend_from_slice(places);
    }

    /// Whether something below may be the key's that the caller has not examined. The caller has the key locked.
    pub(crate) fn has_below(&self, under: &Under, hash: Hash) -> bool {
        let known = self.known.borrow();
        let of_key = if known.0 == hash.0 { &known.1[..] } else { &[] };
        under.below.may_have(hash.0, of_key)
    }

    /// Makes sure that a key that was not found in memory is not below either.
    ///
    /// # Errors
    /// [`NoRoom::Below`]: the item may be below, or has come back.
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

    /// Removes a key's item that is not in memory: the one at `place` in this generation or, if no place is given,
    /// whatever may be the key's. `None`: the item is in memory, or what was read is no longer current.
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

    /// Moves a live item out of memory to the level below. Returns whether it moved. The key's unique stays.
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
            // A thread that changes the item's life from here on sees that it is retired, and looks the key up again.
            let header = item.mark_retired();
            let is_same = item.hand_over_life() == life;
            if is_same {
                enter();
            } else {
                // The item was changed in between, so the copy is out of date: the item is evicted instead.
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
