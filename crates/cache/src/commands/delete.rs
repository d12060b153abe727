//! Deletes, and deletes that also hold the key off: for a while, adds of the key are refused.

use super::commit::Actor;
use crate::counters::Counter;
use crate::engine::Change;
use crate::features::Sampled;
use crate::items::{ItemRef, Key};

/// The outcome of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// An item of this class was deleted or marked.
    Deleted {
        /// The item's slab class.
        class: usize,
    },
    /// No such item.
    NotFound,
    /// The unique differs.
    Exists,
}

impl Actor<'_> {
    pub(crate) fn delete_holding_off(&self, key: &Key<'_>, hold_off_s: u32, now: u32) -> Deleted {
        self.local.counts.add(Counter::HoldoffDeletes, 1);
        let end = now.saturating_add(hold_off_s);
        self.features.holdoff.lay(key.hash, end, now);
        let deleted = self.delete(key, None, now);
        if self.features.holdoff.holds(key.hash, now) {
            return deleted;
        }
        // A set in between has lifted the hold-off, and the delete removed the set's item: so the delete was the
        // later of the two.
        self.features.holdoff.lay(key.hash, end, now);
        match self.delete(key, None, now) {
            Deleted::NotFound => deleted,
            again => again,
        }
    }

    pub(crate) fn delete(&self, key: &Key<'_>, compare: Option<u64>, now: u32) -> Deleted {
        let taken = match compare {
            None => {
                // Also if the key has no item: the client that deletes knows that older values are wrong.
                self.features.before_change(key);
                self.take_out(key, None, now)
            }
            _ => self.features.around_change(
                key,
                |taken| !matches!(taken, Err(Deleted::Exists)),
                || self.take_out(key, compare, now),
            ),
        };
        let (item, live) = match taken {
            Ok(taken) => taken,
            Err(deleted) => return deleted,
        };
        self.sample(key.hash, now, || Sampled::Deleted);
        if !live {
            return Deleted::NotFound;
        }
        self.deleted(key, &item, now);
        Deleted::Deleted { class: item.class() }
    }

    /// Takes an item out of the index. Returns the item, and whether it was live.
    fn take_out(
        &self,
        key: &Key<'_>,
        compare: Option<u64>,
        now: u32,
    ) -> Result<(ItemRef<'_>, bool), Deleted> {
        let taken = self.local.change(key, now, |item, is_live| {
            let differs = |given| given != self.cas_of(item, self.cas_unique(key));
            if is_live && compare.is_some_and(differs) {
                Change::Leave(Err(Deleted::Exists))
            } else {
                Change::Remove(Ok(is_live))
            }
        });
        let (item, taken) = taken.ok_or(Deleted::NotFound)?;
        Ok((item, taken?))
    }
}
