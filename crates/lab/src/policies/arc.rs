//! ARC: objects seen once, objects seen twice, a ghost list for each, and an adaptive border between them.
//!
//! Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4. The
//! ghosts hold whole keys, as in the paper. With weights, every length of the paper is a sum of weights.

use super::Policy;
use guira_policy::{Access, Linked, ObjectLinks, ObjectList, Objects};

/// A cache under ARC.
pub(super) struct Arc {
    capacity: u64,
    /// The paper's p: the target share of T1 in the capacity.
    border: f64,
    table: Objects<Mark>,
    /// T1, T2, B1, B2.
    lists: [ObjectList; 4],
}

#[derive(Clone, Copy)]
struct Mark {
    links: ObjectLinks,
    list: usize,
}

impl Linked for Mark {
    fn links(&mut self) -> &mut ObjectLinks {
        &mut self.links
    }
}

const ONCE: usize = 0;
const TWICE: usize = 1;
/// The distance from a list to its ghost.
const GHOST: usize = 2;

impl Arc {
    /// An empty cache.
    pub(super) fn new(capacity: u64) -> Arc {
        let lists = std::array::from_fn(|_| ObjectList::default());
        Arc { capacity, border: 0.0, table: Objects::default(), lists }
    }

    fn held(&self, key: u64) -> Option<u32> {
        self.table.find(key).filter(|&slot| self.table[slot].mark.list < GHOST)
    }

    fn move_to(&mut self, slot: u32, list: usize) {
        self.lists[self.table[slot].mark.list].unlink(&mut self.table, slot);
        self.table[slot].mark.list = list;
        self.lists[list].push(&mut self.table, slot);
    }

    fn drop_oldest(&mut self, list: usize) {
        if let Some(slot) = self.lists[list].oldest() {
            self.forget(slot);
        }
    }

    fn forget(&mut self, slot: u32) {
        self.lists[self.table[slot].mark.list].unlink(&mut self.table, slot);
        self.table.remove(slot);
    }

    /// The paper's REPLACE, until `weight` more fits.
    fn replace(&mut self, weight: u64, from_twice_ghost: bool) {
        while self.weight() + weight > self.capacity {
            let once = self.lists[ONCE].weight as f64;
            let over = once > self.border || (from_twice_ghost && once >= self.border);
            let wanted = if over && !self.lists[ONCE].is_empty() { ONCE } else { TWICE };
            let list = if !self.lists[wanted].is_empty() { wanted } else { ONCE };
            let Some(slot) = self.lists[list].oldest() else { return };
            self.move_to(slot, list + GHOST);
        }
    }

    /// Cases II and III: the key is in a ghost.
    fn readmit(&mut self, slot: u32, request: &Access) {
        let ghost = self.table[slot].mark.list;
        let (own, other) = (self.lists[ghost].weight, self.lists[2 * GHOST + 1 - ghost].weight);
        let weight = f64::from(request.weight.max(1));
        let step = weight * (other as f64 / own.max(1) as f64).max(1.0);
        let sign = if ghost == ONCE + GHOST { 1.0 } else { -1.0 };
        self.border = (self.border + sign * step).clamp(0.0, self.capacity as f64);
        self.lists[ghost].reweigh(&mut self.table, slot, request);
        let weight = u64::from(request.weight.max(1));
        self.replace(weight, ghost == TWICE + GHOST);
        self.move_to(slot, TWICE);
    }

    /// Case IV: the key is nowhere.
    fn admit(&mut self, request: &Access) {
        let weight = u64::from(request.weight.max(1));
        while self.lists[ONCE].weight + self.lists[ONCE + GHOST].weight + weight > self.capacity {
            if !self.lists[ONCE + GHOST].is_empty() {
                self.drop_oldest(ONCE + GHOST);
            } else {
                self.drop_oldest(ONCE);
            }
        }
        while self.table.weight() + weight > 2 * self.capacity && !self.lists[3].is_empty() {
            self.drop_oldest(TWICE + GHOST);
        }
        self.replace(weight, false);
        let slot = self.table.insert(request, Mark { links: ObjectLinks::default(), list: ONCE });
        self.lists[ONCE].push(&mut self.table, slot);
    }
}

impl Policy for Arc {
    fn get(&mut self, request: &Access) -> bool {
        let Some(slot) = self.held(request.key) else { return false };
        if self.table[slot].is_expired(request.now) {
            self.forget(slot);
            return false;
        }
        self.move_to(slot, TWICE);
        true
    }

    fn insert(&mut self, request: &Access) {
        if u64::from(request.weight.max(1)) > self.capacity {
            self.remove(request.key);
            return;
        }
        match self.table.find(request.key) {
            Some(slot) if self.table[slot].mark.list < GHOST => {
                let list = self.table[slot].mark.list;
                self.lists[list].reweigh(&mut self.table, slot, request);
                self.replace(0, false);
            }
            Some(slot) => self.readmit(slot, request),
            None => self.admit(request),
        }
    }

    fn remove(&mut self, key: u64) -> bool {
        let found = self.held(key);
        if let Some(slot) = found {
            self.forget(slot);
        }
        found.is_some()
    }

    fn contains(&self, key: u64) -> bool {
        self.held(key).is_some()
    }

    fn len(&self) -> usize {
        self.lists[ONCE].len() + self.lists[TWICE].len()
    }

    fn weight(&self) -> u64 {
        self.lists[ONCE].weight + self.lists[TWICE].weight
    }
}
