//! The baselines are correct: each table compared with a `HashMap`, then with threads; each cache with values that
//! reveal errors.

use super::chain::{Chain, Link};
use super::engine::{Engine, Key, Kind};
use super::single_writer::{Design, Paths, Reads, SLOTS, SingleWriter};
use guira_bench::{Rng, mix};
use guira_index::{Entry as _, Full, Hash, Index, Items, Location};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Keys are the low bits of a location, the rest is the generation.
struct Keys;

impl Keys {
    fn of(key: u32) -> Hash {
        Hash(mix(u64::from(key)))
    }
}

impl Items for Keys {
    fn hash(&self, at: Location) -> Hash {
        Self::of(at.0 % KEYS)
    }
}

fn get(table: &impl Index, key: u32) -> Option<Location> {
    table.get(Keys::of(key), |at| at.0 % KEYS == key)
}

fn put(table: &impl Index, key: u32, at: Location) -> Result<Option<Location>, Full> {
    Ok(table.entry(Keys::of(key), &Keys, |at| at.0 % KEYS == key)?.put(at))
}

fn remove(table: &impl Index, key: u32) -> Option<Location> {
    table.find_entry(Keys::of(key), |at| at.0 % KEYS == key)?.remove()
}

/// Enters, replaces and removes at random, up to 93 % of the cuckoo tables' slots.
fn behaves_like_a_map(table: &impl Index) {
    let (mut rng, mut map) = (Rng::new(7), HashMap::new());
    for step in 0..if cfg!(miri) { 2_000 } else { 60_000 } {
        let key = u32::try_from(rng.below(u64::from(KEYS))).unwrap();
        let wants_more = map.len() < SLOTS_HERE * 93 / 100;
        if rng.below(10) < if wants_more { 9 } else { 1 } {
            let at = Location(key + KEYS * (step % GENERATIONS));
            assert_eq!(put(table, key, at), Ok(map.insert(key, at)), "step {step}");
        } else {
            assert_eq!(remove(table, key), map.remove(&key), "step {step}");
        }
        let other = u32::try_from(rng.below(u64::from(KEYS))).unwrap();
        assert_eq!(get(table, other), map.get(&other).copied(), "step {step}");
    }
    table.validate(&Keys).unwrap();
    assert_eq!(table.len(), map.len());
    assert!((0..KEYS).all(|key| get(table, key) == map.get(&key).copied()));
}

/// A writer keeps the table so full that each inserted key moves others, while readers look for keys that stay.
fn misses_no_present_key(table: &impl Index) {
    let stable = u32::try_from(SLOTS_HERE * 8 / 10).unwrap();
    let churn = u32::try_from(SLOTS_HERE * 14 / 100).unwrap();
    (0..stable).for_each(|key| assert_eq!(put(table, key, Location(key)), Ok(None)));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let is_done = &is_done;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                while !is_done.load(Relaxed) {
                    let key = u32::try_from(rng.below(u64::from(stable))).unwrap();
                    assert_eq!(get(table, key), Some(Location(key)), "a false miss");
                    assert_eq!(get(table, KEYS - 1 - key % 100), None, "never entered");
                }
            });
        }
        let write = || {
            for round in 0..if cfg!(miri) { 1 } else { 200 } {
                let keys = || (0..churn).map(|n| stable + (n + 7 * round) % (churn + 50));
                for key in keys() {
                    assert_eq!(put(table, key, Location(key)), Ok(None));
                }
                for key in keys() {
                    assert_eq!(remove(table, key), Some(Location(key)));
                }
            }
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
        is_done.store(true, Relaxed);
        result.unwrap();
    });
    table.validate(&Keys).unwrap();
}

fn links() -> Box<[Link]> {
    (0..KEYS * GENERATIONS).map(|_| Link::default()).collect()
}

fn cuckoo(has_tags: bool, reads: Reads, paths: Paths) -> SingleWriter {
    SingleWriter::new(SLOTS_HERE / SLOTS, Design { has_tags, reads, paths })
}

macro_rules! tables {
    ($($name:ident: $new:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn behaves_like_a_map() {
                super::behaves_like_a_map(&$new);
            }

            #[test]
            fn misses_no_present_key() {
                super::misses_no_present_key(&$new);
            }
        }
    )*};
}

tables! {
    chain_with_one_lock: Chain::new(SLOTS_HERE, 1, links());
    chain_with_striped_locks: Chain::new(SLOTS_HERE, 16, links());
    memc3: SingleWriter::new(SLOTS_HERE / SLOTS, Design::MEMC3);
    three_paths: cuckoo(true, Reads::Optimistic, Paths::Parallel(3));
    breadth_first: cuckoo(true, Reads::Optimistic, Paths::BreadthFirst);
    locked_readers: cuckoo(true, Reads::Locked, Paths::Parallel(1));
    without_tags: cuckoo(false, Reads::Optimistic, Paths::Parallel(2));
    without_tags_locked: cuckoo(false, Reads::Locked, Paths::Parallel(1));
}

#[test]
fn a_chain_knows_its_longest() {
    let chain = Chain::new(1, 1, links());
    (0..5).for_each(|key| assert_eq!(put(&chain, key, Location(key)), Ok(None)));
    assert_eq!(chain.longest(), 5);
}

#[test]
fn moves_are_counted_and_begin_when_buckets_fill() {
    let table = SingleWriter::new(SLOTS_HERE / SLOTS, Design::MEMC3);
    let fill = |to: usize| {
        let from = table.len();
        (from..to).for_each(|key| {
            let key = u32::try_from(key).unwrap();
            assert_eq!(put(&table, key, Location(key)), Ok(None));
        });
        table.moves()
    };
    let half = fill(SLOTS_HERE / 2);
    assert!(half < 20, "{half} moves to fill half");
    let full = fill(SLOTS_HERE * 94 / 100);
    assert!(full > 200, "{full} moves to fill 94 %");
}

#[test]
fn a_full_table_says_so_and_takes_keys_again_after_a_removal() {
    let table = SingleWriter::new(8, Design::MEMC3);
    let first_refused = (0..KEYS).find(|&key| put(&table, key, Location(key)) == Err(Full));
    let refused = first_refused.expect("32 slots");
    assert!((26..=32).contains(&refused), "{refused}");
    assert!((0..refused).all(|key| remove(&table, key).is_some()));
    assert_eq!(put(&table, refused, Location(refused)), Ok(None));
    table.validate(&Keys).unwrap();
}

#[test]
fn lru_evicts_what_was_used_longest_ago_and_clock_what_was_not_used() {
    for kind in Kind::ALL {
        let cache = Engine::new(kind, 4);
        let has = |key: u64| cache.get([key, 1], &mut [0; 4]);
        (1..=4).for_each(|key| cache.set([key, 1], [key; 4]));
        assert!(has(1) && has(2), "{}", kind.name());
        cache.set([5, 1], [5; 4]);
        assert!(!has(3) && has(1) && has(2), "{}", kind.name());
        cache.set([6, 1], [6; 4]);
        assert!(!has(4) && has(5) && has(6), "{}", kind.name());
        // All were used: LRU gives up 1, the one used longest ago; the clock's hand went on to there too.
        cache.set([7, 1], [7; 4]);
        assert!(!has(1) && has(7), "{}", kind.name());
        assert_eq!(cache.len(), 4);
    }
}

/// A value says which key it is for; its four words belong together.
fn value(key: Key, sequence: u64) -> [u64; 4] {
    let tie = mix(key[0] ^ sequence);
    [key[0], sequence, tie, !tie]
}

#[test]
fn a_cache_returns_whole_values_of_the_right_key_while_it_evicts() {
    let (rounds, items) = if cfg!(miri) { (200, 8) } else { (60_000, 256) };
    for kind in Kind::ALL {
        let cache = Engine::new(kind, items);
        let work = |seed: u64| {
            let mut rng = Rng::new(seed);
            let (mut copy, mut hits) = ([0; 4], 0);
            for sequence in 0..rounds {
                let key = [1 + rng.below(u64::from(items) * 2), 1];
                if rng.below(3) == 0 {
                    cache.set(key, value(key, sequence));
                } else if cache.get(key, &mut copy) {
                    assert_eq!(copy, value(key, copy[1]), "{}", kind.name());
                    hits += 1;
                }
            }
            hits
        };
        let hits: u64 = std::thread::scope(|scope| {
            let work = &work;
            let all: Vec<_> = (0..3).map(|seed| scope.spawn(move || work(seed))).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(hits > rounds / 4, "{}: {hits} hits", kind.name());
        // The last set may have replaced an item after it had evicted another.
        assert!(cache.len() + 1 >= items as usize, "{}", kind.name());
    }
}

/// Slots of the cuckoo tables; the chains have about as much room.
const SLOTS_HERE: usize = if cfg!(miri) { 64 } else { 4096 };
const KEYS: u32 = if cfg!(miri) { 128 } else { 8192 };
const GENERATIONS: u32 = 4;
