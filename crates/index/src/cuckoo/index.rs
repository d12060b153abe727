//! [`Index`] for [`Cuckoo`].

use super::address::Probe;
use super::entry::CuckooEntry;
use super::grow::SPLITS_AN_INSERT;
use super::table::{Cuckoo, Look};
use crate::bucket::{Bucket, SLOTS};
use crate::mapping::prefetch;
use crate::{Broken, Full, Hash, Index, Items, Location};

impl Index for Cuckoo {
    type Entry<'a> = CuckooEntry<'a>;

    #[inline]
    fn get(&self, hash: Hash, mut is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        match self.look(Probe::new(hash), &mut is_key) {
            Look::Found(at) => Some(at),
            Look::Absent => None,
            Look::Disturbed => self.get_again(hash, &mut is_key),
        }
    }

    #[inline]
    fn prefetch(&self, hash: Hash) {
        let (probe, size) = (Probe::new(hash), self.size());
        prefetch(self.bucket(size.address(probe.first)));
        prefetch(self.bucket(size.address(probe.second)));
    }

    #[inline]
    fn candidate(&self, hash: Hash) -> Option<Location> {
        let (probe, size) = (Probe::new(hash), self.size());
        let likely = |position| {
            let bucket = self.bucket(size.address(position));
            bucket.tags().matching(probe.tag).first().map(|slot| bucket.location(slot))
        };
        likely(probe.first).or_else(|| likely(probe.second))
    }

    #[inline]
    fn entry(
        &self,
        hash: Hash,
        items: &impl Items,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Result<CuckooEntry<'_>, Full> {
        let mut splits_left = SPLITS_AN_INSERT;
        loop {
            let (size, entry) = self.lock_entry(hash, &mut is_key);
            match entry {
                Some(entry) => return Ok(entry),
                None => self.make_room(hash, size, &mut splits_left, items)?,
            }
        }
    }

    /// Reads one cache line while the first bucket has room: the key is not searched in the second.
    #[inline]
    fn enter_absent(&self, hash: Hash, at: Location, items: &impl Items) -> Result<(), Full> {
        use crate::Entry as _;
        if self.enter_first(Probe::new(hash), at) {
            return Ok(());
        }
        self.entry(hash, items, |_| false)?.put(at);
        Ok(())
    }

    #[inline]
    fn prefetch_absent(&self, hash: Hash) {
        prefetch(self.bucket(self.size().address(Probe::new(hash).first)));
    }

    fn find_entry(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<CuckooEntry<'_>> {
        use crate::Entry as _;
        let (_, entry) = self.lock_entry(hash, &mut is_key);
        entry.filter(|entry| entry.location().is_some())
    }

    fn touch_ahead(&self, items: usize) {
        self.buckets.prepare(self.size().buckets() as usize, items.div_ceil(SLOTS));
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        self.check(items)
    }

    fn len(&self) -> usize {
        self.count.sum()
    }

    fn capacity(&self) -> usize {
        self.size().buckets() as usize * SLOTS
    }

    fn bytes(&self) -> usize {
        self.size().buckets() as usize * size_of::<Bucket>() + size_of::<Self>()
    }
}

impl std::fmt::Debug for Cuckoo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuckoo")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("buckets_max", &self.buckets.len())
            .finish()
    }
}
