//! S3-CLOCK: new items on probation in a small FIFO, the others under a CLOCK of two bits.
//!
//! The rule is `guira-policy`'s; here is what it goes by in a slab class. An item's header holds its hits and whether it
//! is on probation. The FIFO is a ring of locations. An item that passes stays where it is: the class's hand, which skips
//! those on probation, finds it from then on. A ghost of fingerprints remembers the keys that failed: such a key is no
//! newcomer when it comes back.
//!
//! # Invariants
//! 1. An item on probation is in its class's ring, or in a handle's list of arrivals until that turn ends. So the ring
//!    comes to it.
//! 2. An entry of the ring is live if its page is the class's and the item there is on probation. Others are dead, and
//!    skipped: the item was deleted or replaced. Where the chunk has another probationer by now, that is judged early.
//! 3. The ring is at most four to five times as long as there are probationers (ring.rs).
//!
//! # Costs
//! 1 to 4 bytes an item on probation, 1.07 per item for the ghost. An eviction examines one or two items on average. Bad
//! at: nothing that its parameters, which upkeep/tune.rs chooses, could not mend.

use super::clock::Hand;
use super::ring::{BLOCK, Places, Ring};
use super::victims::Search;
use crate::items::ItemRef;
use crate::memory::{Chunks, Class};
use guira_index::{Hash, Location};
use guira_policy::{Ghost, Holder, Tuning};

/// What a class keeps: see the module's head.
#[derive(Default)]
pub(crate) struct Probation {
    ring: Ring,
    ghost: Ghost,
}

/// What an eviction goes by.
#[derive(Clone, Copy)]
pub(crate) struct Shares {
    pub(crate) tuning: Tuning,
    /// Items of the class that are on probation.
    pub(crate) on_probation: usize,
}

impl Probation {
    /// Whether the key failed its probation lately; forgets it.
    pub(crate) fn knows(&mut self, hash: Hash) -> bool {
        self.ghost.take(hash.0)
    }

    /// Remembers keys that failed, of a class with so many items.
    pub(crate) fn remember(&mut self, failed: impl Iterator<Item = Hash>, items: usize) {
        self.ghost.fit(items);
        failed.for_each(|hash| self.ghost.remember(hash.0));
    }

    /// Takes in an item from a memory file: none of the ring is dead yet.
    pub(crate) fn resume(&mut self, at: Location) {
        self.ring.push(at);
    }

    /// Takes a new item in, if it is still there. `on_probation` tells how many of the class are on probation, in all.
    pub(crate) fn enter(
        &mut self,
        at: Location,
        (chunks, class): (&Chunks, Class),
        on_probation: impl FnOnce() -> usize,
    ) {
        let places = Probationers { chunks, class };
        if !places.is_live(at) || !self.ring.push(at) {
            return;
        }
        if !self.ring.is_swept() && self.ring.len() > SPARSE * on_probation() + BLOCK {
            self.ring.begin_sweep();
        }
        self.ring.sweep(SWEPT, &places);
    }

    /// Finds victims, in a class whose parameters and probationers are `shares`. Returns how many items passed their
    /// probation.
    pub(crate) fn search(
        &mut self,
        hand: &mut Hand,
        search: &mut Search<'_>,
        Shares { tuning, on_probation }: Shares,
    ) -> usize {
        let target = usize::try_from(tuning.target(search.used as u64)).unwrap_or(usize::MAX);
        let bounds = search.bounds();
        let due_from = target.min(search.used);
        let mut searched = Searched { ring: &mut self.ring, hand, search, on_probation, due_from };
        guira_policy::choose(&mut searched, tuning.promote, bounds)
    }
}

/// A class in which victims are searched, as the rule sees it.
struct Searched<'p, 's> {
    ring: &'p mut Ring,
    hand: &'p mut Hand,
    search: &'p mut Search<'s>,
    on_probation: usize,
    /// From so many on probation on, the oldest of them is judged next.
    due_from: usize,
}

impl<'s> Holder for Searched<'_, 's> {
    type At = ItemRef<'s>;

    fn probation_is_due(&self) -> bool {
        self.on_probation >= self.due_from
    }

    /// Drops dead entries before it (invariant 2).
    fn oldest(&mut self) -> Option<ItemRef<'s>> {
        let Search { chunks, class, .. } = *self.search;
        let probationers = Probationers { chunks, class };
        loop {
            let at = self.ring.pop()?;
            if let Some(item) = probationers.at(at) {
                self.on_probation = self.on_probation.saturating_sub(1);
                return Some(item);
            }
        }
    }

    fn promote(&mut self, item: ItemRef<'s>) -> bool {
        let is_marked = item.try_mark(item.header().with_probation(false).with_hits(0));
        if !is_marked {
            // Hit or retired this instant: looked at once more.
            self.ring.push_front(item.location());
        }
        is_marked
    }

    fn advance(&mut self) -> Option<ItemRef<'s>> {
        let Search { chunks, pages, .. } = *self.search;
        ItemRef::of_chunk(chunks, self.hand.advance(chunks, pages))
    }

    /// An item whose chain has a link here, but whose ring is another class's, is judged by its hits.
    fn is_on_probation(&self, item: ItemRef<'s>) -> bool {
        item.header().is_on_probation()
            && self.search.chunks.class_of(item.location()) == self.search.class
    }

    fn hits(&self, item: ItemRef<'s>) -> u32 {
        item.header().hits()
    }

    fn is_past(&self, item: ItemRef<'s>) -> bool {
        item.is_past(self.search.now)
    }

    fn spare(&mut self, item: ItemRef<'s>, hits: u32) {
        item.mark(item.header().with_hits(hits));
    }

    fn give_up(&mut self, item: ItemRef<'s>, has_failed: bool) {
        self.search.take(&item, has_failed);
    }
}

/// The chunks of a class whose lock the caller holds.
struct Probationers<'s> {
    chunks: &'s Chunks,
    class: Class,
}

impl<'s> Probationers<'s> {
    /// The item on probation at `at`, if there is one and it is of the class.
    fn at(&self, at: Location) -> Option<ItemRef<'s>> {
        let is_ours = self.chunks.is_of(self.class, at);
        let item = is_ours.then(|| ItemRef::of_chunk(self.chunks, at)).flatten()?;
        item.header().is_on_probation().then_some(item)
    }
}

impl Places for Probationers<'_> {
    fn prefetch(&self, at: Location) {
        self.chunks.prefetch(at);
    }

    fn is_live(&self, at: Location) -> bool {
        self.at(at).is_some()
    }

    fn split(&self, at: Location) -> (u32, u32) {
        self.chunks.split(at)
    }
}

/// The ring is swept from so many entries an item on probation on.
const SPARSE: usize = 3;
/// Blocks of the ring that are looked through each time that one is full.
const SWEPT: usize = 2;
