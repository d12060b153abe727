//! The cache itself: what all threads share, and how a thread gets its handle.

use crate::config::{CacheConfig, CacheConfigError};
use crate::counters::Totals;
use crate::engine::{Engine, Terms};
use crate::features::{Features, Flush, HoldOff, Leases, Samples, Transient, Transients};
use crate::handle::Handle;
use crate::histogram::Distribution;
use crate::memory::{Class, Slab};
use crate::orders::{self, ClassOrder, ClassStats, Eviction, ItemSlab, Tuned};
use crate::persist::{self, Found, MemoryFile, Start};
use crate::upkeep::{Automove, Crawl, Mover, Moves, Sweeper, Unmoved};
use guira_index::{AnyIndex, Index};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::sync::Arc;

/// A cache shared by every thread; [`Cache::handle`] gives each thread its own way in.
///
/// `I` is the index: the one that [`CacheConfig::index`] names, unless a benchmark or the lab names a type.
pub struct Cache<I: Index = AnyIndex> {
    engine: Engine<I>,
    features: Features,
    mover: Mover,
    item_bytes_max: usize,
    start: Start,
}

impl Cache {
    /// A cache over the index that `config` names, sized so that it can refer to every chunk.
    pub fn new(config: &CacheConfig) -> Result<Cache, CacheConfigError> {
        let items_max = config.memory_bytes_reserved().div_ceil(crate::memory::CHUNK_MIN);
        let (slab, start) = item_memory(config)?;
        let index = config.index.with_room(items_max, start.index_slots);
        Cache::assemble(config, slab, start, index)
    }
}

/// Why a cache as `config` has it would empty its memory file, which another process may have. `None`: it would keep the
/// items, or there are none.
///
/// # Errors
/// There can't be such a cache, or the file can't be read.
pub fn would_empty(config: &CacheConfig) -> Result<Option<String>, CacheConfigError> {
    config.check()?;
    let Some(MemoryFile { path, .. }) = &config.memory_file else { return Ok(None) };
    persist::loss(&config.plan(), config.eviction, path).map_err(|error| {
        CacheConfigError::MemoryFile { path: path.clone(), why: error.to_string() }
    })
}

impl<I: Index> Cache<I> {
    /// A cache over an index of the caller's making; [`CacheConfig::index`] doesn't count.
    pub fn with_index(config: &CacheConfig, index: I) -> Result<Cache<I>, CacheConfigError> {
        let (slab, start) = item_memory(config)?;
        Cache::assemble(config, slab, start, index)
    }

    fn assemble(
        config: &CacheConfig,
        slab: ItemSlab,
        start: Start,
        index: I,
    ) -> Result<Cache<I>, CacheConfigError> {
        let hash_seed = match config.hash_seed {
            Some(seed) => seed,
            None => random_seed().map_err(CacheConfigError::Random)?,
        };
        let terms = Terms {
            handles_max: config.handles_max,
            memory_bytes: config.memory_bytes,
            cas_floor: start.cas_floor,
            eviction: config.eviction,
            evictions: config.evictions,
            hash_seed,
            below: config.below.as_ref().map(|below| Arc::clone(&below.0)),
        };
        let features = Features {
            leases: Leases::new(config.leases),
            holdoff: HoldOff::new(config.holdoff_keys),
            transient: Transient::new(config.transient_s, config.memory_bytes),
            flush: Flush::default(),
            samples: Samples::default(),
        };
        let mut cache = Cache {
            engine: Engine::new(index, slab, &terms),
            features,
            mover: Mover::default(),
            item_bytes_max: config.item_bytes_max,
            start,
        };
        cache.start.take_over(&cache.engine, &cache.features);
        Ok(cache)
    }

    /// A handle for the calling thread.
    ///
    /// # Panics
    /// When more than [`CacheConfig::handles_max`] handles live at a time.
    pub fn handle(&self) -> Handle<'_, I> {
        Handle::new(&self.engine, &self.features, self.item_bytes_max)
    }

    /// The cache's sweep. One thread runs it; it takes a handle.
    pub fn sweeper(&self) -> Sweeper<'_, I> {
        Sweeper::new(self.handle(), &self.mover)
    }

    /// A walk over `classes`, of which those that don't exist are left out. It takes a handle.
    pub fn crawl(&self, classes: impl IntoIterator<Item = usize>) -> Crawl<'_, I> {
        Crawl::new(self.handle(), &self.mover, classes)
    }

    /// Asks for a page of class `from` (`None`: of the class with the most) for class `to`, or for the pool. The
    /// [`Sweeper`] moves it.
    ///
    /// # Errors
    /// [`Unmoved`].
    pub fn reassign(&self, from: Option<usize>, to: Option<usize>) -> Result<(), Unmoved> {
        self.mover.ask(&self.engine.slab, from, to)
    }

    /// How pages move by themselves; not at all until it is set.
    pub fn automove(&self) -> Automove {
        self.mover.automove()
    }

    /// Lets pages move by themselves from here on, by this rule; needs a [`Sweeper`] that steps.
    pub fn set_automove(&self, automove: Automove) {
        self.mover.set_automove(automove);
    }

    /// What the page mover did.
    pub fn moves(&self) -> Moves {
        self.mover.read()
    }

    /// What the start found in its memory file.
    pub fn found(&self) -> &Found {
        &self.start.found
    }

    /// How many bytes of items the memory file's file system has, or has room for. `None`: there is no file, or the
    /// system doesn't say.
    pub fn file_room_bytes(&self) -> Option<u64> {
        persist::room_bytes(&self.engine.slab.chunks.arena)
    }

    /// The second at which the cache's clock began in this process: later than [`START_S`](crate::START_S) if it goes
    /// on from where a former process had it.
    pub fn began_at_s(&self) -> u32 {
        self.start.clock.now
    }

    /// Notes in the memory file, if there is one, that it is second `now` at a Unix time, and how large the index
    /// is: a crash then loses little of them. For a background thread, a few times a second.
    pub fn keep_time(&self, now: u32, unix_s: i64) {
        persist::keep_time(&self.engine, now, unix_s);
    }

    /// Marks the memory file, if there is one, as that of a clean stop. From here on nothing may change: end the
    /// process, or drop the cache.
    ///
    /// # Errors
    /// A handle is alive, whose thread may still change something; or the mark can't be written. The next start then
    /// treats the file as after a crash.
    pub fn stop(&self, now: u32, unix_s: i64) -> io::Result<()> {
        self.start.stop(&self.engine, now, unix_s)
    }

    /// Items in the cache now, dead ones that nobody has looked at included.
    pub fn len(&self) -> usize {
        self.engine.index.len()
    }

    /// Whether the cache holds no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that the index uses now, in bytes.
    pub fn index_bytes(&self) -> usize {
        self.engine.index.bytes()
    }

    /// The eviction policy.
    pub fn eviction(&self) -> Eviction {
        self.engine.eviction
    }

    /// S3-CLOCK's parameters as they are now.
    pub fn tuned(&self) -> Tuned {
        self.engine.dial.read()
    }

    /// Slots that the index has now.
    pub fn index_slots(&self) -> usize {
        self.engine.index.capacity()
    }

    /// Pages that a class held and none holds now, whose memory is still the process's.
    pub fn pages_returned(&self) -> usize {
        self.engine.slab.pages_returned()
    }

    /// Item memory that slab classes hold, in bytes.
    pub fn page_bytes_held(&self) -> usize {
        self.engine.slab.bytes_held()
    }

    /// Item memory that is the process's: what slab classes hold, and pages that wait for one; in bytes.
    pub fn page_bytes_backed(&self) -> usize {
        self.engine.slab.bytes_backed()
    }

    /// Changes the memory for items (memcached's `cache_memlimit`), at most eightfold; `false` if
    /// that is more than the address space set aside. The [`Sweeper`] gives memory
    /// beyond a lower limit back, page by page.
    pub fn set_memory_limit(&self, bytes: usize) -> bool {
        self.engine.slab.set_limit(bytes)
    }

    /// The memory for items, in bytes: as configured or set since, rounded up to whole pages.
    pub fn memory_limit(&self) -> usize {
        self.engine.slab.limit_bytes()
    }

    /// Why the cache can't use all of the memory for items, if so: the file system of its memory file has no more.
    pub fn shortage(&self) -> Option<io::Error> {
        self.engine.slab.limit().shortage()
    }

    /// Bytes of a slab page: 64 KiB to 2 MiB, by the size of the cache.
    pub fn page_bytes(&self) -> usize {
        self.engine.slab.chunks.page_bytes()
    }

    /// How many slab classes there are.
    pub fn classes(&self) -> usize {
        self.engine.slab.chunks.classes.len()
    }

    /// Figures of slab class `class`, 0 being the smallest.
    pub fn class_stats(&self, class: usize) -> ClassStats {
        let class = Class::try_from(class).expect("there are fewer than 256 classes");
        orders::class_stats(&self.engine.slab, class)
    }

    /// What short-lived items came to.
    pub fn transients(&self) -> Transients {
        self.features.transient.read()
    }

    /// Keys that were held off and could be added before their time, for want of tombstones, since the start.
    pub fn holdoff_dropped(&self) -> u64 {
        self.features.holdoff.dropped()
    }

    /// Bytes of values that were deleted and may still be read as stale, with their keys.
    pub fn stale_bytes(&self) -> usize {
        self.features.leases.stale_bytes()
    }

    /// Lease tokens that went before their time, for want of records, since the start.
    pub fn leases_evicted(&self) -> u64 {
        self.features.leases.evicted()
    }

    /// Counters, summed over all handles since the last [`Cache::reset_stats`].
    pub fn totals(&self) -> Totals {
        self.engine.counters.totals()
    }

    /// How many seconds evicted items had not been used, to 2 seconds, up to [`IDLE_MAX_S`](crate::IDLE_MAX_S); since
    /// the start. `None` before the first handle.
    pub fn evicted_idle_s(&self) -> Option<Distribution> {
        self.engine.counters.evicted_idle_s()
    }

    /// Lets every counter start at 0 again; gauges stay.
    pub fn reset_stats(&self) {
        self.engine.counters.reset();
        self.mover.reset();
    }
}

/// The memory that `config` asks for, in its memory file if it names one, and with what the cache starts.
fn item_memory(config: &CacheConfig) -> Result<(ItemSlab, Start), CacheConfigError> {
    config.check()?;
    let order = || ClassOrder::new(config.eviction);
    let Some(file) = &config.memory_file else {
        let slab = Slab::new(&config.plan(), None, order).map_err(CacheConfigError::Map)?;
        return Ok((slab, Start::default()));
    };
    let refuse = |error: io::Error| CacheConfigError::MemoryFile {
        path: file.path.clone(),
        why: persist::explained(error).to_string(),
    };
    let opened = persist::open(&file.path).map_err(refuse)?;
    let slab = Slab::new(&config.plan(), Some(opened), order).map_err(|error| {
        if persist::is_full(&error) { refuse(error) } else { CacheConfigError::Map(error) }
    })?;
    let start = persist::begin(&slab, config.eviction, file).map_err(refuse)?;
    Ok((slab, start))
}

/// 64 bits from the system's random numbers. The hash's own way to a seed is the address space's layout,
/// which other processes of the machine can see.
fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(hash_seed: Option<u64>) -> Cache {
        Cache::new(&CacheConfig { memory_bytes: 1 << 20, hash_seed, ..CacheConfig::default() })
            .unwrap()
    }

    #[test]
    fn keys_that_collide_under_one_seed_are_scattered_by_another() {
        let (known, other) = (cache(Some(7)), cache(Some(8)));
        // Miri takes minutes for as many.
        let (count, mask) = if cfg!(miri) { (1_000, 0x1f) } else { (100_000, 0xfff) };
        let keys = (0..count).map(|n| format!("key-{n}"));
        let low = |cache: &Cache, key: &str| cache.engine.hash(key.as_bytes()).0 & mask;
        let colliding: Vec<_> = keys.filter(|key| low(&known, key) == 0).collect();
        assert!(colliding.len() > 10);
        let still = colliding.iter().filter(|key| low(&other, key) == 0).count();
        assert!(still <= 2, "{still} of {} collide still", colliding.len());
    }

    #[test]
    fn each_cache_draws_a_seed_of_its_own_unless_one_is_given() {
        let hash = |seed| cache(seed).engine.hash(b"k");
        assert_eq!(hash(Some(7)), hash(Some(7)));
        assert_ne!(hash(None), hash(None));
    }
}
