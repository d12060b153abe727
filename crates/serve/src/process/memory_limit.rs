//! The memory for items as operators see it: `-m`, `cache_memlimit`, and the figures shown.
//!
//! The cache rounds its limit up to whole pages; the figures show the limit that was asked for.
//!
//! `T_MEMD_INITIAL_MALLOC` is memcached's hook for tests: the number of bytes that count as used from the
//! start. It has an effect only together with `-o relaxed_privileges`.

use crate::settings::{Extended, ServerSettings};
use guira_cache::Cache;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The current limit.
pub(crate) struct Memory {
    limit_bytes: AtomicUsize,
    /// Bytes that count as used although nothing uses them.
    pretended_bytes: usize,
    /// Bytes of the limit that the table of stored items takes.
    reserved_bytes: AtomicUsize,
}

impl Memory {
    pub(crate) fn new(settings: &ServerSettings) -> Memory {
        let pretended = pretended_bytes(&settings.extended);
        Memory {
            limit_bytes: AtomicUsize::new(settings.memory_bytes),
            pretended_bytes: pretended.min(settings.memory_bytes),
            reserved_bytes: AtomicUsize::new(0),
        }
    }

    /// Bytes that the cache may use.
    pub(crate) fn for_cache(&self) -> usize {
        self.limit_bytes() - self.pretended_bytes
    }

    pub(crate) fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Relaxed)
    }

    /// Sets the limit; returns `false` if the cache can't follow.
    pub(crate) fn limit(&self, bytes: usize, cache: &Cache) -> bool {
        let used = self.pretended_bytes + self.reserved_bytes.load(Relaxed);
        let can = cache.set_memory_limit(bytes.saturating_sub(used));
        if can {
            self.limit_bytes.store(bytes, Relaxed);
        }
        can
    }

    /// Subtracts `bytes` from what the cache may use, in whole pages of the cache.
    pub(crate) fn reserve(&self, bytes: usize, cache: &Cache) {
        let bytes = bytes.next_multiple_of(cache.page_bytes());
        if self.reserved_bytes.swap(bytes, Relaxed) != bytes {
            // The limit is lower than before, or at most `-m`, so the cache can follow.
            self.limit(self.limit_bytes(), cache);
        }
    }

    /// Bytes of pages that classes hold, and of pages in the pool.
    pub(crate) fn taken_bytes(&self, cache: &Cache) -> usize {
        cache.page_bytes_backed() + self.pretended_bytes
    }
}

/// Bytes that count as used, from the environment.
fn pretended_bytes(extended: &Extended) -> usize {
    let pretended = std::env::var("T_MEMD_INITIAL_MALLOC").ok().and_then(|n| n.parse().ok());
    pretended.filter(|_| extended.debug_commands).unwrap_or(0)
}
