//! Which item a full cache evicts: strict LRU by a doubly linked list under a lock, or CLOCK by one bit per item.
//!
//! memcached's list has two pointers in each item. A hit unlinks the item and puts it at the head: six words are
//! written in four items' lines, under a lock. MemC3's CLOCK (section 3.4) has one bit per item, in a separate array,
//! and a hit writes nothing if the bit is set. The bit is clear on insertion, as the paper's text says.
//!
//! # Invariants
//! 1. Links of the list are read and changed under `ends`. An item is in the list from [`Recency::enter`] to
//!    [`Recency::leave`], and a hit on an item that has left meanwhile changes nothing.

use super::pages::Pages;
use guira_index::Location;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A policy and its state.
pub(crate) enum Recency {
    /// The least recently used item is evicted.
    Lru(Lru),
    /// The first item that wasn't used since the hand last passed is evicted.
    Clock(Clock),
}

/// A doubly linked list of items, the most recently used at its head.
pub(crate) struct Lru {
    /// An item's neighbours; the last place holds the ends of the list.
    links: Box<[Neighbours]>,
    ends: Mutex<()>,
}

/// A bit per item, and a hand.
pub(crate) struct Clock {
    bits: Box<[AtomicU64]>,
    items: u32,
    hand: AtomicU32,
}

struct Neighbours {
    newer: AtomicU32,
    older: AtomicU32,
}

impl Recency {
    pub(crate) fn lru(items: u32) -> Self {
        let alone = |at| Neighbours { newer: AtomicU32::new(at), older: AtomicU32::new(at) };
        let links = Pages::Huge.collect((0..items + 1).map(alone));
        Self::Lru(Lru { links, ends: Mutex::default() })
    }

    pub(crate) fn clock(items: u32) -> Self {
        let bits = Pages::Huge.collect((0..items.div_ceil(64)).map(|_| AtomicU64::default()));
        Self::Clock(Clock { bits, items, hand: AtomicU32::default() })
    }

    /// Records that a get found the item.
    #[inline]
    pub(crate) fn hit(&self, at: Location) {
        match self {
            Self::Lru(lru) => {
                let _ends = lru.ends.lock().expect("no holder panics");
                if lru.is_linked(at.0) {
                    lru.unlink(at.0);
                    lru.push(at.0);
                }
            }
            Self::Clock(clock) => clock.mark(at.0),
        }
    }

    /// Records that the item is new in the cache.
    pub(crate) fn enter(&self, at: Location) {
        match self {
            Self::Lru(lru) => {
                let _ends = lru.ends.lock().expect("no holder panics");
                lru.push(at.0);
            }
            Self::Clock(clock) => clock.clear(at.0),
        }
    }

    /// Records that the item has left the cache.
    pub(crate) fn leave(&self, at: Location) {
        if let Self::Lru(lru) = self {
            let _ends = lru.ends.lock().expect("no holder panics");
            lru.unlink(at.0);
        }
    }

    /// Returns the item to evict from a full cache. Called by the only writer.
    pub(crate) fn victim(&self) -> Location {
        match self {
            Self::Lru(lru) => {
                let _ends = lru.ends.lock().expect("no holder panics");
                Location(lru.links[lru.end()].newer.load(Relaxed))
            }
            Self::Clock(clock) => clock.advance(),
        }
    }
}

impl Lru {
    fn end(&self) -> usize {
        self.links.len() - 1
    }

    /// An item that isn't in the list is its own neighbour.
    fn is_linked(&self, at: u32) -> bool {
        self.links[at as usize].newer.load(Relaxed) != at
    }

    fn push(&self, at: u32) {
        let end = u32::try_from(self.end()).expect("locations have 32 bits");
        let head = self.links[self.end()].older.load(Relaxed);
        self.join(end, at);
        self.join(at, head);
    }

    fn unlink(&self, at: u32) {
        let links = &self.links[at as usize];
        self.join(links.newer.load(Relaxed), links.older.load(Relaxed));
        links.newer.store(at, Relaxed);
        links.older.store(at, Relaxed);
    }

    fn join(&self, newer: u32, older: u32) {
        self.links[newer as usize].older.store(older, Relaxed);
        self.links[older as usize].newer.store(newer, Relaxed);
    }
}

impl Clock {
    #[inline]
    fn mark(&self, at: u32) {
        let (word, bit) = self.bit(at);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    fn clear(&self, at: u32) {
        let (word, bit) = self.bit(at);
        word.fetch_and(!bit, Relaxed);
    }

    fn advance(&self) -> Location {
        loop {
            let at = self.hand.load(Relaxed);
            self.hand.store(if at + 1 == self.items { 0 } else { at + 1 }, Relaxed);
            let (word, bit) = self.bit(at);
            if word.load(Relaxed) & bit == 0 {
                return Location(at);
            }
            word.fetch_and(!bit, Relaxed);
        }
    }

    #[inline]
    fn bit(&self, at: u32) -> (&AtomicU64, u64) {
        (&self.bits[(at / 64) as usize], 1 << (at % 64))
    }
}
