//! The objects that a policy holds: found by key, and referred to by slot.
//!
//! # Layout
//! ```text
//! buckets   | slot + 1 | 0 | slot + 1 | …     a power of two, at most half full; linear probing
//! entries   | key, weight, expires, mark |    by slot; weight 0 says that the slot is free
//! ```
//! An object keeps its slot until it is removed, so that lists and hands can refer to objects by slot.

use crate::Access;
use std::ops::{Index, IndexMut};

/// The number that stands for no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// A table of objects, each with a policy's own mark.
pub struct Objects<M> {
    buckets: Vec<u32>,
    entries: Vec<HeldObject<M>>,
    free: Vec<u32>,
    weight: u64,
}

/// One object, or a free slot.
pub struct HeldObject<M> {
    /// The object's key.
    pub key: u64,
    /// The object's share of the capacity; 0 if the slot is free.
    pub(crate) weight: u32,
    expires: u32,
    /// The policy's own data about the object.
    pub mark: M,
}

impl<M> HeldObject<M> {
    /// Whether the slot has no object.
    pub(crate) fn is_free(&self) -> bool {
        self.weight == 0
    }

    /// Whether the object has expired.
    pub fn is_expired(&self, now: u32) -> bool {
        self.expires != 0 && self.expires <= now
    }
}

impl<M> Default for Objects<M> {
    /// A table without objects.
    fn default() -> Objects<M> {
        Objects { buckets: vec![0; 16], entries: Vec::new(), free: Vec::new(), weight: 0 }
    }
}

impl<M> Objects<M> {
    /// The number of objects held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether no object is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of slots, including free ones.
    pub(crate) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// Sum of the objects' weights.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The object's slot.
    #[must_use]
    pub fn find(&self, key: u64) -> Option<u32> {
        let mut at = self.home(key);
        loop {
            let slot = self.buckets[at].checked_sub(1)?;
            if self[slot].key == key {
                return Some(slot);
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    /// Adds the request's object, which must not be there yet. Returns its slot.
    pub fn insert(&mut self, request: &Access, mark: M) -> u32 {
        if (self.len() + 1) * 2 > self.buckets.len() {
            self.grow();
        }
        let weight = request.weight.max(1);
        let entry = HeldObject { key: request.key, weight, expires: request.expires, mark };
        let slot = match self.free.pop() {
            Some(slot) => {
                self[slot] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 objects")
            }
        };
        self.weight += u64::from(weight);
        self.link(slot);
        slot
    }

    /// Gives an object the weight and expiry of a request that stores it again.
    pub fn update(&mut self, slot: u32, request: &Access) {
        let weight = request.weight.max(1);
        self.weight = self.weight - u64::from(self[slot].weight) + u64::from(weight);
        self[slot].weight = weight;
        self[slot].expires = request.expires;
    }

    /// Frees an object's slot. Its key and mark stay readable until the slot is used again.
    pub fn remove(&mut self, slot: u32) {
        let mask = self.buckets.len() - 1;
        let mut hole = self.home(self[slot].key);
        while self.buckets[hole] != slot + 1 {
            hole = (hole + 1) & mask;
        }
        // An entry that was probed past the hole moves into it, so that no tombstones accumulate.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(other) = self.buckets[at].checked_sub(1) else { break };
            let home = self.home(self[other].key);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = other + 1;
                hole = at;
            }
        }
        self.buckets[hole] = 0;
        self.weight -= u64::from(self[slot].weight);
        self[slot].weight = 0;
        self.free.push(slot);
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to the number of buckets")]
    fn home(&self, key: u64) -> usize {
        let folded = u128::from(key ^ SECRET) * u128::from(MULTIPLIER);
        ((folded >> 64) as u64 ^ folded as u64) as usize & (self.buckets.len() - 1)
    }

    fn link(&mut self, slot: u32) {
        let mut at = self.home(self[slot].key);
        while self.buckets[at] != 0 {
            at = (at + 1) & (self.buckets.len() - 1);
        }
        self.buckets[at] = slot + 1;
    }

    fn grow(&mut self) {
        let linked = std::mem::take(&mut self.buckets);
        self.buckets = vec![0; linked.len() * 2];
        for slot in linked.into_iter().filter_map(|slot| slot.checked_sub(1)) {
            self.link(slot);
        }
    }
}

impl<M> Index<u32> for Objects<M> {
    type Output = HeldObject<M>;

    fn index(&self, slot: u32) -> &HeldObject<M> {
        &self.entries[slot as usize]
    }
}

impl<M> IndexMut<u32> for Objects<M> {
    fn index_mut(&mut self, slot: u32) -> &mut HeldObject<M> {
        &mut self.entries[slot as usize]
    }
}

/// Odd and irregular: the folded product depends on every bit of the key.
const MULTIPLIER: u64 = 0x9e6c_63d0_876a_68ed;
const SECRET: u64 = 0x2d35_8dcc_aa6c_78a5;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_table_is_a_map() {
        let mut table = Objects::default();
        let mut model = HashMap::new();
        let mut random = 1;
        for step in 0..200_000u64 {
            random = crate::mix(random);
            let key = random % 700;
            if random & 0x1000 == 0 {
                assert_eq!(table.find(key).map(|slot| table[slot].mark), model.remove(&key));
                if let Some(slot) = table.find(key) {
                    table.remove(slot);
                    assert!(table[slot].is_free());
                }
            } else {
                model.entry(key).or_insert_with(|| {
                    assert_eq!(table.find(key), None);
                    table.insert(&Access { weight: 3, ..Access::of(key) }, step);
                    step
                });
            }
            assert_eq!((table.len(), table.weight()), (model.len(), 3 * model.len() as u64));
        }
        assert!(model.iter().all(|(&key, &step)| table[table.find(key).unwrap()].mark == step));
    }
}
