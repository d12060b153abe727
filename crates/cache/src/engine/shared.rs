//! The state that all threads share: index, slab, epochs, the handles' slots.

use super::cas::CasStripes;
use super::limbo::Orphans;
use super::lower::{Below, Under};
use crate::counters::Registry;
use crate::items::ItemRef;
use crate::locks::{Lock, Place, SLOTS};
use crate::memory::Epochs;
use crate::orders::{Dial, Eviction, ItemSlab};
use crate::time::Now;
use guira_index::{AnyEntry, AnyIndex, Full, Hash, Index, Items, Location};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module's head.
pub(crate) struct Engine {
    pub(crate) index: AnyIndex,
    pub(crate) slab: ItemSlab,
    pub(crate) epochs: Epochs,
    pub(crate) stripes: CasStripes,
    /// S3-CLOCK's parameters.
    pub(crate) dial: Dial,
    pub(crate) counters: Registry,
    pub(crate) orphans: Orphans,
    pub(crate) eviction: Eviction,
    /// Whether a full class evicts; otherwise it refuses to store.
    pub(crate) evictions: bool,
    /// The flush generation, 0 or 1, of live items.
    generation: AtomicU32,
    secrets: RapidSecrets,
    /// The level below memory, for items that memory has no room for.
    pub(crate) under: Option<Under>,
    /// Handle slots that are not in use.
    slots: Lock<Vec<usize>, SLOTS>,
}

/// The parameters of an engine, besides its index and its memory.
pub(crate) struct Terms {
    pub(crate) handles_max: usize,
    pub(crate) memory_bytes: usize,
    /// No cas count of a former process was higher than this.
    pub(crate) cas_floor: u64,
    pub(crate) eviction: Eviction,
    pub(crate) evictions: bool,
    pub(crate) hash_seed: u64,
    pub(crate) below: Option<Arc<dyn Below>>,
}

impl Engine {
    /// Makes an engine without items over an index and a slab.
    pub(crate) fn new(index: AnyIndex, slab: ItemSlab, terms: &Terms) -> Engine {
        Engine {
            index,
            epochs: Epochs::new(terms.handles_max),
            stripes: CasStripes::new(terms.memory_bytes, terms.cas_floor),
            dial: Dial::default(),
            counters: Registry::new(terms.handles_max, slab.chunks.classes.len()),
            orphans: Orphans::default(),
            eviction: terms.eviction,
            evictions: terms.evictions,
            generation: AtomicU32::new(0),
            secrets: RapidSecrets::seed(terms.hash_seed),
            under: terms.below.clone().map(Under::new),
            slots: Lock::new((0..terms.handles_max).rev().collect()),
            slab,
        }
    }

    /// Takes a slot for one more handle.
    ///
    /// # Panics
    /// If more than `CacheConfig::handles_max` handles exist at a time.
    pub(crate) fn take_slot(&self) -> usize {
        self.slots.lock().pop().expect("more handles than CacheConfig::handles_max")
    }

    /// Gives a slot back.
    pub(crate) fn release_slot(&self, slot: usize) {
        self.slots.lock().push(slot);
    }

    /// Withholds all slots from here on: a thread that asks for one waits forever. Returns `false` if a slot is in
    /// use.
    pub(crate) fn withhold_slots(&self) -> bool {
        let slots = self.slots.lock();
        let has_none = slots.len() == self.counters.handles_max();
        if has_none {
            slots.keep();
        }
        has_none
    }

    /// The keyed hash of a key: rapidhash with this engine's secrets.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> Hash {
        Hash(rapidhash_v3_micro_inline::<true, false>(key, &self.secrets))
    }

    /// The flush generation of live items.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The moment by which items count as dead: this second, and the current flush generation.
    pub(crate) fn now(&self, second: u32) -> Now {
        Now { second, generation: self.generation() }
    }

    /// Turns every item of the current generation into a miss. Returns the new generation.
    pub(crate) fn flush(&self) -> u32 {
        let memory = || self.generation.fetch_xor(1, Ordering::AcqRel) ^ 1;
        match &self.under {
            None => memory(),
            Some(under) => under.flush(memory),
        }
    }

    /// Continues with the generation of a former process.
    pub(crate) fn resume_generation(&self, generation: u32) {
        self.generation.store(generation, Ordering::Release);
    }

    /// Locks a key's place in the index, whether or not the key is there.
    ///
    /// # Errors
    /// The index is [`Full`].
    #[inline]
    pub(crate) fn place(
        &self,
        hash: Hash,
        is_key: impl FnMut(Location) -> bool,
    ) -> Result<Place<AnyEntry<'_>>, Full> {
        Place::lock(|| self.index.entry(hash, self, is_key))
    }

    /// Locks a key's place in the index, if the key is there.
    #[inline]
    pub(crate) fn find_place(
        &self,
        hash: Hash,
        is_key: impl FnMut(Location) -> bool,
    ) -> Option<Place<AnyEntry<'_>>> {
        Place::lock_if(|| self.index.find_entry(hash, is_key))
    }
}

/// The index's access to items.
impl Items for Engine {
    fn hash(&self, at: Location) -> Hash {
        self.hash(ItemRef::new(&self.slab.chunks, at).key())
    }

    fn prefetch(&self, at: Location) {
        self.slab.chunks.prefetch(at);
    }
}
