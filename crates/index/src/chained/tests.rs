//! The table as a whole, with one thread at a time.

use super::extent::Extent;
use super::link::{Locked, SLOTS, Tag, Word};
use super::table::{BUCKETS_MIN, LINKS_SPARE, Probe};
use super::*;
use crate::sync::Acquire;
use crate::{Broken, Entry as _, Full, Hash, Index, Items, Location};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

/// Item memory of keys that are their own locations.
struct Numbers;

impl Items for Numbers {
    fn hash(&self, at: Location) -> Hash {
        hash(at.0)
    }
}

fn hash(key: u32) -> Hash {
    let mixed = u64::from(key).wrapping_add(0x9e37).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Hash(mixed ^ mixed >> 29)
}

fn enter<L: BucketLock>(table: &Chained<L>, key: u32) -> Option<Location> {
    let entry = table.entry(hash(key), &Numbers, |at| at.0 == key);
    entry.expect("room").put(Location(key))
}

fn remove<L: BucketLock>(table: &Chained<L>, key: u32) -> bool {
    let entry = table.find_entry(hash(key), |at| at.0 == key);
    entry.is_some_and(|mut entry| entry.remove().is_some())
}

fn has<L: BucketLock>(table: &Chained<L>, key: u32) -> bool {
    table.get(hash(key), |at| at.0 == key) == Some(Location(key))
}

/// Keys that share a bucket while the table has four.
fn keys_of_one_bucket() -> impl Iterator<Item = u32> {
    (0..).filter(|&key| Probe::new(hash(key)).position & 3 == 0)
}

#[test]
fn growing_by_one_moves_keys_of_the_split_bucket_only_and_only_to_the_new_one() {
    let mut extent = Extent::new(4);
    for _ in 0..if cfg!(miri) { 20 } else { 300 } {
        assert_eq!(Extent::from_word(extent.to_word()), extent);
        let ((from, to), grown) = (extent.next_split(), extent.grown(1));
        assert_eq!((to, grown.buckets()), (extent.buckets(), extent.buckets() + 1));
        for position in (0..200).map(|key| Probe::new(hash(key)).position) {
            let (before, after) = (extent.home(position), grown.home(position));
            if before.address() == from {
                assert!([from, to].contains(&after.address()));
                assert!(before.is_odd() != after.is_odd(), "the has-moved bit tells");
                assert_eq!(extent.home_after_split(position).address(), after.address());
            } else {
                assert_eq!(after.address(), before.address());
                assert_eq!(after.is_odd(), before.is_odd());
            }
        }
        extent = grown;
    }
}

#[test]
fn every_key_is_found_while_the_table_grows_to_its_largest() {
    let keys = if cfg!(miri) { 200 } else { 200_000 };
    let table = Chained::with_max(keys as usize);
    for key in 0..keys {
        assert_eq!(enter(&table, key), None);
    }
    assert_eq!(table.len(), keys as usize);
    assert!((0..keys).all(|key| has(&table, key)));
    assert!((keys..2 * keys).all(|key| !has(&table, key)));
    table.validate(&Numbers).unwrap();
    let load = table.len() as f64 / f64::from(table.extent().buckets());
    assert!((1.9..=2.0).contains(&load), "{load} keys a bucket");
    let links = |key| table.read_by(hash(key), |at| at.0 == key).len() - 1;
    let mean = (0..keys).map(links).sum::<usize>() as f64 / f64::from(keys);
    assert!((0.25..0.45).contains(&mean), "{mean} links a hit");
}

/// A background thread keeps the load below the one at which inserts help.
#[test]
fn a_table_that_is_maintained_asks_nothing_of_its_inserts() {
    struct Watched(Cell<bool>);
    impl Items for Watched {
        fn hash(&self, at: Location) -> Hash {
            assert!(self.0.get(), "an insert split a bucket");
            hash(at.0)
        }
    }
    let keys = if cfg!(miri) { 100 } else { 20_000 };
    let table = Chained::with_max(keys as usize);
    let items = Watched(Cell::new(false));
    for key in 0..keys {
        items.0.set(true);
        while table.maintain(&items, 1) {}
        items.0.set(cfg!(miri));
        let entry = table.entry(hash(key), &items, |at| at.0 == key);
        assert_eq!(entry.expect("room").put(Location(key)), None);
    }
    assert!(table.extent().buckets() > BUCKETS_MIN);
    table.validate(&Numbers).unwrap();
}

/// One thread grows the table; others enter keys and pass links back and forth.
#[test]
fn threads_that_enter_and_maintain_lose_nothing() {
    let (threads, each) = (3, if cfg!(miri) { 40 } else { 60_000 });
    let table = Chained::with_max(threads as usize * each as usize);
    let enter_all = |from: u32| {
        for key in from..from + each {
            assert_eq!(enter(&table, key), None);
            if key % 3 == 0 {
                assert!(remove(&table, key));
                assert_eq!(enter(&table, key), None);
            }
        }
    };
    let (is_done, enter_all) = (AtomicBool::new(false), &enter_all);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Acquire) {
                if !table.maintain(&Numbers, 100) {
                    std::thread::yield_now();
                }
            }
        });
        let entering: Vec<_> =
            (0..threads).map(|id| scope.spawn(move || enter_all(id * each))).collect();
        let ended: Vec<_> = entering.into_iter().map(|thread| thread.join()).collect();
        is_done.store(true, crate::sync::Release);
        ended.into_iter().for_each(|end| end.expect("a thread's checks"));
    });
    table.validate(&Numbers).unwrap();
    assert!((0..threads * each).all(|key| has(&table, key)));
}

#[test]
fn links_are_used_again() {
    let table = Chained::<Tas>::with_buckets(4, 4, 100);
    let keys: Vec<u32> = keys_of_one_bucket().take(20).collect();
    for _ in 0..5 {
        keys.iter().for_each(|&key| assert_eq!(enter(&table, key), None));
        table.validate(&Numbers).unwrap();
        keys.iter().rev().for_each(|&key| assert!(remove(&table, key)));
        table.validate(&Numbers).unwrap();
    }
    assert_eq!((table.pool.free().count(), table.len()), (table.pool.used(), 0));
    assert!(table.pool.used() <= 64, "{} links for 9", table.pool.used());
}

/// A reader sleeps on a link while the link moves to another chain. It wakes when its bucket has the same version
/// again as at the start: 2^14 removals later.
#[test]
#[cfg_attr(miri, ignore = "many removals")]
fn a_reader_that_sleeps_until_the_version_wraps_looks_again() {
    /// Keys 0 to 15 belong to bucket 0, the next to bucket 1. Keys 2 and 6 have the same tag.
    struct Two;
    impl Items for Two {
        fn hash(&self, at: Location) -> Hash {
            let tag = if at.0 == 6 { 2 } else { at.0 % 16 };
            Hash(u64::from(at.0 / 16) << 32 | u64::from(tag + 1))
        }
    }
    let table = Chained::<Tas>::with_buckets(4, 4, 100);
    let enter = |key: u32| {
        let entry = table.entry(Two.hash(Location(key)), &Two, |at| at.0 == key);
        assert_eq!(entry.expect("room").put(Location(key)), None);
    };
    let remove = |key: u32| {
        let entry = table.find_entry(Two.hash(Location(key)), |at| at.0 == key);
        assert_eq!(entry.expect("present").remove(), Some(Location(key)));
    };
    // Two keys per link, the last link first: the reader passes key 6, then 4, on its way to key 2.
    (0..8).chain(16..18).for_each(enter);
    let mut has_slept = false;
    let found = table.get(Two.hash(Location(2)), |at| {
        if at.0 == 6 && !has_slept {
            has_slept = true;
            [4, 5].into_iter().for_each(remove);
            enter(18);
            for _ in 2..1 << 14 {
                remove(7);
                enter(7);
            }
        }
        at.0 == 2
    });
    assert!(has_slept);
    assert_eq!(found, Some(Location(2)), "never removed");
    table.validate(&Two).unwrap();
}

#[test]
fn without_a_link_it_is_full_and_a_removal_makes_room() {
    let table = Chained::<Tas>::with_buckets(4, 4, 3);
    let links = 3 + LINKS_SPARE;
    let keys: Vec<u32> = keys_of_one_bucket().take(SLOTS * (1 + links) + 1).collect();
    let (last, rest) = keys.split_last().unwrap();
    rest.iter().for_each(|&key| assert_eq!(enter(&table, key), None));
    let refused = table.entry(hash(*last), &Numbers, |at| at.0 == *last);
    assert_eq!(refused.map(|entry| entry.location()), Err(Full));
    assert_eq!(enter(&table, rest[7]), Some(Location(rest[7])), "a present key needs no room");
    assert!(remove(&table, rest[5]));
    assert_eq!(enter(&table, *last), None);
    table.validate(&Numbers).unwrap();
}

#[test]
fn an_entry_let_go_gives_its_link_back() {
    let table = Chained::<Tas>::with_buckets(4, 4, 100);
    let keys: Vec<u32> = keys_of_one_bucket().take(3).collect();
    (0..2).for_each(|i| assert_eq!(enter(&table, keys[i]), None));
    drop(table.entry(hash(keys[2]), &Numbers, |at| at.0 == keys[2]).unwrap());
    table.validate(&Numbers).unwrap();
    let mut entry = table.entry(hash(keys[2]), &Numbers, |at| at.0 == keys[2]).unwrap();
    assert_eq!((entry.put(Location(keys[2])), entry.remove()), (None, Some(Location(keys[2]))));
    drop(entry);
    table.validate(&Numbers).unwrap();
    assert_eq!(table.len(), 2);
}

#[test]
fn memory_touched_ahead_stays_empty() {
    let (most, keys) = if cfg!(miri) { (200, 20) } else { (10_000, 500) };
    let table = Chained::with_max(most);
    (0..keys).for_each(|key| assert_eq!(enter(&table, key), None));
    let before = (table.len(), table.bytes());
    table.touch_ahead(most / 3);
    table.touch_ahead(usize::MAX);
    assert_eq!((table.len(), table.bytes()), before);
    table.validate(&Numbers).unwrap();
}

#[test]
fn other_locks_hold_the_same() {
    fn holds<L: BucketLock>() {
        let table = Chained::<L>::with_lock(2_000);
        let keys = if cfg!(miri) { 60 } else { 2_000 };
        (0..keys).for_each(|key| assert_eq!(enter(&table, key), None));
        (0..keys).step_by(3).for_each(|key| assert!(remove(&table, key)));
        assert!((0..keys).all(|key| has(&table, key) == (key % 3 != 0)));
        table.validate(&Numbers).unwrap();
    }
    holds::<NoLock>();
    holds::<LockedGets<Tas>>();
}

#[test]
fn validate_finds_what_is_broken() {
    let broken = |breaking: fn(&Chained, &mut Locked<'_, Tas>, Tag)| {
        let table = Chained::with_buckets(64, 128, 100);
        assert_eq!(enter(&table, 1), None);
        assert_eq!(table.validate(&Numbers), Ok(()));
        let probe = Probe::new(hash(2));
        let mut locked = table.lock_home(probe);
        breaking(&table, &mut locked, probe.tag);
        drop(locked);
        table.validate(&Numbers).unwrap_err()
    };
    fn fill(locked: &mut Locked<'_, Tas>, slot: usize, tag: Tag) {
        locked.bucket().set_location(slot, Location(2));
        locked.held = locked.held.with_tag(slot, Some(tag));
    }
    let at = Location(2);
    let count = Broken::Count { filled: 2, counted: 1 };
    assert_eq!(broken(|_, locked, tag| fill(locked, 0, tag)), count);
    let twice = broken(|_, locked, tag| (0..2).for_each(|slot| fill(locked, slot, tag)));
    assert_eq!(twice, Broken::Twice(at));
    assert_eq!(broken(|_, locked, _| fill(locked, 0, Tag::new(hash(3)))), Broken::Tag(at));
    let elsewhere = |table: &Chained, _: &mut Locked<'_, Tas>, tag| {
        let home = Probe::new(hash(2)).position & 63;
        fill(&mut table.lock_bucket(home ^ 1), 0, tag);
    };
    assert_eq!(broken(elsewhere), Broken::Bucket(at));
    let round = broken(|_, locked, _| locked.held = locked.held.with_odd(true));
    assert_eq!(round, Broken::Round(Probe::new(hash(2)).position & 63));
    assert_eq!(broken(|table, _, tag| fill(&mut table.lock_bucket(64), 0, tag)), Broken::Beyond);
    let lost = |table: &Chained, _: &mut Locked<'_, Tas>, _| assert_eq!(table.pool.take(), Some(1));
    assert_eq!(broken(lost), Broken::Link(1));
    let empty = |table: &Chained, locked: &mut Locked<'_, Tas>, _| {
        let number = table.pool.take().unwrap();
        table.pool.link(number).set_word(Word::default());
        locked.held = locked.held.with_next(number);
    };
    assert_eq!(broken(empty), Broken::Link(1));
}
