//! The parameters that a cache is made from. They are checked before any memory is taken.

use crate::engine::Below;
use crate::features::LeaseTerms;
use crate::memory::{MEMORY_MAX, Plan, Slabs};
use crate::orders::Eviction;
use crate::persist::MemoryFile;
use guira_index::IndexKind;
use std::fmt;
use std::sync::Arc;

/// How a cache is sized and what it may do. `CacheConfig::default()` corresponds to memcached's defaults.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Memory for items, in bytes (memcached's `-m`). The index needs another 5.6 to 16 bytes per item.
    pub memory_bytes: usize,
    /// The largest item that a server accepts, in bytes. It limits the size of a value.
    pub item_bytes_max: usize,
    /// Which index finds the items.
    pub index: IndexKind,
    /// Whether a full cache evicts (`true`) or refuses to store (`-M`).
    pub evictions: bool,
    /// Which item a full slab class evicts.
    pub eviction: Eviction,
    /// How memory is cut into pages and chunks.
    pub slabs: Slabs,
    /// `Some(f)`: each slab class is `f` times as large as the one below (memcached's `-f`). `None`: Guira's own fine
    /// classes, in steps of 4 bytes up to 256 bytes and of about 6 % above.
    pub growth_factor: Option<f64>,
    /// The smallest chunk, in bytes, when `growth_factor` is given (memcached's `-n` and a header).
    pub chunk_bytes_min: usize,
    /// How many handles may exist at a time: one per worker thread, and a few for internal use.
    pub handles_max: usize,
    /// Locks the item memory into RAM (memcached's `-k`).
    pub lock_memory: bool,
    /// Touches all item memory at start (memcached's `-L`).
    pub preallocate: bool,
    /// Items that live for at most this many seconds are reclaimed in the second in which they expire; 0 turns this
    /// off. It costs at most a 16th of the memory for items, in addition to that memory.
    pub transient_s: u32,
    /// Keys that deletes can hold off at a time. Each takes 8 bytes, allocated by the first delete that holds a key
    /// off.
    pub holdoff_keys: usize,
    /// How leases are given and stale values kept.
    pub leases: LeaseTerms,
    /// Keeps the items in a file, across restarts (memcached's `-e`).
    pub memory_file: Option<MemoryFile>,
    /// Where live items go when memory has no room for them.
    pub below: Option<BelowMemory>,
    /// Fixes the hash's secrets, for tests and experiments that must be repeatable. `None`: each process draws them
    /// from the system, also over a memory file. A client that knows the seed can make keys that collide.
    pub hash_seed: Option<u64>,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig {
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            index: IndexKind::default(),
            evictions: true,
            eviction: Eviction::default(),
            slabs: Slabs::default(),
            growth_factor: None,
            chunk_bytes_min: 48,
            handles_max: 72,
            lock_memory: false,
            preallocate: false,
            transient_s: 0,
            holdoff_keys: 1 << 14,
            leases: LeaseTerms::default(),
            memory_file: None,
            below: None,
            hash_seed: None,
        }
    }
}

impl CacheConfig {
    /// Checks whether such a cache can exist, as far as is known before memory is taken.
    pub(crate) fn check(&self) -> Result<(), CacheConfigError> {
        if let Some(factor) = self.growth_factor.filter(|f| !f.is_finite() || *f <= 1.0) {
            return Err(CacheConfigError::GrowthFactor(factor));
        }
        if self.memory_bytes > MEMORY_MAX {
            let (asked, most) = (self.memory_bytes, MEMORY_MAX);
            return Err(CacheConfigError::TooMuchMemory { asked, most });
        }
        Ok(())
    }

    /// The part of the configuration that item memory is made from.
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            memory_bytes: self.memory_bytes,
            memory_bytes_reserved: self.memory_bytes_reserved(),
            slabs: self.slabs,
            growth_factor: self.growth_factor,
            chunk_bytes_min: self.chunk_bytes_min,
            lock: self.lock_memory,
            preallocate: self.preallocate,
        }
    }

    /// Address space to reserve, so that the limit can be raised while the cache runs: eight times the limit, which
    /// costs nothing until it is used. It is just the limit if all memory is taken at once.
    pub(crate) fn memory_bytes_reserved(&self) -> usize {
        let times = if self.lock_memory || self.preallocate { 1 } else { 8 };
        self.memory_bytes.saturating_mul(times).min(MEMORY_MAX).max(self.memory_bytes)
    }
}

/// What lies below a cache's memory.
#[derive(Clone)]
pub struct BelowMemory(pub Arc<dyn Below>);

impl fmt::Debug for BelowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BelowMemory")
    }
}

/// Why a cache can't be made from a [`CacheConfig`]. The message says what to change.
#[derive(Debug)]
pub enum CacheConfigError {
    /// More memory than 32-bit locations can refer to.
    TooMuchMemory {
        /// What was asked for, in bytes.
        asked: usize,
        /// The most that works, in bytes.
        most: usize,
    },
    /// A growth factor that yields no classes.
    GrowthFactor(f64),
    /// The system can't provide random numbers.
    Random(std::io::Error),
    /// The memory file can't be used.
    MemoryFile {
        /// The path of the file.
        path: std::path::PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// The system refused to map the memory, or to lock it.
    Map(std::io::Error),
}

impl fmt::Display for CacheConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMuchMemory { asked, most } => write!(
                f,
                "{} MB of item memory are more than one cache can refer to; give at most {} MB",
                asked >> 20,
                most >> 20
            ),
            Self::GrowthFactor(g) => {
                write!(f, "growth factor {g} must be greater than 1 (try 1.25)")
            }
            Self::Random(error) => {
                write!(f, "cannot draw the hash's secret from the system: {error}")
            }
            Self::MemoryFile { path, why } => {
                write!(f, "cannot use {} as memory file: {why}", path.display())
            }
            Self::Map(error) => write!(
                f,
                "cannot map the item memory: {error}; ask for less memory, or raise the limit on \
                 locked or virtual memory"
            ),
        }
    }
}

impl std::error::Error for CacheConfigError {}
