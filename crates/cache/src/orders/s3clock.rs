//! S3-CLOCK: new items on probation in a small FIFO, the others under a CLOCK of two bits.
//!
//! The rule is in `guira-policy`; this module has its state in a slab class. An item's header holds its hits and
//! whether the item is on probation. The FIFO is a ring of locations. An item that passes stays where it is: the
//! class's hand, which skips items on probation, finds it from then on. A ghost of fingerprints remembers the keys
//! that failed: an item of such a key is not put on probation when it comes back.
//!
//! # Invariants
//! 1. An item on probation is in its class's ring, or in a handle's list of arrivals until that turn ends. So it
//!    reaches the front of the ring at some time.
//! 2. An entry of the ring is live if its page belongs to the class and the item there is on probation. Other entries
//!    are dead and are skipped: their item was deleted or replaced. If the chunk has another item on probation by
//!    then, that item is judged early.
//! 3. The ring is at most four to five times as long as the number of items on probation (ring.rs).
//!
//! # Costs
//! 1 to 4 bytes per item on probation, and 1.07 bytes per item for the ghost. An eviction examines one or two items
//! on average. Bad at: nothing that could not be mended by its parameters, which upkeep/tune.rs chooses.

use super::clock::Hand;
use super::ring::{BLOCK, Places, Ring};
use super::victims::Search;
use crate::items::ItemRef;
use crate::memory::{Chunks, Class};
use guira_index::{Hash, Location};
use guira_policy::{Ghost, Holder, Tuning};

/// A class's state; see the module's head.
#[derive(Default)]
pub(crate) struct Probation {
    ring: Ring,
    ghost: Ghost,
}

/// The inputs of an eviction.
#[derive(Clone, Copy)]
pub(crate) struct Shares {
    pub(crate) tuning: Tuning,
    /// Items of the class that are on probation.
    pub(crate) on_probation: usize,
}

impl Probation {
    /// Whether the key failed its probation lately. Forgets the key.
    pub(crate) fn knows(&mut self, hash: Hash) -> bool {
        self.ghost.take(hash.0)
    }

    /// Remembers keys that failed. `items` is the number of items in the class.
    pub(crate) fn remember(&mut self, failed: impl Iterator<Item = Hash>, items: usize) {
        self.ghost.fit(items);
        failed.for_each(|hash| self.ghost.remember(hash.0));
    }

    /// Enters an item from a memory file. No check is needed, since none of the ring's entries is dead yet.
    pub(crate) fn resume(&mut self, at: Location) {
        self.ring.push(at);
    }

    /// Enters a new item, if it is still there. `on_probation` returns how many items of the class are on probation.
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

    /// Finds victims in a class. `shares` has the parameters and the number of items on probation. Returns how many
    /// items passed their probation.
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

/// A class in which victims are searched, as the policy's rule sees it.
struct Searched<'p, 's> {
    ring: &'p mut Ring,
    hand: &'p mut Hand,
    search: &'p mut Search<'s>,
    on_probation: usize,
    /// The number of items on probation from which the oldest of them is judged next.
    due_from: usize,
}

impl<'s> Holder for Searched<'_, 's> {
    type At = ItemRef<'s>;

    fn probation_is_due(&self) -> bool {
        self.on_probation >= self.due_from
    }

    /// Drops dead entries in front of the oldest item (invariant 2).
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
            // The item was hit or retired at this instant: it is examined once more.
            self.ring.push_front(item.location());
        }
        is_marked
    }

    fn advance(&mut self) -> Option<ItemRef<'s>> {
        let Search { chunks, pages, .. } = *self.search;
        ItemRef::of_chunk(chunks, self.hand.advance(chunks, pages))
    }

    /// An item that only has a link in this class, and is in another class's ring, is judged by its hits.
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
    /// The item on probation at `at`, if there is one and its chunk belongs to the class.
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

/// The number of entries per item on probation from which the ring is swept.
const SPARSE: usize = 3;
/// Blocks of the ring that are swept each time that a block fills up.
const SWEPT: usize = 2;
