//! A walk over the items of some classes: for listings, and to remove dead items before they are looked up.
//!
//! It goes over the chunks of each class in memory order, page by page, a few at a time. So it needs no list of
//! items.
//!
//! # Invariants
//! 1. A step holds the lock of one class while it examines at most some hundred headers. It holds no lock while its
//!    caller examines the items found.
//! 2. An item that stays in its chunk from the walk's beginning to its end is seen exactly once. An item that is
//!    stored anew meanwhile may be seen twice or not at all. No page moves during a [`Crawl`], unless
//!    [`Crawl::let_move`] allows it.
//!
//! # Costs
//! One header per chunk, read in memory order. A listing also reads each item's own lines, and the line of its
//! unique.

use super::mover::{Mover, Still};
use crate::counters::ClassCounter;
use crate::engine::{WALK_STEP, WalkPosition};
use crate::handle::Handle;
use crate::items::ItemRef;
use crate::memory::Class;

/// A walk that one thread does in small steps; see [`Cache::crawl`](crate::Cache::crawl).
pub struct Crawl<'c> {
    handle: Handle<'c>,
    mover: &'c Mover,
    /// Keeps items in their chunks.
    still: Option<Still<'c>>,
    position: WalkPosition,
    /// Items of the class examined so far.
    seen: usize,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crawled {
    /// Items examined.
    pub items: usize,
    /// Whether the walk has ended.
    pub is_done: bool,
}

impl<'c> Crawl<'c> {
    /// Makes a walk over `classes`, ignoring classes that don't exist.
    pub(crate) fn new(
        handle: Handle<'c>,
        mover: &'c Mover,
        classes: impl IntoIterator<Item = usize>,
    ) -> Crawl<'c> {
        let count = handle.actor.local.engine.slab.chunks.classes.len();
        let exist = |class: usize| Class::try_from(class).ok().filter(|_| class < count);
        let position = WalkPosition::new(classes.into_iter().filter_map(exist).collect());
        Crawl { handle, mover, still: Some(mover.hold()), position, seen: 0 }
    }

    /// Advances a step, and calls `see` with each live item and its unique.
    pub fn list(&mut self, now: u32, mut see: impl FnMut(&ItemRef<'_>, u64)) -> Crawled {
        self.handle.quiesce();
        let moment = self.handle.actor.local.now(now);
        let slab = &self.handle.actor.local.engine.slab;
        let Some(items) = self.position.next(slab, WALK_STEP) else { return Crawled::END };
        for item in &items {
            if !item.is_past(moment) {
                let unique = self.handle.cas_unique(&self.handle.key(item.key()));
                see(item, self.handle.cas_of(item, unique));
            }
        }
        Crawled { items: items.len(), is_done: false }
    }

    /// Advances a step, and removes items that are expired or flushed. Skips the rest of a class once at least `most`
    /// of its items were examined.
    pub fn reap(&mut self, now: u32, most: usize) -> Crawled {
        self.handle.quiesce();
        let moment = self.handle.actor.local.now(now);
        let before = self.position.class();
        let slab = &self.handle.actor.local.engine.slab;
        let Some(items) = self.position.next(slab, WALK_STEP) else { return Crawled::END };
        let class = self.position.class();
        if class != before {
            self.seen = 0;
        }
        let count =
            |counter, n: usize| self.handle.actor.local.counts.add_class(counter, class, n as u64);
        for item in items.iter().filter(|item| item.is_past(moment)) {
            if self.handle.actor.local.unlink(item, self.handle.key(item.key()).hash) {
                count(ClassCounter::CrawlerReclaimed, 1);
                if item.is_expired(now) && !item.was_fetched() {
                    count(ClassCounter::ExpiredUnfetched, 1);
                }
            }
        }
        count(ClassCounter::CrawlerItemsChecked, items.len());
        self.seen += items.len();
        if self.seen >= most {
            self.position.leave_class();
        }
        Crawled { items: items.len(), is_done: false }
    }

    /// Ends the turn. Returns whether the memory of all removed items is free; if not, other threads are still in a
    /// turn.
    pub fn is_settled(&mut self) -> bool {
        self.handle.quiesce();
        self.handle.actor.local.is_settled()
    }

    /// Sets whether items may move, for the time when the walk pauses for long. Items that move may be seen twice or
    /// not at all.
    pub fn let_move(&mut self, may: bool) {
        self.still = (!may).then(|| self.mover.hold());
    }

    /// Ends the turn and runs `wait` offline, so that waiting delays no reclamation.
    pub fn asleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.handle.asleep(wait)
    }
}

impl Crawled {
    const END: Crawled = Crawled { items: 0, is_done: true };
}

#[cfg(test)]
mod tests {
    use crate::engine::WALK_STEP as STEP;
    use crate::{Cache, CacheConfig, Handle, START_S, StoreTerms};
    use std::collections::BTreeMap;

    /// A cache that places its keys alike in each run. Miri's index starts so small that with another seed it may
    /// have no place for a key.
    fn cache() -> Cache {
        let config = CacheConfig {
            memory_bytes: 8 << 20,
            handles_max: 2,
            hash_seed: Some(7),
            ..CacheConfig::default()
        };
        Cache::new(&config).unwrap()
    }

    fn store(handle: &mut Handle, key: &str, value_bytes: usize, exptime: u32) {
        let how = StoreTerms { exptime, ..StoreTerms::default() };
        let value = vec![b'v'; value_bytes];
        handle.store(&handle.key(key.as_bytes()), &value, &how, START_S).unwrap();
        handle.quiesce();
    }

    /// How often a walk over all classes lists each key.
    fn listed(cache: &Cache, now: u32) -> BTreeMap<String, usize> {
        let mut keys = BTreeMap::new();
        let mut crawl = cache.crawl(0..cache.classes());
        while !crawl
            .list(now, |item, _| {
                *keys.entry(String::from_utf8(item.key().to_vec()).unwrap()).or_default() += 1;
            })
            .is_done
        {}
        keys
    }

    #[test]
    fn a_walk_lists_each_live_item_once_whatever_its_size() {
        let cache = cache();
        let mut handle = cache.handle();
        let small = if cfg!(miri) { 300 } else { 2000 };
        for n in 0..small {
            store(&mut handle, &format!("small{n}"), n % 100, 0);
        }
        for (n, bytes) in [9_000, 40_000, 300_000].into_iter().enumerate() {
            store(&mut handle, &format!("chained{n}"), bytes, 0);
        }
        store(&mut handle, "dead", 10, START_S + 1);
        drop(handle);
        let keys = listed(&cache, START_S + 1);
        assert_eq!(keys.len(), small + 3);
        assert!(keys.values().all(|&times| times == 1));
        assert!(!keys.contains_key("dead"));
    }

    #[test]
    fn a_reaping_walk_takes_out_the_dead_and_frees_their_memory() {
        let cache = cache();
        let mut handle = cache.handle();
        let dead = if cfg!(miri) { 20 } else { 100 };
        for n in 0..5 * dead {
            store(&mut handle, &format!("k{n}"), 10, if n % 5 == 0 { START_S + 1 } else { 0 });
        }
        drop(handle);
        let mut crawl = cache.crawl(0..cache.classes());
        while !crawl.reap(START_S + 1, usize::MAX).is_done {}
        assert!(crawl.is_settled());
        drop(crawl);
        let left = 4 * dead;
        assert_eq!((cache.len(), listed(&cache, START_S + 1).len()), (left, left));
        let used: usize = (0..cache.classes()).map(|c| cache.class_stats(c).chunks_used).sum();
        assert_eq!(used, left);
        let totals = cache.totals();
        assert_eq!(totals.all(crate::ClassCounter::CrawlerReclaimed), dead as u64);
        assert_eq!(totals.all(crate::ClassCounter::CrawlerItemsChecked), 5 * dead as u64);
    }

    #[test]
    fn a_reaping_walk_leaves_a_class_once_it_has_looked_at_enough() {
        let (items, most) = if cfg!(miri) { (300, 20) } else { (3000, 1000) };
        let cache = cache();
        let mut handle = cache.handle();
        for n in 0..items {
            store(&mut handle, &format!("k{n:04}"), 10, START_S + 1);
        }
        drop(handle);
        let mut crawl = cache.crawl(0..cache.classes());
        while !crawl.reap(START_S + 1, most).is_done {}
        drop(crawl);
        let left = items - most - STEP as usize..=items - most;
        assert!(left.contains(&cache.len()), "{} are left", cache.len());
    }
}
