//! Looking items up: no lock, no write but to the item's own header, and that only when it changes.
//!
//! The path of a get is inlined whole: an [`ItemRef`] is ten words, and passing it through three
//! calls in memory cost a tenth of a pipelined get.

use crate::cas::Stripes;
use crate::handle::{Handle, Key};
use crate::item::ItemRef;
use crate::policy::Eviction;
use crate::tune::Sampled;
use guira_index::Index;

/// Why a look-up found nothing. An expected outcome, told apart for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The key is not there.
    Absent,
    /// The item is past its time.
    Expired,
    /// The item was there before a flush.
    Flushed,
}

impl<I: Index> Handle<'_, I> {
    /// The item of a key, marked as used; one that is [withheld](ItemRef::is_withheld) is a miss.
    /// Cost: two index lines, one or two item lines, no lock.
    #[inline(always)]
    pub fn get(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        let found = match self.peek(key, now) {
            Ok(item) if item.is_withheld() => Err(Miss::Absent),
            found => found,
        };
        self.found(key, found, now)
    }

    /// As [`Handle::get`], for who knows of leases: also an item that is stale, or has no value yet.
    #[inline(always)]
    pub fn get_withheld(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        self.found(key, self.peek(key, now), now)
    }

    #[inline(always)]
    fn found<'h>(
        &'h self,
        key: &Key<'_>,
        found: Result<ItemRef<'h>, Miss>,
        now: u32,
    ) -> Result<ItemRef<'h>, Miss> {
        self.sample(key.hash, now, || if found.is_ok() { Sampled::Hit } else { Sampled::Miss });
        let item = found?;
        self.mark_used(&item, now);
        Ok(item)
    }

    /// The item of a key, left as it is.
    #[inline(always)]
    pub fn peek(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        let item = self.lookup(key).ok_or(Miss::Absent)?;
        if item.header().generation() != self.cache.flush.generation() {
            return Err(Miss::Flushed);
        }
        if item.is_expired(now) {
            return Err(Miss::Expired);
        }
        Ok(item)
    }

    /// The key's cas unique. Load it *before* the item: see `cas.rs`.
    ///
    /// ```text
    /// let unique = handle.cas_unique(&key);  let item = handle.get(&key, now);  … handle.cas_of(&item, unique)
    /// ```
    #[inline]
    pub fn cas_unique(&self, key: &Key<'_>) -> u64 {
        Stripes::get(&self.cache.stripes, key.hash)
    }

    /// The item's cas unique, given the key's as loaded before the item was looked up.
    #[inline]
    pub fn cas_of(&self, item: &ItemRef<'_>, unique: u64) -> u64 {
        item.explicit_cas().unwrap_or(unique)
    }

    /// Marks an item as used, as [`Handle::get`] does.
    #[inline(always)]
    pub fn mark_used(&self, item: &ItemRef<'_>, now: u32) {
        let eviction = self.cache.slab.eviction;
        item.mark(item.header().hit(eviction.hits_max()).fetched().accessed(now));
        if eviction == Eviction::Lru {
            self.cache.slab.renew(item);
        }
    }

    /// Whatever the index has for the key, dead or alive.
    #[inline(always)]
    pub(crate) fn lookup(&self, key: &Key<'_>) -> Option<ItemRef<'_>> {
        let slab = &self.cache.slab;
        let at = self.cache.index.get(key.hash, |at| ItemRef::is_key(slab, at, key.bytes))?;
        Some(ItemRef::new(slab, at))
    }
}
