//! The log's index: partial-key cuckoo hashing, in memory, from a key's hash to where its records may lie.
//!
//! SILT section 4.1 and chapter 3 of Fan's thesis. Ours differs in: the other bucket is computed from bucket and tag
//! (equation 3.1), so a table may be larger than its tags; a free slot is searched before anything moves; and a key that
//! finds none is put into a plain map.
//!
//! # Layout
//! ```text
//! bucket 24 B   | 4 tags of 16 bits, 0 = empty | 4 places of 32 bits, in units of 8 bytes |
//! ```
//! # Invariants
//! 1. One thread enters at a time: [`LogIndex::insert`] and [`LogIndex::replace`] share a lock. Readers take none.
//! 2. A key that was entered is found by every look-up that begins after that: it is in the table, in one of its two
//!    buckets, or in the map, and never goes from one to the other.
//! 3. What is found is a place of some record, perhaps of another key: the log compares keys.
//! 4. In one file a later record has a higher place. So candidates are sorted by place, and the newest comes first.
//!
//! # The overflow rule
//! When no path to a free slot is found, which happens from about 95 % load on, the key goes into a map. An index whose
//! map has [`SPILLED_MAX`] keys, or whose table is 15/16 full, has no room: the log is sealed and the next one goes on. A
//! batch that is larger than a log, and a replay, may spill more than that; it is all found.
//!
//! # Costs
//! A look-up: 2 lines; each other key costs it a read with probability 2⁻¹³. An entry: mostly 2 lines; at 90 % load one
//! move. Memory: 6 bytes per slot, and about 60 per key of the map.
//! Bad at: many keys of one hash. Eight fit, and the rest are candidates of each other in the map.

mod path;
mod table;
mod candidates;
mod sync;

pub(crate) use candidates::Candidates;

use crate::hash::KeyHash;
use parking_lot::{Mutex, RwLock};
use path::Node;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use table::Table;

/// From hashes to places of records. See the module's head.
pub(crate) struct LogIndex {
    table: Table,
    /// Held while something is entered. Its memory is used again.
    entering: Mutex<Vec<Node>>,
    len: AtomicUsize,
    spill: RwLock<HashMap<u64, Vec<u32>>>,
    spilled: AtomicUsize,
}

impl LogIndex {
    /// An empty index for about so many keys.
    pub(crate) fn with_keys(keys: usize) -> Self {
        Self {
            table: Table::with_slots(keys),
            entering: Mutex::default(),
            len: AtomicUsize::new(0),
            spill: RwLock::default(),
            spilled: AtomicUsize::new(0),
        }
    }

    /// If so many more keys fit. More can be entered, at a higher price.
    pub(crate) fn has_room(&self, keys: usize) -> bool {
        let slots = self.table.slots();
        self.len().saturating_add(keys) <= slots - slots / 16
            && self.spilled.load(Relaxed) < SPILLED_MAX
    }

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Memory.
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.spilled.load(Relaxed) * SPILLED_BYTES
    }

    /// Where records of keys with this hash lie, and perhaps others: the newest first.
    pub(crate) fn candidates(&self, hash: KeyHash) -> Candidates {
        let hash = hash.folded();
        let mut found = Candidates::default();
        self.table.find(hash, &mut found);
        if self.spilled.load(Acquire) > 0
            && let Some(places) = self.spill.read().get(&hash)
        {
            places.iter().for_each(|&place| found.push(place));
        }
        found.sort();
        found
    }

    /// Puts `place` where `old` is, for the same key. False if `old` isn't here.
    pub(crate) fn replace(&self, hash: KeyHash, old: u32, place: u32) -> bool {
        let _one_at_a_time = self.entering.lock();
        let hash = hash.folded();
        if self.table.replace(hash, old, place) {
            return true;
        }
        let mut spill = self.spill.write();
        let slot = spill.get_mut(&hash).and_then(|it| it.iter_mut().find(|it| **it == old));
        slot.is_some_and(|slot| {
            *slot = place;
            true
        })
    }

    /// Enters a place; one of the same key that is here stays.
    pub(crate) fn insert(&self, hash: KeyHash, place: u32) {
        let mut nodes = self.entering.lock();
        let hash = hash.folded();
        let free = self.table.free_for(hash);
        match free.or_else(|| path::make_room(&self.table, hash, &mut nodes)) {
            Some(slot) => self.table.fill(slot, hash, place),
            None => {
                self.spill.write().entry(hash).or_default().push(place);
                self.spilled.fetch_add(1, Release);
            }
        }
        self.len.fetch_add(1, Relaxed);
    }
}

/// With so many keys in the map the index has no room.
const SPILLED_MAX: usize = 256;

/// Memory of a key in the map: a bucket of it, and a list of one place.
const SPILLED_BYTES: usize = 64;

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
