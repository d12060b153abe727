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
//! at: nothing that its parameters, which `tune.rs` chooses, could not mend.

use crate::clock::PATIENCE;
use crate::item::ItemRef;
use crate::memory::Class;
use crate::policy::{Order, Victim};
use crate::ring::{BLOCK, Places, Ring};
use crate::slab::{ClassState, Slab};
use crate::time::Now;
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

    /// Takes a new item in. `on_probation` tells how many of the class are on probation, in all.
    pub(crate) fn enter(
        &mut self,
        at: Location,
        places: &impl Places,
        on_probation: impl FnOnce() -> usize,
    ) {
        if !self.ring.push(at) {
            return;
        }
        if !self.ring.is_swept() && self.ring.len() > SPARSE * on_probation() + BLOCK {
            self.ring.begin_sweep();
        }
        self.ring.sweep(SWEPT, places);
    }
}

/// The chunks of a class whose lock the caller holds.
pub(crate) struct Probationers<'s> {
    pub(crate) slab: &'s Slab,
    pub(crate) class: Class,
}

impl Places for Probationers<'_> {
    fn prefetch(&self, at: Location) {
        self.slab.chunks.prefetch(at);
    }

    fn is_live(&self, at: Location) -> bool {
        self.slab.probationer(self.class, at).is_some()
    }

    fn split(&self, at: Location) -> (u32, u32) {
        self.slab.chunks.split(at)
    }
}

impl Slab {
    /// [`Slab::victims`] under S3-CLOCK; returns how many items passed their probation.
    pub(crate) fn s3_victims(
        &self,
        state: &mut ClassState,
        class: Class,
        wanted: usize,
        (moment, shares): (Now, Shares),
        victims: &mut Vec<Victim>,
    ) -> usize {
        let target = usize::try_from(shares.tuning.target(state.used as u64)).unwrap_or(usize::MAX);
        let round = state.pages.len() * self.chunks.slots(class) as usize;
        let mut on_probation = shares.on_probation;
        let (mut examined, mut promoted) = (0, 0);
        while victims.len() < wanted && examined < 2 * round.min(PATIENCE) + wanted {
            examined += 1;
            let is_due = on_probation >= target || on_probation >= state.used;
            if is_due && let Some(item) = self.oldest_on_probation(state, class) {
                on_probation = on_probation.saturating_sub(1);
                let is_past = item.is_past(moment);
                let passes = item.header().hits() >= u32::from(shares.tuning.promote);
                if is_past || !passes {
                    state.note_victim(item.idle_s(moment.second), is_past);
                    victims.push(Victim { at: item.location(), failed: !is_past });
                } else if item.try_mark(item.header().with_probation(false).with_hits(0)) {
                    promoted += 1;
                } else if let Order::S3Clock(probation) = &mut state.order {
                    // Hit or retired this instant: looked at once more.
                    probation.ring.push_front(item.location());
                }
                continue;
            }
            let chunk = state.hand.advance(self, &state.pages);
            let Some(item) = ItemRef::of_chunk(&self.chunks, chunk) else { continue };
            let header = item.header();
            // One whose chain has a link here, but whose ring is another class's, is judged by its hits.
            if header.is_on_probation() && self.chunks.class_of(item.location()) == class {
                continue;
            }
            if header.hits() > 0 && !item.is_past(moment) && examined < PATIENCE {
                item.mark(header.with_hits(header.hits() - 1));
                continue;
            }
            state.note_victim(item.idle_s(moment.second), item.is_past(moment));
            victims.push(Victim { at: item.location(), failed: false });
        }
        promoted
    }

    /// The item that is on probation longest, taken from the ring. Drops dead entries before it (invariant 2).
    fn oldest_on_probation(&self, state: &mut ClassState, class: Class) -> Option<ItemRef<'_>> {
        let Order::S3Clock(probation) = &mut state.order else { return None };
        loop {
            let at = probation.ring.pop()?;
            if let Some(item) = self.probationer(class, at) {
                return Some(item);
            }
        }
    }

    /// The item on probation at `at`, if there is one and it is of the class, whose lock the caller holds.
    pub(crate) fn probationer(&self, class: Class, at: Location) -> Option<ItemRef<'_>> {
        let item =
            self.chunks.is_of(class, at).then(|| ItemRef::of_chunk(&self.chunks, at)).flatten()?;
        item.header().is_on_probation().then_some(item)
    }
}

/// The ring is swept from so many entries an item on probation on.
const SPARSE: usize = 3;
/// Blocks of the ring that are looked through each time that one is full.
const SWEPT: usize = 2;
