//! Linear probing: the table that hopscotch hashing improves on, to measure what it costs as it fills.
//!
//! Slots hold a tag and a location. A key is in the first slot from its home on that was free. One thread; no removal.
//!
//! # Layout
//! ```text
//! slot 8 B  | tag 32 | location 32 |     0 = free
//! ```
//! # Costs
//! get: the slots from the home up to the key, or for a miss up to the first free one: 3 at half load, 50 at nine tenths.

use super::pages::Pages;
use guira_index::{Full, Hash, Location};

/// See the module's head.
pub(crate) struct Linear {
    slots: Box<[Option<Slot>]>,
    keys: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    tag: u32,
    at: Location,
}

impl Linear {
    /// Creates a table of `slots` slots, a power of two.
    pub(crate) fn new(slots: usize) -> Self {
        assert!(slots.is_power_of_two(), "homes are masked");
        Self { slots: Pages::Huge.collect((0..slots).map(|_| None)), keys: 0 }
    }

    pub(crate) fn get(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        let (home, tag) = self.home(hash);
        self.slots[home..]
            .iter()
            .chain(&self.slots[..home])
            .map_while(|slot| *slot)
            .find(|slot| slot.tag == tag && is_key(slot.at))
            .map(|slot| slot.at)
    }

    /// Inserts a key that is absent.
    pub(crate) fn enter(&mut self, hash: Hash, at: Location) -> Result<(), Full> {
        if self.keys == self.slots.len() {
            return Err(Full);
        }
        let (mut place, tag) = self.home(hash);
        while self.slots[place].is_some() {
            place = (place + 1) % self.slots.len();
        }
        self.slots[place] = Some(Slot { tag, at });
        self.keys += 1;
        Ok(())
    }

    fn home(&self, hash: Hash) -> (usize, u32) {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the hash")]
        let [low, high] = [hash.0 as u32, (hash.0 >> 32) as u32];
        (high as usize & (self.slots.len() - 1), low)
    }
}
