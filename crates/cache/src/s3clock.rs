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
//! 3. The ring is at most twice as long as there are probationers, and a few.
//!
//! # Costs
//! 4 bytes an item on probation, 1.5 an item for the ghost. An eviction examines one or two items on the average. Bad
//! at: nothing that its parameters, which `tune.rs` chooses, could not mend.

use crate::classes::Class;
use crate::clock::{Moment, PATIENCE};
use crate::item::ItemRef;
use crate::policy::{Order, Victim};
use crate::slab::{ClassState, Slab};
use guira_index::{Hash, Location};
use guira_policy::{Ghost, Tuning};
use std::collections::{HashSet, VecDeque};

/// What a class keeps: see the module's head.
#[derive(Default)]
pub(crate) struct Probation {
    ring: VecDeque<Location>,
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

    /// Takes in an item from a memory file: the ring doesn't have it yet, and hardly any that is dead, so that to look it
    /// through, as [`Probation::enter`] does, would be in vain.
    pub(crate) fn resume(&mut self, at: Location) {
        self.ring.push_back(at);
    }

    /// Takes a new item in. `is_live` tells which entries are.
    pub(crate) fn enter(&mut self, at: Location, is_live: impl Fn(Location) -> bool) {
        self.ring.push_back(at);
        if self.ring.len() >= RING_MIN.max(self.ring.capacity()) {
            // As long as its memory: either it grows, or half of it and more is dead.
            let mut seen = HashSet::new();
            let mut live: VecDeque<_> = self
                .ring
                .iter()
                .rev()
                .copied()
                .filter(|&at| is_live(at) && seen.insert(at))
                .collect();
            live.make_contiguous().reverse();
            if live.len() * 2 <= self.ring.len() {
                live.reserve(self.ring.len() / 2);
                self.ring = live;
            }
        }
    }
}

impl Slab {
    /// [`Slab::victims`] under S3-CLOCK; returns how many items passed their probation.
    pub(crate) fn s3_victims(
        &self,
        state: &mut ClassState,
        class: Class,
        wanted: usize,
        (moment, shares): (Moment, Shares),
        victims: &mut Vec<Victim>,
    ) -> usize {
        let target = usize::try_from(shares.tuning.target(state.used as u64)).unwrap_or(usize::MAX);
        let round = state.pages.len() * self.slots(class) as usize;
        let mut on_probation = shares.on_probation;
        let (mut examined, mut promoted) = (0, 0);
        while victims.len() < wanted && examined < 2 * round.min(PATIENCE) + wanted {
            examined += 1;
            let is_due = on_probation >= target || on_probation >= state.used;
            if is_due && let Some(item) = self.oldest_on_probation(state, class) {
                on_probation = on_probation.saturating_sub(1);
                let is_past = moment.is_past(&item);
                let passes = item.header().hits() >= u32::from(shares.tuning.promote);
                if is_past || !passes {
                    state.note_victim(item.idle_s(moment.now), is_past);
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
            let Some(item) = self.item_of(chunk) else { continue };
            let header = item.header();
            // One whose chain has a link here, but whose ring is another class's, is judged by its hits.
            if header.is_on_probation() && self.class_of(item.location()) == class {
                continue;
            }
            if header.hits() > 0 && !moment.is_past(&item) && examined < PATIENCE {
                item.mark(header.with_hits(header.hits() - 1));
                continue;
            }
            state.note_victim(item.idle_s(moment.now), moment.is_past(&item));
            victims.push(Victim { at: item.location(), failed: false });
        }
        promoted
    }

    /// The item that is on probation longest, taken from the ring. Drops dead entries before it (invariant 2).
    fn oldest_on_probation(&self, state: &mut ClassState, class: Class) -> Option<ItemRef<'_>> {
        let Order::S3Clock(probation) = &mut state.order else { return None };
        loop {
            let at = probation.ring.pop_front()?;
            if let Some(item) = self.probationer(class, at) {
                return Some(item);
            }
        }
    }

    /// The item on probation at `at`, if there is one and it is of the class, whose lock the caller holds.
    pub(crate) fn probationer(&self, class: Class, at: Location) -> Option<ItemRef<'_>> {
        let item = self.is_of(class, at).then(|| self.item_of(at)).flatten()?;
        item.header().is_on_probation().then_some(item)
    }
}

/// A ring that is not looked through for dead entries.
const RING_MIN: usize = 64;
