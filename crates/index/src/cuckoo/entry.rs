//! Locking one key's place.
//!
//! A present key is locked by the lock of its bucket alone: no thread can move, replace or remove it without that
//! lock. An absent key is locked by its first bucket's lock: any thread that enters it, or moves it between its
//! buckets, holds that lock. So entering a key takes one lock while its first bucket has room, if a look at the
//! second bucket finds no slot with its tag. That look is made as by a reader, without a lock, and must not be
//! disturbed. Otherwise both buckets are locked.
//!
//! To guess the bucket of a present key, the tags of both buckets are read before any lock is taken.

use super::address::{Probe, Size};
use super::table::Cuckoo;
use crate::bucket::{Locked, Tag};
use crate::mapping::prefetch;
use crate::sync::Mutation;
use crate::{Entry, Hash, Location};

/// The place of a key in a [`Cuckoo`], locked until dropped.
pub struct CuckooEntry<'a> {
    table: &'a Cuckoo,
    /// The bucket of `slot`: the key's bucket, or one with room for the key.
    bucket: Locked<'a>,
    slot: usize,
    tag: Tag,
    location: Option<Location>,
    /// For an absent key, the other bucket. `None` if `bucket` is its first one, and the second was seen to be
    /// without the key.
    _other: Option<Locked<'a>>,
}

impl Cuckoo {
    /// Locks the key's place. Returns no entry, with nothing locked, if the key is absent and both buckets are full.
    /// Also returns the size from which the buckets were computed.
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
                // Waiting against the order of addresses could wait forever (invariant 4 of the module).
                drop(first);
                self.lock_both(one, two)
            };
            if !self.is_current(size, probe) {
                continue;
            }
            // Search the first bucket again: its lock may have been released in between.
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

    /// Fills a slot of the first bucket of an absent key. Returns `false` if the bucket has no free slot, or was
    /// split meanwhile.
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

    /// Whether a present key is probably in its second bucket: its tag is only there. Models leave this out, because
    /// it would multiply their states, and its result is checked under the lock.
    fn is_likely_second(&self, addresses: [u32; 2], tag: Tag) -> bool {
        if cfg!(loom) {
            return false;
        }
        let [first, second] =
            addresses.map(|address| !self.bucket(address).tags().matching(tag).is_empty());
        second && !first
    }

    /// Whether a key is certainly not in its second bucket. The caller holds the first bucket's lock, so the key
    /// can't move there either. Returns `false` if the look is disturbed, or finds the key's tag.
    fn is_surely_absent_from(&self, second: u32, size: Size, probe: Probe) -> bool {
        let second = self.bucket(second);
        let tags = second.tags();
        tags.matching(probe.tag).is_empty()
            && (second.is_unchanged(tags) || Mutation::UnvalidatedEntry.is_planted())
            && self.is_current(size, probe)
    }

    /// Whether the addresses of a key are still those of `size`. The holder of a bucket's lock can rely on the
    /// result.
    fn is_current(&self, size: Size, probe: Probe) -> bool {
        let now = self.size();
        now == size
            || Mutation::StaleWriter.is_planted()
            || now.addresses(probe) == size.addresses(probe)
    }

    /// The place of an absent key: in the first bucket if it has room, since hits there don't need the second
    /// bucket's cache line.
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

    /// A place for which one lock is enough.
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
            // No reader needs to look again: a reader that missed the key read the bucket before the key was there.
            self.bucket.fill(self.slot, self.tag, new);
            self.table.count.add(1);
        }
        old
    }

    #[inline]
    fn remove(&mut self) -> Option<Location> {
        let old = self.location.take()?;
        self.bucket.clear(self.slot);
        // The holder may put the key again. Readers must see that as one step, so a miss in between must not be
        // valid.
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
