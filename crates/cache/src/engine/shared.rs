//! What all threads share: index, slab, epochs, the order of handles.

use super::cas::CasStripes;
use super::limbo::Orphans;
use super::lower::{Below, Under};
use crate::counters::Registry;
use crate::items::ItemRef;
use crate::locks::{Lock, Place, SLOTS};
use crate::memory::Epochs;
use crate::orders::{Dial, Eviction, ItemSlab};
use crate::time::Now;
use guira_index::{Full, Hash, Index, Items, Location};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module's head.
pub(crate) struct Engine<I: Index> {
    pub(crate) index: I,
    pub(crate) slab: ItemSlab,
    pub(crate) epochs: Epochs,
    pub(crate) stripes: CasStripes,
    /// S3-CLOCK's parameters.
    pub(crate) dial: Dial,
    pub(crate) counters: Registry,
    pub(crate) orphans: Orphans,
    pub(crate) eviction: Eviction,
    /// Whether a full class evicts, or refuses to store.
    pub(crate) evictions: bool,
    /// The flush generation, 0 or 1, of the items that live.
    generation: AtomicU32,
    secrets: RapidSecrets,
    /// Where items go that memory has no room for.
    pub(crate) under: Option<Under>,
    /// Handle slots not in use.
    slots: Lock<Vec<usize>, SLOTS>,
}

/// What an engine is made for, besides its index and its memory.
pub(crate) struct Terms {
    pub(crate) handles_max: usize,
    pub(crate) memory_bytes: usize,
    /// No cas unique of a former process was above this.
    pub(crate) cas_floor: u64,
    pub(crate) eviction: Eviction,
    pub(crate) evictions: bool,
    pub(crate) hash_seed: u64,
    pub(crate) below: Option<Arc<dyn Below>>,
}

impl<I: Index> Engine<I> {
    /// An engine without items over an index and a slab.
    pub(crate) fn new(index: I, slab: ItemSlab, terms: &Terms) -> Engine<I> {
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

    /// A slot for one more handle.
    ///
    /// # Panics
    /// When more than `CacheConfig::handles_max` handles live at a time.
    pub(crate) fn take_slot(&self) -> usize {
        self.slots.lock().pop().expect("more handles than CacheConfig::handles_max")
    }

    /// Gives a slot back.
    pub(crate) fn release_slot(&self, slot: usize) {
        self.slots.lock().push(slot);
    }

    /// Gives no slot from here on: a thread that asks for one waits forever. `false` if one is in use.
    pub(crate) fn withhold_slots(&self) -> bool {
        let slots = self.slots.lock();
        let has_none = slots.len() == self.counters.handles_max();
        if has_none {
            slots.keep();
        }
        has_none
    }

    /// The keyed hash of a key: rapidhash with secrets of this engine.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> Hash {
        Hash(rapidhash_v3_micro_inline::<true, false>(key, &self.secrets))
    }

    /// The flush generation of the items that live.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// By what an item counts as dead at this second.
    pub(crate) fn now(&self, second: u32) -> Now {
        Now { second, generation: self.generation() }
    }

    /// Makes every item a miss that is of the generation that lives; which one lives from here on.
    pub(crate) fn flush(&self) -> u32 {
        let memory = || self.generation.fetch_xor(1, Ordering::AcqRel) ^ 1;
        match &self.under {
            None => memory(),
            Some(under) => under.flush(memory),
        }
    }

    /// Goes on with the generation of a former process.
    pub(crate) fn resume_generation(&self, generation: u32) {
        self.generation.store(generation, Ordering::Release);
    }

    /// Locks a key's place in the index, be the key there or not.
    ///
    /// # Errors
    /// The index is [`Full`].
    #[inline]
    pub(crate) fn place(
        &self,
        hash: Hash,
        is_key: impl FnMut(Location) -> bool,
    ) -> Result<Place<I::Entry<'_>>, Full> {
        Place::lock(|| self.index.entry(hash, &ItemHashes(self), is_key))
    }

    /// Locks a key's place in the index, if the key is there.
    #[inline]
    pub(crate) fn find_place(
        &self,
        hash: Hash,
        is_key: impl FnMut(Location) -> bool,
    ) -> Option<Place<I::Entry<'_>>> {
        Place::lock_if(|| self.index.find_entry(hash, is_key))
    }

    /// What the index asks about items.
    pub(crate) fn items(&self) -> ItemHashes<'_, I> {
        ItemHashes(self)
    }
}

/// What the index asks about items.
pub(crate) struct ItemHashes<'e, I: Index>(&'e Engine<I>);

impl<I: Index> Items for ItemHashes<'_, I> {
    fn hash(&self, at: Location) -> Hash {
        self.0.hash(ItemRef::new(&self.0.slab.chunks, at).key())
    }

    fn prefetch(&self, at: Location) {
        self.0.slab.chunks.prefetch(at);
    }
}
