//! Making room: victims out of the index, pages from class to class.
//!
//! An evicted chunk is not free at once: readers may hold it until their turns end. So a class that
//! has no page to hope for keeps a reserve of free chunks ahead of the stores, and a store that
//! finds none is told to come back after the turn ([`NoRoom::Later`]).
//!
//! A class that can't evict (it has no page, or nothing in its pages is published) empties a page of
//! the class that has the most.

use crate::classes::Class;
use crate::handle::Handle;
use crate::item::ItemRef;
use crate::slab::{Allocated, Owned, RESERVE_MAX};
use crate::stats::ClassCounter;
use crate::writer::NoRoom;
use guira_index::{Entry, Index};

/// Of so many pages one may be on its way from class to class, and one more.
const DRAINING_SHARE: usize = 8;
/// Victims at a time: enough for their index lines to be fetched side by side.
const BATCH: usize = 16;

impl<I: Index> Handle<'_, I> {
    /// A chunk of `class`, or why there is none now.
    pub(crate) fn allocate(&self, class: Class, now: u32) -> Result<Owned, NoRoom> {
        let Some(Allocated { chunk, free, chunks }) = self.cache.slab.alloc(class) else {
            if !self.cache.evictions {
                self.counts.add_class(ClassCounter::OutOfMemory, class, 1);
                return Err(NoRoom::OutOfMemory);
            }
            if self.waiting(class) == 0 && !self.evict(class, now) {
                self.steal(class);
            }
            return Err(NoRoom::Later);
        };
        // A class with no page to hope for keeps a reserve: free, or in its grace period.
        let reserve = (chunks / 64).clamp(64.min(chunks / 8), RESERVE_MAX);
        if self.cache.evictions && free < reserve && free + self.waiting(class) < reserve {
            self.evict(class, now);
        }
        Ok(chunk)
    }

    /// Evicts up to a batch of the class's items; `false` if there was none to evict.
    fn evict(&self, class: Class, now: u32) -> bool {
        let moment = self.moment(now);
        let mut victims = Vec::with_capacity(BATCH);
        self.cache.slab.victims(class, BATCH, moment, &mut victims);
        let items = victims.iter().map(|&at| ItemRef::new(&self.cache.slab, at));
        let items: Vec<_> = items.map(|item| (item, self.key(item.key()))).collect();
        for (_, key) in &items {
            self.prefetch(key);
        }
        let mut evicted = false;
        for (item, key) in &items {
            let dead = moment.is_past(item);
            if self.unlink(item, key.hash) {
                self.count_eviction(item, dead);
                evicted = true;
            }
        }
        evicted
    }

    fn count_eviction(&self, item: &ItemRef<'_>, dead: bool) {
        let class = self.cache.slab.class_of(item.location());
        let count = |counter| self.counts.add_class(counter, class, 1);
        match (dead, item.was_fetched()) {
            (true, fetched) => {
                count(ClassCounter::Reclaimed);
                if !fetched {
                    count(ClassCounter::ExpiredUnfetched);
                }
            }
            (false, fetched) => {
                count(ClassCounter::Evicted);
                if !fetched {
                    count(ClassCounter::EvictedUnfetched);
                }
                if item.exptime() != 0 {
                    count(ClassCounter::EvictedNonzero);
                }
            }
        }
    }

    /// Takes the item out of the index and retires it, unless somebody else did. The caller is
    /// online and saw it published.
    pub(crate) fn unlink(&self, item: &ItemRef<'_>, hash: guira_index::Hash) -> bool {
        let at = item.location();
        let Some(mut entry) = self.cache.index.find_entry(hash, |found| found == at) else {
            return false;
        };
        entry.remove();
        self.cache.stripes.advance(hash);
        drop(entry);
        self.retire(item);
        true
    }

    /// Empties a page of the richest other class, so that it comes to the pool when its readers are done.
    fn steal(&self, class: Class) {
        self.give_up(self.cache.slab.richest(Some(class)));
    }

    /// Empties a page if classes hold more than the limit allows; whether it found one to empty.
    pub(crate) fn shed(&self) -> bool {
        self.cache.slab.is_over() && self.give_up(self.cache.slab.richest(None))
    }

    /// Empties the pages that classes are giving up already: an item that was in the making may
    /// have been published there since. Then, unless many are held up by such, the page behind
    /// the donor's hand; whether it came to that.
    fn give_up(&self, donor: Option<Class>) -> bool {
        let slab = &self.cache.slab;
        let mut draining = 0;
        for class in 0..=slab.classes.largest() {
            let pages = slab.lock(class).draining.clone();
            draining += pages.len();
            for page in pages {
                self.empty_page(class, page);
            }
        }
        let Some(donor) = donor else { return false };
        if self.waiting(donor) > 0 || draining > slab.pages_limit() / DRAINING_SHARE {
            return false;
        }
        let page = slab.drain(donor);
        if let Some(page) = page {
            self.empty_page(donor, page);
        }
        page.is_some()
    }

    /// Evicts whatever of the page is published.
    fn empty_page(&self, class: Class, page: u32) {
        for item in self.cache.slab.items_in(class, page, 0..u32::MAX, true) {
            if self.unlink(&item, self.key(item.key()).hash) {
                self.counts.add_class(ClassCounter::Evicted, class, 1);
            }
        }
    }
}
