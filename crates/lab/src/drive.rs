//! The drivers of the tables: lookups that wait for each other, and mixes of reads and writes on several threads.
//!
//! A processor overlaps lookups in a tight loop. This hides the latency that a server would see, which runs a thousand
//! instructions between two lookups. So there is a fence between lookups ([`wait`]), and a lookup costs its own memory
//! accesses. It isn't enough that the next key depends on the result: the processor predicts that, too.
//!
//! Every driver takes any [`Index`]; [`Mix`] compares tables under writes.

use crate::baseline::items::{Items, Key};
use crate::measure::{Work, threads_for, wait};
use guira_bench::{Rng, mix};
use guira_index::{Entry as _, Index, Location};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Looks up `count` keys with uniformly random numbers from `numbers`, one after the other. Returns how many were found.
#[inline]
pub(crate) fn look_up(
    seed: u64,
    count: u64,
    numbers: std::ops::Range<u32>,
    mut get: impl FnMut(&Key) -> Option<Location>,
) -> u64 {
    let mut rng = Rng::new(mix(seed));
    let mut found = 0;
    for _ in 0..count {
        let at = get(&Key::new(pick(&mut rng, &numbers)));
        found += u64::from(black_box(at).is_some());
        wait();
    }
    found
}

/// Like [`threads_for`], with each thread pinned to a processor, assigned in turn. Otherwise short runs would end
/// before the system has separated two threads that it started on the same processor.
pub(crate) fn threads_apart(
    n: usize,
    time: Duration,
    work: impl Fn(usize, &AtomicBool) -> u64 + Sync,
) -> Work {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    threads_for(n, time, |thread, stop| {
        if let Some(&own) = processors.get(thread % processors.len().max(1)) {
            let mut only = CpuSet::new();
            only.set(own);
            // If that isn't allowed, the system's choice is good enough.
            let _ = sched_setaffinity(None, &only);
        }
        work(thread, stop)
    })
}

/// A table under reads and writes.
///
/// Keys with numbers below `stable` stay in the table, and are read. The others belong to the writers. Each writer
/// inserts and removes its own keys by turns, so the load stays the same.
pub(crate) struct Mix<'a, I> {
    pub(crate) table: &'a I,
    pub(crate) items: &'a Items,
    pub(crate) stable: u32,
}

impl<I: Index> Mix<'_, I> {
    /// Inserts the stable keys, and half of the others.
    pub(crate) fn fill(&self) {
        let entered = |&number: &u32| number < self.stable || number.is_multiple_of(2);
        (0..self.items.count()).filter(entered).for_each(|number| {
            self.entry(number, |mut entry| entry.put(Location(number)));
        });
    }

    /// Runs `threads` threads for `time`. Each operation is a write with probability `writes`, otherwise a read.
    ///
    /// # Panics
    /// If a key that is present is not found.
    pub(crate) fn run(&self, threads: usize, writes: f64, time: Duration) -> Work {
        threads_apart(threads, time, |thread, stop| self.one(thread, threads, writes, stop))
    }

    fn one(&self, thread: usize, threads: usize, writes: f64, stop: &AtomicBool) -> u64 {
        let mut rng = Rng::new(mix(thread as u64));
        // As a fraction of 2^32.
        let share = (writes * 4_294_967_296.0).round();
        let mut ops = 0;
        loop {
            for _ in 0..BETWEEN_LOOKS {
                if ((rng.number() >> 32) as f64) < share {
                    self.write(&mut rng, thread, threads);
                } else {
                    let key = Key::new(pick(&mut rng, &(0..self.stable)));
                    let at = self.table.get(key.hash(), |at| self.items.is_key(at, &key));
                    black_box(at.expect("a key that stays is found"));
                }
                wait();
            }
            ops += BETWEEN_LOOKS;
            if stop.load(Relaxed) {
                return ops;
            }
        }
    }

    /// Removes one of this thread's keys if it is present, otherwise inserts it.
    fn write(&self, rng: &mut Rng, thread: usize, threads: usize) {
        let [thread, threads] = [thread, threads].map(|n| u32::try_from(n).expect("few threads"));
        let each = (self.items.count() - self.stable) / threads;
        let number = self.stable + pick(rng, &(0..each)) * threads + thread;
        self.entry(number, |mut entry| match entry.location() {
            Some(_) => entry.remove(),
            None => entry.put(Location(number)),
        });
    }

    fn entry(&self, number: u32, change: impl FnOnce(I::Entry<'_>) -> Option<Location>) {
        let key = Key::new(number);
        let is_key = |at| self.items.is_key(at, &key);
        change(self.table.entry(key.hash(), self.items, is_key).expect("room"));
    }
}

/// Returns a random number of the range.
#[inline]
pub(crate) fn pick(rng: &mut Rng, range: &std::ops::Range<u32>) -> u32 {
    let below = rng.below(u64::from(range.end - range.start));
    range.start + u32::try_from(below).expect("below 32 bits")
}

/// Operations between two checks of the flag that ends a run.
const BETWEEN_LOOKS: u64 = 64;
