//! d-left counting Bloom filter: a fingerprint in the emptiest of four buckets (Bonomi et al., ESA 2006).
//!
//! # Layout
//! ```text
//! table    | subtable 0 | … | subtable 3 |
//! bucket   | cell | cell | cell | cell |           one slot of 48 bits
//! cell 12  | remainder 10 | count 2 |              count 0 = empty
//! ```
//! A permutation for each subtable splits an item's fingerprint into a bucket of the subtable and a remainder, which is
//! stored there.
//!
//! # Invariants
//! 1. A permutation loses no information. So a cell belongs to one fingerprint, and a removal never affects another one.
//! 2. The counts of a fingerprint's cells add up to the number of its items in the filter.
//!
//! # Costs
//! Lookup, insert and removal touch up to four lines. Bad at: load. The filter is full at four fifths of its cells,
//! because nothing is ever moved.

use super::packed::Packed;
use super::{Removing, Set};

/// See the module's head.
pub(crate) struct DLeft {
    buckets: Packed,
    /// A subtable has 2^this buckets.
    subtable_log2: u32,
}

impl DLeft {
    /// Creates a filter of 4·2^`subtable_log2` buckets.
    pub(crate) fn new(subtable_log2: u32) -> Self {
        let buckets = Packed::new(SUBTABLES << subtable_log2, CELLS * CELL_BITS);
        Self { buckets, subtable_log2 }
    }

    /// Returns the bucket in each subtable, and the remainder stored there.
    fn places(&self, hash: u64) -> [(usize, u64); SUBTABLES] {
        let bits = self.subtable_log2 + REMAINDER_BITS;
        let fingerprint = hash >> (64 - bits);
        let mask = (1 << bits) - 1;
        std::array::from_fn(|subtable| {
            // Multiplications by odd factors and shifts to the right are reversible, so this is a permutation.
            let mixed = fingerprint.wrapping_mul(FACTORS[subtable]) & mask;
            let mixed = (mixed ^ mixed >> (bits / 2)).wrapping_mul(FACTORS[subtable]) & mask;
            let mixed = mixed ^ mixed >> (bits / 2);
            let bucket = usize::try_from(mixed >> REMAINDER_BITS).expect("below the buckets");
            ((subtable << self.subtable_log2) + bucket, mixed & REMAINDER)
        })
    }

    /// Finds a cell of this item whose count satisfies `is_wanted`. Returns its bucket and its first bit.
    fn find(
        &self,
        places: &[(usize, u64)],
        is_wanted: impl Fn(u64) -> bool,
    ) -> Option<(usize, u32)> {
        places.iter().find_map(|&(bucket, remainder)| {
            let cells = self.buckets.get(bucket);
            let mut shifts = (0..CELLS).map(|cell| cell * CELL_BITS);
            let is_found = |&shift: &u32| {
                let cell = cells >> shift;
                cell & COUNT != 0
                    && cell >> COUNT_BITS & REMAINDER == remainder
                    && is_wanted(cell & COUNT)
            };
            shifts.find(is_found).map(|shift| (bucket, shift))
        })
    }
}

impl Set for DLeft {
    fn insert(&mut self, hash: u64) -> bool {
        let places = self.places(hash);
        if let Some((bucket, shift)) = self.find(&places, |count| count < COUNT) {
            let cells = self.buckets.get(bucket);
            self.buckets.set(bucket, cells + (1 << shift));
            return true;
        }
        let taken = |bucket| {
            let cells = self.buckets.get(bucket);
            (0..CELLS).filter(|cell| cells >> (cell * CELL_BITS) & COUNT != 0).count()
        };
        // Of equally empty buckets, the leftmost is taken.
        let (bucket, remainder) =
            places.into_iter().min_by_key(|&(bucket, _)| taken(bucket)).expect("four");
        let cells = self.buckets.get(bucket);
        let mut shifts = (0..CELLS).map(|cell| cell * CELL_BITS);
        let Some(shift) = shifts.find(|shift| cells >> shift & COUNT == 0) else { return false };
        // An empty cell may still hold a former remainder.
        let cleared = cells & !(((1 << CELL_BITS) - 1) << shift);
        self.buckets.set(bucket, cleared | (remainder << COUNT_BITS | 1) << shift);
        true
    }

    fn contains(&self, hash: u64) -> bool {
        self.find(&self.places(hash), |_| true).is_some()
    }

    fn bytes(&self) -> usize {
        self.buckets.bytes()
    }
}

impl Removing for DLeft {
    fn remove(&mut self, hash: u64) -> bool {
        let Some((bucket, shift)) = self.find(&self.places(hash), |_| true) else { return false };
        let cells = self.buckets.get(bucket);
        self.buckets.set(bucket, cells - (1 << shift));
        true
    }
}

const SUBTABLES: usize = 4;
const CELLS: u32 = 4;
const CELL_BITS: u32 = REMAINDER_BITS + COUNT_BITS;
const REMAINDER_BITS: u32 = 10;
const REMAINDER: u64 = (1 << REMAINDER_BITS) - 1;
const COUNT_BITS: u32 = 2;
/// The mask of a count, which is also the highest count.
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Odd factors that mix well.
const FACTORS: [u64; SUBTABLES] =
    [0x9e37_79b9_7f4a_7c15, 0xd134_2543_de82_ef95, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
