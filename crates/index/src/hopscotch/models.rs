//! Models: small tables, run through every interleaving that loom finds, and the faults that each model must catch.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p guira-index --release --lib models`. Lines have two slots here, and a home's
//! keys are within three. Each model runs once without a fault, and once with each fault that it must find
//! ([`Mutation`]); each of these runs must fail.

use super::address::Plan;
use super::line::Few;
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
    table: HopscotchTable<Few, 2>,
    keys: Keys,
}

impl Setting {
    /// Makes a table of `start` lines that may grow to `max`, and keys that have these homes while the table is
    /// small. Later keys of a home are in the later half of its positions, so they separate when the homes double.
    fn new(start: u32, max: u32, homes: &[usize]) -> Self {
        let parts = 16 * homes_in(start);
        let hash = |(number, &home): (usize, &usize)| {
            let earlier = homes[..number].iter().filter(|&&other| other == home).count();
            let part = home * 16 + 1 + earlier * 7;
            let fraction = ((part as u128) << 64) / parts;
            Hash(u64::try_from(fraction).expect("below one"))
        };
        let keys = homes.iter().enumerate().map(hash).collect();
        let table = HopscotchTable::new(Plan::new(max, 2), start);
        Self { table, keys: Keys(keys) }
    }

    fn enter(&self, key: u32) -> Result<Option<Location>, Full> {
        let hash = self.keys.0[key as usize];
        self.table
            .entry(hash, &self.keys, |at| at.0 == key)
            .map(|mut entry| entry.put(Location(key)))
    }

    fn get(&self, key: u32) -> Option<Location> {
        self.table.get(self.keys.0[key as usize], |at| at.0 == key)
    }

    fn has(&self, key: u32) -> bool {
        self.get(key).is_some()
    }

    /// Grows as far as possible: there may be no room for a line's keys, or another thread may be growing.
    fn grow(&self) {
        self.table.start_growth();
        self.table.grow(2);
    }

    fn check(&self) {
        self.table.validate(&self.keys).expect("the invariants hold");
    }
}

fn homes_in(lines: u32) -> u128 {
    u128::from(lines) * 2
}

/// The published lookup's mistake shows with a single thread.
#[test]
fn what_is_found_is_the_keys_own() {
    holds_but_for(&[Mutation::HomesItem], 1, || {
        let setting = Setting::new(3, 3, &[0, 0, 0, 3, 3]);
        (0..5).for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        (0..5).for_each(|key| assert_eq!(setting.get(key), Some(Location(key))));
    });
}

/// Slots 0 to 2 are full. To make room for key 3 of home 0, key 0 moves from slot 2, whose home is in the next line,
/// to slot 3.
#[test]
fn a_present_key_is_found_while_it_is_displaced() {
    use Mutation::{ClearFirst, EarlyHops, StillMove, UnvalidatedMiss};
    holds_but_for(&[StillMove, ClearFirst, EarlyHops, UnvalidatedMiss], 3, || {
        displaced(&[2, 0, 0, 0]);
    });
}

/// The same, but key 0's home is in the line that the writer holds, and the key moves from slot 1 to 3.
#[test]
fn a_present_key_is_found_while_it_is_displaced_in_the_writers_line() {
    use Mutation::{OneIncrement, StillMove};
    holds_but_for(&[OneIncrement, StillMove], 3, || displaced(&[1, 0, 2, 0]));
}

/// The last of four keys displaces the first while a reader looks that one up.
fn displaced(homes: &[usize]) {
    let setting = Arc::new(Setting::new(2, 2, homes));
    (0..3).for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
    let writer = spawn(&setting, |setting| assert_eq!(setting.enter(3), Ok(None)));
    assert!(setting.has(0), "a false miss");
    writer.join().unwrap();
    setting.check();
    assert!((0..4).all(|key| setting.has(key)));
}

/// One thread enters a key of home 1, the other a key of home 2. Both find their slots full and may try to displace
/// key 2, of home 3, from slot 3. The later thread may find no room.
#[test]
fn writers_who_displace_the_same_key_lose_and_double_nothing() {
    holds_but_for(&[Mutation::BlindMove], 3, || {
        let setting = Arc::new(Setting::new(2, 2, &[1, 1, 3, 1, 2]));
        (0..3).for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        let other = spawn(&setting, |setting| setting.enter(4).is_ok());
        let entered = [setting.enter(3).is_ok(), other.join().unwrap()];
        setting.check();
        assert!((0..3).all(|key| setting.has(key)), "a key is lost");
        assert_eq!([setting.has(3), setting.has(4)], entered);
    });
}

/// There is a single free slot near both homes, which are in different lines.
#[test]
fn writers_who_see_the_same_free_slot_do_not_share_it() {
    holds_but_for(&[Mutation::DoubleTake], 3, || {
        let setting = Arc::new(Setting::new(2, 2, &[1, 1, 2]));
        assert_eq!(setting.enter(0), Ok(None));
        let other = spawn(&setting, |setting| assert_eq!(setting.enter(1), Ok(None)));
        assert_eq!(setting.enter(2), Ok(None));
        other.join().unwrap();
        setting.check();
        assert!((0..3).all(|key| setting.has(key)), "a key is lost");
    });
}

/// The holder of an entry removes the key and puts it again: other threads must see that as one step.
#[test]
fn a_key_replaced_under_its_lock_is_never_missed() {
    holds_but_for(&[Mutation::StillRemove, Mutation::OneIncrement], 3, || {
        let setting = Arc::new(Setting::new(1, 1, &[0]));
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

/// Two homes become four: key 0 moves from home 1 to home 2, key 1 from home 1 to home 3.
#[test]
fn a_present_key_is_found_while_the_table_grows() {
    use Mutation::{LatePublish, StaleReader, UnvalidatedMiss};
    holds_but_for(&[LatePublish, StaleReader, UnvalidatedMiss], 3, || {
        let setting = Arc::new(Setting::new(1, 2, &[1, 1]));
        (0..2).for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        let writer = spawn(&setting, Setting::grow);
        assert!(setting.has(0), "a false miss");
        writer.join().unwrap();
        setting.check();
        assert!(setting.has(0) && setting.has(1));
    });
}

#[test]
fn a_key_entered_while_the_table_grows_is_found_after() {
    holds_but_for(&[Mutation::StaleWriter], 3, || {
        let setting = Arc::new(Setting::new(1, 2, &[1, 1]));
        assert_eq!(setting.enter(0), Ok(None));
        let writer = spawn(&setting, |setting| assert_eq!(setting.enter(1), Ok(None)));
        setting.grow();
        writer.join().unwrap();
        setting.check();
        assert!(setting.has(0) && setting.has(1), "entered where nobody looks");
    });
}

/// A growth moves keys into lines where a writer displaces others.
#[test]
fn growth_and_displacement_lose_and_double_nothing() {
    holds_but_for(&[Mutation::DoubleTake, Mutation::FreeKept], 1, || {
        let setting = Arc::new(Setting::new(2, 3, &[2, 1, 1, 1]));
        (0..3).for_each(|key| assert_eq!(setting.enter(key), Ok(None)));
        let writer = spawn(&setting, |setting| setting.enter(3).is_ok());
        setting.grow();
        let entered = writer.join().unwrap();
        setting.check();
        assert!((0..3).all(|key| setting.has(key)), "a key is lost");
        assert_eq!(setting.has(3), entered);
    });
}

fn spawn<T: 'static>(
    setting: &Arc<Setting>,
    work: impl FnOnce(&Setting) -> T + 'static,
) -> loom::thread::JoinHandle<T> {
    let setting = setting.clone();
    loom::thread::spawn(move || work(&setting))
}
