//! The transient item cache: short-lived items are reclaimed in the second in which they expire, without a read.
//!
//! From Scaling Memcache at Facebook (Nishtala et al., NSDI 2013), section 6.3. Other expired items keep their memory
//! until they are looked up or the eviction policy's hand reaches them. Without this cache, an item that lives for
//! seconds would occupy memory for as long as long-lived items do.
//!
//! # Layout
//! ```text
//! ring    | second s: locations … | second s + 1: locations … | …        a bucket for each second to come
//! ```
//! # Invariants
//! 1. An entry is a hint where to look, and identifies no item. When its second comes, whatever item is published
//!    there is reclaimed if it has expired. So an item that reuses the chunk is never reclaimed by mistake.
//! 2. Entries are examined with the class locked, as a hand examines chunks: the page may have left its class.
//! 3. There are at most `entries_max` entries. An item without one expires as other items do.
//!
//! # Costs
//! A store of a short-lived item: 4 bytes, and a lock at the end of the turn. Other stores: one comparison. Bad at: a
//! key that is overwritten many times before it expires, because each store leaves an entry.

use crate::locks::{LEAF, Lock};
use guira_index::Location;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The ring that all handles fill and the sweeper empties.
pub(crate) struct Transient {
    /// Items that live at most this long are transient, in seconds; 0 turns the cache off.
    lives_s: u32,
    entries_max: usize,
    /// The last second for which the ring has a bucket; 0 if no item is transient.
    last_s: AtomicU32,
    entries: AtomicU64,
    dropped: AtomicU64,
    reclaimed: AtomicU64,
    ring: Lock<Ring, LEAF>,
}

struct Ring {
    buckets: Box<[Vec<Location>]>,
    /// The second up to which all buckets have been emptied.
    done_s: u32,
}

/// Counts of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transients {
    /// Entries in the ring now, including those of items that are gone.
    pub entries: u64,
    /// Items reclaimed through the ring since the start.
    pub reclaimed: u64,
    /// Items that found no room in the ring since the start.
    pub dropped: u64,
}

impl Transient {
    /// Makes a ring for items that live for up to `lives_s` seconds. Its memory is proportional to the items'.
    pub(crate) fn new(lives_s: u32, memory_bytes: usize) -> Transient {
        let buckets = if lives_s == 0 { 0 } else { lives_s as usize + SLACK_S };
        Transient {
            lives_s,
            entries_max: memory_bytes / MEMORY_SHARE / size_of::<Location>(),
            last_s: AtomicU32::new(lives_s),
            entries: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            reclaimed: AtomicU64::new(0),
            ring: Lock::new(Ring { buckets: vec![Vec::new(); buckets].into(), done_s: 0 }),
        }
    }

    /// Whether an item that expires at this second (0: never) gets an entry.
    #[inline]
    pub(crate) fn takes(&self, exptime: u32) -> bool {
        exptime != 0 && exptime <= self.last_s.load(Relaxed)
    }

    /// Whether any item is transient.
    pub(crate) fn is_on(&self) -> bool {
        self.lives_s != 0
    }

    /// Counts a reclaimed item.
    pub(crate) fn count_reclaimed(&self) {
        self.reclaimed.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> Transients {
        Transients {
            entries: self.entries.load(Relaxed),
            reclaimed: self.reclaimed.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
        }
    }

    /// Takes over the entries of a turn: seconds and locations.
    pub(crate) fn enter(&self, new: &mut Vec<(u32, Location)>) {
        let mut ring = self.ring.lock();
        let held = usize::try_from(self.entries.load(Relaxed)).unwrap_or(usize::MAX);
        let room = self.entries_max.saturating_sub(held).min(new.len());
        self.dropped.fetch_add((new.len() - room) as u64, Relaxed);
        self.entries.fetch_add(room as u64, Relaxed);
        for (second, at) in new.drain(..).take(room) {
            // A second that is over, or beyond the ring after a clock shift, goes to the nearest bucket there is.
            let least = ring.done_s + 1;
            let most = ring.done_s + ring.seconds();
            ring.bucket(second.clamp(least, most)).push(at);
        }
    }

    /// Moves up to `most` entries whose second has come into `due`. Returns whether there are more.
    pub(crate) fn take_due(&self, now: u32, most: usize, due: &mut Vec<Location>) -> bool {
        let mut ring = self.ring.lock();
        self.last_s.store(now.saturating_add(self.lives_s), Relaxed);
        ring.done_s = ring.done_s.max(now.saturating_sub(ring.seconds()));
        while ring.done_s < now && due.len() < most {
            let second = ring.done_s + 1;
            let bucket = ring.bucket(second);
            let left = bucket.len().saturating_sub(most - due.len());
            due.extend(bucket.drain(left..));
            if bucket.is_empty() {
                *bucket = Vec::new();
                ring.done_s = second;
            }
        }
        self.entries.fetch_sub(due.len() as u64, Relaxed);
        ring.done_s < now
    }
}

impl Ring {
    fn bucket(&mut self, second: u32) -> &mut Vec<Location> {
        let at = second as usize % self.buckets.len();
        &mut self.buckets[at]
    }

    fn seconds(&self) -> u32 {
        u32::try_from(self.buckets.len()).unwrap_or(u32::MAX)
    }
}

/// Extra buckets: how late the sweeper may be, in seconds.
const SLACK_S: usize = 64;
/// Bytes of item memory for each byte of entries.
const MEMORY_SHARE: usize = 16;

#[cfg(test)]
mod tests {
    use crate::{Cache, CacheConfig, Handle, START_S, StoreTerms, Sweeper, Touched};

    fn cache(transient_s: u32) -> Cache {
        of_bytes(4 << 20, transient_s)
    }

    fn of_bytes(memory_bytes: usize, transient_s: u32) -> Cache {
        let config =
            CacheConfig { memory_bytes, transient_s, hash_seed: Some(7), ..CacheConfig::default() };
        Cache::new(&config).expect("a small cache")
    }

    fn set(handle: &mut Handle<'_>, name: &str, exptime: u32, now: u32) {
        let how = StoreTerms { exptime, ..StoreTerms::default() };
        let key = handle.key(name.as_bytes());
        handle.store(&key, b"value", &how, now).expect("there is room");
        handle.quiesce();
    }

    fn sweep(sweeper: &mut Sweeper<'_>, now: u32) {
        while sweeper.step(now) {}
    }

    #[test]
    fn items_are_reclaimed_in_the_second_in_which_they_expire_and_others_stay() {
        let cache = cache(10);
        let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
        sweep(&mut sweeper, START_S);
        let each = if cfg!(miri) { 20 } else { 1000 };
        for n in 0..5 * each {
            set(&mut handle, &format!("short{n}"), START_S + 1 + n % 5, START_S);
        }
        set(&mut handle, "long", START_S + 100, START_S);
        set(&mut handle, "for ever", 0, START_S);
        assert_eq!(cache.transients().entries, 5 * u64::from(each));
        for second in 1..=5 {
            sweep(&mut sweeper, START_S + second);
            assert_eq!(cache.len(), 2 + (each * (5 - second)) as usize);
        }
        sweep(&mut sweeper, START_S + 1000);
        assert_eq!(cache.len(), 2, "what lives longer waits to be found");
        let read = cache.transients();
        assert_eq!((read.reclaimed, read.entries), (5 * u64::from(each), 0));
    }

    #[test]
    fn what_was_replaced_touched_or_deleted_meanwhile_is_left_alone() {
        let cache = cache(10);
        let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
        sweep(&mut sweeper, START_S);
        for name in ["replaced", "touched", "deleted"] {
            set(&mut handle, name, START_S + 3, START_S);
        }
        set(&mut handle, "replaced", 0, START_S);
        let key = handle.key(b"touched");
        assert!(matches!(handle.touch(&key, START_S + 6, START_S), Touched::Touched(_)));
        handle.delete(&handle.key(b"deleted"), None, START_S);
        handle.quiesce();
        // The items that reuse their chunks have not expired.
        for n in 0..100 {
            set(&mut handle, &format!("new{n}"), 0, START_S);
        }
        sweep(&mut sweeper, START_S + 3);
        assert_eq!(cache.len(), 102);
        sweep(&mut sweeper, START_S + 6);
        assert_eq!(cache.len(), 101, "a touch makes a new entry");
        assert!(handle.get(&handle.key(b"replaced"), START_S + 6).is_ok());
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes Miri too long: a thousand stores, more than a second each")]
    fn the_ring_has_a_bound_and_counts_what_it_does_not_take() {
        let cache = of_bytes(1 << 16, 60);
        let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
        sweep(&mut sweeper, START_S);
        for _ in 0..1_100 {
            set(&mut handle, "again", START_S + 50, START_S);
        }
        let read = cache.transients();
        assert_eq!((read.entries, read.dropped), (1_024, 1_100 - 1_024), "a 16th of the memory");
        sweep(&mut sweeper, START_S + 50);
        assert_eq!(cache.transients().entries, 0);
    }

    #[test]
    fn without_a_threshold_nothing_is_entered() {
        let cache = cache(0);
        let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
        set(&mut handle, "k", START_S + 1, START_S);
        sweep(&mut sweeper, START_S + 2);
        assert_eq!((cache.len(), cache.transients().entries), (1, 0));
    }
}
