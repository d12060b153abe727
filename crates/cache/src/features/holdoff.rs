//! Keys that a delete holds off: for some seconds adds of the key are refused.
//!
//! From Scaling Memcache at Facebook (Nishtala et al., NSDI 2013), section 4.3. A cold cluster fills itself from a
//! warm one, whose value may be older than a delete that the cold cluster has seen. So the delete rejects adds for a
//! while.
//!
//! # Layout
//! ```text
//! set 64 B   | tombstone | × 8                       made by the first delete that holds off
//! tombstone  | hash 33, and a bit 1 | second it ends 30 |         0: none
//! ```
//! # Invariants
//! 1. A tombstone is stored before the key's place is locked to delete the key, and looked up with that place locked.
//!    So of an add and a delete, the later one sees the earlier: the delete removes what was added, or the add finds
//!    the tombstone.
//! 2. A tombstone identifies its key by 33 bits of the hash. With a full set, one other key in 2^30 is refused as
//!    well.
//!
//! # Costs
//! An add: one load, and one cache line once any delete has held a key off. A ninth tombstone in a set replaces the
//! one that ends first. That loss is counted, and the lost tombstone's key may be added too early.

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
    /// Makes room for tombstones of this many keys, rounded up. The memory is allocated by the first
    /// [`HoldOff::lay`].
    pub(crate) fn new(keys_max: usize) -> HoldOff {
        HoldOff { sets: OnceLock::new(), keys_max, dropped: AtomicU64::new(0) }
    }

    /// Tombstones that were replaced before their time.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Holds a key off until second `end`. Call it before the key's place is locked to delete the key.
    pub(crate) fn lay(&self, hash: Hash, end: u32, now: u32) {
        let sets = self.sets.get_or_init(|| {
            let count = self.keys_max.div_ceil(WAYS).next_power_of_two();
            (0..count).map(|_| Set::default()).collect()
        });
        let set = &sets[set_of(hash, sets.len())].0;
        let new = name(hash) | u64::from(end.min(END_MAX));
        loop {
            let old = set.iter().map(|stone| (stone, stone.load(Ordering::Relaxed)));
            // Prefers the key's own tombstone, then an expired one, then the one that ends first.
            let rank =
                |&(_, old): &(_, u64)| if name_of(old) == name(hash) { 0 } else { end_of(old) };
            let (stone, old) = old.min_by_key(rank).expect("a set has tombstones");
            if name_of(old) == name(hash) && end_of(old) >= end {
                return;
            }
            // The lock of the key's place publishes the tombstone; no other data depends on it.
            if stone.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                let is_lost = name_of(old) != name(hash) && end_of(old) > now;
                self.dropped.fetch_add(is_lost.into(), Ordering::Relaxed);
                return;
            }
        }
    }

    /// Ends the hold-off of the key.
    #[inline]
    pub(crate) fn lift(&self, hash: Hash) {
        let Some(sets) = self.sets.get() else { return };
        for stone in &sets[set_of(hash, sets.len())].0 {
            let old = stone.load(Ordering::Relaxed);
            if name_of(old) == name(hash) {
                // If the tombstone has changed, another delete stored it, and that one must stay.
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

/// The upper bits of the hash, and a bit that is set in every tombstone.
fn name(hash: Hash) -> u64 {
    (hash.0 | 1 << 63) & !u64::from(END_MAX)
}

fn name_of(stone: u64) -> u64 {
    stone & !u64::from(END_MAX)
}

fn end_of(stone: u64) -> u32 {
    u32::try_from(stone & u64::from(END_MAX)).unwrap_or(END_MAX)
}

/// The set of a hash, by bits that are not part of the name.
fn set_of(hash: Hash, sets: usize) -> usize {
    (hash.0 >> 2) as usize & (sets - 1)
}

const WAYS: usize = 8;
/// The last second that fits: 34 years.
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
                    // A store that finds no room counts as refused.
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
