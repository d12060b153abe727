//! Counts by size, with two steps per doubling: a value is known to about a third.
//!
//! One thread adds and any thread reads, as with the counters. The steps are the log-linear steps of HDR histograms.
//!
//! ```text
//! new(4, 8):   ..=16  ..=24  ..=32  ..=48  ..=64  ..=96  ..=128  ..=192  ..=256  more
//! ```
//! # Costs
//! Adding takes two loads and two stores on cache lines of the adding thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A histogram that one thread adds to.
pub struct Histogram {
    low_bits: u32,
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The sum of several histograms with the same steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Each step's largest value, and how many values are in the step. Values beyond the last step are in none.
    pub steps: Vec<(u64, u64)>,
    /// How many values there are, including those beyond the last step.
    pub count: u64,
    /// The sum of the values.
    pub sum: u64,
}

impl Histogram {
    /// Makes steps from 2^`low_bits` to 2^`high_bits`. All values up to the former share one step, and all beyond the
    /// latter another.
    pub fn new(low_bits: u32, high_bits: u32) -> Histogram {
        assert!(0 < low_bits && low_bits < high_bits && high_bits < u64::BITS);
        let steps = 2 * (high_bits - low_bits) as usize + 2;
        let counts = (0..steps).map(|_| AtomicU64::new(0)).collect();
        Histogram { low_bits, counts, sum: AtomicU64::new(0) }
    }

    /// Adds a value. Only the owning thread calls this.
    pub fn add(&self, value: u64) {
        let at = self.step_of(value).min(self.counts.len() - 1);
        for (place, n) in [(&self.counts[at], 1), (&self.sum, value)] {
            place.store(place.load(Relaxed).wrapping_add(n), Relaxed);
        }
    }

    /// The sum of histograms with the same steps; `None` if there are none.
    pub fn total<'h>(each: impl IntoIterator<Item = &'h Histogram>) -> Option<Distribution> {
        each.into_iter().map(Histogram::read).reduce(|mut all, one| {
            for (step, (_, count)) in all.steps.iter_mut().zip(one.steps) {
                step.1 += count;
            }
            Distribution {
                steps: all.steps,
                count: all.count + one.count,
                sum: all.sum.wrapping_add(one.sum),
            }
        })
    }

    fn read(&self) -> Distribution {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        let bounded = &counts[..counts.len() - 1];
        let steps = bounded.iter().enumerate().map(|(at, &count)| (self.bound(at), count));
        Distribution {
            steps: steps.collect(),
            count: counts.iter().sum(),
            sum: self.sum.load(Relaxed),
        }
    }

    fn step_of(&self, value: u64) -> usize {
        // Steps include their upper bound: 16 is in the step that ends with 16.
        let below = value.saturating_sub(1);
        match below.checked_ilog2() {
            Some(bits) if bits >= self.low_bits => {
                let half = below >> (bits - 1) & 1;
                1 + 2 * (bits - self.low_bits) as usize + usize::from(half == 1)
            }
            _ => 0,
        }
    }

    fn bound(&self, step: usize) -> u64 {
        let doublings = u32::try_from(step / 2).expect("steps are few");
        let low = 1u64 << (self.low_bits + doublings);
        if step % 2 == 1 { low + low / 2 } else { low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_first_step_that_reaches_it() {
        let histogram = Histogram::new(4, 8);
        let bounds: Vec<u64> = histogram.read().steps.iter().map(|(bound, _)| *bound).collect();
        assert_eq!(bounds, [16, 24, 32, 48, 64, 96, 128, 192, 256]);
        for value in 0..1000 {
            let reached = bounds.iter().position(|&bound| value <= bound);
            let step = histogram.step_of(value).min(bounds.len());
            assert_eq!(step, reached.unwrap_or(bounds.len()), "{value}");
        }
    }

    #[test]
    fn a_total_adds_counts_and_sums_of_all() {
        let (one, other) = (Histogram::new(1, 3), Histogram::new(1, 3));
        for value in [0, 3, 1_000] {
            one.add(value);
        }
        other.add(3);
        let total = Histogram::total([&one, &other]).unwrap();
        assert_eq!((total.count, total.sum), (4, 1_006));
        assert_eq!(total.steps, [(2, 1), (3, 2), (4, 0), (6, 0), (8, 0)]);
        assert_eq!(Histogram::total([]), None);
    }
}
