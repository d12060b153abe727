//! Locking one key's place.
//!
//! A key that is present is locked by its own bucket's lock alone: nobody can move, replace or remove it without.
//! An absent one is locked by its first bucket's: whoever enters it, or moves it from one bucket to the other, holds
//! that. So to enter a key takes one lock while its first bucket has room, if a look at the second as a reader takes
//! it, without its lock, finds no slot of that tag and is not disturbed. Only otherwise both are locked.
//!
//! To guess the bucket of a present key their tags are looked at before any lock is taken.

use super::address::{Probe, Size};
use super::table::Cuckoo;
use crate::bucket::{Locked, Tag};
use crate::mapping::prefetch;
use crate::sync::Mutation;
use crate::{Entry, Hash, Location};

/// The place of a key in a [`Cuckoo`], locked until dropped.
pub struct CuckooEntry<'a> {
    table: &'a Cuckoo,
    /// The bucket of `slot`: the key's, or one with room for it.
    bucket: Locked<'a>,
    slot: usize,
    tag: Tag,
    location: Option<Location>,
    /// For an absent key the other bucket, unless the one with room is its first and the second was seen without it.
    _other: Option<Locked<'a>>,
}

impl Cuckoo {
    /// Locks the key's place, or finds it absent and both buckets full: then `None`, and nothing is locked. With the
    /// size that told the buckets.
    pub(super) fn lock_entry(
        &self,
        hash: Hash,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> (Size, Option<CuckooEntry<'_>>) {
        let probe = Probe::new(hash);
        loop {
            let size = self.size();
            let [one, two] = size.addresses(probe);
            prefetch(self.bucket(two));
            if self.is_likely_second([one, two], probe.tag) {
                let second = self.bucket(two).lock();
                let found = second.find(probe.tag, is_key);
                if let (true, Some((slot, at))) = (self.is_current(size, probe), found) {
                    return (size, Some(self.place(second, slot, probe.tag, Some(at))));
                }
            }
            let first = self.bucket(one).lock();
            if !self.is_current(size, probe) {
                continue;
            }
            if let Some((slot, at)) = first.find(probe.tag, is_key) {
                return (size, Some(self.place(first, slot, probe.tag, Some(at))));
            }
            if let Some(slot) = first.tags().free().first()
                && self.is_surely_absent_from(two, size, probe)
            {
                return (size, Some(self.place(first, slot, probe.tag, None)));
            }
            let (first, second) = if one < two {
                (first, self.bucket(two).lock())
            } else if let Some(second) = self.bucket(two).try_lock() {
                (first, second)
            } else {
                // To wait against the order of addresses could wait for ever: invariant 4 of the module.
                drop(first);
                self.lock_both(one, two)
            };
            if !self.is_current(size, probe) {
                continue;
            }
            // The first once more: it may have been given back in between.
            if let Some((slot, at)) = first.find(probe.tag, is_key)
                && !Mutation::LooseEntry.is_planted()
            {
                return (size, Some(self.place(first, slot, probe.tag, Some(at))));
            }
            if let Some((slot, at)) = second.find(probe.tag, is_key) {
                return (size, Some(self.place(second, slot, probe.tag, Some(at))));
            }
            return (size, self.absent(first, second, probe.tag));
        }
    }

    /// Fills a slot of the first bucket of a key that is absent; `false` if it has none free.
    pub(super) fn enter_first(&self, probe: Probe, at: Location) -> bool {
        let size = self.size();
        let mut first = self.bucket(size.address(probe.first)).lock();
        if !self.is_current(size, probe) {
            return false;
        }
        let Some(slot) = first.tags().free().first() else { return false };
        first.fill(slot, probe.tag, at);
        self.count.add(1);
        true
    }

    /// A guess where a present key is: its tag is in the second bucket only. Models leave it out: it would multiply
    /// their states, and what it leads to is checked under the lock.
    fn is_likely_second(&self, addresses: [u32; 2], tag: Tag) -> bool {
        if cfg!(loom) {
            return false;
        }
        let [first, second] =
            addresses.map(|address| !self.bucket(address).tags().matching(tag).is_empty());
        second && !first
    }

    /// True if a key is not in its second bucket, for a holder of its first one's lock: then it can't come there
    /// either. A look that is disturbed says `false`, as one that finds the tag of the key.
    fn is_surely_absent_from(&self, second: u32, size: Size, probe: Probe) -> bool {
        let second = self.bucket(second);
        let tags = second.tags();
        tags.matching(probe.tag).is_empty()
            && (second.is_unchanged(tags) || Mutation::UnvalidatedEntry.is_planted())
            && self.is_current(size, probe)
    }

    /// True if the addresses of a key are still those of `size`. Holders of a bucket's lock can rely on it.
    fn is_current(&self, size: Size, probe: Probe) -> bool {
        let now = self.size();
        now == size
            || Mutation::StaleWriter.is_planted()
            || now.addresses(probe) == size.addresses(probe)
    }

    /// The place of an absent key: in the first bucket if that has room, since hits there spare the second's line.
    fn absent<'a>(
        &'a self,
        first: Locked<'a>,
        second: Locked<'a>,
        tag: Tag,
    ) -> Option<CuckooEntry<'a>> {
        let (bucket, slot, other) = if let Some(slot) = first.tags().free().first() {
            (first, slot, second)
        } else {
            let slot = second.tags().free().first()?;
            (second, slot, first)
        };
        Some(CuckooEntry { table: self, bucket, slot, tag, location: None, _other: Some(other) })
    }

    /// A place that one lock is enough for.
    fn place<'a>(
        &'a self,
        bucket: Locked<'a>,
        slot: usize,
        tag: Tag,
        location: Option<Location>,
    ) -> CuckooEntry<'a> {
        CuckooEntry { table: self, bucket, slot, tag, location, _other: None }
    }
}

impl Entry for CuckooEntry<'_> {
    #[inline]
    fn location(&self) -> Option<Location> {
        self.location
    }

    #[inline]
    fn put(&mut self, new: Location) -> Option<Location> {
        let old = self.location.replace(new);
        if old.is_some() {
            self.bucket.replace(self.slot, new);
        } else {
            // No reader need look again: one that missed the key did so before it was there.
            self.bucket.fill(self.slot, self.tag, new);
            self.table.count.add(1);
        }
        old
    }

    #[inline]
    fn remove(&mut self) -> Option<Location> {
        let old = self.location.take()?;
        self.bucket.clear(self.slot);
        // The holder may put the key again: to readers that is one step, so a miss in between must not stand.
        if !Mutation::StillRemove.is_planted() {
            self.bucket.advance();
        }
        self.table.count.add(-1);
        Some(old)
    }
}

impl std::fmt::Debug for CuckooEntry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CuckooEntry").field("location", &self.location).finish_non_exhaustive()
    }
}
