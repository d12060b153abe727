//! The cache itself: the state that all threads share, and how a thread gets its handle.

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

/// A cache shared by all threads. [`Cache::handle`] gives each thread its own access to it.
pub struct Cache {
    engine: Engine,
    features: Features,
    mover: Mover,
    item_bytes_max: usize,
    start: Start,
}

impl Cache {
    /// Makes a cache over the index that `config` names, sized so that the index can refer to every chunk.
    pub fn new(config: &CacheConfig) -> Result<Cache, CacheConfigError> {
        let items_max = config.memory_bytes_reserved().div_ceil(crate::memory::CHUNK_MIN);
        let (slab, start) = item_memory(config)?;
        let index = config.index.with_room(items_max, start.index_slots);
        Cache::assemble(config, slab, start, index)
    }
}

/// Returns why a cache made from `config` would empty its memory file. `None`: it would keep the items, or the file
/// holds none. The file may be in use by another process.
///
/// # Errors
/// The configuration is invalid, or the file can't be read.
pub fn would_empty(config: &CacheConfig) -> Result<Option<String>, CacheConfigError> {
    config.check()?;
    let Some(MemoryFile { path, .. }) = &config.memory_file else { return Ok(None) };
    persist::loss(&config.plan(), config.eviction, path).map_err(|error| {
        CacheConfigError::MemoryFile { path: path.clone(), why: error.to_string() }
    })
}

impl Cache {
    /// Makes a cache over an index of the caller's; [`CacheConfig::index`] is ignored.
    pub fn with_index(config: &CacheConfig, index: AnyIndex) -> Result<Cache, CacheConfigError> {
        let (slab, start) = item_memory(config)?;
        Cache::assemble(config, slab, start, index)
    }

    fn assemble(
        config: &CacheConfig,
        slab: ItemSlab,
        start: Start,
        index: AnyIndex,
    ) -> Result<Cache, CacheConfigError> {
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
    pub fn handle(&self) -> Handle<'_> {
        Handle::new(&self.engine, &self.features, self.item_bytes_max)
    }

    /// The cache's sweeper, which takes a handle. One thread runs it.
    pub fn sweeper(&self) -> Sweeper<'_> {
        Sweeper::new(self.handle(), &self.mover)
    }

    /// A walk over the items of `classes`, ignoring classes that don't exist. It takes a handle.
    pub fn crawl(&self, classes: impl IntoIterator<Item = usize>) -> Crawl<'_> {
        Crawl::new(self.handle(), &self.mover, classes)
    }

    /// Asks for a page of class `from` to be moved to class `to`. `from` as `None` means the class with the most
    /// pages; `to` as `None` means the pool. The [`Sweeper`] moves it.
    ///
    /// # Errors
    /// [`Unmoved`].
    pub fn reassign(&self, from: Option<usize>, to: Option<usize>) -> Result<(), Unmoved> {
        self.mover.ask(&self.engine.slab, from, to)
    }

    /// How pages move without being asked for. Automatic moves are off until [`Cache::set_automove`] is called.
    pub fn automove(&self) -> Automove {
        self.mover.automove()
    }

    /// Sets the rule by which pages move without being asked for. It takes effect while a [`Sweeper`] steps.
    pub fn set_automove(&self, automove: Automove) {
        self.mover.set_automove(automove);
    }

    /// Counts of what the page mover did.
    pub fn moves(&self) -> Moves {
        self.mover.read()
    }

    /// What the cache found in its memory file when it started.
    pub fn found(&self) -> &Found {
        &self.start.found
    }

    /// Bytes of items for which the memory file's file system has memory or could still provide it. `None`: there is
    /// no file, or the system doesn't report it.
    pub fn file_room_bytes(&self) -> Option<u64> {
        persist::room_bytes(&self.engine.slab.chunks.arena)
    }

    /// The second at which the cache's clock began in this process. It is later than [`START_S`](crate::START_S) if
    /// the clock continues that of a former process.
    pub fn began_at_s(&self) -> u32 {
        self.start.clock.now
    }

    /// Records in the memory file, if there is one, that the clock shows `now` at this Unix time, and how large the
    /// index is. Call it a few times per second from a background thread, so that a crash loses little of this.
    pub fn keep_time(&self, now: u32, unix_s: i64) {
        persist::keep_time(&self.engine, now, unix_s);
    }

    /// Marks the memory file, if there is one, as cleanly stopped. Nothing may change afterwards: end the process, or
    /// drop the cache.
    ///
    /// # Errors
    /// A handle is alive, and its thread may still change something; or the mark can't be written. The next start
    /// then treats the file as after a crash.
    pub fn stop(&self, now: u32, unix_s: i64) -> io::Result<()> {
        self.start.stop(&self.engine, now, unix_s)
    }

    /// The number of items in the cache, including dead ones that nothing has removed yet.
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

    /// The number of slots that the index has now.
    pub fn index_slots(&self) -> usize {
        self.engine.index.capacity()
    }

    /// Pages that some class held before and none holds now, and whose memory the process still has.
    pub fn pages_returned(&self) -> usize {
        self.engine.slab.pages_returned()
    }

    /// Item memory that slab classes hold, in bytes.
    pub fn page_bytes_held(&self) -> usize {
        self.engine.slab.bytes_held()
    }

    /// Item memory that the process has, in bytes: pages that slab classes hold, and pages in the pool that still
    /// have their memory.
    pub fn page_bytes_backed(&self) -> usize {
        self.engine.slab.bytes_backed()
    }

    /// Sets the memory for items (memcached's `cache_memlimit`). Returns `false` if `bytes` exceeds the address space
    /// that was reserved: eight times the configured memory. Under a lower limit the [`Sweeper`] gives the excess
    /// back, page by page.
    pub fn set_memory_limit(&self, bytes: usize) -> bool {
        self.engine.slab.set_limit(bytes)
    }

    /// The memory for items, in bytes: as configured or set since, rounded up to whole pages.
    pub fn memory_limit(&self) -> usize {
        self.engine.slab.limit_bytes()
    }

    /// Why the cache can't use all of its memory for items, if it can't: the memory file's file system has no more
    /// room.
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

    /// Counts of short-lived items.
    pub fn transients(&self) -> Transients {
        self.features.transient.read()
    }

    /// Keys that were held off and could be added too early, because tombstones ran out; since the start.
    pub fn holdoff_dropped(&self) -> u64 {
        self.features.holdoff.dropped()
    }

    /// Bytes of deleted values that may still be read as stale, including their keys.
    pub fn stale_bytes(&self) -> usize {
        self.features.leases.stale_bytes()
    }

    /// Lease tokens that were lost before their time because records ran out, since the start.
    pub fn leases_evicted(&self) -> u64 {
        self.features.leases.evicted()
    }

    /// Counters, summed over all handles since the last [`Cache::reset_stats`].
    pub fn totals(&self) -> Totals {
        self.engine.counters.totals()
    }

    /// How many seconds evicted items had been idle, since the start; accurate to 2 seconds, up to the longest that
    /// an item records. `None` before the first handle.
    pub fn evicted_idle_s(&self) -> Option<Distribution> {
        self.engine.counters.evicted_idle_s()
    }

    /// Resets every counter to 0. Gauges keep their values.
    pub fn reset_stats(&self) {
        self.engine.counters.reset();
        self.mover.reset();
    }
}

/// The memory that `config` asks for (in its memory file if it names one), and the state that the cache starts with.
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

/// Draws 64 bits from the system's random number generator. The hash's own seed derives from the address space's
/// layout, which other processes on the machine can see.
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
        // Miri would take minutes for the full count.
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
