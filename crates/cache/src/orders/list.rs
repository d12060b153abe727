//! Items of a class in the order in which they arrived or were used: for LRU and SIEVE.
//!
//! Links are stored outside the chunks, at 12 bytes per chunk. A page's links are allocated when its first item is
//! entered, and only under these policies. Everything here is guarded by the class's lock.
//!
//! # Invariants
//! 1. A linked chunk has an item, or had one that is retired and not yet free: freeing the chunk unlinks it. So a
//!    page that leaves the class has no links.
//! 2. The hand, if it has a position, is at a linked chunk.

use super::victims::{PATIENCE, Search};
use crate::items::ItemRef;
use crate::memory::Chunks;
use guira_index::Location;
use std::collections::HashMap;

/// See the module's head.
#[derive(Default)]
pub(crate) struct List {
    /// By page, then by slot.
    links: HashMap<u32, Box<[Link]>>,
    newest: Option<Location>,
    oldest: Option<Location>,
    hand: Option<Location>,
}

/// A chunk's place in the list.
#[derive(Clone, Copy, Default)]
struct Link {
    is_linked: bool,
    newer: Option<NotAll>,
    older: Option<NotAll>,
}

/// A location, stored complemented: no location is all ones, so `None` needs no extra bytes.
type NotAll = std::num::NonZeroU32;

fn packed(at: Location) -> Option<NotAll> {
    NotAll::new(!at.0)
}

fn unpacked(link: Option<NotAll>) -> Option<Location> {
    link.map(|word| Location(!word.get()))
}

impl List {
    /// Makes the chunk the newest, whether or not it was linked before.
    pub(crate) fn renew(&mut self, chunks: &Chunks, at: Location) {
        self.unlink(chunks, at);
        let before = self.newest.replace(at);
        *self.link(chunks, at) =
            Link { is_linked: true, newer: None, older: before.and_then(packed) };
        match before {
            Some(before) => self.link(chunks, before).newer = packed(at),
            None => self.oldest = Some(at),
        }
    }

    /// Puts `new`, which is not linked, in the place of `old`, which is unlinked.
    fn replace(&mut self, chunks: &Chunks, old: Location, new: Location) {
        let link = std::mem::take(self.link(chunks, old));
        *self.link(chunks, new) = link;
        match unpacked(link.newer) {
            Some(newer) => self.link(chunks, newer).older = packed(new),
            None => self.newest = Some(new),
        }
        match unpacked(link.older) {
            Some(older) => self.link(chunks, older).newer = packed(new),
            None => self.oldest = Some(new),
        }
        if self.hand == Some(old) {
            self.hand = Some(new);
        }
    }

    /// Whether the chunk is linked.
    pub(crate) fn has(&self, chunks: &Chunks, at: Location) -> bool {
        let (page, slot) = chunks.split(at);
        self.links.get(&page).is_some_and(|links| links[slot as usize].is_linked)
    }

    /// Unlinks the chunk, if it is linked.
    pub(crate) fn unlink(&mut self, chunks: &Chunks, at: Location) {
        if !self.has(chunks, at) {
            return;
        }
        let Link { newer, older, .. } = std::mem::take(self.link(chunks, at));
        let (newer, older) = (unpacked(newer), unpacked(older));
        match newer {
            Some(newer) => self.link(chunks, newer).older = older.and_then(packed),
            None => self.newest = older,
        }
        match older {
            Some(older) => self.link(chunks, older).newer = newer.and_then(packed),
            None => self.oldest = newer,
        }
        if self.hand == Some(at) {
            self.hand = newer;
        }
    }

    /// The oldest chunk, at the end of the list.
    pub(crate) fn oldest(&self) -> Option<Location> {
        self.oldest
    }

    /// Forgets the table of links of a page; none of its chunks may be linked.
    pub(crate) fn forget(&mut self, page: u32) {
        self.links.remove(&page);
    }

    /// Gives `new`, which took over the item of `old` in the same class, the place of `old`. If `old` has none, `new`
    /// becomes the newest.
    pub(crate) fn inherit(&mut self, chunks: &Chunks, old: Location, new: Location) {
        if self.has(chunks, old) && !self.has(chunks, new) {
            self.replace(chunks, old, new);
        } else {
            self.renew(chunks, new);
        }
    }

    /// Finds victims under LRU and SIEVE: the oldest item or, if the list `has_hand`, the next item from the hand on
    /// that was not hit since the hand last passed. Victims leave the list, since the cache is about to unlink them.
    pub(crate) fn search(&mut self, has_hand: bool, search: &mut Search<'_>) {
        let mut examined = 0;
        while search.is_short() && examined < 2 * PATIENCE + search.wanted {
            examined += 1;
            let under_hand = self.hand.filter(|_| has_hand);
            let Some(at) = under_hand.or(self.oldest) else { return };
            let next = self.newer(search.chunks, at);
            let Some(item) = ItemRef::of_chunk(search.chunks, at) else {
                self.unlink(search.chunks, at);
                continue;
            };
            let header = item.header();
            self.hand = next;
            if header.hits() > 0 && !item.is_past(search.now) && examined < PATIENCE {
                item.mark(header.with_hits(0));
                continue;
            }
            self.unlink(search.chunks, at);
            search.take(&item, false);
        }
    }

    fn newer(&mut self, chunks: &Chunks, at: Location) -> Option<Location> {
        unpacked(self.link(chunks, at).newer)
    }

    fn link(&mut self, chunks: &Chunks, at: Location) -> &mut Link {
        let (page, slot) = chunks.split(at);
        let slots = chunks.slots(chunks.class_of(at)) as usize;
        let links = self.links.entry(page).or_insert_with(|| vec![Link::default(); slots].into());
        &mut links[slot as usize]
    }
}
