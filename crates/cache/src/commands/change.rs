//! Changes that keep the value, or empty it: a new expiry, a stale mark.

use super::commit::Actor;
use super::delete::Deleted;
use super::get::Miss;
use crate::engine::{Change, Decision, Lower, NoRoom, Swap, Swapped};
use crate::items::{EXPTIME_MAX, Fields, ItemRef, Key};

/// The outcome of a touch.
#[derive(Debug)]
pub enum Touched<'h> {
    /// The item as it was found. The key's item now has the new expiry.
    Touched(ItemRef<'h>),
    /// No such item.
    Miss(Miss),
    /// The item had no field for an expiry, and there is no chunk for a larger copy.
    NoRoom(NoRoom),
}

/// How to invalidate an item instead of deleting it (the meta delete's `I`, `T`, `x`, `E`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Invalidate {
    /// Applies only if the item's unique equals this.
    pub compare: Option<u64>,
    /// Marks the item stale: the next meta get wins the right to refresh it.
    pub stale: bool,
    /// A new expiry.
    pub exptime: Option<u32>,
    /// Drops the value and the client flags.
    pub empty: bool,
    /// The new unique, instead of the stripe's next one.
    pub explicit_cas: Option<u64>,
}

impl Actor<'_> {
    pub(crate) fn touch(&self, key: &Key<'_>, exptime: u32, now: u32) -> Touched<'_> {
        self.touch_found(key, exptime, now, |item| !item.is_withheld())
    }

    pub(crate) fn touch_withheld(&self, key: &Key<'_>, exptime: u32, now: u32) -> Touched<'_> {
        self.touch_found(key, exptime, now, |_| true)
    }

    fn touch_found(
        &self,
        key: &Key<'_>,
        exptime: u32,
        now: u32,
        is_visible: impl Fn(&ItemRef<'_>) -> bool,
    ) -> Touched<'_> {
        let exptime = exptime.min(EXPTIME_MAX);
        loop {
            let found = self.get_withheld(key, now);
            let item =
                match found.and_then(|i| if is_visible(&i) { Ok(i) } else { Err(Miss::Absent) }) {
                    Ok(item) => item,
                    Err(miss) => {
                        return match self.local.absent(key, now) {
                            Ok(()) => Touched::Miss(miss),
                            Err(below) => Touched::NoRoom(below),
                        };
                    }
                };
            if item.set_exptime(exptime) {
                if item.is_retired() {
                    // The item was moved or replaced meanwhile: the copy may lack the new expiry.
                    continue;
                }
                self.expect_end(item.exptime(), item.location());
                return Touched::Touched(item);
            }
            if exptime == 0 {
                return Touched::Touched(item);
            }
            let fields = Fields { life: true, ..item.fields() };
            let rewrite = Rewrite {
                fields,
                exptime: Some(exptime),
                stale: false,
                keeps_value: true,
                explicit_cas: item.explicit_cas(),
            };
            match self.rewrite(key, &item, &rewrite, None, now) {
                Ok(Some(_)) => return Touched::Touched(item),
                Ok(None) => {}
                Err(no_room) => return Touched::NoRoom(no_room),
            }
        }
    }

    pub(crate) fn invalidate(
        &self,
        key: &Key<'_>,
        what: &Invalidate,
        now: u32,
    ) -> Result<Deleted, NoRoom> {
        if what.compare.is_none() {
            self.features.before_change(key);
        }
        loop {
            let Ok(item) = self.peek(key, now) else {
                self.local.absent(key, now)?;
                self.features.before_change(key);
                return Ok(Deleted::NotFound);
            };
            // For a client that compares uniques, a stale item counts as another item: it does not keep a unique that
            // a client gave.
            let kept_cas = item.explicit_cas().filter(|_| !what.stale);
            let explicit_cas = what.explicit_cas.or(kept_cas);
            let is_in_place = !what.empty && what.explicit_cas.is_none() && is_markable(&item);
            if what.stale && is_in_place {
                let marked = self.features.around_change(
                    key,
                    |marked| !matches!(marked, Some(Deleted::Exists)),
                    || self.mark_stale(key, what, now),
                );
                match marked {
                    Some(marked) => return Ok(marked),
                    // The item was replaced meanwhile.
                    None => continue,
                }
            }
            let mut fields = Fields {
                life: item.can_be_claimed() || what.stale || what.exptime.is_some_and(|e| e != 0),
                cas: explicit_cas.is_some(),
                ..item.fields()
            };
            if what.empty {
                fields.client_flags = 0;
            }
            let rewrite = Rewrite {
                fields,
                exptime: what.exptime,
                stale: what.stale,
                keeps_value: !what.empty,
                explicit_cas,
            };
            let advances = what.stale;
            if let Some(deleted) =
                self.rewrite(key, &item, &rewrite, Some((what, advances)), now)?
            {
                return Ok(deleted);
            }
        }
    }

    /// Marks the key's item stale in place. Returns `None` if the item can't be marked in place.
    fn mark_stale(&self, key: &Key<'_>, what: &Invalidate, now: u32) -> Option<Deleted> {
        let marked = self.local.change(key, now, |item, is_live| {
            let differs = |given| given != self.cas_of(item, self.cas_unique(key));
            if !is_live {
                return Change::Leave(Some(Deleted::NotFound));
            }
            if what.compare.is_some_and(differs) {
                return Change::Leave(Some(Deleted::Exists));
            }
            if !is_markable(item) {
                return Change::Leave(None);
            }
            item.mark_stale(what.exptime.map(|e| e.min(EXPTIME_MAX)));
            Change::Mark(Some(Deleted::Deleted { class: item.class() }))
        });
        marked.map_or(Some(Deleted::NotFound), |(_, deleted)| deleted)
    }

    /// Replaces the item by a copy with other fields. Returns `None` if the item was replaced meanwhile.
    fn rewrite(
        &self,
        key: &Key<'_>,
        item: &ItemRef<'_>,
        rewrite: &Rewrite,
        condition: Option<(&Invalidate, bool)>,
        now: u32,
    ) -> Result<Option<Deleted>, NoRoom> {
        let value_bytes = if rewrite.keeps_value { item.value_bytes() } else { 0 };
        let new = self.local.begin(key, value_bytes, rewrite.fields, now)?;
        self.note_moved(value_bytes);
        let kept = item.value_parts().take(if rewrite.keeps_value { usize::MAX } else { 0 });
        let new = self.local.filled(new, kept, now)?;
        let swap = Swap {
            inserts: false,
            explicit_cas: rewrite.explicit_cas,
            advances: condition.is_some_and(|(_, advances)| advances),
            lower: Lower::Asks,
        };
        let compare = condition.and_then(|(what, _)| what.compare);
        let decide = |live: Option<&ItemRef<'_>>| match live {
            Some(live) if live.location() == item.location() => {
                let unique = self.cas_of(live, self.cas_unique(key));
                if compare.is_some_and(|given| given != unique) {
                    Decision::Refuse(Some(Deleted::Exists))
                } else {
                    Decision::Put(rewrite.life(live.life_word()))
                }
            }
            _ => Decision::Refuse(None),
        };
        let swapped = match condition {
            Some(_) => self.swap_voiding(key, new, &swap, now, decide),
            // A touch does not change the value.
            None => self.swap(key, new, &swap, now, decide),
        };
        match swapped.map_err(|refused| self.local.discarded(refused))? {
            Swapped::Put { at, .. } => {
                self.local.pass_on_fetched(item.was_fetched(), at);
                Ok(Some(Deleted::Deleted { class: item.class() }))
            }
            Swapped::Refused(deleted) => Ok(deleted),
        }
    }
}

/// Whether the item can be marked stale, and given another unique, in place.
fn is_markable(item: &ItemRef<'_>) -> bool {
    item.can_be_claimed() && item.explicit_cas().is_none()
}

/// How a copy of an item differs from the item.
struct Rewrite {
    fields: Fields,
    /// A new expiry.
    exptime: Option<u32>,
    /// Marks the copy stale, with the right to refresh it unclaimed.
    stale: bool,
    keeps_value: bool,
    /// The unique that the copy holds, if `fields` has a field for one.
    explicit_cas: Option<u64>,
}

impl Rewrite {
    /// The copy's life word, given the item's life word as read with its place locked.
    fn life(&self, old: u32) -> u32 {
        let exptime = self.exptime.map_or(old & EXPTIME_MAX, |e| e.min(EXPTIME_MAX));
        exptime | if self.stale { ItemRef::STALE } else { old & !EXPTIME_MAX }
    }
}
