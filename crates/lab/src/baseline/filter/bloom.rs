//! Standard Bloom filter: an item sets k bits anywhere.
//!
//! # Layout
//! ```text
//! | bit 0 | bit 1 | …        in words of 64; an item's bits are h1, h1 + h2, h1 + 2·h2, … of the table
//! ```
//! # Invariants
//! 1. All k bits of an item in the filter are set; no bit is ever cleared.
//!
//! # Costs
//! insert: k lines. lookup: k lines if the item is present, two on average if it is absent, because half of the bits
//! are set.
//! Bad at: removal, which isn't possible.

use super::{Set, reduce};
use guira_bench::mix;

/// See the module's head.
pub(crate) struct Bloom {
    words: Vec<u64>,
    hashes: u32,
}

impl Bloom {
    /// Creates a filter of `bytes` bytes, a multiple of 8, with k = `hashes`.
    pub(crate) fn new(bytes: usize, hashes: u32) -> Self {
        Self { words: vec![0; bytes / 8], hashes }
    }
}

impl Set for Bloom {
    fn insert(&mut self, hash: u64) -> bool {
        for bit in places(hash, self.hashes, self.words.len() * 64) {
            self.words[bit / 64] |= 1 << (bit % 64);
        }
        true
    }

    fn contains(&self, hash: u64) -> bool {
        let mut bits = places(hash, self.hashes, self.words.len() * 64);
        bits.all(|bit| self.words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    fn bytes(&self) -> usize {
        self.words.len() * 8
    }
}

/// Returns `count` places below `range`, by two hashes (Kirsch and Mitzenmacher, *Less hashing, same performance*, 2006).
pub(super) fn places(hash: u64, count: u32, range: usize) -> impl Iterator<Item = usize> {
    let step = mix(hash) | 1;
    (0..u64::from(count)).map(move |n| reduce(hash.wrapping_add(n.wrapping_mul(step)), range))
}
