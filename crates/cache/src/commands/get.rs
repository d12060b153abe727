//! Lookups. They take no lock, and write only to the item's own header, and only when it changes.
//!
//! The whole path of a get is inlined: passing an [`ItemRef`] in memory through three calls cost a tenth of a
//! pipelined get.

use super::commit::Actor;
use crate::features::Sampled;
use crate::items::{ItemRef, Key};
use crate::orders;

/// Why a lookup found nothing. A miss is an expected outcome; the reasons are distinguished for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The key has no item, or only a withheld one.
    Absent,
    /// The item is past its time.
    Expired,
    /// The item was stored before a flush.
    Flushed,
}

impl Actor<'_> {
    #[inline(always)]
    pub(crate) fn get(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        self.get_if(key, now, |item| !item.is_withheld())
    }

    #[inline(always)]
    pub(crate) fn get_withheld(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        self.get_if(key, now, |_| true)
    }

    /// Has a single exit that returns an item: each time that an item is passed on as part of a result, it is copied.
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

    #[inline(always)]
    pub(crate) fn peek(&self, key: &Key<'_>, now: u32) -> Result<ItemRef<'_>, Miss> {
        let item = self.local.find(key).ok_or(Miss::Absent)?;
        self.death(&item, now).map_or(Ok(item), Err)
    }

    /// Why the item counts as absent, if it does.
    #[inline(always)]
    fn death(&self, item: &ItemRef<'_>, now: u32) -> Option<Miss> {
        if item.header().generation() != self.local.engine.generation() {
            return Some(Miss::Flushed);
        }
        item.is_expired(now).then_some(Miss::Expired)
    }

    #[inline]
    pub(crate) fn cas_unique(&self, key: &Key<'_>) -> u64 {
        self.local.engine.stripes.get(key.hash)
    }

    #[inline]
    pub(crate) fn cas_of(&self, item: &ItemRef<'_>, unique: u64) -> u64 {
        item.explicit_cas().unwrap_or(unique)
    }

    #[inline(always)]
    pub(crate) fn mark_used(&self, item: &ItemRef<'_>, now: u32) {
        let eviction = self.local.engine.eviction;
        item.mark(item.header().hit(eviction.hits_max()).fetched().accessed(now));
        if eviction.moves_hits() {
            orders::renew(&self.local.engine.slab, item);
        }
    }

    pub(crate) fn digest(&self, item: &ItemRef<'_>) -> u64 {
        self.note_moved(item.value_bytes());
        item.value_parts().fold(item.value_bytes() as u64, |digest, part| {
            (digest ^ self.local.engine.hash(part).0).wrapping_mul(DIGEST_FACTOR)
        })
    }
}

/// Odd, so that the multiplication loses no bits. The digest depends on the order of a value's parts.
const DIGEST_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
