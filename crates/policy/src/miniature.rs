//! A cache of keys alone under S3-CLOCK: small ones for the tuner, and of any size for a simulator.
//!
//! # Costs
//! A hit: a probe of the table, and an update of one field unless its count is at the maximum. Some 50 bytes per
//! object.

use crate::ghost::Ghost;
use crate::list::{Linked, ObjectLinks, ObjectList};
use crate::objects::Objects;
use crate::s3clock::{self, Bounds, Holder, Tuning};
use crate::{Access, mix};

/// See the module's head. The parameters are fixed until [`Miniature::tune`].
pub struct Miniature {
    capacity: u64,
    tuning: Tuning,
    target: u64,
    table: Objects<Mark>,
    probation: ObjectList,
    hand: u32,
    ghost: Ghost,
    /// The second of the current request.
    now: u32,
}

#[derive(Clone, Copy)]
struct Mark {
    links: ObjectLinks,
    count: u8,
    on_probation: bool,
}

impl Linked for Mark {
    fn links(&mut self) -> &mut ObjectLinks {
        &mut self.links
    }
}

impl Miniature {
    /// An empty cache.
    #[must_use]
    pub fn new(tuning: Tuning, capacity: u64) -> Miniature {
        Miniature {
            capacity,
            tuning,
            target: tuning.target(capacity),
            table: Objects::default(),
            probation: ObjectList::default(),
            hand: 0,
            ghost: Ghost::default(),
            now: 0,
        }
    }

    /// Changes the parameters. Objects stay where they are; evictions adjust the shares.
    pub fn tune(&mut self, tuning: Tuning) {
        self.tuning = tuning;
        self.target = tuning.target(self.capacity);
    }

    /// The parameters in force.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// Looks up the request's object. Returns whether it is there and not expired.
    pub fn get(&mut self, request: &Access) -> bool {
        let Some(slot) = self.table.find(request.key) else { return false };
        if self.table[slot].is_expired(request.now) {
            self.take_out(slot);
            return false;
        }
        let mark = &mut self.table[slot].mark;
        mark.count = COUNT_MAX.min(mark.count + 1);
        true
    }

    /// Stores the request's object, and evicts until it fits. An object heavier than the whole cache is not stored.
    /// An object that is already there keeps its standing.
    pub fn insert(&mut self, request: &Access) {
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
        // While there is room for all, probation serves no purpose: only its share of objects goes through it.
        let on_probation = !known && (is_full || self.probation.weight < self.target);
        let mark = Mark { links: ObjectLinks::default(), count: 0, on_probation };
        let slot = self.table.insert(request, mark);
        if on_probation {
            self.probation.push(&mut self.table, slot);
        }
    }

    /// Deletes an object. Returns whether it was there.
    pub fn remove(&mut self, key: u64) -> bool {
        let found = self.table.find(key);
        if let Some(slot) = found {
            self.take_out(slot);
        }
        found.is_some()
    }

    /// The objects held, expired or not.
    #[must_use]
    pub fn objects(&self) -> &Objects<impl Sized> {
        &self.table
    }

    fn make_room(&mut self, weight: u64, now: u32) {
        self.now = now;
        while self.table.weight() + weight > self.capacity && !self.table.is_empty() {
            // Done only now: if weights vary, the number of objects that fit is known only when the cache is full.
            self.ghost.fit(self.table.len());
            s3clock::choose(self, self.tuning.promote, ONE);
        }
    }

    fn take_out(&mut self, slot: u32) {
        if self.table[slot].mark.on_probation {
            self.probation.unlink(&mut self.table, slot);
        }
        self.table.remove(slot);
    }
}

impl Holder for Miniature {
    type At = u32;

    fn probation_is_due(&self) -> bool {
        self.probation.weight >= self.target || self.probation.len() == self.table.len()
    }

    fn oldest(&mut self) -> Option<u32> {
        let slot = self.probation.oldest()?;
        self.probation.unlink(&mut self.table, slot);
        self.table[slot].mark.on_probation = false;
        Some(slot)
    }

    fn promote(&mut self, slot: u32) -> bool {
        self.table[slot].mark.count = 0;
        true
    }

    fn advance(&mut self) -> Option<u32> {
        let slot = if (self.hand as usize) < self.table.slots() { self.hand } else { 0 };
        self.hand = slot + 1;
        (!self.table[slot].is_free()).then_some(slot)
    }

    fn is_on_probation(&self, slot: u32) -> bool {
        self.table[slot].mark.on_probation
    }

    fn hits(&self, slot: u32) -> u32 {
        self.table[slot].mark.count.into()
    }

    fn is_past(&self, slot: u32) -> bool {
        self.table[slot].is_expired(self.now)
    }

    fn spare(&mut self, slot: u32, hits: u32) {
        self.table[slot].mark.count = u8::try_from(hits).unwrap_or(COUNT_MAX);
    }

    fn give_up(&mut self, slot: u32, has_failed: bool) {
        if has_failed {
            self.ghost.remember(mix(self.table[slot].key));
        }
        self.table.remove(slot);
    }
}

/// One victim at a time, however long that takes: each step of the hand uses up a hit.
const ONE: Bounds = Bounds { victims: 1, examined: usize::MAX, patience: usize::MAX };
/// The highest count: two bits.
const COUNT_MAX: u8 = 3;
