//! Hopscotch hashing with the lookup as published, which is wrong for keys that aren't in their home slot.
//!
//! It is a single-threaded model of keys without items: a hop bitmap of 32 bits per slot, linear probing, displacement,
//! no wrap-around. The published `find_item` finds a key in a later slot of its neighbourhood and returns the *home
//! slot's* item. Its caller does not compare the key again.

/// The table.
pub(crate) struct Published {
    /// If bit `d` of a slot's word is set, the slot `d` further on holds a key whose home is this slot.
    hops: Vec<u32>,
    keys: Vec<Option<u32>>,
    homes: u64,
}

/// The result of the published lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The key's own item.
    Own,
    /// Another key's item.
    Foreign,
    /// None, whether the key is present or not.
    Nothing,
}

impl Published {
    /// Creates a table for `items` keys at a load of at most [`LOAD`]. The number of homes is a power of two, as in the
    /// published code.
    pub(crate) fn new(items: usize) -> Self {
        let homes = (items as u64 * 100).div_ceil(LOAD).next_power_of_two();
        let slots = usize::try_from(homes).unwrap_or(usize::MAX) + PROBES;
        Self { hops: vec![0; slots], keys: vec![None; slots], homes }
    }

    /// Looks a key up as the published code does.
    pub(crate) fn find(&self, key: u32, hash: u64) -> Answer {
        let home = self.home(hash);
        let Some(slot) = self.slot(key, home) else { return Answer::Nothing };
        match self.keys[home] {
            _ if slot == home => Answer::Own,
            Some(_) => Answer::Foreign,
            None => Answer::Nothing,
        }
    }

    /// Inserts an absent key. A key for which there is no room in its neighbourhood is dropped.
    pub(crate) fn insert(&mut self, key: u32, hash: u64, hash_of: impl Fn(u32) -> u64) {
        let home = self.home(hash);
        let range = home..(home + PROBES).min(self.keys.len());
        let Some(mut free) = range.into_iter().find(|&slot| self.keys[slot].is_none()) else {
            return;
        };
        while free - home >= HOPS {
            let Some(nearer) = self.free_nearer(free, &hash_of) else { return };
            free = nearer;
        }
        self.keys[free] = Some(key);
        self.hops[home] |= 1 << (free - home);
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: u32, hash: u64) {
        let home = self.home(hash);
        if let Some(slot) = self.slot(key, home) {
            self.keys[slot] = None;
            self.hops[home] &= !(1 << (slot - home));
        }
    }

    /// Moves a key from an earlier slot into the free slot. Returns the slot that becomes free.
    fn free_nearer(&mut self, free: usize, hash_of: &impl Fn(u32) -> u64) -> Option<usize> {
        for slot in free + 1 - HOPS..free {
            let Some(key) = self.keys[slot] else { continue };
            let home = self.home(hash_of(key));
            if home + HOPS > free {
                self.keys[free] = self.keys[slot].take();
                self.hops[home] &= !(1 << (slot - home));
                self.hops[home] |= 1 << (free - home);
                return Some(slot);
            }
        }
        None
    }

    /// Returns the slot of the key, correctly.
    fn slot(&self, key: u32, home: usize) -> Option<usize> {
        let mut hops = self.hops[home];
        while hops != 0 {
            let slot = home + hops.trailing_zeros() as usize;
            if self.keys[slot] == Some(key) {
                return Some(slot);
            }
            hops &= hops - 1;
        }
        None
    }

    fn home(&self, hash: u64) -> usize {
        usize::try_from(hash >> 20 & (self.homes - 1)).unwrap_or_default()
    }
}

/// Bits in a hop word.
const HOPS: usize = 32;
/// Slots that are probed for a free one.
const PROBES: usize = 4096;
/// The maximum load in percent; with more keys inserts begin to fail.
const LOAD: u64 = 75;

#[cfg(test)]
mod tests {
    use super::*;
    use guira_bench::mix;

    fn hash(key: u32) -> u64 {
        mix(u64::from(key))
    }

    #[test]
    fn every_key_is_where_its_bits_say_and_some_answers_are_wrong() {
        let mut table = Published::new(3000);
        for key in 0..3000 {
            table.insert(key, hash(key), hash);
        }
        for key in (0..3000).step_by(3) {
            table.remove(key, hash(key));
        }
        let mut answers = [0; 3];
        for key in 0..3000 {
            let is_there = table.slot(key, table.home(hash(key))).is_some();
            assert_eq!(is_there, key % 3 != 0, "{key}");
            answers[table.find(key, hash(key)) as usize] += 1;
        }
        let [own, foreign, nothing] = answers;
        assert!(own > 1200 && foreign > 200 && nothing > 1020, "{answers:?}");
        let bits: u32 = table.hops.iter().map(|hops| hops.count_ones()).sum();
        assert_eq!(bits, 2000);
    }
}
