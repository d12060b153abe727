//! Belady's optimum: evicts the object whose next request is furthest away. It is a bound, not a policy: it must know
//! the whole trace in advance.
//!
//! With weights or expiries it isn't a bound, only a good approximation: the optimum is then hard to compute.

use super::Policy;
use guira_policy::{Access, Objects};
use std::collections::{BinaryHeap, HashMap};

/// A cache that knows its trace: gets must be for exactly the keys that [`Opt::new`] was given, in that order.
pub struct Opt {
    capacity: u64,
    /// For each request, the number of the next one for the same key.
    next: Vec<u64>,
    now: usize,
    table: Objects<u64>,
    /// (next request, key), furthest first; outdated entries are recognised by comparison with the table.
    queue: BinaryHeap<(u64, u64)>,
}

impl Opt {
    /// An empty cache that will be asked for `keys`.
    #[must_use]
    pub fn new(capacity: u64, keys: impl IntoIterator<Item = u64>) -> Opt {
        let mut last: HashMap<u64, usize> = HashMap::new();
        let mut next = Vec::new();
        for (at, key) in keys.into_iter().enumerate() {
            if let Some(before) = last.insert(key, at) {
                next[before] = at as u64;
            }
            next.push(NEVER);
        }
        Opt { capacity, next, now: 0, table: Objects::default(), queue: BinaryHeap::new() }
    }

    fn make_room(&mut self, weight: u64) {
        while self.table.weight() + weight > self.capacity {
            let Some((next, key)) = self.queue.pop() else { return };
            if let Some(slot) = self.table.find(key).filter(|&slot| self.table[slot].mark == next) {
                self.table.remove(slot);
            }
        }
    }
}

impl Policy for Opt {
    fn get(&mut self, request: &Access) -> bool {
        let next = self.next.get(self.now).copied().unwrap_or(NEVER);
        self.now += 1;
        let Some(slot) = self.table.find(request.key) else { return false };
        if self.table[slot].is_expired(request.now) {
            self.table.remove(slot);
            return false;
        }
        self.table[slot].mark = next;
        self.queue.push((next, request.key));
        true
    }

    fn insert(&mut self, request: &Access) {
        let next = self.now.checked_sub(1).and_then(|at| self.next.get(at)).copied();
        let next = next.unwrap_or(NEVER);
        self.remove(request.key);
        let weight = u64::from(request.weight.max(1));
        // An object that is never requested again need not be stored.
        if weight > self.capacity || next == NEVER {
            return;
        }
        self.make_room(weight);
        self.table.insert(request, next);
        self.queue.push((next, request.key));
    }

    fn remove(&mut self, key: u64) -> bool {
        let found = self.table.find(key);
        if let Some(slot) = found {
            self.table.remove(slot);
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

/// No later request.
const NEVER: u64 = u64::MAX;
