//! Statistics of a place in a pool: errors, and a histogram of response times whose class bounds double.
//!
//! One thread writes, and others read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Classes below 32 µs, 64 µs, … 8.4 s, and a class for the rest.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    classes: [AtomicU64; CLASSES],
    sum_us: AtomicU64,
}

/// A snapshot of histograms, for adding them up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) classes: [u64; CLASSES],
    pub(crate) sum_us: u64,
}

impl Histogram {
    /// Records one reply. Only the one writing thread may call it.
    pub(crate) fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bits = (u64::BITS - us.leading_zeros()) as usize;
        let class = bits.saturating_sub(FIRST_BITS).min(CLASSES - 1);
        let cell = &self.classes[class];
        cell.store(cell.load(Relaxed) + 1, Relaxed);
        self.sum_us.store(self.sum_us.load(Relaxed).saturating_add(us), Relaxed);
    }
}

impl Shape {
    /// Adds a histogram.
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        for (sum, class) in self.classes.iter_mut().zip(&histogram.classes) {
            *sum += class.load(Relaxed);
        }
        self.sum_us += histogram.sum_us.load(Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// The upper bound of each class except the last, in seconds, with the number of replies below it.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        self.classes[..CLASSES - 1].iter().zip(FIRST_BITS..).map(move |(count, bits)| {
            sum += count;
            (f64::from(1u32 << bits) / 1e6, sum)
        })
    }
}

/// The number of bits below the upper bound of the first class, in microseconds.
const FIRST_BITS: usize = 5;
/// The number of classes, including the one for the rest.
const CLASSES: usize = 20;

/// Statistics of a place in a pool, on one thread.
#[derive(Debug, Default)]
pub(crate) struct LeafStats {
    pub(crate) took: Histogram,
    pub(crate) errors: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_counted_under_the_bound_that_it_stayed_below() {
        let histogram = Histogram::default();
        for us in [0, 31, 32, 63, 64, 100_000_000] {
            histogram.add(Duration::from_micros(us));
        }
        let mut shape = Shape::default();
        shape.add(&histogram);
        let below: Vec<_> = shape.cumulative().take(3).collect();
        assert_eq!(below, [(32e-6, 2), (64e-6, 4), (128e-6, 5)]);
        assert_eq!(shape.cumulative().last(), Some((8.388_608, 5)));
        assert_eq!((shape.count(), shape.sum_us), (6, 100_000_190));
    }
}
