//! Growth: one bucket is split in two, in place, while other threads continue.
//!
//! A background thread keeps the load a little below 1, through [`maintain`](crate::Index::maintain). If there is
//! none, or it doesn't keep up, one insert in sixteen splits sixteen buckets, which is twice what is needed.
//!
//! # Costs
//! A split reads the bucket's items, since their hashes show which keys move. A batch of sixteen splits prefetches
//! all the items first, so that the cache misses overlap and are over when the locks are taken. That is 0.1 µs per
//! key entered, beyond the caches; two thirds of it are those misses. Only threads that need the bucket being split
//! wait, for the duration of the split.

use super::extent::Extent;
use super::link::{ChainLink, Locked, SLOTS, Tag, Word};
use super::lock::BucketLock;
use super::table::{Chained, LOAD_PERCENT, Probe};
use crate::mapping::prefetch;
use crate::sync::{Mutation, Release};
use crate::{Items, Location};

impl<L: BucketLock> Chained<L> {
    /// [`maintain`](crate::Index::maintain): splits up to `budget` buckets. Returns true if the load is still above
    /// the one that it maintains.
    pub(super) fn grow_ahead(&self, items: &impl Items, budget: usize) -> bool {
        let mut left = budget;
        while left > 0 && self.is_loaded(LOAD_PERCENT_AHEAD) {
            let done = self.split_some(left.min(BATCH), items);
            if done == 0 {
                // Another thread is splitting.
                return true;
            }
            left = left.saturating_sub(done);
        }
        self.is_loaded(LOAD_PERCENT_AHEAD)
    }

    /// An insert's share of the growth.
    #[inline]
    pub(super) fn help(&self, items: &impl Items) {
        if self.is_loaded(LOAD_PERCENT) {
            self.split_some(BATCH, items);
        }
    }

    /// Whether the load is above `percent`, and the table may still grow.
    fn is_loaded(&self, percent: usize) -> bool {
        let buckets = self.extent().buckets() as usize;
        buckets < self.buckets.len() && self.count.sum() * 100 > buckets * SLOTS * percent
    }

    /// Splits the next few buckets, unless another thread is splitting. Returns how many it split.
    #[cold]
    pub(super) fn split_some(&self, splits_max: usize, items: &impl Items) -> usize {
        let Some(_growing) = self.is_growing.0.try_hold() else { return 0 };
        let extent = self.extent();
        let room = self.buckets.len() - extent.buckets() as usize;
        let splits_max = splits_max.min(room).min(extent.left() as usize);
        let splits = u32::try_from(splits_max).expect("buckets have 32 bits");
        if Mutation::EarlyPublish.is_planted() {
            self.extent.0.store(extent.grown(splits).to_word(), Release);
        }
        self.fetch(extent, splits, items);
        let mut going = Vec::new();
        for step in 0..splits {
            self.split(extent.grown(step), items, &mut going);
        }
        if splits > 0 {
            self.extent.0.store(extent.grown(splits).to_word(), Release);
        }
        splits_max
    }

    /// Prefetches what splits will read: first the items that buckets refer to, then those that their links refer to.
    /// The buckets themselves are adjacent to those split before.
    fn fetch(&self, extent: Extent, splits: u32, items: &impl Items) {
        for (from, to) in (0..splits).map(|step| extent.grown(step).next_split()) {
            prefetch(self.bucket(to));
            let next = fetch_items(self.bucket(from), items);
            prefetch(self.pool.link(next));
        }
        for (from, _) in (0..splits).map(|step| extent.grown(step).next_split()) {
            let mut next = self.bucket(from).word().next();
            // Without the lock, this may be another bucket's chain by now.
            for _ in 0..LINKS_FETCHED {
                if next == 0 {
                    break;
                }
                next = fetch_items(self.pool.link(next), items);
            }
        }
    }

    /// Splits one bucket. It needs no additional link: two chains of half the keys have at most as many links as one
    /// chain of all keys.
    ///
    /// `going` is memory to be reused.
    fn split(&self, extent: Extent, items: &impl Items, going: &mut Vec<bool>) {
        let (from, to) = extent.next_split();
        let mut old = self.lock_bucket(from);
        let new = self.bucket(to);
        let is_odd = extent.home_after_split(0).is_odd();
        if old.held.is_odd() == is_odd {
            // Already split, but not published: the owner of the items panicked during the next split.
            return;
        }
        debug_assert_eq!(new.word(), Word::default(), "bucket {to} is in use");
        self.ask_which_go(&old, extent, items, going);
        // No thread uses the new bucket before it sees the old one's ROUND or the extent.
        let mut stay = Chain { bucket: old.bucket(), word: old.held.emptied() };
        let mut go = Chain { bucket: new, word: Word::default().with_odd(is_odd) };
        let mut spare = Spare { table: self, first: 0 };
        let mut going = going.iter();
        for (link, word, number) in self.chain(&old) {
            let entries: [Option<(Tag, Location)>; SLOTS] =
                std::array::from_fn(|slot| word.tag(slot).map(|tag| (tag, link.location(slot))));
            // The link's entries have been read, so the link can be reused for others.
            if number != 0 {
                spare.push(number);
            }
            for (tag, at) in entries.into_iter().flatten() {
                let is_going = going.next().is_some_and(|&is| is);
                if is_going { &mut go } else { &mut stay }.push(&mut spare, tag, at);
            }
        }
        old.held = stay.word.with_odd(is_odd != Mutation::StillSplit.is_planted());
        if Mutation::LateHalf.is_planted() {
            drop(old);
            new.set_word(go.word);
            spare.give_all();
            return;
        }
        new.set_word(go.word);
        spare.give_all();
    }

    /// Determines for each entry of a chain that is to be split whether it moves to the new bucket. This happens
    /// before anything is changed, since the owner of the items may panic.
    fn ask_which_go(
        &self,
        bucket: &Locked<'_, L>,
        extent: Extent,
        items: &impl Items,
        going: &mut Vec<bool>,
    ) {
        going.clear();
        for (link, word, _) in self.chain(bucket) {
            for (tag, slot) in (0..SLOTS).filter_map(|slot| Some((word.tag(slot)?, slot))) {
                let probe = Probe::new(items.hash(link.location(slot)));
                debug_assert_eq!(
                    probe.tag, tag,
                    "the item's hash is that under which it was entered"
                );
                going.push(probe.position & extent.base() != 0);
            }
        }
    }

    /// The links of a locked chain. A link's successor is read before the link is returned, so the caller may change
    /// the link.
    fn chain<'a>(
        &'a self,
        bucket: &'a Locked<'_, L>,
    ) -> impl Iterator<Item = (&'a ChainLink, Word, u32)> {
        let mut next = Some((bucket.bucket(), bucket.held, 0));
        std::iter::from_fn(move || {
            let now @ (_, word, _) = next?;
            let number = word.next();
            next = (number != 0).then(|| {
                let link = self.pool.link(number);
                (link, link.word(), number)
            });
            Some(now)
        })
    }

    /// [`touch_ahead`](crate::Index::touch_ahead), for buckets and links.
    pub(super) fn touch_pages_ahead(&self, items: usize) {
        self.buckets.prepare(self.extent().buckets() as usize, items.div_ceil(SLOTS));
        self.pool.touch_ahead(items / KEYS_A_LINK);
    }
}

/// Prefetches the items of a link. Returns the number of the next link.
fn fetch_items(link: &ChainLink, items: &impl Items) -> u32 {
    let word = link.word();
    let filled = (0..SLOTS).filter(|&slot| word.tag(slot).is_some());
    filled.for_each(|slot| items.prefetch(link.location(slot)));
    word.next()
}

/// A chain that is being filled. All of its links are full, except the bucket's next one.
struct Chain<'a> {
    bucket: &'a ChainLink,
    /// The bucket's next word.
    word: Word,
}

impl Chain<'_> {
    fn push<L: BucketLock>(&mut self, spare: &mut Spare<'_, L>, tag: Tag, at: Location) {
        if let Some(slot) = self.word.free() {
            self.bucket.set_location(slot, at);
            self.word = self.word.with_tag(slot, Some(tag));
            return;
        }
        let pool = &spare.table.pool;
        let open = self.word.next();
        if open != 0
            && let Some(slot) = pool.link(open).word().free()
        {
            let link = pool.link(open);
            link.set_location(slot, at);
            link.set_word(link.word().with_tag(slot, Some(tag)));
            return;
        }
        let number = spare.pop();
        let link = pool.link(number);
        link.set_location(0, at);
        link.set_word(Word::default().with_next(open).with_tag(0, Some(tag)));
        self.word = self.word.with_next(number);
    }
}

/// The links of a chain that is being taken apart.
struct Spare<'a, L: BucketLock> {
    table: &'a Chained<L>,
    first: u32,
}

impl<L: BucketLock> Spare<'_, L> {
    fn push(&mut self, number: u32) {
        self.table.pool.link(number).set_word(Word::default().with_next(self.first));
        self.first = number;
    }

    fn pop(&mut self) -> u32 {
        let number = self.first;
        assert!(number != 0, "a chain taken apart has links for both halves");
        self.first = self.table.pool.link(number).word().next();
        number
    }

    fn give_all(mut self) {
        while self.first != 0 {
            let number = self.pop();
            self.table.pool.give(number);
        }
    }
}

/// Buckets that are split, or prefetched, at a time.
const BATCH: usize = if cfg!(any(miri, loom)) { 1 } else { 16 };
/// Links of a chain whose items are prefetched; longer chains are rare.
const LINKS_FETCHED: usize = 3;
/// The load that a background thread maintains. It is lower by what inserts add before the thread runs again.
const LOAD_PERCENT_AHEAD: usize = LOAD_PERCENT * 24 / 25;
/// Keys per link needed, at load 1 (Poisson of mean 2: 0.38 links per bucket).
const KEYS_A_LINK: usize = 5;
