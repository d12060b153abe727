//! The table as a whole, with one thread at a time.

use super::address::{Probe, Size};
use super::*;
use crate::bucket::SLOTS;
use crate::{Broken, Entry as _, Full, Hash, Index, Items, Location};

/// Item memory of keys that are their own locations.
pub(crate) struct Numbers;

impl Items for Numbers {
    fn hash(&self, at: Location) -> Hash {
        hash(at.0)
    }
}

pub(crate) fn hash(key: u32) -> Hash {
    let mixed = u64::from(key).wrapping_add(0x9e37).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Hash(mixed ^ mixed >> 29)
}

fn enter(table: &Cuckoo, key: u32) -> Result<Option<Location>, Full> {
    table.entry(hash(key), &Numbers, |at| at.0 == key).map(|mut e| e.put(Location(key)))
}

#[test]
fn the_alternate_that_follows_from_the_tag_is_that_of_the_hash() {
    let sizes = if cfg!(miri) { 2..9 } else { 2..300 };
    for size in sizes.map(Size::new) {
        for key in 0..200 {
            let probe = Probe::new(hash(key));
            let [first, second] = size.addresses(probe);
            assert!(first != second && first.max(second) < size.buckets(), "{size:?}");
            for [from, to] in [[first, second], [second, first]] {
                assert_eq!(size.alternate(from, probe.tag).unwrap_or(to), to, "{size:?} {probe:?}");
                assert!(size.alternates(from, probe.tag).contains(&to));
                assert_eq!(probe.other_than(from, size), Some(to));
                assert_eq!(size.age_of_alternate(from, probe.tag), size.age(to));
            }
            // Growing by one bucket moves only keys of the split bucket, and only to the new one.
            for (before, after) in
                size.addresses(probe).into_iter().zip(size.grown().addresses(probe))
            {
                assert!(
                    after == before || (before == size.next_split() && after == size.buckets())
                );
            }
        }
    }
}

#[test]
fn the_youngest_buckets_are_those_of_the_last_split() {
    let size = Size::new(64 + 5);
    let by_age = [4, 68, 3, 67, 0, 64, 63, 5].map(|bucket| size.age(bucket));
    assert_eq!(by_age, [0, 0, 1, 1, 4, 4, 5, 63]);
}

/// 24 slots are filled, then `Full` is returned without a long search and without growing a nearly empty table.
#[test]
fn too_many_equal_hashes_are_refused_and_room_comes_back() {
    struct Equal;
    impl Items for Equal {
        fn hash(&self, _: Location) -> Hash {
            Hash(0x1234_5678_9abc_def0)
        }
    }
    let table = Cuckoo::with_buckets(64, 1 << 10);
    let enter = |key: u32| {
        let entry = table.entry(Equal.hash(Location(0)), &Equal, |at| at.0 == key);
        entry.map(|mut entry| entry.put(Location(key)))
    };
    (0..24).for_each(|key| assert_eq!(enter(key), Ok(None)));
    assert_eq!(enter(24), Err(Full));
    assert_eq!(enter(7), Ok(Some(Location(7))), "a present key needs no room");
    assert_eq!((table.len(), table.capacity()), (24, 64 * SLOTS), "growing would not have helped");
    let mut found = table.find_entry(Equal.hash(Location(0)), |at| at.0 == 3).expect("present");
    assert_eq!(found.remove(), Some(Location(3)));
    drop(found);
    assert_eq!(enter(24), Ok(None));
    table.validate(&Equal).unwrap();
}

/// Refusing a key of one hash costs the same in a table of any size: the table hardly grows for it.
#[test]
#[cfg_attr(miri, ignore = "a large table")]
fn one_refused_insert_grows_the_table_by_a_few_buckets() {
    struct Mixed;
    impl Items for Mixed {
        fn hash(&self, at: Location) -> Hash {
            if at.0 < COLLIDING { Hash(0x1234_5678_9abc_def0) } else { hash(at.0) }
        }
    }
    const COLLIDING: u32 = 1000;
    let table = Cuckoo::with_max(1 << 20);
    let enter = |key: u32| {
        let entry = table.entry(Mixed.hash(Location(key)), &Mixed, |at| at.0 == key);
        entry.map(|mut entry| entry.put(Location(key)))
    };
    (COLLIDING..COLLIDING + 50_000).for_each(|key| assert_eq!(enter(key), Ok(None)));
    (0..24).for_each(|key| assert_eq!(enter(key), Ok(None)));
    let before = table.capacity();
    assert_eq!(enter(24), Err(Full));
    let splits = (table.capacity() - before) / SLOTS;
    assert!(splits <= 10, "{splits} splits for nothing");
    table.validate(&Mixed).unwrap();
}

/// Checks every kind of bucket, and every tag: no address overflows.
#[test]
fn the_age_of_an_alternate_is_known_at_every_size() {
    // Miri takes a quarter of an hour for all tags.
    let step = if cfg!(miri) { 37 } else { 1 };
    let tags: Vec<_> = (0..0x200).step_by(step).map(crate::bucket::Tag::new).collect();
    for bits in 1..=31 {
        for buckets in [1 << bits, (1 << bits) + 1, (1 << bits) + (1 << (bits - 1))] {
            let size = Size::new(buckets);
            for &tag in &tags {
                let probe = Probe::new(Hash(tag.bits().into()));
                // The bucket whose position this tag turns into the last position.
                let to_last = !(probe.first ^ probe.second);
                for bucket in [0, buckets - 1, size.address(to_last)] {
                    let [one, two] = size.alternates(bucket, tag).map(|other| size.age(other));
                    assert_eq!(size.age_of_alternate(bucket, tag), one);
                    assert!(one == two && one < buckets);
                }
            }
        }
    }
}

#[test]
fn memory_touched_ahead_stays_empty() {
    let table = Cuckoo::with_max(10_000);
    (0..500).for_each(|key| assert_eq!(enter(&table, key), Ok(None)));
    let before = (table.len(), table.bytes());
    table.touch_ahead(3_000);
    table.touch_ahead(usize::MAX);
    assert_eq!((table.len(), table.bytes()), before);
    table.validate(&Numbers).unwrap();
}

#[test]
fn validate_finds_what_is_broken() {
    let broken = |breaking: fn(&Cuckoo, Probe, [u32; 2])| {
        let table = Cuckoo::with_buckets(64, 128);
        enter(&table, 1).unwrap();
        assert_eq!(table.validate(&Numbers), Ok(()));
        let probe = Probe::new(hash(2));
        breaking(&table, probe, table.size().addresses(probe));
        table.validate(&Numbers).unwrap_err()
    };
    let at = Location(2);
    assert_eq!(
        broken(|t, p, [a, _]| t.bucket(a).lock().fill(5, p.tag, Location(2))),
        Broken::Count { filled: 2, counted: 1 }
    );
    assert_eq!(
        broken(|t, p, [a, _]| {
            let other = crate::bucket::Tag::new(p.tag.bits() ^ 0x10);
            t.bucket(a).lock().fill(5, other, Location(2));
        }),
        Broken::Tag(at)
    );
    assert_eq!(
        broken(|t, p, [a, b]| {
            let elsewhere = (0..64).find(|&c| c != a && c != b).unwrap();
            t.bucket(elsewhere).lock().fill(5, p.tag, Location(2));
        }),
        Broken::Bucket(at)
    );
    assert_eq!(
        broken(|t, p, both| both
            .map(|b| t.bucket(b).lock().fill(5, p.tag, Location(2)))
            .into_iter()
            .collect()),
        Broken::Twice(at)
    );
    assert_eq!(broken(|t, p, _| t.bucket(64).lock().fill(5, p.tag, Location(2))), Broken::Beyond);
}

#[test]
fn every_key_is_found_while_the_table_grows_to_its_largest() {
    let keys = if cfg!(miri) { 200 } else { 200_000 };
    let table = Cuckoo::with_max(keys);
    let keys = u32::try_from(keys).unwrap();
    for key in 0..keys {
        assert_eq!(enter(&table, key), Ok(None));
    }
    assert_eq!(table.len(), keys as usize);
    for key in 0..keys {
        assert_eq!(table.get(hash(key), |at| at.0 == key), Some(Location(key)), "{key}");
        assert_eq!(table.get(hash(key + keys), |at| at.0 == key + keys), None);
    }
    let load = table.len() as f64 / table.capacity() as f64;
    assert!(load > 0.9, "{load}");
}
