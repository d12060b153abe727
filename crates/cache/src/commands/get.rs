//! Looking items up: no lock, no write but to the item's own header, and that only when it changes.
//!
//! The path of a get is inlined whole: an [`ItemRef`] is ten words, and passing it through three
//! calls in memory cost a tenth of a pipelined get.

use crate::handle::Handle;
use crate::items::{ItemRef, Key};
use crate::orders::{self, Eviction};
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
        self.get_if(key, now, |item| !item.is_withheld())
    }

    /// As [`Handle::get`], for who knows of leases: also an item that is stale, or has no value yet.
    #[inline(always)]
    pub fn get_withheld(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        self.get_if(key, now, |_| true)
    }

    /// One way in and one way out for an item: each time that it is handed on as part of a result, it is copied.
    #[inline(always)]
    fn get_if(
        &self,
        key: &Key<'_>,
        now: u32,
        is_shown: impl FnOnce(&ItemRef<'_>) -> bool,
    ) -> Result<ItemRef<'_>, Miss> {
        let miss = if let Some(item) = self.local.find(key) {
            match self.death(&item, now) {
                None if is_shown(&item) => {
                    self.sample(key.hash, now, || Sampled::Hit);
                    self.mark_used(&item, now);
                    return Ok(item);
                }
                dead => dead.unwrap_or(Miss::Absent),
            }
        } else {
            Miss::Absent
        };
        self.sample(key.hash, now, || Sampled::Miss);
        Err(miss)
    }

    /// The item of a key, left as it is.
    #[inline(always)]
    pub fn peek(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        let item = self.lookup(key).ok_or(Miss::Absent)?;
        self.death(&item, now).map_or(Ok(item), Err)
    }

    /// Why an item counts as absent, if it does.
    #[inline(always)]
    fn death(&self, item: &ItemRef<'_>, now: u32) -> Option<Miss> {
        if item.header().generation() != self.local.engine.generation() {
            return Some(Miss::Flushed);
        }
        item.is_expired(now).then_some(Miss::Expired)
    }

    /// The key's cas unique. Load it *before* the item: see `cas.rs`.
    ///
    /// ```text
    /// let unique = handle.cas_unique(&key);  let item = handle.get(&key, now);  … handle.cas_of(&item, unique)
    /// ```
    #[inline]
    pub fn cas_unique(&self, key: &Key<'_>) -> u64 {
        self.local.engine.stripes.get(key.hash)
    }

    /// The item's cas unique, given the key's as loaded before the item was looked up.
    #[inline]
    pub fn cas_of(&self, item: &ItemRef<'_>, unique: u64) -> u64 {
        item.explicit_cas().unwrap_or(unique)
    }

    /// Marks an item as used, as [`Handle::get`] does.
    #[inline(always)]
    pub fn mark_used(&self, item: &ItemRef<'_>, now: u32) {
        let eviction = self.local.engine.eviction;
        item.mark(item.header().hit(eviction.hits_max()).fetched().accessed(now));
        if eviction == Eviction::Lru {
            orders::renew(&self.local.engine.slab, item);
        }
    }

    /// A keyed hash of an item's value, by which a later turn knows it again.
    pub fn digest(&self, item: &ItemRef<'_>) -> u64 {
        self.note_moved(item.value_bytes());
        item.value_parts().fold(item.value_bytes() as u64, |digest, part| {
            (digest ^ self.local.engine.hash(part).0).wrapping_mul(DIGEST_FACTOR)
        })
    }

    /// Whatever the index has for the key, dead or alive.
    #[inline(always)]
    pub fn lookup(&self, key: &Key<'_>) -> Option<ItemRef<'_>> {
        let chunks = &self.local.engine.slab.chunks;
        let at =
            self.local.engine.index.get(key.hash, |at| ItemRef::is_key(chunks, at, key.bytes))?;
        Some(ItemRef::new(chunks, at))
    }
}

/// Odd, so that the order of a value's parts counts and nothing of them is lost.
const DIGEST_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
