//! The policies with one list: FIFO, LRU, CLOCK and SIEVE. They differ in what a hit does, and in which objects an
//! eviction spares.
//!
//! CLOCK is implemented as FIFO with reinsertion, which evicts the same objects as a moving hand.
//!
//! SIEVE: Zhang et al., "SIEVE is simpler than LRU", NSDI 2024. CLOCK's bit is set on insertion in MemC3's published
//! code; in its paper (section 3.3) it is clear.

use super::Policy;
use guira_policy::{Access, Linked, ObjectLinks, ObjectList, Objects};

/// What distinguishes the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A hit does nothing; the oldest object is evicted.
    Fifo,
    /// A hit makes the object the newest; the oldest object is evicted.
    Lru,
    /// A hit counts up to `most`; the oldest goes if its count is 0, otherwise the count falls by
    /// one and the object becomes the newest.
    Clock {
        /// The highest count: 1 for one recency bit, 3 for two bits.
        most: u8,
        /// The count of a new object.
        born: u8,
    },
    /// A hit marks the object. A hand goes from old to new, removes marks, and evicts the first object without one.
    /// Nothing moves.
    Sieve,
}

/// A cache that evicts by a [`Rule`].
pub(super) struct Queue {
    rule: Rule,
    capacity: u64,
    table: Objects<Mark>,
    list: ObjectList,
    /// SIEVE's next candidate.
    hand: Option<u32>,
}

#[derive(Clone, Copy, Default)]
struct Mark {
    links: ObjectLinks,
    count: u8,
}

impl Linked for Mark {
    fn links(&mut self) -> &mut ObjectLinks {
        &mut self.links
    }
}

impl Queue {
    /// An empty cache.
    pub(super) fn new(rule: Rule, capacity: u64) -> Queue {
        Queue { rule, capacity, table: Objects::default(), list: ObjectList::default(), hand: None }
    }

    fn hit(&mut self, slot: u32) {
        let mark = &mut self.table[slot].mark;
        match self.rule {
            Rule::Fifo => {}
            Rule::Lru => self.renew(slot),
            Rule::Clock { most, .. } => mark.count = most.min(mark.count + 1),
            Rule::Sieve => mark.count = 1,
        }
    }

    fn renew(&mut self, slot: u32) {
        self.list.unlink(&mut self.table, slot);
        self.list.push(&mut self.table, slot);
    }

    /// Returns the object to evict. There is at least one object.
    fn victim(&mut self, now: u32) -> u32 {
        let mut candidate = match self.rule {
            Rule::Sieve => self.hand.or(self.list.oldest()),
            _ => self.list.oldest(),
        };
        loop {
            let slot = candidate.expect("whoever evicts holds an object");
            let entry = &mut self.table[slot];
            if entry.mark.count == 0 || entry.is_expired(now) {
                return slot;
            }
            entry.mark.count -= 1;
            candidate = match self.rule {
                Rule::Sieve => ObjectList::newer(&mut self.table, slot).or(self.list.oldest()),
                _ => {
                    self.renew(slot);
                    self.list.oldest()
                }
            };
            self.hand = candidate;
        }
    }

    fn take_out(&mut self, slot: u32) {
        if self.hand == Some(slot) {
            self.hand = ObjectList::newer(&mut self.table, slot);
        }
        self.list.unlink(&mut self.table, slot);
        self.table.remove(slot);
    }

    fn make_room(&mut self, weight: u64, now: u32) {
        while self.table.weight() + weight > self.capacity && !self.table.is_empty() {
            let victim = self.victim(now);
            if self.rule == Rule::Sieve {
                self.hand = Some(victim);
            }
            self.take_out(victim);
        }
    }
}

impl Policy for Queue {
    fn get(&mut self, request: &Access) -> bool {
        let Some(slot) = self.table.find(request.key) else { return false };
        if self.table[slot].is_expired(request.now) {
            self.take_out(slot);
            return false;
        }
        self.hit(slot);
        true
    }

    fn insert(&mut self, request: &Access) {
        if let Some(slot) = self.table.find(request.key) {
            self.list.reweigh(&mut self.table, slot, request);
            return self.make_room(0, request.now);
        }
        let weight = u64::from(request.weight.max(1));
        if weight > self.capacity {
            return;
        }
        self.make_room(weight, request.now);
        let count = if let Rule::Clock { born, .. } = self.rule { born } else { 0 };
        let slot = self.table.insert(request, Mark { count, ..Mark::default() });
        self.list.push(&mut self.table, slot);
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
        self.list.len()
    }

    fn weight(&self) -> u64 {
        self.table.weight()
    }
}
