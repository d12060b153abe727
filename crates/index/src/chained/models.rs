//! Models: small tables, run through every interleaving that loom finds, and the faults that each model must catch.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p guira-index --release --lib models`. Each model runs once without a fault,
//! and once with each fault that it must find ([`Mutation`]); each of these runs must fail.

use super::*;
use crate::planted::holds_but_for;
use crate::sync::Mutation;
use crate::{Entry as _, Hash, Index as _, Items, Location};
use loom::sync::Arc;

/// Item memory of keys that are their own locations: key `i` has position `i / 16`, and a unique tag.
struct Keys;

impl Items for Keys {
    fn hash(&self, at: Location) -> Hash {
        Hash(u64::from(at.0 / 16) << 32 | u64::from(at.0 + 1))
    }
}

/// The first keys of a position, which fill a bucket and some links.
fn keys(position: u32) -> std::ops::Range<u32> {
    position * 16..(position + 1) * 16
}

/// A table of four buckets with these keys. The keys are too few for its links to run out.
fn table_of(keys: impl IntoIterator<Item = u32>) -> Arc<Chained> {
    table(4, 4, keys)
}

fn table(start: u32, max: usize, keys: impl IntoIterator<Item = u32>) -> Arc<Chained> {
    let table = Arc::new(Chained::with_buckets(start, max, 6));
    keys.into_iter().for_each(|key| assert_eq!(enter(&table, key), None));
    table
}

fn enter(table: &Chained, key: u32) -> Option<Location> {
    let entry = table.entry(Keys.hash(Location(key)), &Keys, |at| at.0 == key);
    entry.expect("room").put(Location(key))
}

fn has(table: &Chained, key: u32) -> bool {
    table.get(Keys.hash(Location(key)), |at| at.0 == key).is_some()
}

fn remove(table: &Chained, key: u32) -> bool {
    let entry = table.find_entry(Keys.hash(Location(key)), |at| at.0 == key);
    entry.is_some_and(|mut entry| entry.remove().is_some())
}

/// Removes a key and puts it again, under one lock.
fn renew(table: &Chained, key: u32) {
    let entry = table.find_entry(Keys.hash(Location(key)), |at| at.0 == key);
    let mut entry = entry.expect("present");
    assert_eq!(entry.remove(), Some(Location(key)));
    assert_eq!(entry.put(Location(key)), None);
}

/// Splits this many buckets.
fn grow(table: &Chained, splits: u32) {
    (0..splits).for_each(|_| assert_eq!(table.split_some(1, &Keys), 1));
}

/// Bucket 0 is split into 0 and 1: two of three keys move, one of them from a link.
#[test]
fn a_present_key_is_found_while_its_bucket_is_split() {
    use Mutation::{OneIncrement, StaleReader, StillSplit, UnvalidatedMiss};
    let faults = [UnvalidatedMiss, OneIncrement, StaleReader, StillSplit];
    holds_but_for(&faults, 3, || {
        let table = table(1, 2, [16, 0, 17]);
        let grower = spawn(&table, |table| grow(table, 1));
        assert!(has(&table, 17) && has(&table, 0), "a false miss");
        grower.join().unwrap();
        table.validate(&Keys).expect("the invariants hold");
        assert!([0, 16, 17].into_iter().all(|key| has(&table, key)), "a key is lost");
    });
}

/// Bucket 0 of two is split into 0 and 2. Zeroed memory looks like a bucket of this round that is empty and in use.
#[test]
fn a_split_is_seen_when_it_is_done() {
    holds_but_for(&[Mutation::EarlyPublish, Mutation::LateHalf], 3, || {
        let table = table(1, 4, [32]);
        grow(&table, 1);
        let grower = spawn(&table, |table| grow(table, 1));
        assert!(has(&table, 32), "a false miss");
        grower.join().unwrap();
        table.validate(&Keys).expect("the invariants hold");
    });
}

/// After two rounds, bucket 0's has-moved bit is as before the first round: a reader that slept through both must
/// notice.
#[test]
fn a_reader_that_sleeps_through_two_rounds_looks_again() {
    holds_but_for(&[Mutation::StaleRound], 2, || {
        let table = table(1, 4, [16]);
        let grower = spawn(&table, |table| grow(table, 2));
        assert!(has(&table, 16), "a false miss");
        grower.join().unwrap();
    });
}

#[test]
fn a_key_entered_while_its_bucket_is_split_is_found_after() {
    holds_but_for(&[Mutation::StaleWriter, Mutation::LooseLock], 3, || {
        let table = table(1, 2, [0]);
        let writer = spawn(&table, |table| assert_eq!(enter(table, 16), None));
        grow(&table, 1);
        writer.join().unwrap();
        table.validate(&Keys).expect("the invariants hold");
        assert!(has(&table, 0) && has(&table, 16), "entered where nobody looks");
    });
}

/// Like the reader: the writer must not write where the key was two rounds ago.
#[test]
fn a_writer_that_sleeps_through_two_rounds_looks_again() {
    holds_but_for(&[Mutation::StaleRound], 2, || {
        let table = table(1, 4, []);
        let writer = spawn(&table, |table| assert_eq!(enter(table, 16), None));
        grow(&table, 2);
        writer.join().unwrap();
        table.validate(&Keys).expect("the invariants hold");
    });
}

/// The chain is the bucket and links 3, 2, 1. Link 2 is emptied and goes to another chain, while a reader is on it,
/// on its way to link 1.
#[test]
fn a_present_key_is_found_though_the_links_before_it_are_used_elsewhere() {
    use Mutation::{StillRemove, UnvalidatedMiss};
    holds_but_for(&[StillRemove, UnvalidatedMiss], 3, || {
        let table = table_of(keys(0).take(8).chain(keys(1).take(2)));
        assert!(remove(&table, 4), "the last but one of link 2");
        let writer = spawn(&table, |table| {
            assert!(remove(table, 5));
            assert_eq!(enter(table, 18), None);
        });
        assert!(has(&table, 2), "a false miss");
        writer.join().unwrap();
        table.validate(&Keys).expect("the invariants hold");
        assert_eq!(table.pool.free().count(), 1, "the link was used again");
    });
}

/// The same, with one more removal, after which the version, which has one bit here, is as it was before.
#[test]
fn a_present_key_is_found_though_the_version_is_as_it_was() {
    holds_but_for(&[Mutation::StillWrap, Mutation::EarlyWord], 2, || {
        let table = table_of(keys(0).take(8).chain(keys(1).take(2)));
        assert!(remove(&table, 4), "the last but one of link 2");
        let writer = spawn(&table, |table| {
            assert!(remove(table, 5));
            assert_eq!(enter(table, 18), None);
            assert!(remove(table, 7), "in link 3, which stays");
        });
        assert!(has(&table, 2), "a false miss");
        writer.join().unwrap();
    });
}

/// The holder of an entry removes the key and puts it again: other threads must see that as one step. Once in a link,
/// once in a bucket.
#[test]
fn a_key_replaced_under_its_lock_is_never_missed() {
    use Mutation::{OneIncrement, StillRemove, UnvalidatedMiss};
    holds_but_for(&[StillRemove, OneIncrement, UnvalidatedMiss], 2, || {
        let table = table_of(keys(0).take(4));
        let writer =
            spawn(&table, move |table| [2, 0].into_iter().for_each(|key| renew(table, key)));
        assert!(has(&table, 2) && has(&table, 0), "a false miss");
        writer.join().unwrap();
        table.validate(&Keys).expect("the invariants hold");
    });
}

#[test]
fn of_two_who_enter_one_key_the_second_replaces() {
    holds_but_for(&[Mutation::LooseLock], 3, || {
        let table = table_of([]);
        let other = spawn(&table, |table| enter(table, 0));
        let mine = enter(&table, 0);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() != theirs.is_some(), "{mine:?} {theirs:?}");
        table.validate(&Keys).expect("the invariants hold");
    });
}

/// Each thread takes a link for its own chain, and one of them gives it back.
#[test]
fn two_who_take_and_give_links_share_none() {
    holds_but_for(&[Mutation::LooseLock], 3, || {
        let table = table_of(keys(0).take(2).chain(keys(1).take(2)));
        let other = spawn(&table, |table| {
            assert_eq!(enter(table, 18), None);
            assert!(remove(table, 18));
        });
        assert_eq!(enter(&table, 2), None);
        other.join().unwrap();
        table.validate(&Keys).expect("the invariants hold");
        assert!(keys(0).take(3).chain(keys(1).take(2)).all(|key| has(&table, key)));
    });
}

fn spawn<T: 'static>(
    table: &Arc<Chained>,
    work: impl FnOnce(&Chained) -> T + 'static,
) -> loom::thread::JoinHandle<T> {
    let table = table.clone();
    loom::thread::spawn(move || work(&table))
}
