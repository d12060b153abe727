//! The log's index: a partial-key cuckoo table in memory, from a key's hash to the places where its records may lie.
//!
//! SILT section 4.1 and chapter 3 of Fan's thesis. There are three differences. The other bucket is computed from
//! bucket and tag (equation 3.1), so a table may have more buckets than there are tags. A free slot is searched before
//! anything moves. And a key that finds no slot is put into a plain map.
//!
//! # Layout
//! ```text
//! bucket 24 B   | 4 tags of 16 bits, 0 = empty | 4 places of 32 bits, in units of 8 bytes |
//! ```
//! # Invariants
//! 1. One thread at a time inserts: [`LogIndex::insert`] and [`LogIndex::replace`] share a lock. Readers take none.
//! 2. A key that was inserted is found by every lookup that begins afterwards. It is in the table, in one of its two
//!    buckets, or in the map, and never moves between table and map.
//! 3. A lookup returns places of records, perhaps of other keys: the log compares keys.
//! 4. In one file a later record has a higher place. So candidates are sorted by place, and the newest comes first.
//!
//! # The overflow rule
//! If no path leads to a free slot, which happens above about 95 % load, the key goes into a map. An index whose map
//! has [`SPILLED_MAX`] keys, or whose table is 15/16 full, has no room: the log is sealed, and the next one is begun. A
//! batch that is larger than a log, and a replay, may spill more keys than that; all of them are found.
//!
//! # Costs
//! A lookup reads 2 cache lines; each other key in its buckets costs it a read of the log with probability 2⁻¹³. An
//! insert touches mostly 2 lines, and moves one entry at 90 % load. Memory: 6 bytes per slot, and about 60 per key in
//! the map.
//! Bad at: many keys with the same hash. Eight fit into the table. The others go into the map, and all are candidates
//! of each other.

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

/// The index. See the module's head.
pub(crate) struct LogIndex {
    table: Table,
    /// The lock for inserts. It holds the memory of the path search, for reuse.
    entering: Mutex<Vec<Node>>,
    len: AtomicUsize,
    spill: RwLock<HashMap<u64, Vec<u32>>>,
    spilled: AtomicUsize,
}

impl LogIndex {
    /// Creates an empty index for about `keys` keys.
    pub(crate) fn with_keys(keys: usize) -> Self {
        Self {
            table: Table::with_slots(keys),
            entering: Mutex::default(),
            len: AtomicUsize::new(0),
            spill: RwLock::default(),
            spilled: AtomicUsize::new(0),
        }
    }

    /// Returns whether `keys` more keys fit. More can be inserted, at a higher cost.
    pub(crate) fn has_room(&self, keys: usize) -> bool {
        let slots = self.table.slots();
        self.len().saturating_add(keys) <= slots - slots / 16
            && self.spilled.load(Relaxed) < SPILLED_MAX
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.spilled.load(Relaxed) * SPILLED_BYTES
    }

    /// Returns the places of records of keys with this hash, and perhaps of others, the newest first.
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

    /// Replaces the place `old` of a key by `place`. False if `old` isn't here.
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

    /// Inserts a place. Another place of the same key stays.
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

/// The index has no room once its map has this many keys.
const SPILLED_MAX: usize = 256;

/// Memory of a key in the map: its bucket, and a list of one place.
const SPILLED_BYTES: usize = 64;

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
