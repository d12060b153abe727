//! The pool of links: one reserved mapping, and a list of free links for each of a few groups of threads.
//!
//! A thread takes links from its own list and gives them back to it, so threads don't contend here. An empty list
//! takes over a long list of another group, or a range of fresh memory. So links that some threads free and others
//! need don't pile up.
//!
//! # Invariants
//! 1. A link in use (1 to `used`) is in one chain, or in one list, or reserved by one entry. A free link has no tags.
//! 2. A list is changed only by the holder of its lock. A thread that holds one list's lock only tries another's: so
//!    no threads wait for each other in a circle.

use super::link::{ChainLink, Word};
use crate::count::{STRIPES, stripe};
use crate::mapping::Zeroed;
use crate::sync::{Acquire, AtomicU64, Backoff, Mutation, Padded, Relaxed, Release};

/// See the module's head.
pub(super) struct LinkPool {
    links: Zeroed<ChainLink>,
    /// The number of links taken from fresh memory so far, including number 0, which means none.
    used: Padded<AtomicU64>,
    lists: [Padded<List>; STRIPES],
}

impl LinkPool {
    /// Makes a pool of at most this many links.
    pub(super) fn new(links_max: usize) -> Self {
        assert!(links_max < u32::MAX as usize, "numbers have 32 bits");
        Self {
            links: Zeroed::reserve(links_max + 1),
            used: Padded(AtomicU64::new(1)),
            lists: Default::default(),
        }
    }

    #[inline]
    pub(super) fn link(&self, number: u32) -> &ChainLink {
        self.links.get(number as usize)
    }

    /// The number of links in chains and lists.
    pub(super) fn used(&self) -> usize {
        usize::try_from(self.used.0.load(Acquire)).expect("fits the mapping") - 1
    }

    /// Takes a free link. Returns `None` if all are in use.
    pub(super) fn take(&self) -> Option<u32> {
        let mut list = self.lists[stripe()].0.lock();
        if list.count == 0 {
            (list.count, list.first) = self.refill()?;
        }
        let taken = list.first;
        list.first = self.link(taken).word().next();
        list.count -= 1;
        debug_assert!(!self.link(taken).word().has_entries(), "link {taken} is in use");
        Some(taken)
    }

    /// Takes back a link that no chain holds any more. Readers may still be on it.
    pub(super) fn give(&self, link: u32) {
        let mut list = self.lists[stripe()].0.lock();
        self.link(link).set_word(Word::default().with_next(list.first));
        list.first = link;
        list.count += 1;
    }

    /// Makes the system provide the pages of the next `links` links.
    pub(super) fn touch_ahead(&self, links: usize) {
        self.links.prepare(self.used() + 1, links);
    }

    /// The free links of every list. No thread may write meanwhile.
    pub(super) fn free(&self) -> impl Iterator<Item = u32> {
        self.lists.iter().flat_map(|list| {
            let (count, first) = unpack(list.0.0.load(Acquire));
            let numbers =
                std::iter::successors(Some(first), |&at| Some(self.link(at).word().next()));
            numbers.take(count as usize)
        })
    }

    /// Takes another group's long list, fresh links, or any list at all. Returns how many links, and the first.
    #[cold]
    fn refill(&self) -> Option<(u32, u32)> {
        self.take_over(REFILL).or_else(|| self.take_fresh()).or_else(|| self.take_over(1))
    }

    fn take_over(&self, count_min: u32) -> Option<(u32, u32)> {
        self.lists.iter().find_map(|list| {
            let is_long = unpack(list.0.0.load(Relaxed)).0 >= count_min;
            let mut theirs = is_long.then(|| list.0.try_lock())??;
            let taken = (std::mem::take(&mut theirs.count), std::mem::take(&mut theirs.first));
            (taken.0 > 0).then_some(taken)
        })
    }

    fn take_fresh(&self) -> Option<(u32, u32)> {
        let mut used = self.used.0.load(Relaxed);
        let end = loop {
            let end = (used + u64::from(REFILL)).min(self.links.len() as u64);
            match self.used.0.compare_exchange(used, end, Relaxed, Relaxed) {
                Ok(_) => break end,
                Err(now) => used = now,
            }
        };
        let number = |wide| u32::try_from(wide).expect("numbers have 32 bits");
        let (first, end) = (number(used), number(end));
        for at in first..end {
            let next = if at + 1 < end { at + 1 } else { 0 };
            self.link(at).set_word(Word::default().with_next(next));
        }
        (first < end).then_some((end - first, first))
    }
}

/// A list's lock, length (31 bits) and first link. A next link of 0 ends the list.
#[derive(Default)]
struct List(AtomicU64);

impl List {
    fn lock(&self) -> Held<'_> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(held) = self.try_lock() {
                return held;
            }
            backoff.pause();
        }
    }

    fn try_lock(&self) -> Option<Held<'_>> {
        let word = self.0.load(Relaxed);
        let is_free = word & LOCK == 0;
        let (count, first) = unpack(word);
        if is_free && Mutation::LooseLock.is_planted() {
            self.0.store(word | LOCK, Relaxed);
            return Some(Held { list: self, count, first });
        }
        (is_free && self.0.compare_exchange(word, word | LOCK, Acquire, Relaxed).is_ok())
            .then(|| Held { list: self, count, first })
    }
}

/// A list locked by its holder. Dropping it stores the new length and first link, which unlocks the list.
struct Held<'a> {
    list: &'a List,
    count: u32,
    first: u32,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.list.0.store(u64::from(self.count) << 32 | u64::from(self.first), Release);
    }
}

fn unpack(word: u64) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "the low half of the word")]
    let first = word as u32;
    (((word & !LOCK) >> 32) as u32, first)
}

/// Fresh links that are taken at a time.
const REFILL: u32 = if cfg!(any(loom, miri)) { 2 } else { 64 };
const LOCK: u64 = 1 << 63;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// An attempt to lock a list that another thread holds must leave the list alone.
    #[test]
    fn a_list_that_is_held_is_refused_again_and_again() {
        let list = List::default();
        let mut held = list.lock();
        held.count = 7;
        assert!((0..3).all(|_| list.try_lock().is_none()));
        drop(held);
        assert_eq!(list.try_lock().map(|held| held.count), Some(7));
    }
}
