//! The index compared with a map, with so few tag bits that nearly all keys share their tags.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// A hash of `key` for lines and stripes, of which the tag gets two bits.
fn hash(key: u64) -> u64 {
    let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn entry(index: &Index, key: u64, place: u32) -> FlashEntry {
    FlashEntry::new(index.tag(hash(key)), 1, place, 1).unwrap()
}

fn places(index: &Index, key: u64) -> Vec<u32> {
    let mut places = Vec::new();
    index.look(hash(key), |entry| places.push(entry.place()));
    places
}

#[test]
fn most_entries_are_found_and_an_entry_takes_under_eight_bytes() {
    let index = Index::new(10_000, 64 << 20, 16);
    let count = 60_000u32;
    let mut lost = 0;
    for n in 0..count {
        let entered = index.insert(hash(n.into()), entry(&index, n.into(), n), |_| true);
        lost += u32::from(entered != Entered::Entered);
    }
    let found = (0..count).filter(|&n| places(&index, n.into()).contains(&n)).count();
    assert_eq!(found, (count - lost) as usize);
    assert_eq!(index.entries(), found as u64);
    assert!(lost < count / 1000, "{lost} lost");
    let each = index.bytes() as f64 / f64::from(count);
    assert!(each < 8.0, "{each} bytes an entry");
}

#[test]
fn growth_stops_at_the_limit_and_then_entries_are_lost_one_for_one() {
    let index = Index::new(1_000, 64 << 10, 16);
    let mut lost = 0;
    for n in 0..12_000 {
        let entered = index.insert(hash(n.into()), entry(&index, n.into(), n), |_| true);
        lost += u64::from(entered != Entered::Entered);
    }
    assert!(index.bytes() <= 64 << 10, "{}", index.bytes());
    assert_eq!(index.entries() + lost, 12_000);
}

/// A regression test: a table for a large device took more memory than it was given, before any entry was made.
#[test]
fn a_table_for_more_entries_than_its_memory_holds_stays_within_it() {
    let index = Index::new(100_000_000, 1 << 20, 16);
    for n in 0..100_000 {
        index.insert(hash(n.into()), entry(&index, n.into(), n), |_| true);
    }
    assert!(index.bytes() <= 1 << 20, "{}", index.bytes());
}

/// While dead entries exist, gets of their keys can be distinguished from gets of keys that never existed.
#[test]
fn dead_entries_stay_while_there_are_empty_slots() {
    let index = Index::new(10_000, 64 << 20, 16);
    for n in 0..1_000 {
        index.insert(hash(n.into()), entry(&index, n.into(), n), |_| true);
    }
    for n in 1_000..2_000 {
        index.insert(hash(n.into()), entry(&index, n.into(), n), |entry| entry.place() >= 1_000);
    }
    assert_eq!(index.entries(), 2_000);
}

#[test]
fn dead_entries_make_room_and_are_swept() {
    let index = Index::new(1_000, 1 << 20, 16);
    for n in 0..1_000 {
        index.insert(hash(n.into()), entry(&index, n.into(), n), |_| true);
    }
    let is_alive = |entry: FlashEntry| entry.place() >= 500;
    let swept: usize = (0..index.stripes()).map(|stripe| index.sweep(stripe, is_alive)).sum();
    assert_eq!((swept, index.entries()), (500, 500));
    assert!((0..500u64).all(|n| places(&index, n).iter().all(|&place| place >= 500)));
}

#[test]
fn what_a_flush_would_put_back_after_a_removal_is_caught() {
    // The test below must fail for an index that forgets a removal.
    let index = Index::new(100, 1 << 20, 2);
    index.insert(hash(1), entry(&index, 1, 10), |_| true);
    let seen = places(&index, 1);
    index.remove_all(hash(1), |_| {});
    assert!(seen == [10] && places(&index, 1).is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64),
    Delete(u64),
    Replace(u64),
    Hit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..400u64;
    prop_oneof![
        4 => key.clone().prop_map(Step::Set),
        1 => key.clone().prop_map(Step::Delete),
        1 => key.clone().prop_map(Step::Replace),
        1 => key.prop_map(Step::Hit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// With tags of two bits the index may lose entries, but it never shows a place that was removed or replaced.
    #[test]
    fn no_removed_or_replaced_place_is_ever_shown(steps in prop::collection::vec(step(), 1..2000)) {
        let index = Index::new(100, 1 << 20, 2);
        let mut last: HashMap<u64, u32> = HashMap::new();
        let mut dead: HashMap<u32, u64> = HashMap::new();
        for (at, step) in (1u32..).zip(steps) {
            let key = match step { Step::Set(k) | Step::Delete(k) | Step::Replace(k) | Step::Hit(k) => k };
            match step {
                Step::Set(_) => {
                    index.remove_all(hash(key), |_| {});
                    index.insert(hash(key), entry(&index, key, at), |_| true);
                    dead.extend(last.insert(key, at).map(|old| (old, key)));
                }
                Step::Delete(_) => {
                    index.remove_all(hash(key), |_| {});
                    dead.extend(last.remove(&key).map(|old| (old, key)));
                }
                Step::Replace(_) => {
                    if let Some(&old) = last.get(&key) {
                        let old_entry = entry(&index, key, old);
                        let had = places(&index, key).contains(&old);
                        prop_assert_eq!(index.replace(hash(key), old_entry, entry(&index, key, at)), had);
                        if had {
                            last.insert(key, at);
                        }
                        dead.insert(old, key);
                    }
                }
                Step::Hit(_) => {
                    if let Some(&place) = last.get(&key) {
                        let had = places(&index, key).contains(&place);
                        prop_assert_eq!(index.hit(hash(key), entry(&index, key, place)).is_some(), had);
                    }
                }
            }
            for place in places(&index, key) {
                prop_assert!(!dead.contains_key(&place), "place {} was removed", place);
            }
        }
        let mut shown: Vec<u32> = last.keys().flat_map(|&key| places(&index, key)).collect();
        shown.sort_unstable();
        shown.dedup();
        prop_assert!(shown.len() as u64 <= index.entries());
    }
}
