//! The approximate frequency of keys: a count-min sketch whose counts are halved regularly.
//!
//! The sketch is Cormode and Muthukrishnan's, with conservative update (Estan and Varghese): only the smallest of a
//! key's counters grow, so collisions add less.
//!
//! # Invariants
//! 1. An estimate is never below the true count, if each halving also halves the true count, rounded down. It stops at
//!    the maximum of a counter.
//!
//! # Costs
//! 512 KiB; four cache lines per count.
//!
//! # Bad at
//! Distinguishing keys that come less often than once in 65,536 requests: other keys fill their counters.

/// See the module's head.
pub(crate) struct Sketch {
    rows: Box<[[u16; COUNTERS]; ROWS]>,
}

impl Sketch {
    pub(crate) fn new() -> Sketch {
        let rows = vec![[0; COUNTERS]; ROWS].into_boxed_slice();
        Sketch { rows: rows.try_into().expect("as many rows") }
    }

    /// Counts a key by its hash. Returns the new estimate.
    pub(crate) fn count(&mut self, hash: u64) -> u16 {
        let places = places(hash);
        let least = places.iter().zip(self.rows.iter()).map(|(&at, row)| row[at]).min();
        let more = least.expect("there are rows").saturating_add(1);
        for (&at, row) in places.iter().zip(self.rows.iter_mut()) {
            row[at] = row[at].max(more);
        }
        more
    }

    /// Halves every count.
    pub(crate) fn halve(&mut self) {
        for row in self.rows.iter_mut() {
            row.iter_mut().for_each(|count| *count /= 2);
        }
    }
}

/// The key's counter in each row, by 16 bits of the hash each. The hash is keyed, so that no client can compute it.
fn places(hash: u64) -> [usize; ROWS] {
    std::array::from_fn(|row| (hash >> (16 * row) & 0xffff) as usize)
}

const ROWS: usize = 4;
const COUNTERS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash function for tests.
    fn hash(n: u64) -> u64 {
        let n = (n ^ n >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
        let n = (n ^ n >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
        n ^ n >> 33
    }

    #[test]
    fn estimates_are_never_too_small_and_rarely_too_large() {
        let mut sketch = Sketch::new();
        let mut off = 0;
        for round in 1..=3 {
            for key in 0..20_000 {
                let estimate = sketch.count(hash(key));
                assert!(estimate >= round, "key {key} was counted {round} times");
                off += u32::from(estimate > round);
            }
        }
        assert!(off < 600, "{off} of 60,000 estimates are too large");
    }

    #[test]
    fn halving_forgets() {
        let mut sketch = Sketch::new();
        (0..9).for_each(|_| _ = sketch.count(hash(5)));
        sketch.halve();
        assert_eq!(sketch.count(hash(5)), 5);
        (0..5).for_each(|_| sketch.halve());
        assert_eq!(sketch.count(hash(5)), 1);
    }

    #[test]
    fn a_count_stops_at_its_most() {
        let mut sketch = Sketch::new();
        (0..70_000).for_each(|_| _ = sketch.count(hash(1)));
        assert_eq!(sketch.count(hash(1)), u16::MAX);
    }
}
