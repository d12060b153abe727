//! The index compared with a map, filled to its last slot and beyond, and read during inserts.

use super::*;
use fastrand::Rng;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

fn hash(n: u32) -> KeyHash {
    KeyHash(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

#[test]
fn all_that_was_entered_is_found_also_past_the_last_slot() {
    let index = LogIndex::with_keys(4096);
    let mut room = 0;
    for n in 1..=6000 {
        if index.has_room(1) {
            room = n;
        }
        index.insert(hash(n), n);
        assert!(index.candidates(hash(n)).any(|it| it == n), "{n} right after its entry");
    }
    for n in 1..=6000 {
        assert!(index.candidates(hash(n)).any(|it| it == n), "{n}");
    }
    // The overflow rule allows 15/16 of the 4096 slots. Nearly all of these fill before a key spills.
    assert_eq!((room, index.len()), (4096 - 256, 6000));
    assert_eq!(index.candidates(hash(6001)).filter(|&it| it > 6000).count(), 0);
}

#[test]
fn a_table_is_nearly_full_before_a_key_spills() {
    for keys in [1 << 10, 1 << 14, 1 << 18] {
        let index = LogIndex::with_keys(keys);
        let mut n = 0;
        while index.spilled.load(Relaxed) == 0 {
            n += 1;
            index.insert(hash(n), n);
        }
        let load = f64::from(n) / keys as f64;
        assert!(load > 0.95, "{load} of {keys}");
        assert_eq!(index.table.bytes(), keys * 6);
        assert_eq!(LogIndex::with_keys(keys + keys / 8).table.bytes(), keys * 6);
    }
}

#[test]
fn others_are_candidates_as_rarely_as_sixteen_bits_allow() {
    let index = LogIndex::with_keys(1 << 16);
    (1..=60_000).for_each(|n| index.insert(hash(n), n));
    let others: usize = (100_000..200_000).map(|n| index.candidates(hash(n)).count()).sum();
    // 8 slots, 60,000 of 65,536 in use, 2^-16 each: 11 in 100,000.
    assert!((2..40).contains(&others), "{others}");
}

#[test]
fn a_replaced_place_is_gone_and_the_newest_comes_first() {
    let index = LogIndex::with_keys(64);
    // All keys have one hash: eight fit into the slots, the others go into the map.
    let places: Vec<u32> = (1..=300).collect();
    for &place in &places {
        index.insert(KeyHash(7), place);
    }
    let newest_first: Vec<u32> = places.iter().rev().copied().collect();
    assert_eq!(index.candidates(KeyHash(7)).collect::<Vec<_>>(), newest_first);
    for old in [3, 299] {
        assert!(index.replace(KeyHash(7), old, old + 1000));
        assert!(!index.replace(KeyHash(7), old, old + 1000), "it is no longer here");
    }
    let after: Vec<u32> = index.candidates(KeyHash(7)).collect();
    assert_eq!(after[..2], [1299, 1003]);
    assert_eq!((after.len(), index.len(), index.has_room(1)), (300, 300, false));
}

#[test]
fn the_index_agrees_with_a_map_of_few_hashes() {
    let mut rng = Rng::with_seed(1);
    let index = LogIndex::with_keys(256);
    let mut model: HashMap<u32, Vec<u32>> = HashMap::new();
    for place in 1..400 {
        let n = rng.u32(0..120);
        let of_hash = model.entry(n).or_default();
        if !of_hash.is_empty() && rng.bool() {
            let at = rng.usize(0..of_hash.len());
            assert!(index.replace(hash(n), of_hash[at], place));
            of_hash[at] = place;
        } else {
            index.insert(hash(n), place);
            of_hash.push(place);
        }
        for (n, places) in &model {
            let found: HashSet<u32> = index.candidates(hash(*n)).collect();
            assert!(places.iter().all(|it| found.contains(it)), "of {n}");
        }
    }
}

/// Readers look for inserted entries while every insert moves others.
#[test]
fn readers_find_all_while_a_full_table_is_stirred() {
    let index = LogIndex::with_keys(1 << 12);
    let entered = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (index, entered, is_over) = (&index, &entered, &is_over);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed);
                while !is_over.load(Acquire) {
                    let upto = u32::try_from(entered.load(Acquire)).unwrap();
                    let n = rng.u32(0..upto.max(1)) + 1;
                    let is_found = index.candidates(hash(n)).any(|it| it == n);
                    assert!(is_found || upto == 0, "{n} of {upto}");
                }
            });
        }
        for n in 1..=4000 {
            index.insert(hash(n), n);
            entered.store(n as usize, Release);
        }
        is_over.store(true, Release);
    });
}
