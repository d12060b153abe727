//! The filters that the cuckoo filter is compared with, and what all of them have in common.
//!
//! They take hashes of 64 bits that are well mixed; an item *is* its hash here. Simple and correct before fast: none
//! has a batch form or instructions of one processor.
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
    /// Enters an item; false if there is no room, and then nothing has changed.
    fn insert(&mut self, hash: u64) -> bool;

    /// False only if the item is not in.
    fn contains(&self, hash: u64) -> bool;

    /// Bytes of the table.
    fn bytes(&self) -> usize;

    /// Enters items in turn up to the first that finds no room; how many are in.
    fn insert_all(&mut self, hashes: &[u64]) -> usize {
        hashes.iter().take_while(|&&hash| self.insert(hash)).count()
    }

    /// How many of the items it seems to have.
    fn count(&self, hashes: &[u64]) -> usize {
        hashes.iter().filter(|&&hash| self.contains(hash)).count()
    }

    /// The same, where each lookup begins when the one before it has its answer.
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
    /// Takes out one copy of an item that is in; false if there is none.
    fn remove(&mut self, hash: u64) -> bool;

    /// Takes out each of the items; how many there were.
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

/// The `range`-th part in which a well mixed hash falls: below `range`.
fn reduce(hash: u64, range: usize) -> usize {
    usize::try_from((u128::from(hash) * range as u128) >> 64).expect("below the range")
}

#[cfg(test)]
mod tests;
