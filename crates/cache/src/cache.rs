//! The cache itself: what all threads share, and how a thread gets its handle.

use crate::cas::Stripes;
use crate::classes::Class;
use crate::config::{Config, ConfigError};
use crate::flush::Flush;
use crate::handle::{Handle, Orphans};
use crate::item::ItemRef;
use crate::policy::Eviction;
use crate::reclaim::Epochs;
use crate::slab::{ClassStats, Slab};
use crate::stats::{Registry, Totals};
use crate::tune::{Tune, Tuned};
use guira_index::{AnyIndex, Hash, Index, Items, Location};
use parking_lot::Mutex;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};

/// A cache shared by every thread; [`Cache::handle`] gives each thread its own way in.
///
/// `I` is the index: the one that [`Config::index`] names, unless a benchmark or the lab names a type.
pub struct Cache<I: Index = AnyIndex> {
    pub(crate) index: I,
    pub(crate) slab: Slab,
    pub(crate) epochs: Epochs,
    pub(crate) stripes: Stripes,
    pub(crate) flush: Flush,
    pub(crate) tune: Tune,
    pub(crate) stats: Registry,
    pub(crate) orphans: Orphans,
    pub(crate) evictions: bool,
    pub(crate) item_bytes_max: usize,
    secrets: RapidSecrets,
    /// Handle slots not in use.
    slots: Mutex<Vec<usize>>,
}

impl Cache {
    /// A cache over the index that `config` names, sized so that it can refer to every chunk.
    pub fn new(config: &Config) -> Result<Cache, ConfigError> {
        let items_max = config.memory_bytes_reserved().div_ceil(crate::classes::CHUNK_MIN);
        Cache::with_index(config, config.index.with_max(items_max))
    }
}

impl<I: Index> Cache<I> {
    /// A cache over an index of the caller's making; [`Config::index`] doesn't count.
    pub fn with_index(config: &Config, index: I) -> Result<Cache<I>, ConfigError> {
        let slab = Slab::new(config)?;
        let secrets = match config.hash_seed {
            Some(seed) => RapidSecrets::seed(seed),
            None => RapidSecrets::random(),
        };
        Ok(Cache {
            index,
            epochs: Epochs::new(config.handles_max),
            stripes: Stripes::new(config.memory_bytes),
            flush: Flush::default(),
            tune: Tune::default(),
            stats: Registry::new(config.handles_max, slab.classes.len()),
            orphans: Orphans::default(),
            evictions: config.evictions,
            item_bytes_max: config.item_bytes_max,
            secrets,
            slots: Mutex::new((0..config.handles_max).rev().collect()),
            slab,
        })
    }

    /// A handle for the calling thread.
    ///
    /// # Panics
    /// When more than [`Config::handles_max`] handles live at a time.
    pub fn handle(&self) -> Handle<'_, I> {
        let slot = self.slots.lock().pop().expect("more handles than Config::handles_max");
        Handle::new(self, slot)
    }

    pub(crate) fn release_slot(&self, slot: usize) {
        self.slots.lock().push(slot);
    }

    /// The keyed hash of a key: rapidhash with a secret of this process.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> Hash {
        Hash(rapidhash_v3_micro_inline::<true, false>(key, &self.secrets))
    }

    /// Items in the cache now, dead ones that nobody has looked at included.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the cache holds no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index, for its figures and its kind.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// Memory that the index uses now, in bytes.
    pub fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// The eviction policy.
    pub fn eviction(&self) -> Eviction {
        self.slab.eviction
    }

    /// S3-CLOCK's parameters as they are now.
    pub fn tuned(&self) -> Tuned {
        self.tune.told()
    }

    /// Slots that the index has now.
    pub fn index_slots(&self) -> usize {
        self.index.capacity()
    }

    /// Item memory that slab classes hold, in bytes.
    pub fn page_bytes_held(&self) -> usize {
        self.slab.bytes_held()
    }

    /// Changes the memory for items (memcached's `cache_memlimit`), at most eightfold; `false` if
    /// that is more than the address space set aside. The [`Sweeper`](crate::Sweeper) gives memory
    /// beyond a lower limit back, page by page.
    pub fn set_memory_limit(&self, bytes: usize) -> bool {
        self.slab.set_limit(bytes)
    }

    /// The memory for items, in bytes: as configured or set since, rounded up to whole pages.
    pub fn memory_limit(&self) -> usize {
        self.slab.limit()
    }

    /// Bytes of a slab page: 64 KiB to 2 MiB, by the size of the cache.
    pub fn page_bytes(&self) -> usize {
        self.slab.page_bytes()
    }

    /// How many slab classes there are.
    pub fn classes(&self) -> usize {
        self.slab.classes.len()
    }

    /// Figures of slab class `class`, 0 being the smallest.
    pub fn class_stats(&self, class: usize) -> ClassStats {
        self.slab.class_stats(Class::try_from(class).expect("there are fewer than 256 classes"))
    }

    /// Counters, summed over all handles since the last [`Cache::reset_stats`].
    pub fn totals(&self) -> Totals {
        self.stats.totals()
    }

    /// Lets every counter start at 0 again; gauges stay.
    pub fn reset_stats(&self) {
        self.stats.reset();
    }
}

/// What the index asks: the owner of item memory.
pub(crate) struct Shared<'c, I: Index>(pub(crate) &'c Cache<I>);

impl<I: Index> Items for Shared<'_, I> {
    fn hash(&self, at: Location) -> Hash {
        self.0.hash(ItemRef::new(&self.0.slab, at).key())
    }

    fn prefetch(&self, at: Location) {
        self.0.slab.arena.prefetch(self.0.slab.word_of(at));
    }
}
