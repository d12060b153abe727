//! Making room: victims leave the index, and pages move from class to class.
//!
//! An evicted chunk is not free at once: readers may hold it until their turns end. So a class that can't get another
//! page keeps a reserve of free chunks, and a store that finds none is told to retry after the turn
//! ([`NoRoom::Later`]).
//!
//! A class that can't evict (it has no page, or nothing in its pages is published) empties a page of the class that
//! has the most pages.

use super::local::Local;
use super::walk::items_in;
use crate::counters::ClassCounter;
use crate::items::ItemRef;
use crate::memory::{Allocated, Class, ClassState, Owned};
use crate::orders::{self, Shares, Victim};
use guira_index::{Hash, Index};

/// Why there is no memory for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// Memory is being freed: end the turn ([`Handle::quiesce`](crate::Handle::quiesce)) and try again.
    Later,
    /// The cache is full and may not evict, or the index has no place for the key.
    OutOfMemory,
    /// The key's item may be below memory: look there first ([`Handle::know_below`](crate::Handle::know_below)).
    Below,
    /// No chunk, and no chain of chunks, can hold the item.
    TooLarge,
}

/// One page in this many, plus one, may be moving between classes.
const DRAINING_SHARE: usize = 8;
/// Shift to the hash bits that select which items go on probation while there is room. The tuner and the ghost use
/// other bits.
const EARLY_SHIFT: u32 = 44;
/// Victims per batch: enough for their index lines to be fetched in parallel.
const BATCH: usize = 16;

impl Local<'_> {
    /// Takes a chunk of `class`, for a key with this hash or for a link; or returns why there is none now. The flag
    /// is whether an item stored there goes on probation, if its key has none.
    pub(crate) fn allocate(
        &self,
        class: Class,
        hash: Option<Hash>,
        now: u32,
    ) -> Result<(Owned, bool), NoRoom> {
        let allocated = self.engine.slab.alloc(class, hash);
        let Some(Allocated { chunk, free, chunks, is_known }) = allocated else {
            // If no class has anything, waiting does not help.
            if !self.engine.evictions || self.engine.slab.has_nothing_to_give() {
                self.counts.add_class(ClassCounter::OutOfMemory, class, 1);
                return Err(NoRoom::OutOfMemory);
            }
            if self.waiting(class) == 0 && !self.evict(class, now) {
                self.steal(class);
            }
            return Err(NoRoom::Later);
        };
        // A class that can't get another page keeps a reserve, free or in its grace period.
        let reserve = self.engine.slab.reserve(chunks);
        // While evictions are noted, one batch more: the thread that notes them then sees one with its next store
        // into a full class.
        let kept = reserve + if self.notes.is_open() { BATCH } else { 0 };
        if self.engine.evictions && free < kept && free + self.waiting(class) < kept {
            self.evict(class, now);
        }
        let probes = hash.filter(|_| self.engine.eviction.remembers_keys());
        let on_probation =
            probes.is_some_and(|hash| !is_known && (free < 2 * reserve || self.goes_early(hash)));
        Ok((chunk, on_probation))
    }

    /// Whether an item goes on probation while there is room. Probation serves no purpose then, so only its share of
    /// the items goes through it: enough to judge some when the class is full.
    fn goes_early(&self, hash: Hash) -> bool {
        let share = (hash.0 >> EARLY_SHIFT & 0xff) as f32 / 256.0;
        share < self.engine.dial.tuning().small
    }

    /// Evicts up to a batch of the class's items. Returns `false` if there was none to evict.
    pub(crate) fn evict(&self, class: Class, now: u32) -> bool {
        self.settle();
        self.engine.dial.want();
        let moment = self.now(now);
        let on_probation = self.engine.counters.gauge(ClassCounter::OnProbation, class);
        let shares = Shares { tuning: self.engine.dial.tuning(), on_probation };
        let mut victims = Vec::with_capacity(BATCH);
        let passed =
            orders::victims(&self.engine.slab, class, BATCH, (moment, shares), &mut victims);
        self.counts.add_class(ClassCounter::Promoted, class, passed as u64);
        self.counts.add_class(ClassCounter::OnProbation, class, (passed as u64).wrapping_neg());
        let items = victims
            .iter()
            .map(|victim| (victim, ItemRef::new(&self.engine.slab.chunks, victim.at)));
        let items: Vec<_> = items.map(|(v, item)| (v, item, self.key(item.key()))).collect();
        for (_, _, key) in &items {
            self.engine.index.prefetch(key.hash);
        }
        let mut evicted = false;
        let mut failed = [Hash(0); BATCH];
        let mut failures = 0;
        for (Victim { failed: has_failed, .. }, item, key) in &items {
            let dead = item.is_past(moment);
            if !dead && self.sink(item, key.hash) {
                self.counts.add_class(ClassCounter::Sunk, class, 1);
            } else if self.unlink(item, key.hash) {
                self.count_eviction(item, dead, now);
            } else {
                continue;
            }
            evicted = true;
            failed[failures] = key.hash;
            failures += usize::from(*has_failed);
        }
        self.remember(class, &failed[..failures]);
        evicted
    }

    /// Enters keys that failed their probation into the class's ghost.
    fn remember(&self, class: Class, failed: &[Hash]) {
        if failed.is_empty() {
            return;
        }
        let mut state = self.engine.slab.lock(class);
        let ClassState { order, used, .. } = &mut *state;
        order.remember(failed.iter().copied(), *used);
    }

    fn count_eviction(&self, item: &ItemRef<'_>, dead: bool, now: u32) {
        let class = self.engine.slab.chunks.class_of(item.location());
        let count = |counter| self.counts.add_class(counter, class, 1);
        match (dead, item.was_fetched()) {
            (true, fetched) => {
                count(ClassCounter::Reclaimed);
                if !fetched {
                    count(ClassCounter::ExpiredUnfetched);
                }
            }
            (false, fetched) => {
                self.notes.add(item);
                count(ClassCounter::Evicted);
                self.counts.evicted_idle_s.add(item.idle_s(now).into());
                if !fetched {
                    count(ClassCounter::EvictedUnfetched);
                }
                if item.exptime() != 0 {
                    count(ClassCounter::EvictedNonzero);
                }
            }
        }
    }

    /// Empties a page of the class that has the most pages, other than `class`. The page returns to the pool when its
    /// readers are done.
    fn steal(&self, class: Class) {
        self.give_up(self.engine.slab.richest(Some(class)));
    }

    /// If more pages are backed than the limit allows, releases one in the pool or empties one. Returns whether it
    /// found one.
    pub(crate) fn shed(&self) -> bool {
        let slab = &self.engine.slab;
        slab.release_one() || slab.is_over() && self.give_up(slab.richest(None))
    }

    /// Empties the pages that classes are giving up already: an item that was unpublished then may have been
    /// published since. Then it empties the page behind the donor's hand, unless many pages are still draining.
    /// Returns whether it did so.
    fn give_up(&self, donor: Option<Class>) -> bool {
        let slab = &self.engine.slab;
        let mut draining = 0;
        for class in 0..=slab.chunks.classes.largest() {
            let pages = slab.lock(class).draining.clone();
            draining += pages.len();
            // The mover copies the items of the page that it empties, so they need not be evicted.
            for page in pages.into_iter().filter(|&page| !slab.is_moving(page)) {
                self.empty_page(class, page);
            }
        }
        let Some(donor) = donor else { return false };
        if self.waiting(donor) > 0 || draining > slab.limit().pages() / DRAINING_SHARE {
            return false;
        }
        let page = slab.drain(donor);
        if let Some(page) = page {
            self.empty_page(donor, page);
        }
        page.is_some()
    }

    /// Evicts all published items of the page. Returns how many.
    pub(crate) fn empty_page(&self, class: Class, page: u32) -> u64 {
        let mut evicted = 0;
        for item in items_in(&self.engine.slab, class, page, 0..u32::MAX) {
            let hash = self.key(item.key()).hash;
            if self.sink(&item, hash) {
                self.counts.add_class(ClassCounter::Sunk, class, 1);
                evicted += 1;
            } else if self.unlink(&item, hash) {
                self.counts.add_class(ClassCounter::Evicted, class, 1);
                evicted += 1;
                self.notes.add(&item);
            }
        }
        evicted
    }
}
