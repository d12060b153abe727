//! The sub-options of `-o`: a comma-joined list, given once or several times.
//!
//! This module has the resulting values. What may be typed and what it means is declared in
//! `settings/suboption/`, one row per setting.

use super::queues::Queues;
use super::refusal::Refusal;
use super::storage::StorageOptions;
use super::tls::TlsSettings;
use guira_cache::LeaseTerms;

/// Values of the sub-options; memcached's defaults where none was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Extended {
    /// Whether memcached's current defaults hold. If not, those of 1.4 do: strict LRU, and its slab classes.
    pub(crate) is_modern: bool,
    /// Whether connections over the limit are refused with a line instead of having to wait.
    pub(crate) maxconns_fast: bool,
    /// Seconds after which an idle TCP connection is closed; 0: never.
    pub(crate) idle_timeout_s: u32,
    /// Whether items are counted by size.
    pub(crate) track_sizes: bool,
    /// Whether `debugtime` is allowed.
    pub(crate) debug_commands: bool,
    /// Whether requests over UDP may change something.
    pub(crate) udp_writes: bool,
    /// Reply bytes per second over UDP to a source without a TCP connection; 0: no limit.
    pub(crate) udp_budget_bytes: u32,
    /// Reply bytes per second over UDP to a source with a TCP connection; 0: no limit.
    pub(crate) udp_known_budget_bytes: u32,
    /// Items that live no longer than this many seconds are reclaimed when they expire; 0: none is.
    pub(crate) transient_s: Option<u32>,
    /// How many keys deletes may hold off at the same time.
    pub(crate) holdoff_keys: usize,
    /// The terms of leases.
    pub(crate) leases: LeaseTerms,
    /// Whether the memory for stale values was given; otherwise it follows from `-m`.
    pub(crate) stale_size_is_given: bool,
    /// log2 of memcached's first hash table; only shown.
    pub(crate) hashpower: u32,
    /// Whether pages of one slab class may move to another one.
    pub(crate) slab_reassign: bool,
    /// How pages move automatically. 0: not at all, 1: one per second, 2: faster.
    pub(crate) slab_automove: u32,
    /// How young a class's victims must be, relative to those of others, for the class to get a page.
    pub(crate) slab_automove_ratio: f64,
    /// Seconds over which ages are averaged.
    pub(crate) slab_automove_window: u32,
    /// Only shown.
    pub(crate) slab_automove_freeratio: f64,
    /// The largest chunk of memcached's classes, in bytes.
    pub(crate) slab_chunk_bytes_max: usize,
    /// Only shown.
    pub(crate) tail_repair_time_s: u32,
    /// Only shown: Guira hashes with a keyed rapidhash.
    pub(crate) hash_algorithm: &'static str,
    /// Whether the crawler's commands work from the start.
    pub(crate) lru_crawler: bool,
    /// Microseconds that the crawler sleeps after 1,000 items.
    pub(crate) lru_crawler_sleep_us: u32,
    /// Items of a class that a reaping walk visits; 0: all.
    pub(crate) lru_crawler_tocrawl: u32,
    /// Only shown.
    pub(crate) lru_maintainer: bool,
    /// Only shown.
    pub(crate) queues: Queues,
    /// The most bytes of lines that may wait for a watcher.
    pub(crate) watcher_logbuf_bytes: usize,
    /// In bytes; only shown.
    pub(crate) worker_logbuf_bytes: usize,
    /// Memory that clients may make all threads use, as memcached counts it; 0: no limit.
    pub(crate) read_buf_mem_limit_bytes: u64,
    /// Memory that all incomplete requests may hold; 0: a tenth of the memory for items.
    pub(crate) unfinished_limit_bytes: usize,
    /// Memory that all replies not yet taken by clients may hold; 0: a tenth of the memory for items.
    pub(crate) unsent_limit_bytes: usize,
    /// Only shown.
    pub(crate) drop_privileges: bool,
    /// The `ext_*` sub-options.
    pub(crate) storage: StorageOptions,
    /// The name of an `ext_*` sub-option other than `ext_path` that was given, if any was.
    pub(crate) storage_given: Option<&'static str>,
    /// The `ssl_*` sub-options, which `-Z` uses.
    pub(crate) tls: TlsSettings,
    /// The name of an `ssl_*` sub-option that was given, if any was.
    pub(crate) tls_given: Option<&'static str>,
    pub(crate) chunk_max_is_given: bool,
}

impl Default for Extended {
    fn default() -> Self {
        Extended {
            is_modern: true,
            maxconns_fast: true,
            idle_timeout_s: 0,
            track_sizes: false,
            debug_commands: false,
            udp_writes: false,
            udp_budget_bytes: 64 << 10,
            udp_known_budget_bytes: 16 << 20,
            transient_s: None,
            holdoff_keys: 1 << 14,
            leases: LeaseTerms::default(),
            stale_size_is_given: false,
            hashpower: 0,
            slab_reassign: true,
            slab_automove: 1,
            slab_automove_ratio: 0.8,
            slab_automove_window: 10,
            slab_automove_freeratio: 0.01,
            slab_chunk_bytes_max: PAGE_BYTES / 2,
            tail_repair_time_s: 0,
            hash_algorithm: "murmur3",
            lru_crawler: true,
            lru_crawler_sleep_us: 100,
            lru_crawler_tocrawl: 0,
            lru_maintainer: true,
            queues: Queues::default(),
            watcher_logbuf_bytes: 256 << 10,
            worker_logbuf_bytes: 64 << 10,
            read_buf_mem_limit_bytes: 0,
            unfinished_limit_bytes: 0,
            unsent_limit_bytes: 0,
            drop_privileges: false,
            storage: StorageOptions::default(),
            storage_given: None,
            tls: TlsSettings::default(),
            tls_given: None,
            chunk_max_is_given: false,
        }
    }
}

impl Extended {
    /// Changes the defaults to those of memcached 1.4.
    pub(crate) fn unmake_modern(&mut self) {
        if !self.chunk_max_is_given {
            self.slab_chunk_bytes_max = PAGE_BYTES;
        }
        self.is_modern = false;
        self.slab_reassign = false;
        self.slab_automove = 0;
        self.maxconns_fast = false;
        self.queues.is_segmented = false;
        self.hash_algorithm = "jenkins";
        self.lru_crawler = false;
        self.lru_maintainer = false;
        // memcached 1.4 removes an expired item only when a client asks for it.
        self.transient_s = self.transient_s.or(Some(0));
    }

    pub(crate) fn check_together(&self) -> Result<(), Refusal> {
        if self.queues.hot_percent + self.queues.warm_percent > 80 {
            let message = "hot_lru_pct + warm_lru_pct cannot be more than 80% combined";
            return Err(Refusal::usage(message));
        }
        if self.queues.has_temporary && !self.lru_maintainer {
            let message = "temporary_ttl requires lru_maintainer to be enabled";
            return Err(Refusal::usage(message));
        }
        Ok(())
    }

    /// Sets the memory for stale values to its share of `-m`, unless it was given.
    pub(crate) fn settle_stale_size(&mut self, memory_bytes: usize) {
        if !self.stale_size_is_given {
            self.leases.stale_bytes_max = memory_bytes / STALE_SHARE;
        }
    }

    /// Checks a given `slab_chunk_max` against `-I`, or fits the default to `-I`. memcached refuses its
    /// own default for `-I 256k` alone; Guira doesn't, because its chunks follow from the page.
    pub(crate) fn settle_chunk_max(&mut self, item_bytes_max: usize) -> Result<(), Refusal> {
        let chunk = self.slab_chunk_bytes_max;
        if !self.chunk_max_is_given {
            self.slab_chunk_bytes_max = chunk.min(item_bytes_max);
            return Ok(());
        }
        let usage = |message: String| Err(Refusal::usage(message));
        if chunk > item_bytes_max {
            return usage(format!(
                "slab_chunk_max (bytes: {chunk}) cannot be larger than -I (item_size_max {item_bytes_max})"
            ));
        }
        if !item_bytes_max.is_multiple_of(chunk) {
            return usage(format!(
                "-I (item_size_max: {item_bytes_max}) must be evenly divisible by slab_chunk_max (bytes: {chunk})"
            ));
        }
        if !PAGE_BYTES.is_multiple_of(chunk) {
            return usage(format!(
                "slab_chunk_max (bytes: {chunk}) must divide evenly into {PAGE_BYTES} (slab_page_size)"
            ));
        }
        Ok(())
    }
}

/// The divisor of the memory for items that gives the memory for stale values.
const STALE_SHARE: usize = 64;
/// The size of memcached's slab page. Guira's differs, but the flags refer to this one.
pub(crate) const PAGE_BYTES: usize = 1 << 20;
