//! Items, and operations on many of them: inserts, lookups and removals, timed without computing the hashes.

use crate::baseline::filter::{Removing, Set};
use crate::measure::thread_cpu;
use guira_bench::{Rng, mix};
use std::ops::Range;
use std::time::Duration;

/// The items of a seed, which all differ.
#[derive(Clone, Copy)]
pub(super) struct Items(u64);

/// The number of operations that succeeded, and the cost of one operation.
#[derive(Clone, Copy)]
pub(super) struct Done {
    pub(super) count: u64,
    /// Nanoseconds of processor time.
    pub(super) ns: f64,
}

impl Items {
    pub(super) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// Inserts items from `first` on until one finds no room. Returns how many were inserted.
    pub(super) fn fill(self, set: &mut (impl Set + ?Sized), first: u64) -> u64 {
        (first..).take_while(|&number| set.insert(self.present(number))).count() as u64
    }

    /// Inserts items that must find room.
    pub(super) fn enter(self, set: &mut dyn Set, numbers: Range<u64>) -> Done {
        timed(numbers, |number| self.present(number), |hashes| set.insert_all(hashes))
    }

    /// Removes items that are present.
    pub(super) fn remove(self, set: &mut dyn Removing, numbers: Range<u64>) -> Done {
        timed(numbers, |number| self.present(number), |hashes| set.remove_all(hashes))
    }

    /// Looks up `asked` items: a share of them from the first `entered` items, the others absent.
    pub(super) fn look_up(self, set: &dyn Set, entered: u64, share: f64, asked: u64) -> Done {
        timed(0..asked, self.mixture(entered, share), |hashes| set.count(hashes))
    }

    /// Returns the share of `asked` absent items that are found.
    pub(super) fn rate(self, set: &dyn Set, asked: u64) -> f64 {
        let found = timed(0..asked, |number| self.absent(number), |hashes| set.count(hashes)).count;
        found as f64 / asked as f64
    }

    /// Returns a function from numbers to hashes, of which this share belongs to present items.
    pub(super) fn mixture(self, entered: u64, share: f64) -> impl FnMut(u64) -> u64 {
        let mut rng = Rng::new(self.0);
        move |number| {
            if rng.unit() < share { self.present(rng.below(entered)) } else { self.absent(number) }
        }
    }

    fn present(self, number: u64) -> u64 {
        mix(number ^ self.0)
    }

    fn absent(self, number: u64) -> u64 {
        self.present(number | 1 << 60)
    }
}

/// Calls `work` with one batch of hashes after the other, and measures only the time of `work`.
fn timed(
    numbers: Range<u64>,
    mut hash: impl FnMut(u64) -> u64,
    mut work: impl FnMut(&[u64]) -> usize,
) -> Done {
    let (mut count, mut tried, mut cpu) = (0, 0, Duration::ZERO);
    let mut hashes = Vec::with_capacity(RUN);
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        hashes.clear();
        hashes.extend(numbers.by_ref().take(RUN).map(&mut hash));
        let begun = thread_cpu();
        count += work(&hashes) as u64;
        cpu += thread_cpu() - begun;
        tried += hashes.len() as u64;
    }
    Done { count, ns: cpu.as_nanos() as f64 / tried.max(1) as f64 }
}

/// Hashes that are computed at a time: 32 KiB, which leaves the caches to the filter.
const RUN: usize = 1 << 12;
