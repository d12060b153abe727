//! Counting Bloom filter: counters of four bits instead of bits (Fan, Cao, Almeida, Broder, 2000).
//!
//! # Layout
//! ```text
//! byte  | counter | counter |      an item's k counters are chosen as a Bloom filter's bits
//! ```
//! # Invariants
//! 1. A counter is at least the number of times that items in the filter have chosen it, or it is 15.
//! 2. A counter of 15 stays: it doesn't know how many items it counts.
//!
//! # Costs
//! As a Bloom filter, with four times the memory. Bad at: memory.

use super::bloom::places;
use super::{Removing, Set};

/// See the module's head.
pub(crate) struct Counting {
    bytes: Vec<u8>,
    hashes: u32,
}

impl Counting {
    /// Creates a filter of `bytes` bytes, with k = `hashes`.
    pub(crate) fn new(bytes: usize, hashes: u32) -> Self {
        Self { bytes: vec![0; bytes], hashes }
    }

    fn counters(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        places(hash, self.hashes, self.bytes.len() * 2)
    }

    fn counter(&self, place: usize) -> u8 {
        self.bytes[place / 2] >> (place % 2 * 4) & MOST
    }
}

impl Set for Counting {
    fn insert(&mut self, hash: u64) -> bool {
        for place in self.counters(hash) {
            if self.counter(place) < MOST {
                self.bytes[place / 2] += 1 << (place % 2 * 4);
            }
        }
        true
    }

    fn contains(&self, hash: u64) -> bool {
        self.counters(hash).all(|place| self.counter(place) > 0)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Removing for Counting {
    fn remove(&mut self, hash: u64) -> bool {
        if !self.contains(hash) {
            return false;
        }
        for place in self.counters(hash) {
            // An item that seems present by mistake may have chosen a counter twice that counts only one.
            if (1..MOST).contains(&self.counter(place)) {
                self.bytes[place / 2] -= 1 << (place % 2 * 4);
            }
        }
        true
    }
}

/// The highest count of four bits.
const MOST: u8 = 15;
