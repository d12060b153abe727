//! MemC3's table as the paper has it: four slots in either of two buckets, one writer, striped version counters.
//!
//! Fan, Andersen, Kaminsky, NSDI 2013, section 3 and algorithm 1. The product's table differs in nearly everything but
//! the idea; this one is here to be compared with. Left out: growth, and references of eight bytes (ours have four, as
//! every table's here; space is counted with eight, the paper's 36 bytes a bucket).
//!
//! [`Design`] undoes the paper's steps one by one, for its factor analysis: without tags a lookup compares the keys
//! of all items in both buckets, and instead of by versions readers may be kept from a moving key by a lock.
//!
//! # Layout
//! ```text
//! bucket 20 B  | tag tag tag tag | reference | reference | reference | reference |     reference 0: the slot is free
//! versions     8192 counters of 4 B; a key's is that of the lower of its two buckets
//! ```
//! # Invariants
//! 1. Tags and references change only under `writer`.
//! 2. A move writes the target, then clears the source, both while the key's version is odd. Both buckets have the same
//!    version, since it follows from the pair. So a reader that missed, and saw the same even version before and after,
//!    saw no move of its key.
//! 3. A reference that is replaced or removed is cleared while the key's version is odd: a writer that uses the item's memory
//!    again afterwards is found out by readers that copy from it and look at the version last.
//!
//! # Orderings
//! A version is made odd with Relaxed; what the buckets hold is stored with Release and loaded with Acquire. A reader
//! that saw a word of a move therefore sees the odd version, or what came after, at its second look.

mod path;
mod bucket;

use super::pages::Pages;
use bucket::{ALL_SLOTS, Bucket};
use guira_index::{Broken, Entry, Full, Hash, Index, Items, Location, prefetch};
use path::Search;
use std::collections::HashSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard};

pub(crate) use bucket::{PAPER_BUCKET_BYTES, SLOTS};
pub(crate) use path::Paths;

/// Which of the paper's steps a table has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Design {
    /// Whether slots have tags, so that only items are read whose tag matches.
    pub(crate) has_tags: bool,
    /// How readers and the writer keep out of each other's way.
    pub(crate) reads: Reads,
    /// How room is made.
    pub(crate) paths: Paths,
}

/// How readers and the writer keep out of each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// A lock for each version: "bucket lock".
    Locked,
    /// No lock; a reader looks at the version before and after.
    Optimistic,
}

impl Design {
    /// MemC3: tags, no locks, two search paths.
    pub(crate) const MEMC3: Self =
        Self { has_tags: true, reads: Reads::Optimistic, paths: Paths::Parallel(2) };
}

/// See the module's head.
pub(crate) struct SingleWriter {
    buckets: Box<[Bucket]>,
    versions: Box<[AtomicU32]>,
    locks: Box<[Mutex<()>]>,
    writer: Mutex<Writer>,
    /// Looks that readers had to repeat.
    retries: AtomicU64,
    pub(crate) design: Design,
}

/// What only the writer uses.
struct Writer {
    keys: usize,
    moves: u64,
    search: Search,
}

/// A slot of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    bucket: u32,
    slot: usize,
}

impl SingleWriter {
    /// A table of so many buckets, a power of two.
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

    /// The smallest table with room for so many keys at a load of 95 %.
    pub(crate) fn with_room(keys: usize, design: Design) -> Self {
        Self::new((keys * 100).div_ceil(95 * SLOTS).next_power_of_two().max(2), design)
    }

    /// Keys moved to another bucket so far.
    pub(crate) fn moves(&self) -> u64 {
        self.write().moves
    }

    /// Looks that readers had to repeat so far, because a key with the same version moved.
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
            // The writer may have lost its processor.
            std::thread::yield_now();
        }
    }

    #[inline]
    fn look(
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
    fn probe(&self, hash: Hash) -> Probe {
        let mask = self.mask();
        let tag = hash.0.to_le_bytes()[0].max(1);
        let first = u32::try_from(hash.0 >> 32).expect("32 bits") & mask;
        let second = (first ^ spread(tag)) & mask;
        Probe { tag, first, second, stripe: stripe(first, second) }
    }

    fn mask(&self) -> u32 {
        u32::try_from(self.buckets.len() - 1).expect("32 bits of position")
    }

    /// The other bucket of what is in a slot; without tags that takes a look at the item.
    fn other(&self, from: Slot, items: &impl Items) -> u32 {
        let bucket = &self.buckets[from.bucket as usize];
        let tag = if self.design.has_tags {
            bucket.tag(from.slot)
        } else {
            let at = bucket.get(from.slot).expect("asked of filled slots");
            items.hash(at).0.to_le_bytes()[0].max(1)
        };
        (from.bucket ^ spread(tag)) & self.mask()
    }

    /// Moves the key in one slot to a free one in its other bucket.
    fn shift(&self, from: Slot, to: Slot) {
        let _moving = self.change(stripe(from.bucket, to.bucket));
        let [source, target] = [from, to].map(|slot| &self.buckets[slot.bucket as usize]);
        let tag = source.tag(from.slot);
        target.fill(to.slot, tag, source.get(from.slot));
        source.fill(from.slot, 0, None);
    }

    /// Makes a version odd until the answer is dropped.
    fn change(&self, stripe: usize) -> Change<'_> {
        let lock = match self.design.reads {
            Reads::Locked => Some(self.locks[stripe].lock().expect("no holder panics")),
            Reads::Optimistic => None,
        };
        let version = &self.versions[stripe];
        let before = version.load(Relaxed);
        version.store(before.wrapping_add(1), Relaxed);
        Change { version, before, _lock: lock }
    }

    fn write(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("no writer panics")
    }
}

impl Index for SingleWriter {
    type Entry<'a> = SingleEntry<'a>;

    #[inline]
    fn get(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        self.get_as(self.design, hash, is_key)
    }

    fn prefetch(&self, hash: Hash) {
        let probe = self.probe(hash);
        prefetch(&raw const self.buckets[probe.first as usize]);
        prefetch(&raw const self.buckets[probe.second as usize]);
    }

    fn candidate(&self, hash: Hash) -> Option<Location> {
        let mut first = |_| true;
        self.look(self.design, self.probe(hash), &mut first).map(|(_, at)| at)
    }

    fn entry(
        &self,
        hash: Hash,
        items: &impl Items,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Result<SingleEntry<'_>, Full> {
        let mut writer = self.write();
        let probe = self.probe(hash);
        let (slot, at) = match self.look(self.design, probe, &mut is_key) {
            Some((slot, at)) => (slot, Some(at)),
            None => (self.make_room(&mut writer, probe, items).ok_or(Full)?, None),
        };
        Ok(SingleEntry { table: self, writer, probe, slot, at })
    }

    fn find_entry(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<SingleEntry<'_>> {
        let writer = self.write();
        let probe = self.probe(hash);
        let (slot, at) = self.look(self.design, probe, &mut is_key)?;
        Some(SingleEntry { table: self, writer, probe, slot, at: Some(at) })
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        for (bucket, held) in (0..).zip(&self.buckets) {
            for slot in 0..SLOTS {
                let (Some(at), tag) = (held.get(slot), held.tag(slot)) else { continue };
                let probe = self.probe(items.hash(at));
                if probe.tag != tag {
                    return Err(Broken::Tag(at));
                }
                if ![probe.first, probe.second].contains(&bucket) {
                    return Err(Broken::Bucket(at));
                }
                if !seen.insert(at) {
                    return Err(Broken::Twice(at));
                }
            }
        }
        let (filled, counted) = (seen.len(), self.len());
        if filled == counted { Ok(()) } else { Err(Broken::Count { filled, counted }) }
    }

    fn len(&self) -> usize {
        self.write().keys
    }

    fn capacity(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + VERSIONS * size_of::<AtomicU32>()
    }
}

/// One key's place. Its holder is the table's only writer.
pub(crate) struct SingleEntry<'a> {
    table: &'a SingleWriter,
    writer: MutexGuard<'a, Writer>,
    probe: Probe,
    slot: Slot,
    at: Option<Location>,
}

impl SingleEntry<'_> {
    fn set(&mut self, new: Option<Location>) -> Option<Location> {
        let bucket = &self.table.buckets[self.slot.bucket as usize];
        let tag = if new.is_some() { self.probe.tag } else { 0 };
        // A new key goes where nobody sees it yet.
        let _changing = self.at.map(|_| self.table.change(self.probe.stripe));
        bucket.fill(self.slot.slot, tag, new);
        self.writer.keys += usize::from(new.is_some());
        self.writer.keys -= usize::from(self.at.is_some());
        std::mem::replace(&mut self.at, new)
    }
}

impl Entry for SingleEntry<'_> {
    fn location(&self) -> Option<Location> {
        self.at
    }

    fn put(&mut self, new: Location) -> Option<Location> {
        self.set(Some(new))
    }

    fn remove(&mut self) -> Option<Location> {
        self.set(None)
    }
}

/// What the table uses of a hash.
#[derive(Clone, Copy)]
struct Probe {
    tag: u8,
    first: u32,
    second: u32,
    stripe: usize,
}

/// An odd version; even again when dropped.
struct Change<'a> {
    version: &'a AtomicU32,
    before: u32,
    _lock: Option<MutexGuard<'a, ()>>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.version.store(self.before.wrapping_add(2), Release);
    }
}

/// The bits in which the two buckets of a key with this tag differ: odd, so that they do differ.
#[inline]
fn spread(tag: u8) -> u32 {
    (u32::from(tag).wrapping_mul(0x5bd1_e995) >> 3) | 1
}

#[inline]
fn stripe(one: u32, other: u32) -> usize {
    one.min(other) as usize % VERSIONS
}

const VERSIONS: usize = 8192;

#[cfg(test)]
mod tests;
