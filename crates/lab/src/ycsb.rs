//! YCSB's mixes on any index: zipf-distributed keys that are all present, gets, and puts that replace.
//!
//! Key numbers are drawn before the clock starts, because drawing one takes longer than a lookup. A put locks the key's
//! place and stores its location, as a cache does when it replaces an item; no key is inserted or removed.

use crate::baseline::items::{Items, Key};
use crate::drive::threads_apart;
use crate::measure::{Work, wait};
use guira_bench::{Rng, Zipf, mix};
use guira_index::{Entry as _, Index, Location};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The keys that each thread asks for, in order.
pub(crate) struct Ycsb<'a> {
    items: &'a Items,
    asked: Vec<Box<[u32]>>,
}

impl<'a> Ycsb<'a> {
    /// For so many threads, with zipf's exponent 0.99.
    pub(crate) fn new(items: &'a Items, threads: usize, seed: u64) -> Self {
        let ranks = u64::from(items.count());
        let zipf = Zipf::new(ranks, 0.99);
        let asked = |thread: usize| {
            let mut rng = Rng::new(mix(seed ^ thread as u64));
            // The most popular keys lie anywhere.
            let number = |rank: u64| u32::try_from(mix(rank) % ranks).expect("below the count");
            (0..ASKED).map(|_| number(zipf.rank(&mut rng))).collect()
        };
        Self { items, asked: (0..threads).map(asked).collect() }
    }

    /// Enters all keys.
    pub(crate) fn fill(&self, table: &impl Index) {
        (0..self.items.count()).for_each(|number| self.put(table, number));
    }

    /// So many threads for a while; each operation is a put with the probability `puts`, and else a get.
    ///
    /// # Panics
    /// If a key is not found.
    pub(crate) fn run(
        &self,
        table: &impl Index,
        threads: usize,
        puts: f64,
        time: Duration,
    ) -> Work {
        threads_apart(threads, time, |thread, stop| self.one(table, thread, puts, stop))
    }

    /// What any table could gain from threads on this machine now: reads of items whose place is known, without a table.
    pub(crate) fn control(&self, threads: usize, time: Duration) -> Work {
        threads_apart(threads, time, |thread, stop| {
            let mut ops = 0;
            for keys in self.asked[thread].chunks(BETWEEN_LOOKS).cycle() {
                if stop.load(Relaxed) {
                    break;
                }
                for &number in keys {
                    black_box(self.items.known(&Key::new(number)));
                    wait();
                }
                ops += keys.len() as u64;
            }
            ops
        })
    }

    fn one(&self, table: &impl Index, thread: usize, puts: f64, stop: &AtomicBool) -> u64 {
        let asked = &self.asked[thread];
        let mut rng = Rng::new(mix(thread as u64));
        // As a fraction of 2^32.
        let share = (puts * 4_294_967_296.0).round();
        let nothing = black_box(0);
        let (mut ops, mut last) = (0, 0);
        // Runs begin anywhere, so that the processor's caches don't know the keys from the run before.
        let start = usize::try_from(rng.below(asked.len() as u64)).expect("a place");
        for keys in asked.chunks(BETWEEN_LOOKS).cycle().skip(start / BETWEEN_LOOKS) {
            if stop.load(Relaxed) {
                break;
            }
            for &number in keys {
                // As in a server, a lookup waits for the one before it.
                let number = number + (last & nothing);
                if ((rng.number() >> 32) as f64) < share {
                    self.put(table, number);
                } else {
                    let key = Key::new(number);
                    let at = table.get(key.hash(), |at| self.items.is_key(at, &key));
                    last = at.expect("every key is present").0;
                }
            }
            ops += keys.len() as u64;
        }
        ops
    }

    fn put(&self, table: &impl Index, number: u32) {
        let key = Key::new(number);
        let is_key = |at| self.items.is_key(at, &key);
        table.entry(key.hash(), self.items, is_key).expect("room").put(Location(number));
    }
}

/// Keys that a thread asks for before it begins again.
const ASKED: usize = 1 << 20;
/// Operations between two looks at the flag that ends a run.
const BETWEEN_LOOKS: usize = 64;
