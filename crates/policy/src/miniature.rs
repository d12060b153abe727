//! S3-CLOCK: new objects on probation in a small FIFO, the others under a CLOCK of two bits.
//!
//! It follows S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023),
//! with one difference: an object that passes its probation stays where it is. The CLOCK's hand goes
//! over all slots and skips those on probation, so a promotion clears a mark and moves nothing.
//!
//! # States of an object
//! ```text
//!             ┌── known to the ghost ──────────────▶ main ◀─┐ count > 0: count - 1
//!  insert ────┤                                      ▲  │ ──┘
//!             └──▶ on probation ── count ≥ promote ──┘  └─ count = 0 ─▶ gone
//!                       └── oldest, count < promote ─▶ gone, its key in the ghost
//! ```
//! A hit adds one to the count, up to 3. A promotion takes it back to 0: hits close to the first request
//! tell little about the far future.
//!
//! # Costs
//! A hit: one field, unless it is full. An eviction: one or two slots on the average, since each step of
//! the hand uses up a hit. Bad at, with any one [`Tuning`]: some workload; see the tuner.

use crate::ghost::Ghost;
use crate::list::{Linked, Links, List};
use crate::table::Table;
use crate::{Policy, Request, mix};

/// The parameters of S3-CLOCK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Share of the capacity for objects on probation: 0 to 1.
    pub small: f32,
    /// Hits that it takes to pass: 0 to 2. With 0 all pass, and what is left is a CLOCK that forgets
    /// the hits of an object's youth, which is close to LRU.
    pub promote: u8,
}

impl Tuning {
    /// What tuning starts from: not the best for most workloads, but bad for none while the tuner has
    /// not seen enough.
    pub const START: Tuning = Tuning { small: 0.25, promote: 1 };
    /// S3-FIFO's: a tenth on probation, two hits. The best for most workloads, bad for those where LRU
    /// is good.
    pub const S3_FIFO: Tuning = Tuning { small: 0.10, promote: 2 };
    /// Keys that the ghost remembers, as a share of the objects held. S3-FIFO's 0.9 costs an eighth more memory, and on
    /// published traces its mean miss ratio is the same.
    pub const GHOST: f64 = 0.8;

    /// What is to be on probation of a `capacity`, in the same unit: at least 1.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of it")]
    pub fn target(self, capacity: u64) -> u64 {
        ((capacity as f64 * f64::from(self.small)).ceil() as u64).max(1)
    }
}

/// A cache under S3-CLOCK with fixed parameters.
pub struct S3Clock {
    capacity: u64,
    tuning: Tuning,
    target: u64,
    table: Table<Mark>,
    probation: List,
    hand: u32,
    ghost: Ghost,
}

#[derive(Clone, Copy)]
struct Mark {
    links: Links,
    count: u8,
    on_probation: bool,
}

impl Linked for Mark {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl S3Clock {
    /// An empty cache.
    #[must_use]
    pub fn new(tuning: Tuning, capacity: u64) -> S3Clock {
        S3Clock {
            capacity,
            tuning,
            target: tuning.target(capacity),
            table: Table::new(),
            probation: List::new(),
            hand: 0,
            ghost: Ghost::default(),
        }
    }

    /// Changes the parameters. Objects stay where they are; evictions bring about the new shares.
    pub fn tune(&mut self, tuning: Tuning) {
        self.tuning = tuning;
        self.target = tuning.target(self.capacity);
    }

    /// The parameters in force.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    fn make_room(&mut self, weight: u64, now: u32) {
        while self.table.weight() + weight > self.capacity && self.table.len() > 0 {
            self.size_ghost();
            let in_main = self.table.len() - self.probation.len();
            if in_main == 0 || (self.probation.weight >= self.target && self.probation.len() > 0) {
                self.judge_oldest(now);
            } else {
                self.advance_hand(now);
            }
        }
    }

    /// Ends the probation of the object that is on it longest: promoted, or evicted.
    fn judge_oldest(&mut self, now: u32) {
        let Some(slot) = self.probation.oldest() else { return };
        let (count, dead) = (self.table[slot].mark.count, self.table[slot].is_expired(now));
        self.probation.unlink(&mut self.table, slot);
        let entry = &mut self.table[slot];
        entry.mark.on_probation = false;
        if dead {
            self.table.remove(slot);
        } else if count < self.tuning.promote {
            self.ghost.remember(mix(entry.key));
            self.table.remove(slot);
        } else {
            entry.mark.count = 0;
        }
    }

    /// One step of the hand over the main objects, of which there is one.
    fn advance_hand(&mut self, now: u32) {
        let slot = if (self.hand as usize) < self.table.slots() { self.hand } else { 0 };
        self.hand = slot + 1;
        let entry = &mut self.table[slot];
        if entry.is_free() || entry.mark.on_probation {
            return;
        }
        if entry.mark.count > 0 && !entry.is_expired(now) {
            entry.mark.count -= 1;
        } else {
            self.table.remove(slot);
        }
    }

    /// Gives the ghost its room: known only once the cache is full, when weights vary.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
    fn size_ghost(&mut self) {
        let wanted = (self.table.len() as f64 * Tuning::GHOST).ceil() as usize;
        let room = self.ghost.room();
        if wanted > room + room / 4 || wanted < room / 4 {
            self.ghost.resize(wanted);
        }
    }

    fn take_out(&mut self, slot: u32) {
        if self.table[slot].mark.on_probation {
            self.probation.unlink(&mut self.table, slot);
        }
        self.table.remove(slot);
    }
}

impl Policy for S3Clock {
    fn get(&mut self, request: &Request) -> bool {
        let Some(slot) = self.table.find(request.key) else { return false };
        if self.table[slot].is_expired(request.now) {
            self.take_out(slot);
            return false;
        }
        let mark = &mut self.table[slot].mark;
        mark.count = COUNT_MAX.min(mark.count + 1);
        true
    }

    fn insert(&mut self, request: &Request) {
        if let Some(slot) = self.table.find(request.key) {
            if self.table[slot].mark.on_probation {
                self.probation.reweigh(&mut self.table, slot, request);
            } else {
                self.table.update(slot, request);
            }
            return self.make_room(0, request.now);
        }
        let weight = u64::from(request.weight.max(1));
        if weight > self.capacity {
            return;
        }
        let is_full = self.table.weight() + weight > self.capacity;
        let known = self.ghost.take(mix(request.key));
        self.make_room(weight, request.now);
        // While there is room for all, probation serves nobody: only its share goes through it.
        let on_probation = !known && (is_full || self.probation.weight < self.target);
        let mark = Mark { links: Links::default(), count: 0, on_probation };
        let slot = self.table.insert(request, mark);
        if on_probation {
            self.probation.push(&mut self.table, slot);
        }
    }

    fn remove(&mut self, key: u64) -> bool {
        let found = self.table.find(key);
        if let Some(slot) = found {
            self.take_out(slot);
        }
        found.is_some()
    }

    fn contains(&self, key: u64) -> bool {
        self.table.find(key).is_some()
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn weight(&self) -> u64 {
        self.table.weight()
    }
}

/// The highest count: two bits.
const COUNT_MAX: u8 = 3;
