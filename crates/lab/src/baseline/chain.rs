//! memcached's hash table: an array of heads, and chains that run through the items. Readers lock, too.
//!
//! It is as in memcached 1.4, except that links have four bytes instead of eight; space is counted with eight, as in
//! the paper. The number of locks distinguishes two of the papers' baselines: one is the global lock, many are the
//! striped item locks.
//!
//! # Invariants
//! 1. A chain is read and changed under its bucket's lock, number `bucket % locks`.
//! 2. A lock holds the number of keys in its buckets.
//!
//! # Costs
//! A get reads the line of a lock, the line of a head, and one line per item up to the wanted one: at load 1.5, 1.75
//! items for a hit and 1.5 for a miss. Bad at: misses, which read all items of a chain; and readers on several
//! processors, which write the lock.

use super::pages::Pages;
use guira_index::{Broken, Entry, Full, Hash, Index, Items, Location, prefetch};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// The location of the next item of a chain; the default is none.
#[derive(Debug, Default)]
pub(crate) struct Link(AtomicU32);

impl Link {
    #[inline]
    fn get(&self) -> Option<Location> {
        self.0.load(Relaxed).checked_sub(1).map(Location)
    }

    #[inline]
    fn set(&self, at: Option<Location>) {
        self.0.store(at.map_or(0, |at| at.0 + 1), Relaxed);
    }
}

/// The links of all items: in the items, or next to them.
pub(crate) trait Links: Sync {
    /// The link of the item at `at`.
    fn link(&self, at: Location) -> &Link;
}

/// Links next to the items, by location. They cost one more line per visited item, but work for any items.
impl Links for Box<[Link]> {
    #[inline]
    fn link(&self, at: Location) -> &Link {
        &self[at.0 as usize]
    }
}

impl<L: Links + Send> Links for Arc<L> {
    #[inline]
    fn link(&self, at: Location) -> &Link {
        (**self).link(at)
    }
}

/// See the module's head.
pub(crate) struct Chain<L> {
    heads: Box<[Link]>,
    links: L,
    locks: Box<[Mutex<usize>]>,
}

impl<L: Links> Chain<L> {
    /// Creates a table for `keys` keys at memcached's load of 1.5, with `locks` locks.
    pub(crate) fn new(keys: usize, locks: usize, links: L) -> Self {
        Self::in_pages(Pages::Huge, keys, locks, links)
    }

    /// Like `new`, with heads in pages of another size.
    pub(crate) fn in_pages(pages: Pages, keys: usize, locks: usize, links: L) -> Self {
        let heads = (keys * 2).div_ceil(3).max(1);
        Self {
            heads: pages.collect((0..heads).map(|_| Link::default())),
            links,
            locks: (0..locks).map(|_| Mutex::default()).collect(),
        }
    }

    /// [`Index::get`] as a table with fewer locks would do it, for tables that no thread writes to.
    #[inline]
    pub(crate) fn get_with_locks(
        &self,
        locks: usize,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        let bucket = self.bucket(hash);
        let _locked = self.lock_of(bucket % locks);
        self.items_of(&self.heads[bucket]).find(|&at| is_key(at))
    }

    /// Returns the addresses that a lookup of this key reads before the items: its lock, and the chain's head.
    pub(crate) fn read_by(&self, hash: Hash) -> [usize; 2] {
        let bucket = self.bucket(hash);
        let lock = &raw const self.locks[bucket % self.locks.len()];
        [lock.addr(), (&raw const self.heads[bucket]).addr()]
    }

    /// The number of items in the longest chain. It reads all items.
    pub(crate) fn longest(&self) -> usize {
        self.heads.iter().map(|head| self.items_of(head).count()).max().unwrap_or(0)
    }

    fn items_of<'a>(&'a self, head: &'a Link) -> impl Iterator<Item = Location> {
        std::iter::successors(head.get(), |&at| self.links.link(at).get())
    }

    #[inline]
    fn bucket(&self, hash: Hash) -> usize {
        let high = hash.0 >> 32;
        usize::try_from((high * self.heads.len() as u64) >> 32).expect("an index of the heads")
    }

    #[inline]
    fn lock(&self, bucket: usize) -> MutexGuard<'_, usize> {
        self.lock_of(bucket % self.locks.len())
    }

    #[inline]
    fn lock_of(&self, number: usize) -> MutexGuard<'_, usize> {
        self.locks[number].lock().expect("no holder panics")
    }
}

impl<L: Links> Index for Chain<L> {
    type Entry<'a>
        = ChainEntry<'a, L>
    where
        Self: 'a;

    #[inline]
    fn get(&self, hash: Hash, mut is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        let bucket = self.bucket(hash);
        let _locked = self.lock(bucket);
        self.items_of(&self.heads[bucket]).find(|&at| is_key(at))
    }

    fn prefetch(&self, hash: Hash) {
        prefetch(&raw const self.heads[self.bucket(hash)]);
    }

    fn candidate(&self, hash: Hash) -> Option<Location> {
        self.heads[self.bucket(hash)].get()
    }

    fn entry(
        &self,
        hash: Hash,
        _: &impl Items,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Result<ChainEntry<'_, L>, Full> {
        let bucket = self.bucket(hash);
        let keys = self.lock(bucket);
        let head = &self.heads[bucket];
        let mut place = head;
        while let Some(at) = place.get() {
            if is_key(at) {
                return Ok(ChainEntry { links: &self.links, place, is_present: true, keys });
            }
            place = self.links.link(at);
        }
        Ok(ChainEntry { links: &self.links, place: head, is_present: false, keys })
    }

    fn find_entry(
        &self,
        hash: Hash,
        is_key: impl FnMut(Location) -> bool,
    ) -> Option<ChainEntry<'_, L>> {
        self.entry(hash, &NoItems, is_key).ok().filter(|entry| entry.is_present)
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        for (bucket, head) in self.heads.iter().enumerate() {
            for at in self.items_of(head) {
                if !seen.insert(at) {
                    return Err(Broken::Twice(at));
                }
                if self.bucket(items.hash(at)) != bucket {
                    return Err(Broken::Bucket(at));
                }
            }
        }
        let counted = self.len();
        let filled = seen.len();
        if filled == counted { Ok(()) } else { Err(Broken::Count { filled, counted }) }
    }

    fn len(&self) -> usize {
        self.locks.iter().map(|keys| *keys.lock().expect("no holder panics")).sum()
    }

    fn capacity(&self) -> usize {
        self.heads.len() * 3 / 2
    }

    fn bytes(&self) -> usize {
        (self.heads.len() + self.len()) * size_of::<Link>()
    }
}

/// The place of one key, with its bucket locked.
pub(crate) struct ChainEntry<'a, L> {
    links: &'a L,
    /// The link to the item, or the link where a new item goes.
    place: &'a Link,
    is_present: bool,
    keys: MutexGuard<'a, usize>,
}

impl<L: Links> Entry for ChainEntry<'_, L> {
    fn location(&self) -> Option<Location> {
        if self.is_present { self.place.get() } else { None }
    }

    fn put(&mut self, new: Location) -> Option<Location> {
        let old = self.remove();
        self.links.link(new).set(self.place.get());
        self.place.set(Some(new));
        *self.keys += 1;
        self.is_present = true;
        old
    }

    fn remove(&mut self) -> Option<Location> {
        let old = self.location()?;
        self.place.set(self.links.link(old).get());
        *self.keys -= 1;
        self.is_present = false;
        Some(old)
    }
}

/// A chain never asks for the hash of an item.
struct NoItems;

impl Items for NoItems {
    fn hash(&self, _: Location) -> Hash {
        unreachable!("chains don't move items")
    }
}
