//! The memory for items as operators speak of it: `-m`, `cache_memlimit`, and what is told of it.
//!
//! The cache rounds its limit up to whole pages; told is what was asked for.
//!
//! `T_MEMD_INITIAL_MALLOC` is memcached's hook for tests: so many bytes count as used already. It works together with
//! `-o relaxed_privileges` only.

use crate::settings::{Extended, ServerSettings};
use guira_cache::Cache;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The limit as it is now.
pub(crate) struct Memory {
    limit_bytes: AtomicUsize,
    /// What counts as used though nobody uses it.
    pretended_bytes: usize,
    /// What the table of stored items takes of it.
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

    /// What the cache may use.
    pub(crate) fn for_cache(&self) -> usize {
        self.limit_bytes() - self.pretended_bytes
    }

    pub(crate) fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Relaxed)
    }

    /// Sets the limit; `false` if the cache can't follow.
    pub(crate) fn limit(&self, bytes: usize, cache: &Cache) -> bool {
        let used = self.pretended_bytes + self.reserved_bytes.load(Relaxed);
        let can = cache.set_memory_limit(bytes.saturating_sub(used));
        if can {
            self.limit_bytes.store(bytes, Relaxed);
        }
        can
    }

    /// Takes so many bytes off what the cache may use, in whole pages of the cache.
    pub(crate) fn reserve(&self, bytes: usize, cache: &Cache) {
        let bytes = bytes.next_multiple_of(cache.page_bytes());
        if self.reserved_bytes.swap(bytes, Relaxed) != bytes {
            // Less than before, or no more than `-m`: the cache can follow.
            self.limit(self.limit_bytes(), cache);
        }
    }

    /// Bytes of pages that classes hold, and of those that wait for one.
    pub(crate) fn taken_bytes(&self, cache: &Cache) -> usize {
        cache.page_bytes_backed() + self.pretended_bytes
    }
}

/// What the environment says to count as used.
fn pretended_bytes(extended: &Extended) -> usize {
    let pretended = std::env::var("T_MEMD_INITIAL_MALLOC").ok().and_then(|n| n.parse().ok());
    pretended.filter(|_| extended.debug_commands).unwrap_or(0)
}
