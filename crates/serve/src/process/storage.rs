//! Storage below memory: a [`Tier`] of flash, as the cache and the commands see it.
//!
//! The cache gives items that it has no memory for to [`Storage::take`], on the thread that needs the
//! memory. That copies the item into a write buffer and does no I/O. If all buffers are full, the item is
//! evicted. Three threads work in the background (`server/storage.rs`): one writes buffers, one looks for
//! idle items, one compacts pages.
//!
//! # Invariants
//! 1. No method of [`Below`] waits for a device.
//! 2. A reply about a stored item is made from a record that was read completely, in the generation of
//!    its page. At an instant after the request arrived, that record was the key's item
//!    ([`Tier::is_current`]).

use crate::options::{StorageOptions, remedy};
use crate::process::written::WrittenNotes;
use crate::settings::{EXIT_SYSTEM, Refusal, ServerSettings};
use guira_cache::{Below, ItemRef};
use guira_disk::{Disk, ReadThreads, Reads};
use guira_flash::{
    Bucket, CompactionPolicy, Counted, FileSpec, FlashEntry, FlashRecord, PageCounts, Tier,
    TierSettings,
};
use guira_proto::{StorageCommand, StorageSetting};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::{fs, io};

/// The storage below memory; see the module's documentation.
pub(crate) struct Storage {
    pub(crate) tier: Tier,
    pub(crate) live: LiveStorage,
    pub(crate) counts: StorageCounts,
    pub(crate) written: WrittenNotes,
    /// The current second of the cache's clock, as the sweeper last set it.
    now_s: AtomicU32,
    /// Set when an item finds no write buffer; cleared by [`Storage::take_no_room`].
    has_no_room: AtomicBool,
    /// The threads that read. They are started when a worker can't use `io_uring`.
    pool: Mutex<Option<Arc<ReadThreads>>>,
    pool_threads: usize,
    /// Whether workers try to use `io_uring`.
    has_rings: bool,
    /// Whether items that no get has found are stored too.
    admits_all: bool,
    /// The most reads under way per worker.
    pub(crate) inflight: usize,
}

/// Settings that the `extstore` commands can change.
pub(crate) struct LiveStorage {
    pub(crate) item_bytes_min: AtomicU32,
    pub(crate) item_age_s: AtomicU32,
    pub(crate) low_ttl_s: AtomicU32,
    pub(crate) recache_rate: AtomicU32,
    pub(crate) compact_under: AtomicU32,
    pub(crate) drop_under: AtomicU32,
    pub(crate) max_sleep_us: AtomicU32,
    max_frag: AtomicU64,
    pub(crate) drop_unread: AtomicBool,
}

/// Counters in addition to the tier's own figures.
#[derive(Default)]
pub(crate) struct StorageCounts {
    /// Keys answered from storage.
    pub(crate) gets: AtomicU64,
    /// Reads whose client was gone when they ended.
    pub(crate) aborted: AtomicU64,
    /// Stored items that couldn't return to memory because there was none.
    pub(crate) no_memory: AtomicU64,
    /// Stored items that returned to memory because they were read repeatedly.
    pub(crate) recached: AtomicU64,
    /// Reads that found no complete record, or a page of another generation.
    pub(crate) misses: AtomicU64,
    /// Connections that wait for reads now.
    pub(crate) parked: AtomicU64,
    /// Reads under way now.
    pub(crate) reading: AtomicU64,
    /// Items that found no free write buffer.
    pub(crate) no_buffer: AtomicU64,
    /// Candidates for a return to memory; one in `recache_rate` of them returns.
    candidates: AtomicU64,
}

/// A snapshot of the figures that take a lock or a walk over the pages.
#[derive(Default)]
pub(crate) struct StorageFigures {
    pub(crate) tier: Counted,
    pub(crate) page_counts: PageCounts,
    pub(crate) pages_free: u64,
    pub(crate) pages_used: u64,
    pub(crate) objects_used: u64,
    pub(crate) bytes_used: u64,
    pub(crate) bytes_fragmented: u64,
    pub(crate) limit_bytes: u64,
    pub(crate) reads_by: &'static str,
}

impl StorageCounts {
    pub(crate) fn reset(&self) {
        let Self { gets, aborted, no_memory, recached, misses, no_buffer, .. } = self;
        for count in [gets, aborted, no_memory, recached, misses, no_buffer] {
            count.store(0, Relaxed);
        }
    }
}

impl LiveStorage {
    fn new(options: &StorageOptions, pages: u64) -> LiveStorage {
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let or_share = |given: u32, share: u32| match given {
            0 => (pages / share).max(1),
            given => given,
        };
        LiveStorage {
            item_bytes_min: AtomicU32::new(options.item_bytes_min),
            item_age_s: AtomicU32::new(options.item_age_s),
            low_ttl_s: AtomicU32::new(options.low_ttl_s),
            recache_rate: AtomicU32::new(options.recache_rate),
            compact_under: AtomicU32::new(or_share(options.compact_under, COMPACT_SHARE)),
            drop_under: AtomicU32::new(or_share(options.drop_under, DROP_SHARE)),
            max_sleep_us: AtomicU32::new(options.max_sleep_us),
            max_frag: AtomicU64::new(options.max_frag.to_bits()),
            drop_unread: AtomicBool::new(options.drop_unread),
        }
    }

    /// Applies an `extstore` command.
    pub(crate) fn set(&self, what: &StorageCommand) {
        match *what {
            StorageCommand::Number(setting, n) => {
                let to = match setting {
                    StorageSetting::ItemSize => &self.item_bytes_min,
                    StorageSetting::ItemAge => &self.item_age_s,
                    StorageSetting::LowTtl => &self.low_ttl_s,
                    StorageSetting::RecacheRate => &self.recache_rate,
                    StorageSetting::CompactUnder => &self.compact_under,
                    StorageSetting::DropUnder => &self.drop_under,
                    StorageSetting::MaxSleep => &self.max_sleep_us,
                };
                to.store(n, Relaxed);
            }
            StorageCommand::MaxFrag(share) => self.max_frag.store(share.to_bits(), Relaxed),
            StorageCommand::DropUnread(drops) => self.drop_unread.store(drops, Relaxed),
            StorageCommand::FreeMemchunks(..) => {}
        }
    }

    pub(crate) fn max_frag(&self) -> f64 {
        f64::from_bits(self.max_frag.load(Relaxed))
    }

    /// The settings by which compaction chooses its pages.
    pub(crate) fn policy(&self) -> CompactionPolicy {
        CompactionPolicy {
            compact_under: self.compact_under.load(Relaxed),
            drop_under: self.drop_under.load(Relaxed),
            max_frag: self.max_frag(),
            drop_unread: self.drop_unread.load(Relaxed),
        }
    }
}

/// The unit in which file systems count what a file takes.
const BLOCK_BYTES: u64 = 512;

/// Warns of file systems on which files won't have the size that they were given. A file takes its room as it fills.
fn warn_of_room(disk: &dyn Disk, files: &[FileSpec]) {
    let mut wanted: BTreeMap<u64, (u64, &Path)> = BTreeMap::new();
    for file in files {
        let (Some(dir), Ok(facts)) = (file.path.parent(), fs::metadata(&file.path)) else {
            continue;
        };
        let missing = file.bytes.saturating_sub(facts.blocks() * BLOCK_BYTES);
        wanted.entry(facts.dev()).or_insert((0, dir)).0 += missing;
    }
    for (wanted, dir) in wanted.into_values() {
        let Ok(free) = disk.free_bytes(dir) else { continue };
        if free < wanted {
            let ([wanted, free], dir) = ([wanted, free].map(|it| it >> 20), dir.display());
            tracing::warn!(
                "the file system of {dir} has {free} MiB left, and the files of ext_path are to take {wanted} more: once it is \
                 full, items that leave memory are lost. Make room there, or give a smaller size."
            );
        }
    }
}

impl Storage {
    /// Opens the storage that the settings ask for, if they do. What its files held before is lost.
    ///
    /// # Errors
    /// A file can't be used.
    pub(crate) fn open(
        disk: &dyn Disk,
        settings: &ServerSettings,
    ) -> Result<Option<Arc<Storage>>, Refusal> {
        let options = &settings.extended.storage;
        if options.files.is_empty() {
            return Ok(None);
        }
        let mut files = options.files.clone();
        for file in &mut files {
            // The path is made absolute, because the server may change its directory later.
            file.path = std::path::absolute(&file.path)
                .map_err(|error| Refusal::system("the file of ext_path", &error))?;
        }
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let entries = match options.items {
            0 => bytes / BYTES_AN_ENTRY,
            items => items.into(),
        };
        let wanted = TierSettings {
            files,
            page_bytes: options.page_bytes(),
            buffer_bytes: options.wbuf_bytes as u64,
            buffers_max: BUFFERS_MAX,
            entries,
            index_bytes_max: settings.memory_bytes / 4 * 3,
            tag_bits: TAG_BITS,
        };
        let pages = wanted.pages();
        let tier = Tier::open(disk, &wanted).map_err(|error| {
            let next = match error.kind() {
                Some(io::ErrorKind::WouldBlock) => {
                    Some("stop that one, or name another file".to_owned())
                }
                kind => kind.and_then(remedy),
            };
            let next = next.map(|words| format!(": {words}")).unwrap_or_default();
            Refusal::new(EXIT_SYSTEM, format!("cannot use storage (-o ext_path): {error}{next}"))
        })?;
        warn_of_room(disk, &wanted.files);
        Ok(Some(Arc::new(Storage {
            tier,
            live: LiveStorage::new(options, pages),
            counts: StorageCounts::default(),
            written: WrittenNotes::default(),
            now_s: AtomicU32::new(0),
            has_no_room: AtomicBool::new(false),
            pool: Mutex::default(),
            pool_threads: options.threads as usize,
            has_rings: options.has_rings,
            admits_all: options.admits_all,
            inflight: options.inflight as usize,
        })))
    }

    /// Returns a worker's reader: by `io_uring` or, if the kernel refuses that, by threads that the workers share.
    ///
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub(crate) fn reads(&self) -> io::Result<Reads> {
        let depth = u32::try_from(self.inflight).unwrap_or(u32::MAX);
        let ring = if self.has_rings { Reads::by_ring(depth).ok() } else { None };
        ring.map_or_else(|| self.pool_reads(), Ok)
    }

    fn pool_reads(&self) -> io::Result<Reads> {
        let mut pool = self.pool.lock();
        let threads = match &*pool {
            Some(threads) => Arc::clone(threads),
            None => Arc::clone(pool.insert(ReadThreads::start(self.pool_threads)?)),
        };
        Reads::by_pool(&threads)
    }

    /// Sets the current second.
    pub(crate) fn tell_time(&self, now_s: u32) {
        self.now_s.store(now_s, Relaxed);
    }

    /// Reads these figures.
    pub(crate) fn figures(&self) -> StorageFigures {
        let pages = self.tier.pages();
        let used = || pages.iter().filter(|page| page.version != 0);
        let (pages_used, all) = (used().count() as u64, pages.len() as u64);
        let bytes_used: u64 = used().map(|page| page.bytes).sum();
        let page_bytes = self.tier.page_bytes();
        StorageFigures {
            tier: self.tier.counted(),
            page_counts: self.tier.page_counts(),
            pages_free: all - pages_used,
            pages_used,
            objects_used: used().map(|page| page.objects).sum(),
            bytes_used,
            bytes_fragmented: (pages_used * page_bytes).saturating_sub(bytes_used),
            limit_bytes: all * page_bytes,
            reads_by: if self.pool.lock().is_some() { "threads" } else { "ring" },
        }
    }

    /// Whether an item has found no write buffer since the last call.
    pub(crate) fn take_no_room(&self) -> bool {
        self.has_no_room.swap(false, Relaxed)
    }

    /// Whether an item that was read has to return to memory; it had been read `hits` times before.
    pub(crate) fn recaches(&self, hits: u8) -> bool {
        let rate = u64::from(self.live.recache_rate.load(Relaxed));
        rate != 0 && hits > 0 && self.counts.candidates.fetch_add(1, Relaxed).is_multiple_of(rate)
    }

    /// Whether an item has to be stored. It must be large enough as memcached counts its size, fit in a
    /// write buffer and, if `ext_admit=hit` asks for that, have been found by a get.
    pub(crate) fn wants(&self, item: &ItemRef<'_>) -> bool {
        let (key, value) = (item.key().len(), item.value_bytes());
        ITEM_HEAD_BYTES + key + value >= self.live.item_bytes_min.load(Relaxed) as usize
            && self.tier.fits(key, value)
            && (self.admits_all || item.was_fetched())
    }

    fn entry_at(&self, hash: u64, place: u64) -> Option<FlashEntry> {
        let mut found = None;
        self.tier.look(hash, |entry| found = (place_of(entry) == place).then_some(entry).or(found));
        found
    }

    fn bucket_of(&self, item: &ItemRef<'_>, now: u32) -> Bucket {
        let exptime = item.exptime();
        if exptime != 0 && exptime.saturating_sub(now) < self.live.low_ttl_s.load(Relaxed) {
            Bucket::LowTtl
        } else if item.value().is_none() {
            Bucket::Chunked
        } else {
            Bucket::Default
        }
    }
}

impl Below for Storage {
    fn may_have(&self, hash: u64, known: &[u64]) -> bool {
        let mut has = false;
        self.tier.look(hash, |entry| has |= !known.contains(&place_of(entry)));
        has
    }

    fn forget(&self, hash: u64) {
        self.tier.forget(hash);
    }

    fn remove(&self, hash: u64, place: u64) -> bool {
        self.entry_at(hash, place).is_some_and(|entry| self.tier.remove(hash, entry))
    }

    fn is_current(&self, hash: u64, place: u64, generation: u32) -> bool {
        let entry = self.entry_at(hash, place);
        entry.is_some_and(|entry| self.tier.is_current(hash, entry, generation))
    }

    fn take(
        &self,
        hash: u64,
        item: &ItemRef<'_>,
        life: u32,
        commit: &mut dyn FnMut(&mut dyn FnMut()) -> bool,
    ) -> bool {
        if !self.wants(item) {
            return false;
        }
        let now = self.now_s.load(Relaxed);
        let record = FlashRecord {
            hash,
            key: item.key(),
            value: &[],
            life,
            accessed_s: now.saturating_sub(item.idle_s(now)),
            client_flags: item.client_flags(),
            explicit_cas: item.explicit_cas(),
            key_binary: item.is_key_binary(),
            fetched: item.was_fetched(),
        };
        let bucket = self.bucket_of(item, now);
        let what = (&record, item.value_bytes());
        let Some(draft) =
            self.tier.place(bucket, what, &mut item.value_parts(), life & LIFE_SECONDS)
        else {
            self.has_no_room.store(true, Relaxed);
            self.counts.no_buffer.fetch_add(1, Relaxed);
            return false;
        };
        let is_stored = commit(&mut || self.tier.enter(hash, &draft));
        if is_stored {
            self.written.add(item, bucket, now);
        }
        is_stored
    }

    fn flush(&self) {
        self.tier.flush();
    }
}

/// The identifier by which the cache knows an entry. It stays the same while the entry's record isn't moved.
pub(crate) fn place_of(entry: FlashEntry) -> u64 {
    entry.place_bits()
}

/// The bits of a life word that hold the second of expiry.
pub(crate) const LIFE_SECONDS: u32 = (1 << 30) - 1;
/// The size of memcached's item header.
const ITEM_HEAD_BYTES: usize = 48;
/// The limit of write buffers: one for each bucket that is being filled, and some that are being written.
const BUFFERS_MAX: usize = 8;
const TAG_BITS: u32 = 16;
/// Bytes of storage per entry for which the table has room at first.
const BYTES_AN_ENTRY: u64 = 8 << 10;
/// Divisors of the number of pages. With fewer pages free, sparse pages are compacted (`COMPACT_SHARE`),
/// and cold items dropped (`DROP_SHARE`).
const COMPACT_SHARE: u32 = 100;
const DROP_SHARE: u32 = 4;
