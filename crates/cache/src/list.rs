//! Items of a class in the order in which they came or were used: for LRU and SIEVE.
//!
//! Links stand beside the chunks, 12 bytes each, made when the first item of a page is entered, and only under these
//! policies. All of it under the class's lock.
//!
//! # Invariants
//! 1. A chunk that is linked has an item, or had one that is retired and not yet free: freeing it unlinks it. So a page
//!    that leaves the class has no links.
//! 2. The hand, if it stands anywhere, stands at a linked chunk.

use crate::clock::PATIENCE;
use crate::item::ItemRef;
use crate::policy::{Eviction, Order, Victim};
use crate::slab::{ClassState, Slab};
use crate::time::Now;
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

/// Where a chunk stands.
#[derive(Clone, Copy, Default)]
struct Link {
    is_linked: bool,
    newer: Option<NotAll>,
    older: Option<NotAll>,
}

/// A location, in a form of which none has four bytes: no location is all ones.
type NotAll = std::num::NonZeroU32;

fn packed(at: Location) -> Option<NotAll> {
    NotAll::new(!at.0)
}

fn unpacked(link: Option<NotAll>) -> Option<Location> {
    link.map(|word| Location(!word.get()))
}

impl List {
    /// Makes the chunk the newest, linked before or not.
    pub(crate) fn renew(&mut self, slab: &Slab, at: Location) {
        self.unlink(slab, at);
        let before = self.newest.replace(at);
        *self.link(slab, at) =
            Link { is_linked: true, newer: None, older: before.and_then(packed) };
        match before {
            Some(before) => self.link(slab, before).newer = packed(at),
            None => self.oldest = Some(at),
        }
    }

    /// Lets `new`, which is not linked, stand where `old` stands, which then is linked no more.
    fn replace(&mut self, slab: &Slab, old: Location, new: Location) {
        let link = std::mem::take(self.link(slab, old));
        *self.link(slab, new) = link;
        match unpacked(link.newer) {
            Some(newer) => self.link(slab, newer).older = packed(new),
            None => self.newest = Some(new),
        }
        match unpacked(link.older) {
            Some(older) => self.link(slab, older).newer = packed(new),
            None => self.oldest = Some(new),
        }
        if self.hand == Some(old) {
            self.hand = Some(new);
        }
    }

    /// Whether the chunk is linked.
    pub(crate) fn has(&self, slab: &Slab, at: Location) -> bool {
        let (page, slot) = slab.chunks.split(at);
        self.links.get(&page).is_some_and(|links| links[slot as usize].is_linked)
    }

    /// Takes the chunk out, if it is in.
    pub(crate) fn unlink(&mut self, slab: &Slab, at: Location) {
        if !self.has(slab, at) {
            return;
        }
        let Link { newer, older, .. } = std::mem::take(self.link(slab, at));
        let (newer, older) = (unpacked(newer), unpacked(older));
        match newer {
            Some(newer) => self.link(slab, newer).older = older.and_then(packed),
            None => self.newest = older,
        }
        match older {
            Some(older) => self.link(slab, older).newer = newer.and_then(packed),
            None => self.oldest = newer,
        }
        if self.hand == Some(at) {
            self.hand = newer;
        }
    }

    /// The chunk at the end.
    pub(crate) fn oldest(&self) -> Option<Location> {
        self.oldest
    }

    /// Forgets the links of a page, which has none.
    pub(crate) fn forget(&mut self, page: u32) {
        self.links.remove(&page);
    }

    fn newer(&mut self, slab: &Slab, at: Location) -> Option<Location> {
        unpacked(self.link(slab, at).newer)
    }

    fn link(&mut self, slab: &Slab, at: Location) -> &mut Link {
        let (page, slot) = slab.chunks.split(at);
        let slots = slab.chunks.slots(slab.chunks.class_of(at)) as usize;
        let links = self.links.entry(page).or_insert_with(|| vec![Link::default(); slots].into());
        &mut links[slot as usize]
    }
}

impl Slab {
    /// [`Slab::victims`] under LRU and SIEVE: the oldest, or the next from there on that was not hit since the hand
    /// came by. What is chosen leaves the list, as the cache is about to unlink it.
    pub(crate) fn list_victims(
        &self,
        state: &mut ClassState,
        eviction: Eviction,
        wanted: usize,
        moment: Now,
        victims: &mut Vec<Victim>,
    ) {
        let mut examined = 0;
        while victims.len() < wanted && examined < 2 * PATIENCE + wanted {
            examined += 1;
            let Order::List(list) = &mut state.order else { return };
            let under_hand = list.hand.filter(|_| eviction == Eviction::Sieve);
            let Some(at) = under_hand.or(list.oldest) else { return };
            let next = list.newer(self, at);
            let Some(item) = ItemRef::of_chunk(&self.chunks, at) else {
                list.unlink(self, at);
                continue;
            };
            let header = item.header();
            if header.hits() > 0 && !item.is_past(moment) && examined < PATIENCE {
                item.mark(header.with_hits(0));
                list.hand = next;
                continue;
            }
            list.hand = next;
            list.unlink(self, at);
            state.note_victim(item.idle_s(moment.second), item.is_past(moment));
            victims.push(Victim { at: item.location(), failed: false });
        }
    }

    /// Gives an item that moved from `old`, a chunk of the same class, the place of that; the newest if it has none.
    pub(crate) fn inherit(&self, old: Location, new: Location) {
        let class = self.chunks.class_of(new);
        let mut state = self.lock(class);
        if !self.chunks.is_of(class, new) || ItemRef::of_chunk(&self.chunks, new).is_none() {
            return;
        }
        if let Order::List(list) = &mut state.order {
            if list.has(self, old) && !list.has(self, new) {
                list.replace(self, old, new);
            } else {
                list.renew(self, new);
            }
        }
    }

    /// A hit under LRU: the item becomes the newest of its class.
    #[cold]
    pub(crate) fn renew(&self, item: &ItemRef<'_>) {
        for at in std::iter::once(item.location()).chain(item.links().next()) {
            let class = self.chunks.class_of(at);
            let mut state = self.lock(class);
            if self.chunks.is_of(class, at)
                && let Order::List(list) = &mut state.order
                && list.has(self, at)
            {
                list.renew(self, at);
            }
        }
    }
}
