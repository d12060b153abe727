//! The leases of a cache against a reference implementation, under random interleavings; and planted faults that the
//! comparison must find.

use super::{Leased, Stale};
use crate::{
    Cache, CacheConfig, Deleted, Handle, Key, LeaseTerms, Mode, StoreTerms, Stored, Vivified,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

mod reference;

use reference::Reference;

const INTERVAL_S: u32 = 10;
const STALE_S: u32 = 20;

/// An operation of a client on one key.
#[derive(Clone, Copy, Debug)]
enum Step {
    LeaseGet,
    /// A lease-set under the token that was given this many tokens ago.
    LeaseSet(usize),
    Get,
    Set,
    Add,
    Delete,
    Expire,
    Flush,
    MetaVivify,
    MetaStale,
    Wait(u32),
}

/// The reply to the client.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Value(u64),
    Granted(Option<u64>),
    Wait(Option<u64>),
    Won(Option<u64>),
    Taken(Option<u64>),
    Miss,
    Stored,
    NotStored,
    StaleStored,
    Deleted,
    NotFound,
    Done,
}

/// A fault planted between client and cache.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    DeleteKeepsToken,
    SetKeepsToken,
    FlushKeepsToken,
    StaleMarkKeepsToken,
    DeleteResetsClock,
    TokenTwice,
    StaleForGet,
    StaleTooLong,
    StaleNotKept,
    LateSetStores,
}

/// A client of the real cache. With a fault it deliberately misbehaves.
struct Client<'c> {
    cache: &'c Cache,
    handle: Handle<'c>,
    fault: Fault,
    tokens: Vec<u64>,
}

const KEY: &[u8] = b"key";

impl Client<'_> {
    fn step(&mut self, step: Step, fresh: u64, now: u32) -> Told {
        let key = self.handle.key(KEY);
        let text = fresh.to_string();
        let token = self.current_token();
        let told = match step {
            Step::LeaseGet => {
                let now = if self.fault == Fault::TokenTwice { now + INTERVAL_S } else { now };
                let now = if self.fault == Fault::StaleTooLong { now.max(3) - 1 } else { now };
                let leased = self.handle.lease_get(&key, now);
                let (told, token) = told(&leased);
                self.tokens.extend(token);
                told
            }
            Step::LeaseSet(back) => {
                let given = self.tokens.len().checked_sub(back + 1).map_or(7, |at| self.tokens[at]);
                let given =
                    if self.fault == Fault::LateSetStores { token.unwrap_or(given) } else { given };
                let how = StoreTerms::default();
                stored(self.handle.lease_store(&key, text.as_bytes(), (&how, given), now).unwrap())
            }
            Step::Get if self.fault == Fault::StaleForGet => self
                .handle
                .get_withheld(&key, now)
                .map_or(Told::Miss, |item| Told::Value(number(item.value()))),
            Step::Get => self
                .handle
                .get(&key, now)
                .map_or(Told::Miss, |item| Told::Value(number(item.value()))),
            Step::Set | Step::Add => {
                let mode = if matches!(step, Step::Add) { Mode::Add } else { Mode::Set };
                let how = StoreTerms { mode, ..StoreTerms::default() };
                stored(self.handle.store(&key, text.as_bytes(), &how, now).unwrap())
            }
            Step::Delete => deleted(self.handle.delete(&key, None, now)),
            Step::Expire => {
                self.handle.touch(&key, now, now);
                Told::Done
            }
            Step::Flush => {
                self.flush();
                Told::Done
            }
            Step::MetaVivify => self.vivify(&key, now),
            Step::MetaStale => {
                let what = crate::Invalidate { stale: true, ..Default::default() };
                deleted(self.handle.invalidate(&key, &what, now).unwrap())
            }
            Step::Wait(_) => Told::Done,
        };
        self.repair(step, token);
        self.handle.quiesce();
        told
    }

    /// Undoes, after the fact, what the fault omits.
    fn repair(&self, step: Step, token: Option<u64>) {
        let hash = self.handle.key(KEY).hash.0;
        let Some(mut set) = self.handle.actor.features.leases.lock(hash) else { return };
        let Some(record) = set.find(hash) else { return };
        match (self.fault, step) {
            (Fault::DeleteKeepsToken, Step::Delete)
            | (Fault::SetKeepsToken, Step::Set)
            | (Fault::FlushKeepsToken, Step::Flush)
            | (Fault::StaleMarkKeepsToken, Step::MetaStale) => record.plant(token, None),
            (Fault::DeleteResetsClock, Step::Delete) => record.plant(None, Some(1)),
            (Fault::StaleNotKept, Step::Delete) => self.handle.actor.features.leases.forget(record),
            _ => {}
        }
    }

    fn current_token(&self) -> Option<u64> {
        let hash = self.handle.key(KEY).hash.0;
        let mut set = self.handle.actor.features.leases.lock(hash)?;
        let record = set.find(hash)?;
        self.tokens.iter().copied().find(|&token| record.has(token))
    }

    fn flush(&mut self) {
        let mut asked = None;
        let mut sweeper = self.cache.sweeper();
        while !self.handle.flush(&mut asked) {
            self.handle.quiesce();
            sweeper.step(2);
        }
        drop(sweeper);
        self.handle.quiesce();
    }

    fn vivify(&self, key: &Key<'_>, now: u32) -> Told {
        if let Ok(item) = self.handle.get_withheld(key, now) {
            return if item.is_withheld() { Told::Miss } else { Told::Value(number(item.value())) };
        }
        let vivified = self.handle.vivify(key, &StoreTerms::default(), now).unwrap();
        let item = self.handle.get_withheld(key, now).expect("just made");
        assert!(item.is_withheld() && item.is_won() == Some(true));
        let stale = item.is_stale().then(|| number(item.value()));
        match vivified {
            Vivified::Won(_) => Told::Won(stale),
            Vivified::Taken(_) => Told::Taken(stale),
            Vivified::Overtaken => panic!("nobody is there to overtake"),
        }
    }
}

fn told(leased: &Leased<'_>) -> (Told, Option<u64>) {
    let text = |stale: &Option<Stale<'_>>| {
        stale.as_ref().map(|stale| match stale {
            Stale::Kept(value) => number(Some(value.value())),
            Stale::Item(item) => number(item.value()),
        })
    };
    match leased {
        Leased::Hit(item) => (Told::Value(number(item.value())), None),
        Leased::Granted { token, stale, .. } => {
            assert!(*token > 1);
            (Told::Granted(text(stale)), Some(*token))
        }
        Leased::Wait { stale, .. } => (Told::Wait(text(stale)), None),
    }
}

fn number(value: Option<&[u8]>) -> u64 {
    std::str::from_utf8(value.expect("short")).expect("digits").parse().expect("a number")
}

fn stored(stored: Stored) -> Told {
    match stored {
        Stored::Stored { .. } => Told::Stored,
        Stored::StaleStored => Told::StaleStored,
        _ => Told::NotStored,
    }
}

fn deleted(deleted: Deleted) -> Told {
    if matches!(deleted, Deleted::Deleted { .. }) { Told::Deleted } else { Told::NotFound }
}

fn cache() -> Cache {
    let leases = LeaseTerms {
        interval_s: INTERVAL_S,
        stale_s: STALE_S,
        keys_max: 1 << 10,
        ..LeaseTerms::default()
    };
    let memory_bytes = if cfg!(miri) { 1 << 17 } else { 1 << 20 };
    Cache::new(&CacheConfig { memory_bytes, leases, ..CacheConfig::default() })
        .expect("a small cache")
}

/// Plays `steps` to both. The error is the first step whose replies differ.
fn play(steps: &[Step], fault: Fault) -> Result<(), (usize, Told, Told)> {
    let cache = cache();
    let mut client = Client { cache: &cache, handle: cache.handle(), fault, tokens: Vec::new() };
    let mut reference = Reference::default();
    let mut now = 100;
    for (at, &step) in steps.iter().enumerate() {
        if let Step::Wait(seconds) = step {
            now += seconds;
        }
        let fresh = at as u64;
        let (ours, due) = (client.step(step, fresh, now), reference.step(step, fresh, now));
        if ours != due {
            return Err((at, ours, due));
        }
    }
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::LeaseGet),
        5 => (0..3usize).prop_map(Step::LeaseSet),
        3 => Just(Step::Get),
        2 => Just(Step::Set),
        2 => Just(Step::Add),
        4 => Just(Step::Delete),
        1 => Just(Step::Expire),
        1 => Just(Step::Flush),
        2 => Just(Step::MetaVivify),
        2 => Just(Step::MetaStale),
        3 => prop_oneof![1..4u32, 8..13u32, 19..22u32].prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 400 }))]

    #[test]
    fn leases_answer_as_the_reference_whatever_comes(steps in steps()) {
        prop_assert_eq!(play(&steps, Fault::None), Ok(()));
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "takes Miri too long: hundreds of caches, and its faults are the reference's"
)]
fn each_planted_fault_is_seen() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    for fault in [
        Fault::DeleteKeepsToken,
        Fault::SetKeepsToken,
        Fault::FlushKeepsToken,
        Fault::StaleMarkKeepsToken,
        Fault::DeleteResetsClock,
        Fault::TokenTwice,
        Fault::StaleForGet,
        Fault::StaleTooLong,
        Fault::StaleNotKept,
        Fault::LateSetStores,
    ] {
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let is_seen = |runner: &mut TestRunner| {
            let tree = steps().new_tree(runner).expect("steps have no filter");
            play(&tree.current(), fault).is_err()
        };
        assert!((0..400).any(|_| is_seen(&mut runner)), "{fault:?} passes");
    }
}

#[test]
fn of_many_who_miss_at_once_one_gets_a_token() {
    let cache = cache();
    let granted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..if cfg!(miri) { 3 } else { 8 } {
            scope.spawn(|| {
                let handle = cache.handle();
                let key = handle.key(KEY);
                for _ in 0..if cfg!(miri) { 5 } else { 100 } {
                    let is_ours = matches!(handle.lease_get(&key, 100), Leased::Granted { .. });
                    granted.fetch_add(is_ours.into(), SeqCst);
                }
            });
        }
    });
    assert_eq!(granted.load(SeqCst), 1);
}

/// Reads of each reader, and changes of the writer.
const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2000 };

/// A database of one row, and clients that read it to fill the cache while others change it: the stale set of the
/// paper's §3.2.1.
#[test]
fn no_value_that_a_delete_overtook_is_stored() {
    let leases = LeaseTerms { interval_s: 0, ..LeaseTerms::default() };
    let config = CacheConfig { memory_bytes: 1 << 20, leases, ..CacheConfig::default() };
    let cache = Cache::new(&config).expect("a small cache");
    let row = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut handle = cache.handle();
                for _ in 0..ROUNDS {
                    let key = handle.key(KEY);
                    let read = match handle.lease_get(&key, 100) {
                        Leased::Hit(item) => {
                            let before = row.load(SeqCst);
                            assert!(number(item.value()) <= before);
                            None
                        }
                        Leased::Granted { token, .. } => Some((token, row.load(SeqCst))),
                        Leased::Wait { .. } => None,
                    };
                    if let Some((token, read)) = read {
                        let (how, text) = (StoreTerms::default(), read.to_string());
                        let _ = handle.lease_store(&key, text.as_bytes(), (&how, token), 100);
                    }
                    handle.quiesce();
                }
            });
        }
        let mut handle = cache.handle();
        for _ in 0..ROUNDS {
            let key = handle.key(KEY);
            let new = row.fetch_add(1, SeqCst) + 1;
            handle.delete(&key, None, 100);
            if let Ok(item) = handle.get(&key, 100) {
                assert_eq!(number(item.value()), new, "older than a delete that is over");
            }
            handle.quiesce();
        }
    });
}

#[test]
fn stale_values_stay_within_their_memory_and_go_with_their_time() {
    let leases = LeaseTerms { stale_bytes_max: 10_000, ..LeaseTerms::default() };
    let config = CacheConfig { memory_bytes: 4 << 20, leases, ..CacheConfig::default() };
    let cache = Cache::new(&config).expect("a small cache");
    let mut handle = cache.handle();
    handle.lease_get(&handle.key(b"first"), 100);
    let kept = Cell::new(0);
    for n in 0..if cfg!(miri) { 20 } else { 100 } {
        let name = format!("key{n:03}");
        let key = handle.key(name.as_bytes());
        handle.store(&key, &[b'v'; 994], &StoreTerms::default(), 100).expect("there is room");
        handle.delete(&key, None, 100);
        assert!(cache.stale_bytes() <= 10_000);
        kept.set(cache.stale_bytes());
        handle.quiesce();
    }
    assert_eq!(kept.get(), 10_000, "ten values and their keys");
    let key = handle.key(b"key003");
    assert!(matches!(handle.lease_get(&key, 119), Leased::Granted { stale: Some(_), .. }));
    assert!(matches!(handle.lease_get(&key, 120), Leased::Wait { stale: None, .. }));
    drop(handle);
    cache.sweeper().step(120);
    assert_eq!(cache.stale_bytes(), 0);
}

#[test]
fn a_lost_record_loses_its_token_and_nothing_else() {
    let leases = LeaseTerms { keys_max: 8, ..LeaseTerms::default() };
    let config = CacheConfig { memory_bytes: 1 << 20, leases, ..CacheConfig::default() };
    let cache = Cache::new(&config).expect("a small cache");
    let handle = cache.handle();
    let mut tokens = HashMap::new();
    for n in 0..9u32 {
        let name = format!("key{n}");
        let Leased::Granted { token, .. } = handle.lease_get(&handle.key(name.as_bytes()), 100 + n)
        else {
            panic!("each key is asked for once")
        };
        tokens.insert(name, token);
    }
    assert_eq!(cache.leases_evicted(), 1);
    for (name, token) in tokens {
        let key = handle.key(name.as_bytes());
        let stored =
            handle.lease_store(&key, b"1", (&StoreTerms::default(), token), 109).expect("room");
        assert_eq!(matches!(stored, Stored::NotStored), name == "key0", "{name}: {stored:?}");
    }
}
