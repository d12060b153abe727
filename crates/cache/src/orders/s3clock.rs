//! S3-CLOCK: new items on probation in a small FIFO, the others under a CLOCK of two bits.
//!
//! What `guira-policy` has as a simulator, over real chunks. An item's header holds its count of hits and whether it
//! is on probation; the FIFO is a ring of locations; who passes stays where it is, and the class's hand, which skips
//! probationers, finds it from then on. A ghost of fingerprints remembers who failed: such a key comes back as no
//! newcomer.
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
use super::victims::{PATIENCE, Search};
use crate::items::ItemRef;
use crate::memory::{Chunks, Class};
use guira_index::{Hash, Location};
use guira_policy::{Ghost, Tuning};

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
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let wanted = (items as f64 * Tuning::GHOST).ceil() as usize;
        let room = self.ghost.room();
        if wanted > room + room / 4 || wanted < room / 4 {
            self.ghost.resize(wanted);
        }
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

    /// Finds victims: the oldest on probation while there are more of those than their share, else the next from the hand
    /// on that was not hit. Returns how many items passed their probation.
    pub(crate) fn search(
        &mut self,
        hand: &mut Hand,
        search: &mut Search<'_>,
        shares: Shares,
    ) -> usize {
        let target =
            usize::try_from(shares.tuning.target(search.used as u64)).unwrap_or(usize::MAX);
        let probationers = Probationers { chunks: search.chunks, class: search.class };
        let mut on_probation = shares.on_probation;
        let (mut examined, mut promoted) = (0, 0);
        while search.is_short() && examined < search.examined_max() {
            examined += 1;
            let is_due = on_probation >= target || on_probation >= search.used;
            if is_due && let Some(item) = self.oldest(&probationers) {
                on_probation = on_probation.saturating_sub(1);
                let is_past = item.is_past(search.now);
                let passes = item.header().hits() >= u32::from(shares.tuning.promote);
                if is_past || !passes {
                    search.take(&item, !is_past);
                } else if item.try_mark(item.header().with_probation(false).with_hits(0)) {
                    promoted += 1;
                } else {
                    // Hit or retired this instant: looked at once more.
                    self.ring.push_front(item.location());
                }
                continue;
            }
            let chunk = hand.advance(search.chunks, search.pages);
            let Some(item) = ItemRef::of_chunk(search.chunks, chunk) else { continue };
            let header = item.header();
            // One whose chain has a link here, but whose ring is another class's, is judged by its hits.
            let class = search.chunks.class_of(item.location());
            if header.is_on_probation() && class == search.class {
                continue;
            }
            if header.hits() > 0 && !item.is_past(search.now) && examined < PATIENCE {
                item.mark(header.with_hits(header.hits() - 1));
                continue;
            }
            search.take(&item, false);
        }
        promoted
    }

    /// The item that is on probation longest, taken from the ring. Drops dead entries before it (invariant 2).
    fn oldest<'s>(&mut self, probationers: &Probationers<'s>) -> Option<ItemRef<'s>> {
        loop {
            let at = self.ring.pop()?;
            if let Some(item) = probationers.at(at) {
                return Some(item);
            }
        }
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
