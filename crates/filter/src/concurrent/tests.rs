//! One thread writes while another reads; and the filter is compared with a multiset of hashes.

use super::*;
use crate::hash::scramble;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::thread;

#[test]
fn present_items_are_found_while_others_come_and_go() {
    let (residents, others, rounds) = if cfg!(miri) { (40, 20, 2) } else { (9_000, 500, 30) };
    let load = residents + others;
    let mut filter = ConcurrentCuckooFilter::with_rate_and_hasher(load, 0.001, Keyed::from_seed(3));
    (0..residents).try_for_each(|n| filter.insert(&n)).expect("planned for");
    let reader = filter.reader();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let items: Vec<usize> = (0..residents).collect();
            let mut found = std::vec![false; residents];
            while !done.load(Relaxed) {
                reader.contains_many(&items, &mut found);
                assert!(found.iter().all(|&found| found), "a false miss");
                assert!((0..residents).all(|n| reader.contains(&n)), "a false miss");
            }
        });
        for round in 0..rounds {
            let items = (1..=others).map(|n| load * (round + 1) + n);
            items.clone().try_for_each(|n| filter.insert(&n)).expect("planned for");
            assert!(items.clone().all(|n| filter.remove(&n)));
        }
        done.store(true, Relaxed);
    });
    assert_eq!(filter.len(), residents);
}

/// Another item with the same fingerprint and buckets takes the item's own copy with it, and leaves its copy
/// elsewhere.
#[test]
fn an_item_is_found_while_its_twins_come_and_go() {
    let mut filter = ConcurrentCuckooFilter::new(32, Pair::at_least(2), ());
    // In a table of two buckets, the highest bit of a hash is the bucket.
    let (item, twin) = (7, 7 | 1 << 63);
    filter.insert_hash(item).expect("empty");
    let (reader, done) = (filter.reader(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                assert!(reader.contains_hash(item), "a false miss");
            }
        });
        for _ in 0..if cfg!(miri) { 20 } else { 300_000 } {
            filter.insert_hash(twin).expect("room");
            assert!(filter.remove_hash(twin));
            filter.insert_hash(item).expect("room");
            assert!(filter.remove_hash(item));
        }
        done.store(true, Relaxed);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 64 }))]

    #[test]
    fn it_agrees_with_a_multiset(
        bits in 4_u32..=32,
        buckets in 2_u64..12,
        steps in prop::collection::vec(any::<(u8, bool)>(), 1..if cfg!(miri) { 40 } else { 400 }),
    ) {
        let mut filter = ConcurrentCuckooFilter::new(bits, Pair::at_least(buckets), ());
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let reader = filter.reader();
        for (seed, removes) in steps {
            let hash = scramble(u64::from(seed) + 1);
            let copies = model.entry(hash).or_default();
            if removes {
                if *copies > 0 {
                    prop_assert!(filter.remove_hash(hash));
                    *copies -= 1;
                }
            } else {
                match filter.insert_hash(hash) {
                    Ok(()) => *copies += 1,
                    Err(full) => {
                        // By chance all items may share the item's two buckets, but those must be full.
                        prop_assert!(full.len >= full.copies_max as usize, "{full}");
                    }
                }
            }
            let len: u32 = model.values().sum();
            prop_assert_eq!(filter.len(), len as usize);
            prop_assert!(model.iter().all(|(&hash, &n)| n == 0 || reader.contains_hash(hash)));
        }
    }
}
