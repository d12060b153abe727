//! Threads that enter, replace, remove and read at once, and check what they see.
//!
//! Each key has one writer, which knows what must be there. Readers know bounds: a key that is never removed must
//! always be found, its generations never go back, and a key that is never entered is never found. The table starts
//! small, so all of this happens while entries are displaced and buckets are split.

use guira_index::{
    Chained, Cuckoo, Entry as _, Hash, Hopscotch, Hopscotch64, Index, IndexKind, Items, Location,
};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Keys are the low 22 bits of a location; the other bits are the generation.
struct Keys {
    /// Bits that hashes keep. They limit the number of different tags and buckets.
    mask: u64,
}

impl Items for Keys {
    fn hash(&self, at: Location) -> Hash {
        self.of(at.0 & KEY)
    }
}

impl Keys {
    fn of(&self, key: u32) -> Hash {
        let mixed = (u64::from(key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Hash((mixed ^ mixed >> 32) & self.mask)
    }
}

struct Stress<I> {
    keys: Keys,
    table: I,
    /// How many keys are never removed: `0..stable`.
    stable: u32,
    /// How many keys are entered and removed in turn, from `CHURN` on.
    churn: u32,
    rounds: u32,
    is_done: AtomicBool,
    reads: AtomicUsize,
}

impl<I: Index> Stress<I> {
    fn run(&self, writers: u32, readers: u64) {
        (0..self.stable).for_each(|key| assert_eq!(self.put(key, 0), None));
        // On a busy machine writers could have ended before a reader began.
        let begin = &Barrier::new(writers as usize + usize::try_from(readers).expect("few"));
        std::thread::scope(|scope| {
            let write = |id| {
                scope.spawn(move || {
                    begin.wait();
                    self.write(id, writers);
                })
            };
            let writing: Vec<_> = (0..writers).map(write).collect();
            for id in 0..readers {
                scope.spawn(move || {
                    begin.wait();
                    self.read(id + 1);
                });
            }
            let ended: Vec<_> = writing.into_iter().map(|writer| writer.join()).collect();
            self.is_done.store(true, Relaxed);
            ended.into_iter().for_each(|end| end.expect("a writer's checks"));
        });
        self.table.validate(&self.keys).expect("the invariants hold");
        assert!(self.reads.load(Relaxed) > 0, "nobody read");
        let left = (0..self.churn).filter(|key| self.get(CHURN + key).is_some()).count();
        assert_eq!(self.table.len(), self.stable as usize + left);
    }

    fn get(&self, key: u32) -> Option<u32> {
        let found = self.table.get(self.keys.of(key), |at| at.0 & KEY == key)?;
        Some(found.0 >> KEY_BITS)
    }

    fn put(&self, key: u32, generation: u32) -> Option<u32> {
        let entry = self.table.entry(self.keys.of(key), &self.keys, |at| at.0 & KEY == key);
        let old = entry.expect("room").put(Location(generation << KEY_BITS | key));
        old.map(|at| at.0 >> KEY_BITS)
    }

    fn remove(&self, key: u32) -> bool {
        let entry = self.table.find_entry(self.keys.of(key), |at| at.0 & KEY == key);
        entry.is_some_and(|mut entry| entry.remove().is_some())
    }

    /// Works on this writer's share of the keys: replaces the stable ones, and enters and removes more and more of
    /// the others.
    fn write(&self, id: u32, writers: u32) {
        let mine = |end: u32| (id..end).step_by(writers as usize);
        for round in 1..=self.rounds {
            for key in mine(self.stable) {
                assert_eq!(self.put(key, round), Some(round - 1), "only I write key {key}");
            }
            let growing = self.churn / self.rounds * round;
            for key in mine(growing) {
                assert_eq!(self.put(CHURN + key, round), None, "removed before");
                assert_eq!(self.get(CHURN + key), Some(round), "just entered");
            }
            if round < self.rounds {
                for key in mine(growing) {
                    assert!(self.remove(CHURN + key), "entered before");
                    assert_eq!(self.get(CHURN + key), None, "just removed");
                }
            }
        }
    }

    fn read(&self, seed: u64) {
        let mut newest = vec![0; self.stable as usize];
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut reads = 0;
        while !self.is_done.load(Relaxed) {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let key = u32::try_from((random >> 32) % u64::from(self.stable)).expect("a key");
            let found = self.get(key).unwrap_or_else(|| panic!("key {key} was missed"));
            let last = &mut newest[key as usize];
            assert!(found >= *last, "key {key} went back from {last} to {found}");
            *last = found;
            assert_eq!(self.get(key + NEVER), None);
            if let Some(round) = self.get(CHURN + key % self.churn) {
                assert!((1..=self.rounds).contains(&round));
            }
            reads += 1;
        }
        self.reads.fetch_add(reads, Relaxed);
    }
}

impl<I: Index> Stress<I> {
    fn new(new: impl Fn(usize) -> I, mask: u64, [stable, churn, rounds]: [u32; 3]) -> Self {
        let table = new((stable + churn) as usize);
        let (is_done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { keys: Keys { mask }, table, stable, churn, rounds, is_done, reads }
    }
}

/// Number of stable keys, of keys that come and go, and of rounds: normally, and under Miri, which is slow.
fn sizes(here: [u32; 3], miri: [u32; 3]) -> [u32; 3] {
    if cfg!(miri) { miri } else { here }
}

macro_rules! indexes {
    ($($name:ident: $new:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn a_growing_table_loses_nothing() {
                let sizes = sizes([5_000, 200_000, 6], [20, 120, 2]);
                Stress::new($new, u64::MAX, sizes).run(2, 2);
            }

            /// Few keys, all in a few buckets: writers and readers meet in each bucket.
            #[test]
            fn crowded_buckets_lose_nothing() {
                let sizes = sizes([100, 600, 300], [10, 14, 2]);
                Stress::new($new, u64::MAX, sizes).run(3, 2);
            }

            /// Only fifteen tags, so that every lookup meets other keys.
            #[test]
            fn keys_with_equal_tags_are_kept_apart() {
                let sizes = sizes([300, 3_000, 50], [20, 60, 2]);
                Stress::new($new, u64::MAX - 0x1f0, sizes).run(2, 2);
            }
        }
    )*};
}

indexes! {
    cuckoo: Cuckoo::with_max;
    hopscotch: Hopscotch::with_max;
    hopscotch64: Hopscotch64::with_max;
    any: |items_max| IndexKind::Chained.with_max(items_max);
    chained: Chained::with_max;
}

const KEY_BITS: u32 = 22;
const KEY: u32 = (1 << KEY_BITS) - 1;
/// The first of the keys that come and go, and the first of those that are never entered.
const CHURN: u32 = 1 << 20;
const NEVER: u32 = 1 << 21;
