//! The table: slots, versions, and the lookup by readers.

use super::bucket::{ALL_SLOTS, Bucket, SLOTS};
use crate::baseline::pages::Pages;
use guira_bench::Rng;
use guira_index::{Hash, Items, Location, prefetch};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard};

/// Which of the paper's steps a table implements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Design {
    /// Whether slots have tags, so that only items with a matching tag are read.
    pub(crate) has_tags: bool,
    /// How readers and the writer are synchronised.
    pub(crate) reads: Reads,
    /// How a full bucket gets room.
    pub(crate) paths: Paths,
}

/// How readers and the writer are synchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// A lock per version: "bucket lock".
    Locked,
    /// No lock; a reader checks the version before and after.
    Optimistic,
}

impl Design {
    /// MemC3: tags, no locks, two search paths.
    pub(crate) const MEMC3: Self =
        Self { has_tags: true, reads: Reads::Optimistic, paths: Paths::Parallel(2) };
}

/// How a full bucket gets room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paths {
    /// So many random walks in parallel.
    Parallel(usize),
    /// Breadth-first.
    BreadthFirst,
}

/// See the head of `single_writer.rs`.
pub(crate) struct SingleWriter {
    pub(super) buckets: Box<[Bucket]>,
    pub(super) versions: Box<[AtomicU32]>,
    pub(super) locks: Box<[Mutex<()>]>,
    pub(super) writer: Mutex<Writer>,
    /// Lookups that readers had to repeat.
    pub(super) retries: AtomicU64,
    pub(crate) design: Design,
}

/// The state that only the writer uses.
pub(super) struct Writer {
    pub(super) keys: usize,
    pub(super) moves: u64,
    pub(super) search: Search,
}

/// The state of a search, kept for reuse.
pub(super) struct Search {
    pub(super) random: Rng,
    /// For each walk, the slots whose keys would move.
    pub(super) walks: Vec<Vec<Slot>>,
    /// Buckets seen breadth-first: the bucket, and the place and slot of the earlier one from which its key came.
    pub(super) seen: Vec<(u32, Option<(usize, usize)>)>,
    pub(super) path: Vec<Slot>,
}

impl Default for Search {
    fn default() -> Self {
        Self { random: Rng::new(1), walks: Vec::new(), seen: Vec::new(), path: Vec::new() }
    }
}

/// A slot of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) bucket: u32,
    pub(super) slot: usize,
}

impl SingleWriter {
    /// Creates a table of `buckets` buckets, a power of two.
    pub(crate) fn new(buckets: usize, design: Design) -> Self {
        assert!(buckets.is_power_of_two() && buckets > 1, "exclusive or stays in the table");
        let search = Search::default();
        Self {
            buckets: Pages::Huge.collect((0..buckets).map(|_| Bucket::default())),
            versions: (0..VERSIONS).map(|_| AtomicU32::default()).collect(),
            locks: (0..VERSIONS).map(|_| Mutex::default()).collect(),
            writer: Mutex::new(Writer { keys: 0, moves: 0, search }),
            retries: AtomicU64::default(),
            design,
        }
    }

    /// Creates the smallest table with room for `keys` keys at a load of 95 %.
    pub(crate) fn with_room(keys: usize, design: Design) -> Self {
        Self::new((keys * 100).div_ceil(95 * SLOTS).next_power_of_two().max(2), design)
    }

    /// The number of keys moved to another bucket so far.
    pub(crate) fn moves(&self) -> u64 {
        self.write().moves
    }

    /// The number of lookups that readers had to repeat so far, because a key with the same version moved.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }

    /// [`Index::get`] as a table of another design would do it, on the same slots.
    #[inline]
    pub(crate) fn get_as(
        &self,
        design: Design,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        let probe = self.probe(hash);
        match design.reads {
            Reads::Locked => {
                let _locked = self.locks[probe.stripe].lock().expect("no holder panics");
                self.look(design, probe, &mut is_key).map(|(_, at)| at)
            }
            Reads::Optimistic => self.look_until_still(design, probe, &mut is_key),
        }
    }

    #[inline]
    fn look_until_still(
        &self,
        design: Design,
        probe: Probe,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        let version = &self.versions[probe.stripe];
        loop {
            let before = version.load(Acquire);
            if before & 1 == 0 {
                let found = self.look(design, probe, is_key);
                if version.load(Relaxed) == before {
                    return found.map(|(_, at)| at);
                }
            }
            self.retries.fetch_add(1, Relaxed);
            // The writer may have been preempted.
            std::thread::yield_now();
        }
    }

    #[inline]
    pub(super) fn look(
        &self,
        design: Design,
        probe: Probe,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<(Slot, Location)> {
        prefetch(&raw const self.buckets[probe.second as usize]);
        for bucket in [probe.first, probe.second] {
            let held = &self.buckets[bucket as usize];
            let mut slots = if design.has_tags { held.matching(probe.tag) } else { ALL_SLOTS };
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                slots &= slots - 1;
                let Some(at) = held.get(slot) else { continue };
                if is_key(at) {
                    return Some((Slot { bucket, slot }, at));
                }
            }
        }
        None
    }

    #[inline]
    pub(super) fn probe(&self, hash: Hash) -> Probe {
        let mask = self.mask();
        let tag = hash.0.to_le_bytes()[0].max(1);
        let first = u32::try_from(hash.0 >> 32).expect("32 bits") & mask;
        let second = (first ^ spread(tag)) & mask;
        Probe { tag, first, second, stripe: stripe(first, second) }
    }

    fn mask(&self) -> u32 {
        u32::try_from(self.buckets.len() - 1).expect("32 bits of position")
    }

    /// Returns the other bucket of a slot's key. Without tags it must read the item.
    pub(super) fn other(&self, from: Slot, items: &impl Items) -> u32 {
        let bucket = &self.buckets[from.bucket as usize];
        let tag = if self.design.has_tags {
            bucket.tag(from.slot)
        } else {
            let at = bucket.get(from.slot).expect("asked of filled slots");
            items.hash(at).0.to_le_bytes()[0].max(1)
        };
        (from.bucket ^ spread(tag)) & self.mask()
    }

    /// Moves the key of one slot to a free slot of its other bucket.
    pub(super) fn shift(&self, from: Slot, to: Slot) {
        let _moving = self.change(stripe(from.bucket, to.bucket));
        let [source, target] = [from, to].map(|slot| &self.buckets[slot.bucket as usize]);
        let tag = source.tag(from.slot);
        target.fill(to.slot, tag, source.get(from.slot));
        source.fill(from.slot, 0, None);
    }

    /// Makes a version odd until the result is dropped.
    pub(super) fn change(&self, stripe: usize) -> Change<'_> {
        let lock = match self.design.reads {
            Reads::Locked => Some(self.locks[stripe].lock().expect("no holder panics")),
            Reads::Optimistic => None,
        };
        let version = &self.versions[stripe];
        let before = version.load(Relaxed);
        version.store(before.wrapping_add(1), Relaxed);
        Change { version, before, _lock: lock }
    }

    pub(super) fn write(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("no writer panics")
    }
}

/// The parts of a hash that the table uses.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    pub(super) tag: u8,
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) stripe: usize,
}

/// An odd version; even again when dropped.
pub(super) struct Change<'a> {
    version: &'a AtomicU32,
    before: u32,
    _lock: Option<MutexGuard<'a, ()>>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.version.store(self.before.wrapping_add(2), Release);
    }
}

/// Returns the bits in which the two buckets of a key with this tag differ. It is odd, so the buckets always differ.
#[inline]
fn spread(tag: u8) -> u32 {
    (u32::from(tag).wrapping_mul(0x5bd1_e995) >> 3) | 1
}

#[inline]
fn stripe(one: u32, other: u32) -> usize {
    one.min(other) as usize % VERSIONS
}

pub(super) const VERSIONS: usize = 8192;
