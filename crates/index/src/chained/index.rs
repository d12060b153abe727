//! [`Index`] for [`Chained`].

use super::entry::ChainedEntry;
use super::link::{ChainLink, SLOTS};
use super::lock::BucketLock;
use super::table::{Chained, Look, Probe, STEPS_BETWEEN_CHECKS};
use crate::mapping::prefetch;
use crate::{Broken, Entry as _, Full, Hash, Index, Items, Location};

impl<L: BucketLock> Index for Chained<L> {
    type Entry<'a> = ChainedEntry<'a, L>;

    #[inline]
    fn get(&self, hash: Hash, mut is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        if L::IS_FOR_GETS {
            return self.find_entry(hash, is_key).and_then(|entry| entry.location());
        }
        match self.look(Probe::new(hash), &mut is_key) {
            Look::Found(at) => Some(at),
            Look::Absent => None,
            Look::Disturbed => self.get_again(hash, &mut is_key),
        }
    }

    #[inline]
    fn prefetch(&self, hash: Hash) {
        let home = self.extent().home(Probe::new(hash).position);
        prefetch(self.bucket(home.address()));
    }

    /// The first entry with the key's tag, which is mostly the only one.
    #[inline]
    fn candidate(&self, hash: Hash) -> Option<Location> {
        let probe = Probe::new(hash);
        let (mut link, mut word) = self.home(self.extent(), probe)?;
        for _ in 0..STEPS_BETWEEN_CHECKS {
            if let Some(slot) = word.matching(probe.tag).next() {
                return Some(link.location(slot));
            }
            if word.next() == 0 {
                break;
            }
            link = self.pool.link(word.next());
            word = link.word();
        }
        None
    }

    #[inline]
    fn entry(
        &self,
        hash: Hash,
        items: &impl Items,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Result<ChainedEntry<'_, L>, Full> {
        let probe = Probe::new(hash);
        if probe.is_helper() {
            self.help(items);
        }
        self.lock_entry(probe, &mut is_key)
    }

    #[inline]
    fn find_entry(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<ChainedEntry<'_, L>> {
        self.lock_present(Probe::new(hash), &mut is_key)
    }

    fn touch_ahead(&self, items: usize) {
        self.touch_pages_ahead(items);
    }

    fn maintain(&self, items: &impl Items, budget: usize) -> bool {
        self.grow_ahead(items, budget)
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        self.check(items)
    }

    fn len(&self) -> usize {
        self.count.sum()
    }

    fn capacity(&self) -> usize {
        (self.extent().buckets() as usize + self.pool.used()) * SLOTS
    }

    fn bytes(&self) -> usize {
        let links = self.extent().buckets() as usize + self.pool.used();
        links * size_of::<ChainLink>() + size_of::<Self>()
    }
}

impl<L: BucketLock> std::fmt::Debug for Chained<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chained")
            .field("len", &self.len())
            .field("buckets", &self.extent().buckets())
            .field("links", &self.pool.used())
            .field("buckets_max", &self.buckets.len())
            .finish()
    }
}
