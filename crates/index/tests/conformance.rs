//! The contract of every [`Index`], tested against a `HashMap`. A new index adds one line at the end.
//!
//! Keys are 16-bit numbers. A location is a key and a generation, so that a key put again differs from before. Hashes
//! are of several kinds, from well mixed to all equal, because collisions are where tables fail.

use guira_index::{
    Chained, Cuckoo, Entry as _, Full, Hash, Hopscotch, Hopscotch64, Index, IndexKind, Items,
    Location,
};
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How keys are hashed.
#[derive(Clone, Copy, Debug)]
enum Mixing {
    Good,
    /// Fifteen tags.
    FewTags,
    /// Eight positions, with good tags.
    FewPositions,
    /// Two tags in two positions.
    Both,
    AllEqual,
}

impl Mixing {
    fn hash(self, key: u16) -> Hash {
        let mixed = (u64::from(key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Hash(match self {
            Self::Good => mixed,
            Self::FewTags => mixed & !0xffff | mixed & 0xf,
            Self::FewPositions => mixed & 0xffff | (mixed >> 61) << 40,
            Self::Both => mixed & 0x1 | (mixed >> 63) << 33,
            Self::AllEqual => 0,
        })
    }

    /// The number of keys for which an index must have room, whichever keys they are.
    fn room(self, room: Room) -> usize {
        match self {
            Self::Good | Self::FewTags => KEYS_MAX.into(),
            Self::FewPositions => room.few_positions,
            Self::Both | Self::AllEqual => room.equal,
        }
    }
}

/// The number of keys for which an index must have room although their hashes collide.
#[derive(Clone, Copy)]
struct Room {
    /// With all keys in eight positions.
    few_positions: usize,
    /// With all keys of one hash.
    equal: usize,
}

impl Items for Mixing {
    fn hash(&self, at: Location) -> Hash {
        Self::hash(*self, key_of(at))
    }
}

fn key_of(at: Location) -> u16 {
    u16::try_from(at.0 & 0xffff).expect("16 bits")
}

#[derive(Clone, Debug)]
enum Step {
    Put(u16),
    /// Enters a key without a lookup, if it is absent.
    Enter(u16),
    Remove(u16),
    /// Removes a key and puts it again, under one lock.
    Renew(u16),
    /// Locks a key's place and releases it.
    Touch(u16),
    Get(u16),
    GetBatch(Vec<u16>),
}

fn step(keys: u16) -> impl Strategy<Value = Step> {
    let key = move || 0..keys;
    prop_oneof![
        5 => key().prop_map(Step::Put),
        2 => key().prop_map(Step::Enter),
        3 => key().prop_map(Step::Remove),
        1 => key().prop_map(Step::Renew),
        1 => key().prop_map(Step::Touch),
        3 => key().prop_map(Step::Get),
        1 => proptest::collection::vec(key(), 0..100).prop_map(Step::GetBatch),
    ]
}

/// An index and its model.
struct Pair<I> {
    index: I,
    mixing: Mixing,
    room: Room,
    model: HashMap<u16, Location>,
    generation: u32,
}

impl<I: Index> Pair<I> {
    fn new(index: I, mixing: Mixing, room: Room) -> Self {
        Self { index, mixing, room, model: HashMap::new(), generation: 0 }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Put(key) => self.put(key),
            Step::Enter(key) => self.enter(key),
            Step::Remove(key) => {
                let entry = self.index.find_entry(self.mixing.hash(key), |at| key_of(at) == key);
                assert_eq!(
                    entry.as_ref().and_then(|e| e.location()),
                    self.model.get(&key).copied()
                );
                assert_eq!(entry.and_then(|mut e| e.remove()), self.model.remove(&key));
            }
            Step::Renew(key) => self.renew(key),
            Step::Touch(key) => {
                let entry =
                    self.index.entry(self.mixing.hash(key), &self.mixing, |at| key_of(at) == key);
                if let Ok(entry) = entry {
                    assert_eq!(entry.location(), self.model.get(&key).copied());
                }
            }
            Step::Get(key) => assert_eq!(self.get(key), self.model.get(&key).copied()),
            Step::GetBatch(ref keys) => {
                let hashes: Vec<Hash> = keys.iter().map(|&key| self.mixing.hash(key)).collect();
                let mut found = vec![None; keys.len()];
                let is_key = |i: usize, at| key_of(at) == keys[i];
                self.index.get_batch(&hashes, &self.mixing, is_key, &mut found);
                let expected: Vec<_> =
                    keys.iter().map(|key| self.model.get(key).copied()).collect();
                assert_eq!(found, expected);
            }
        }
        assert_eq!(self.index.len(), self.model.len());
        assert!(self.index.len() <= self.index.capacity());
    }

    fn get(&self, key: u16) -> Option<Location> {
        self.index.get(self.mixing.hash(key), |at| key_of(at) == key)
    }

    fn put(&mut self, key: u16) {
        self.generation += 1;
        let new = Location((self.generation & 0xffff) << 16 | u32::from(key));
        let entry = self.index.entry(self.mixing.hash(key), &self.mixing, |at| key_of(at) == key);
        match entry {
            Ok(mut entry) => {
                assert_eq!(entry.put(new), self.model.insert(key, new));
                assert_eq!(entry.location(), Some(new));
            }
            Err(Full) => {
                assert!(!self.model.contains_key(&key), "a present key needs no room");
                self.is_rightly_full();
            }
        }
    }

    fn enter(&mut self, key: u16) {
        if self.model.contains_key(&key) {
            return;
        }
        self.generation += 1;
        let new = Location((self.generation & 0xffff) << 16 | u32::from(key));
        self.index.prefetch_absent(self.mixing.hash(key));
        match self.index.enter_absent(self.mixing.hash(key), new, &self.mixing) {
            Ok(()) => assert_eq!(self.model.insert(key, new), None),
            Err(Full) => self.is_rightly_full(),
        }
        assert_eq!(self.get(key), self.model.get(&key).copied());
    }

    fn is_rightly_full(&self) {
        let held = self.model.len();
        assert!(held >= self.mixing.room(self.room), "full with {held}");
    }

    fn renew(&mut self, key: u16) {
        let Some(&old) = self.model.get(&key) else { return };
        let mut entry =
            self.index.find_entry(self.mixing.hash(key), |at| key_of(at) == key).expect("present");
        assert_eq!((entry.remove(), entry.location()), (Some(old), None));
        assert_eq!((entry.remove(), entry.put(old)), (None, None));
    }
}

fn behaves_like_a_map<I: Index>(new: impl Fn(usize) -> I, room: Room) {
    let cases = if cfg!(miri) { 2 } else { 48 };
    let steps = if cfg!(miri) { 150 } else { 3_000 };
    let mixing = prop_oneof![
        4 => Just(Mixing::Good),
        2 => Just(Mixing::FewTags),
        2 => Just(Mixing::FewPositions),
        1 => Just(Mixing::Both),
        1 => Just(Mixing::AllEqual),
    ];
    let keys = if cfg!(miri) { [20, 40, 100] } else { [40, 300, KEYS_MAX] };
    let keys = proptest::sample::select(keys.to_vec());
    let plan = keys.prop_flat_map(move |keys| proptest::collection::vec(step(keys), 0..steps));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(mixing, plan), |(mixing, steps)| {
            let mut pair = Pair::new(new(KEYS_MAX.into()), mixing, room);
            steps.iter().for_each(|step| pair.take(step));
            pair.index.validate(&mixing).expect("the invariants hold");
            Ok(())
        })
        .expect("like a map");
}

/// Fills an index that may not grow further: `Full` comes late, and after a removal there is room again.
fn is_full_late_and_recovers<I: Index>(new: impl Fn(usize) -> I, collisions: Room) {
    let room: u16 = if cfg!(miri) { 150 } else { 30_000 };
    let mut pair = Pair::new(new(room.into()), Mixing::Good, collisions);
    let mut entered = 0;
    for key in 0..room * 2 {
        let before = pair.index.len();
        let hash = pair.mixing.hash(key);
        let Ok(mut entry) = pair.index.entry(hash, &pair.mixing, |at| key_of(at) == key) else {
            break;
        };
        entry.put(Location(u32::from(key)));
        drop(entry);
        pair.model.insert(key, Location(u32::from(key)));
        entered += 1;
        assert_eq!(pair.index.len(), before + 1);
    }
    assert!(entered >= room, "{entered} of {room}");
    let mut again = 0;
    for key in 0..room.min(1_000) {
        pair.take(&Step::Remove(key));
        pair.put(key);
        again += u16::from(pair.get(key).is_some());
    }
    assert!(again > room.min(1_000) / 10 * 9, "only {again} came back");
    assert!((0..entered).all(|key| pair.get(key) == pair.model.get(&key).copied()));
}

/// An owner of item memory that panics now and then, as one that decodes its items may.
struct Fragile {
    mixing: Mixing,
    asked: Cell<u32>,
}

impl Items for Fragile {
    fn hash(&self, at: Location) -> Hash {
        self.asked.set(self.asked.get() + 1);
        if self.asked.get().is_multiple_of(if cfg!(miri) { 37 } else { 997 }) {
            // Like a panic, but without its message.
            resume_unwind(Box::new("an item that cannot be read"));
        }
        Items::hash(&self.mixing, at)
    }
}

/// No key is lost, and the table continues to grow.
fn survives_panics_of_its_items<I: Index>(new: impl Fn(usize) -> I) {
    let keys: u16 = if cfg!(miri) { 200 } else { 20_000 };
    let index = new(keys.into());
    let items = Fragile { mixing: Mixing::Good, asked: Cell::new(0) };
    let before = index.capacity();
    for key in 0..keys {
        let enter = || {
            let hash = items.mixing.hash(key);
            let entry = index.entry(hash, &items, |at| key_of(at) == key);
            entry.expect("room").put(Location(key.into()));
        };
        let entered = (0..10).any(|_| catch_unwind(AssertUnwindSafe(enter)).is_ok());
        assert!(entered, "key {key}, time after time");
    }
    index.validate(&items.mixing).expect("the invariants hold");
    let is_found = |key: u16| index.get(items.mixing.hash(key), |at| key_of(at) == key).is_some();
    assert!((0..keys).all(is_found), "a key is lost");
    assert!(cfg!(miri) || index.capacity() > before * 2);
}

macro_rules! indexes {
    ($($name:ident: $new:expr, $room:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn behaves_like_a_map() {
                super::behaves_like_a_map($new, $room);
            }

            #[test]
            fn survives_panics_of_its_items() {
                super::survives_panics_of_its_items($new);
            }

            #[test]
            fn is_full_late_and_recovers() {
                super::is_full_late_and_recovers($new, $room);
            }
        }
    )*};
}

indexes! {
    cuckoo: Cuckoo::with_max, Room { few_positions: 24 * 4, equal: 24 };
    hopscotch: Hopscotch::with_max, Room { few_positions: 32, equal: 32 };
    hopscotch64: Hopscotch64::with_max, Room { few_positions: 64, equal: 64 };
    any: |items_max| IndexKind::Chained.with_max(items_max), Room { few_positions: KEYS_MAX.into(), equal: KEYS_MAX.into() };
    chained: Chained::with_max, Room { few_positions: KEYS_MAX.into(), equal: KEYS_MAX.into() };
}

const KEYS_MAX: u16 = 2_000;
