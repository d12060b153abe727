//! Models: small tables, run through every interleaving that loom finds, and the faults that each model must catch.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p guira-index --release --lib models`. Buckets have two slots here. Each model
//! runs once without a fault, and once with each fault that it must find ([`Mutation`]); each of these runs must
//! fail.

use super::address::{Probe, Size};
use super::*;
use crate::planted::holds_but_for;
use crate::sync::Mutation;
use crate::{Entry as _, Full, Hash, Index as _, Items, Location};
use loom::sync::Arc;

/// Item memory of keys that are their own locations. The model defines their hashes.
struct Keys(Vec<Hash>);

impl Items for Keys {
    fn hash(&self, at: Location) -> Hash {
        self.0[at.0 as usize]
    }
}

/// A table, and the keys that a model uses, by number.
struct Setting {
    table: Cuckoo,
    keys: Keys,
}

impl Setting {
    /// Makes a table of `start` buckets that may grow to `max`, and keys that have these pairs of addresses at size
    /// `max`.
    fn new(start: u32, max: u32, pairs: &[[u32; 2]]) -> Self {
        let keys = (0..).zip(pairs).map(|(number, &pair)| hash_with(pair, max, number)).collect();
        let max = max as usize;
        Self { table: Cuckoo::with_buckets(start, max), keys: Keys(keys) }
    }

    fn enter(&self, key: u32) -> Result<Option<Location>, Full> {
        let hash = self.keys.0[key as usize];
        self.table
            .entry(hash, &self.keys, |at| at.0 == key)
            .map(|mut entry| entry.put(Location(key)))
    }

    /// Makes room as an insert does when it finds both buckets full.
    fn make_room(&self, key: u32) {
        let (hash, size) = (self.keys.0[key as usize], self.table.size());
        self.table.make_room(hash, size, &mut 0, &self.keys).expect("a path");
    }

    fn has(&self, key: u32) -> bool {
        self.table.get(self.keys.0[key as usize], |at| at.0 == key).is_some()
    }

    fn remove(&self, key: u32) -> bool {
        let entry = self.table.find_entry(self.keys.0[key as usize], |at| at.0 == key);
        entry.is_some_and(|mut entry| entry.remove().is_some())
    }

    fn check(&self) {
        self.table.validate(&self.keys).expect("the invariants hold");
    }
}

/// A hash with the addresses `pair` at `size`; each number gives another hash. The ninth bit of the tag is 0: a 1
/// would change the version word of the key's new bucket, and so hide a counter that should have advanced.
fn hash_with(pair: [u32; 2], size: u32, number: usize) -> Hash {
    let size = Size::new(size);
    let mixed = (1..).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let hashes = mixed.map(|mixed| Hash((mixed ^ mixed >> 29) & !0x100));
    let mut fitting = hashes.filter(|&hash| size.addresses(Probe::new(hash)) == pair);
    fitting.nth(number).expect("endless")
}

/// Buckets 0 and 1 are full. To make room there, key 0 moves from bucket 1 to bucket 2. Bucket 2 is its first one, so
/// a reader looks there before it looks in bucket 1.
#[test]
fn a_present_key_is_found_while_it_is_displaced() {
    use Mutation::{ForwardMove, OneIncrement, StillMove, UnvalidatedMiss};
    holds_but_for(&[OneIncrement, StillMove, ForwardMove, UnvalidatedMiss], 3, || {
        let pairs = [[2, 1], [1, 0], [0, 1], [0, 1], [0, 1], [2, 3], [2, 3]];
        let setting = Arc::new(Setting::new(4, 4, &pairs));
        (5..7).chain(0..4).for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        assert!(setting.remove(5) && setting.remove(6));
        let writer = spawn(&setting, |setting| setting.make_room(4));
        assert!(setting.has(0), "a false miss");
        writer.join().unwrap();
        setting.check();
        assert!((0..4).all(|key| setting.has(key)));
        assert_eq!(setting.enter(4), Ok(None), "there is room now");
    });
}

/// Both writers find buckets 0 and 1 full, and the same path out of bucket 1.
#[test]
fn writers_on_crossing_paths_lose_and_double_nothing() {
    holds_but_for(&[Mutation::BlindMove], 3, || {
        let setting = Arc::new(Setting::new(4, 4, &[[1, 2], [1, 0], [0, 1], [0, 1], [0, 1]]));
        (0..4).for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        let other = spawn(&setting, |setting| setting.make_room(4));
        setting.make_room(4);
        other.join().unwrap();
        setting.check();
        assert!((0..4).all(|key| setting.has(key)), "a key is lost");
    });
}

/// Bucket 0 is split into 0 and 2; two of its keys move.
#[test]
fn a_present_key_is_found_while_the_table_grows() {
    use Mutation::{LatePublish, StaleReader, UnvalidatedMiss};
    holds_but_for(&[LatePublish, StaleReader, UnvalidatedMiss], 3, || {
        let setting = Arc::new(Setting::new(2, 3, &[[2, 1], [0, 1], [1, 0]]));
        (0..3).for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        let writer = spawn(&setting, |setting| assert!(setting.table.grow(&setting.keys)));
        assert!(setting.has(0) && setting.has(1), "a false miss");
        writer.join().unwrap();
        setting.check();
        assert!((0..3).all(|key| setting.has(key)));
    });
}

#[test]
fn a_key_entered_while_the_table_grows_is_found_after() {
    holds_but_for(&[Mutation::StaleWriter], 3, || {
        let setting = Arc::new(Setting::new(2, 3, &[[2, 1], [2, 1]]));
        assert_eq!(setting.enter(0), Ok(None));
        let writer = spawn(&setting, |setting| assert_eq!(setting.enter(1), Ok(None)));
        assert!(setting.table.grow(&setting.keys));
        writer.join().unwrap();
        setting.check();
        assert!(setting.has(0) && setting.has(1), "entered where nobody looks");
    });
}

/// The holder of an entry removes the key and puts it again: other threads must see that as one step.
#[test]
fn a_key_replaced_under_its_lock_is_never_missed() {
    holds_but_for(&[Mutation::StillRemove, Mutation::OneIncrement], 3, || {
        let setting = Arc::new(Setting::new(2, 2, &[[0, 1]]));
        assert_eq!(setting.enter(0), Ok(None));
        let writer = spawn(&setting, |setting| {
            let hash = setting.keys.0[0];
            let mut entry = setting.table.find_entry(hash, |at| at.0 == 0).expect("present");
            assert_eq!(entry.remove(), Some(Location(0)));
            assert_eq!(entry.put(Location(0)), None);
        });
        assert!(setting.has(0), "a false miss");
        writer.join().unwrap();
        setting.check();
    });
}

/// One thread locks against the order of addresses and meets the other, which is first with the key that both enter.
#[test]
fn of_two_who_enter_one_key_the_second_replaces() {
    holds_but_for(&[Mutation::LooseEntry], 2, || {
        let setting = Arc::new(Setting::new(2, 2, &[[1, 0], [0, 1]]));
        let other = spawn(&setting, |setting| {
            assert_eq!(setting.enter(1), Ok(None));
            setting.enter(0).unwrap()
        });
        let mine = setting.enter(0).unwrap();
        let theirs = other.join().unwrap();
        assert!(mine.is_some() != theirs.is_some(), "{mine:?} {theirs:?}");
        setting.check();
    });
}

/// Key 0 is in its second bucket, 0, which is split into 0 and 2. Its first bucket has room meanwhile.
#[test]
fn who_enters_a_key_while_its_second_bucket_is_split_finds_it() {
    use Mutation::{LatePublish, StaleWriter, UnvalidatedEntry};
    holds_but_for(&[LatePublish, StaleWriter, UnvalidatedEntry], 3, || {
        let setting = Arc::new(Setting::new(2, 3, &[[1, 2], [1, 0], [1, 0]]));
        [1, 2, 0].into_iter().for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        assert!(setting.remove(1));
        let writer = spawn(&setting, |setting| assert!(setting.table.grow(&setting.keys)));
        assert_eq!(setting.enter(0), Ok(Some(Location(0))), "entered twice");
        writer.join().unwrap();
        setting.check();
    });
}

/// Key 0 is in its second bucket, and the other writer holds only that bucket's lock. The first bucket has room.
#[test]
fn who_enters_a_key_that_is_just_replaced_waits_for_it() {
    holds_but_for(&[Mutation::UnvalidatedEntry], 3, || {
        let setting = Arc::new(Setting::new(2, 2, &[[1, 0], [1, 0], [1, 0]]));
        [1, 2, 0].into_iter().for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        assert!(setting.remove(1));
        let writer = spawn(&setting, |setting| {
            let hash = setting.keys.0[0];
            let mut entry = setting.table.find_entry(hash, |at| at.0 == 0).expect("present");
            assert_eq!(entry.remove(), Some(Location(0)));
            assert_eq!(entry.put(Location(0)), None);
        });
        assert_eq!(setting.enter(0), Ok(Some(Location(0))), "entered twice");
        writer.join().unwrap();
        setting.check();
    });
}

fn spawn<T: 'static>(
    setting: &Arc<Setting>,
    work: impl FnOnce(&Setting) -> T + 'static,
) -> loom::thread::JoinHandle<T> {
    let setting = setting.clone();
    loom::thread::spawn(move || work(&setting))
}
