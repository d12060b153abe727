//! The options of a store: sizes, durability, and limits of the background work.
//!
//! A directory stores no options: each open passes them anew, and files of other sizes can still be read. The seed of
//! the hash can't change, and is in the manifest.

use crate::error::StoreError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// When a write survives a loss of power. A crash of the process alone loses nothing at any level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the write is answered. Writes that wait at the same time share one sync.
    Always,
    /// At most this long after the write was answered.
    Interval(Duration),
    /// Once the operating system has written it back.
    Os,
}

/// The kind of index that finds a key's block in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunIndex {
    /// 16.5 bits per block, about 40 ns per lookup.
    Fence,
    /// 9 bits per block, by Elias-Fano coding; one lookup in 250 reads a second block.
    EliasFano,
    /// SILT's entropy-coded trie: 2.6 bits per *record*, microseconds per lookup. For comparison with the paper.
    Trie,
}

/// Decides from key, value and sequence number whether a merge keeps an entry: see [`Options::alive`].
pub type Alive = dyn Fn(&[u8], &[u8], u64) -> bool + Send + Sync;

/// How to open a store.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The durability of writes that don't set their own.
    pub durability: Durability,
    /// The size at which a log is frozen and becomes a run, while the last level is small.
    pub log_bytes: u64,
    /// The most bytes of a log. As the last level grows, logs are doubled up to this, before merges wait for more than
    /// twice `runs_merge` runs.
    pub log_bytes_most: u64,
    /// The target size of the last level's partitions.
    pub partition_bytes: u64,
    /// The number of young runs at which they are merged into the last level, while that is small. With more of them,
    /// fewer bytes are written, and there are more filters.
    pub runs_merge: usize,
    /// The target ratio of the last level's bytes to the bytes of logs that a merge takes, once the last level is
    /// large. A merge then writes at most about this many bytes for each changed byte, because merges wait for more
    /// than `runs_merge` runs. 0: they never do.
    pub last_per_young: u64,
    /// The most young runs that a merge waits for because of that: each of them costs a get a filter check.
    pub runs_most: usize,
    /// The number of young runs at which writes are slowed. If merges wait for more than `runs_merge` runs, it grows by
    /// the difference.
    pub runs_soft: usize,
    /// The number of young runs at which writes wait. If merges wait for more than `runs_merge` runs, it grows by the
    /// difference.
    pub runs_hard: usize,
    /// The number of frozen logs at which writes wait.
    pub logs_hard: usize,
    /// The longest time that a write waits for the background before it fails with [`StoreError::Stalled`].
    pub stall_max: Duration,
    /// Bytes per second that conversions may write, and that merges may write; 0: no limit.
    pub merge_bytes_per_second: u64,
    /// The index kind of new runs.
    pub index: RunIndex,
    /// Bits per key of the last level's filter. 0: it has none, so a miss reads a block as a hit does.
    pub last_level_filter_bits: u8,
    /// Bytes of disk to leave free, for deletes and for merges. 0: three logs of the current size, and a partition. In
    /// addition, as much is left free as waits to be merged.
    pub reserve_bytes: u64,
    /// The number of threads that read for blocking calls with several keys, if the kernel has no ring.
    pub read_threads: usize,
    /// Opens the store for reading only: no lock is taken, no file is changed, no thread is started.
    pub read_only: bool,
    /// A log that ends in corruption, not in a torn tail, is cut there instead of being refused.
    pub repair: bool,
    /// Decides which entries conversions and merges keep; `None`: all. An entry that was dead once must stay dead. Gets
    /// don't consult the rule. If it panics, conversions and merges stop until the store is reopened, and callers that
    /// wait for them get an error.
    pub alive: Option<Arc<Alive>>,
    /// Called between the steps of conversions, merges and edits. For tests that simulate a crash there.
    #[doc(hidden)]
    pub at_point: Option<Arc<dyn Fn(&'static str) + Send + Sync>>,
    /// The length at which a manifest is rewritten. For tests.
    #[doc(hidden)]
    pub manifest_bytes: u64,
    /// Keeps only this many bits of each key's hash. For tests of collisions.
    #[doc(hidden)]
    pub hash_bits: Option<u8>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Interval(Duration::from_millis(100)),
            log_bytes: 16 << 20,
            log_bytes_most: 128 << 20,
            partition_bytes: 256 << 20,
            runs_merge: 16,
            last_per_young: 8,
            runs_most: 64,
            runs_soft: 32,
            runs_hard: 48,
            logs_hard: 8,
            stall_max: Duration::from_secs(10),
            merge_bytes_per_second: 0,
            index: RunIndex::Fence,
            last_level_filter_bits: 0,
            reserve_bytes: 0,
            read_threads: 16,
            read_only: false,
            repair: false,
            alive: None,
            at_point: None,
            manifest_bytes: 4 << 20,
            hash_bits: None,
        }
    }
}

impl Options {
    /// Bytes of disk to leave free even if nothing waits to be merged, for a last level of `last_bytes` bytes.
    pub(crate) fn reserve_least(&self, last_bytes: u64) -> u64 {
        match self.reserve_bytes {
            0 => {
                let logs = self.log_bytes_at(last_bytes).saturating_mul(3);
                logs.saturating_add(self.partition_bytes)
            }
            bytes => bytes,
        }
    }

    /// Bytes of disk below which even an empty store takes no value: what stays free, the first log, and the list of files.
    #[must_use]
    pub fn disk_least(&self) -> u64 {
        self.reserve_least(0).saturating_add(self.log_bytes_at(0)).saturating_add(1 << 20)
    }

    /// The size of the next log, for a last level of `last_bytes` bytes. A few runs of long logs cost a get less than
    /// many runs of short ones. But long logs take more memory than a small store should use.
    pub(crate) fn log_bytes_at(&self, last_bytes: u64) -> u64 {
        let runs_most = 2 * self.runs_merge as u64;
        let is_short = |bytes: &u64| {
            bytes.saturating_mul(2) <= self.log_bytes_most
                && bytes.saturating_mul(runs_most) <= self.young_bytes(last_bytes)
        };
        let mut bytes = self.log_bytes.max(1);
        while is_short(&bytes) {
            bytes *= 2;
        }
        bytes
    }

    /// The bytes of logs that a merge should take, for a last level of `last_bytes` bytes.
    fn young_bytes(&self, last_bytes: u64) -> u64 {
        last_bytes.checked_div(self.last_per_young).unwrap_or(0)
    }

    /// The number of young runs at which a merge is due, for a last level of `last_bytes` bytes. Each run counts as a
    /// full log.
    pub(crate) fn runs_due(&self, last_bytes: u64) -> usize {
        let runs = self.young_bytes(last_bytes).div_ceil(self.log_bytes_at(last_bytes));
        usize::try_from(runs).unwrap_or(usize::MAX).min(self.runs_most).max(self.runs_merge)
    }

    /// The false-positive rate of a young run's filter, if so many runs are merged. All filters together let fewer than
    /// one absent key in a hundred pass.
    pub(crate) fn young_rate(runs_due: usize) -> f64 {
        READS_OF_YOUNG / runs_due.max(RUNS_LEAST) as f64
    }

    /// Refuses options that can't work.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let wrong = if self.log_bytes < 1 << 16 || self.log_bytes > 16 << 30 {
            "log_bytes must be 64 KiB to 16 GiB"
        } else if self.partition_bytes < 1 << 16 {
            "partition_bytes must be at least 64 KiB"
        } else if self.runs_merge < 1 || self.runs_soft < self.runs_merge {
            "runs_merge must be at least 1, and runs_soft not below it"
        } else if self.runs_hard <= self.runs_soft {
            "runs_hard must be above runs_soft"
        } else if self.logs_hard < 1 {
            "logs_hard must be at least 1"
        } else if self.read_threads < 1 {
            "read_threads must be at least 1"
        } else if !matches!(self.last_level_filter_bits, 0 | 8 | 12 | 16) {
            "last_level_filter_bits must be 0, 8, 12 or 16"
        } else {
            return Ok(());
        };
        Err(StoreError::Option(wrong))
    }
}

/// The most useless reads per get, on average, while runs wait for their merge.
const READS_OF_YOUNG: f64 = 0.008;
/// With fewer runs the filters don't get weaker: while a merge lags, there are more runs than planned.
const RUNS_LEAST: usize = 8;

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("durability", &self.durability)
            .field("log_bytes", &self.log_bytes)
            .field("partition_bytes", &self.partition_bytes)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_runs_are_awaited_as_the_last_level_is_large() {
        let options = Options::default();
        // So many bytes of the last level make a merge wait for one more run.
        let run = options.log_bytes * options.last_per_young;
        let sizes = [0, 16 * run, 16 * run + 8, 31 * run, 32 * run, 100 * run, 300 * run, u64::MAX];
        assert_eq!(sizes.map(|it| options.runs_due(it)), [16, 16, 17, 31, 16, 25, 38, 64]);
        let logs = sizes.map(|it| options.log_bytes_at(it) >> 20);
        assert_eq!(logs, [16, 16, 16, 16, 32, 64, 128, 128]);
        let fixed = Options { last_per_young: 0, ..Options::default() };
        assert_eq!((fixed.runs_due(u64::MAX), fixed.log_bytes_at(u64::MAX)), (16, 16 << 20));
        let long = Options { log_bytes: 1 << 30, ..Options::default() };
        assert_eq!(long.log_bytes_at(u64::MAX), 1 << 30);
        for runs in [1, 8, 20, 64] {
            assert!(runs as f64 * Options::young_rate(runs) <= 0.01);
        }
    }
}
