//! Keys that a delete holds off: for some seconds nobody may add them.
//!
//! Scaling Memcache at Facebook (Nishtala et al., NSDI 2013), section 4.3: a cold cluster fills itself from a warm one,
//! whose value may be older than a delete that the cold one has seen. So the delete rejects adds for a while.
//!
//! # Layout
//! ```text
//! set 64 B   | tombstone | × 8                       made by the first delete that holds off
//! tombstone  | hash 33, and a bit 1 | second it ends 30 |         0: none
//! ```
//! # Invariants
//! 1. A tombstone is laid before the key's place is locked to delete it, and asked for with that place locked. So of
//!    an add and a delete the later sees the earlier: the delete removes what was added, or the add finds the tombstone.
//! 2. A tombstone names its key by 33 bits of the hash: beside a full set one in 2^30 other keys is refused, too.
//!
//! # Costs
//! An add: one load, and one line where any delete held off. A ninth tombstone in a set takes the place of the one
//! that ends first; it is counted, and that key may be added too early.

use guira_index::Hash;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tombstones of all keys.
pub(crate) struct HoldOff {
    sets: OnceLock<Box<[Set]>>,
    keys_max: usize,
    dropped: AtomicU64,
}

#[derive(Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

impl HoldOff {
    /// Tombstones for so many keys, rounded up.
    pub(crate) fn new(keys_max: usize) -> HoldOff {
        HoldOff { sets: OnceLock::new(), keys_max, dropped: AtomicU64::new(0) }
    }

    /// Tombstones that gave way before their time.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Holds a key off until second `end`. Call it before the key's place is locked to delete it.
    pub(crate) fn lay(&self, hash: Hash, end: u32, now: u32) {
        let sets = self.sets.get_or_init(|| {
            let count = self.keys_max.div_ceil(WAYS).next_power_of_two();
            (0..count).map(|_| Set::default()).collect()
        });
        let set = &sets[set_of(hash, sets.len())].0;
        let new = name(hash) | u64::from(end.min(END_MAX));
        loop {
            let old = set.iter().map(|stone| (stone, stone.load(Ordering::Relaxed)));
            // The key's own, or else a dead one, or else the one that ends first.
            let rank =
                |&(_, old): &(_, u64)| if name_of(old) == name(hash) { 0 } else { end_of(old) };
            let (stone, old) = old.min_by_key(rank).expect("a set has tombstones");
            if name_of(old) == name(hash) && end_of(old) >= end {
                return;
            }
            // Published by the lock of the key's place; nothing else hangs on it.
            if stone.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                let is_lost = name_of(old) != name(hash) && end_of(old) > now;
                self.dropped.fetch_add(is_lost.into(), Ordering::Relaxed);
                return;
            }
        }
    }

    /// Holds the key off no longer.
    #[inline]
    pub(crate) fn lift(&self, hash: Hash) {
        let Some(sets) = self.sets.get() else { return };
        for stone in &sets[set_of(hash, sets.len())].0 {
            let old = stone.load(Ordering::Relaxed);
            if name_of(old) == name(hash) {
                // If it has changed, then to another delete's, which this isn't to lift.
                let _ = stone.compare_exchange(old, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Whether the key is held off. Call it with the key's place locked.
    #[inline]
    pub(crate) fn holds(&self, hash: Hash, now: u32) -> bool {
        let Some(sets) = self.sets.get() else { return false };
        let set = &sets[set_of(hash, sets.len())].0;
        set.iter().any(|stone| {
            let stone = stone.load(Ordering::Acquire);
            name_of(stone) == name(hash) && end_of(stone) > now
        })
    }
}

/// The upper bits of the hash, with a bit that no absent tombstone has.
fn name(hash: Hash) -> u64 {
    (hash.0 | 1 << 63) & !u64::from(END_MAX)
}

fn name_of(stone: u64) -> u64 {
    stone & !u64::from(END_MAX)
}

fn end_of(stone: u64) -> u32 {
    u32::try_from(stone & u64::from(END_MAX)).unwrap_or(END_MAX)
}

/// Bits that are no part of the name.
fn set_of(hash: Hash, sets: usize) -> usize {
    (hash.0 >> 2) as usize & (sets - 1)
}

const WAYS: usize = 8;
/// 34 years of seconds.
const END_MAX: u32 = (1 << 30) - 1;

const _: () = assert!(size_of::<Set>() == 64, "a set is a line");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_that_is_lifted_holds_nothing_and_leaves_the_others() {
        let holdoff = HoldOff::new(8);
        let (one, other) = (Hash(1 << 40), Hash(2 << 40));
        holdoff.lift(one);
        holdoff.lay(one, 110, 100);
        holdoff.lay(other, 110, 100);
        holdoff.lift(one);
        assert!(!holdoff.holds(one, 100) && holdoff.holds(other, 100));
        holdoff.lay(one, 110, 100);
        assert!(holdoff.holds(one, 100));
    }

    #[test]
    fn a_key_is_held_off_until_its_second_and_no_other_is() {
        let holdoff = HoldOff::new(1024);
        let (key, other) = (Hash(0x1234_5678_9abc_def0), Hash(0x1234_5679_9abc_def0));
        assert!(!holdoff.holds(key, 100));
        holdoff.lay(key, 102, 100);
        assert!(holdoff.holds(key, 100) && holdoff.holds(key, 101));
        assert!(!holdoff.holds(key, 102), "the second at which it ends is free");
        assert!(!holdoff.holds(other, 100), "of the same set, and another name");
    }

    #[test]
    fn a_shorter_hold_does_not_end_a_longer_one() {
        let holdoff = HoldOff::new(8);
        holdoff.lay(Hash(1 << 40), 160, 100);
        holdoff.lay(Hash(1 << 40), 102, 100);
        assert!(holdoff.holds(Hash(1 << 40), 159));
        assert_eq!(holdoff.dropped(), 0);
    }

    #[test]
    fn a_full_set_gives_up_the_tombstone_that_ends_first_and_counts_it() {
        let holdoff = HoldOff::new(8);
        let key = |n: u64| Hash(n << 40);
        for n in 1..=8 {
            holdoff.lay(key(n), 100 + u32::try_from(n).unwrap(), 100);
        }
        assert_eq!(holdoff.dropped(), 0);
        holdoff.lay(key(9), 150, 100);
        assert_eq!(holdoff.dropped(), 1);
        assert!(!holdoff.holds(key(1), 100), "it ended first");
        assert!((2..=9).all(|n| holdoff.holds(key(n), 100)));
        holdoff.lay(key(10), 150, 105);
        assert_eq!(holdoff.dropped(), 1, "2 had ended");
    }

    #[test]
    fn no_add_survives_a_delete_that_holds_off() {
        use crate::{Cache, CacheConfig, Mode, StoreTerms};
        let config = CacheConfig { memory_bytes: 1 << 20, ..CacheConfig::default() };
        let cache = Cache::new(&config).expect("a small cache");
        let round = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut handle = cache.handle();
                let add =
                    StoreTerms { mode: Mode::Add, may_be_held_off: true, ..StoreTerms::default() };
                while round.load(Ordering::Acquire) < ROUNDS {
                    let name = round.load(Ordering::Acquire).to_string();
                    // No room is as good as a refusal.
                    let _ = handle.store(&handle.key(name.as_bytes()), b"old", &add, 100);
                    handle.quiesce();
                }
            });
            let mut handle = cache.handle();
            for n in 0..ROUNDS {
                round.store(n, Ordering::Release);
                let name = n.to_string();
                let key = handle.key(name.as_bytes());
                handle.delete_holding_off(&key, 5, 100);
                assert!(handle.get(&key, 100).is_err(), "{n} was added after its delete");
                handle.quiesce();
            }
            round.store(ROUNDS, Ordering::Release);
        });
    }

    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 5000 };
}
