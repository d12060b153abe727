//! The filters that the cuckoo filter is compared with, and their common interface.
//!
//! They take well mixed 64-bit hashes; an item *is* its hash here. They are written to be simple and correct rather
//! than fast: none has a batch form or uses instructions of a particular processor.
//!
//! ```text
//! bloom     standard Bloom filter: k bits anywhere
//! blocked   blocked Bloom filter: k bits in one line
//! counting  counting Bloom filter: k counters of four bits anywhere; removes
//! d_left    d-left counting Bloom filter: a fingerprint in the emptiest of four buckets; removes
//! quotient  quotient filter: fingerprints in order, linear probing; removes
//! packed    slots of any width without gaps, for the last two
//! ```

mod blocked;
mod counting;
mod bloom;
mod d_left;
mod quotient;
mod packed;

use crate::measure::wait;
pub(crate) use blocked::Blocked;
pub(crate) use bloom::Bloom;
pub(crate) use counting::Counting;
pub(crate) use d_left::DLeft;
use guira_filter::{Filter, Layout, Orbit};
pub(crate) use quotient::Quotient;
use std::hint::black_box;

/// A set of hashes that answers "perhaps" or "no".
pub(crate) trait Set {
    /// Inserts an item. If there is no room, returns false and changes nothing.
    fn insert(&mut self, hash: u64) -> bool;

    /// Returns false only if the item is absent.
    fn contains(&self, hash: u64) -> bool;

    /// Bytes of the table.
    fn bytes(&self) -> usize;

    /// Inserts items in order, up to the first that finds no room. Returns how many were inserted.
    fn insert_all(&mut self, hashes: &[u64]) -> usize {
        hashes.iter().take_while(|&&hash| self.insert(hash)).count()
    }

    /// Returns how many of the items the set seems to have.
    fn count(&self, hashes: &[u64]) -> usize {
        hashes.iter().filter(|&&hash| self.contains(hash)).count()
    }

    /// Like `count`, but each lookup begins when the previous one has its result.
    fn count_in_turn(&self, hashes: &[u64]) -> usize {
        let mut found = 0;
        for &hash in hashes {
            found += usize::from(black_box(self.contains(hash)));
            wait();
        }
        found
    }
}

/// A set from which items can be removed.
pub(crate) trait Removing: Set {
    /// Removes one copy of an item that was inserted; false if there is none.
    fn remove(&mut self, hash: u64) -> bool;

    /// Removes each of the items. Returns how many were found.
    fn remove_all(&mut self, hashes: &[u64]) -> usize {
        hashes.iter().filter(|&&hash| self.remove(hash)).count()
    }
}

impl<L: Layout, O: Orbit, H> Set for Filter<L, O, H> {
    #[inline]
    fn insert(&mut self, hash: u64) -> bool {
        self.insert_hash(hash).is_ok()
    }

    #[inline]
    fn contains(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }

    fn bytes(&self) -> usize {
        self.table_bytes()
    }
}

impl<L: Layout, O: Orbit, H> Removing for Filter<L, O, H> {
    #[inline]
    fn remove(&mut self, hash: u64) -> bool {
        self.remove_hash(hash)
    }
}

/// Maps a well mixed hash uniformly to a number below `range`.
fn reduce(hash: u64, range: usize) -> usize {
    usize::try_from((u128::from(hash) * range as u128) >> 64).expect("below the range")
}

#[cfg(test)]
mod tests;
