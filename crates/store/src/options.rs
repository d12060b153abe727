//! How a store is opened: sizes, durability, limits of the background's work.
//!
//! A directory keeps no options: each open gives them anew, and files of other sizes are read all the same. What cannot
//! change, the seed of the hash, is in the manifest.

use crate::error::StoreError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// When a write is safe from a loss of power. A crash of the process alone loses nothing at any level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is answered. Writes that wait together share one sync.
    Always,
    /// At most this long after it was answered.
    Interval(Duration),
    /// When the operating system writes it back.
    Os,
}

/// Which index finds a key's block in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunIndex {
    /// 16.5 bits a block, about 40 ns a lookup.
    Fence,
    /// 9 bits a block by Elias-Fano; one lookup in a hundred reads a second block.
    EliasFano,
    /// SILT's entropy-coded trie: 2.6 bits a *record*, microseconds a lookup. For comparison with the paper.
    Trie,
}

/// Tells from key, value and sequence number whether a merge keeps an entry: see [`Options::alive`].
pub type Alive = dyn Fn(&[u8], &[u8], u64) -> bool + Send + Sync;

/// How to open a store.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Durability of writes that don't name their own.
    pub durability: Durability,
    /// A log of this many bytes is frozen and becomes a run, as long as the last level is small.
    pub log_bytes: u64,
    /// As the last level grows, logs are doubled, up to this, before more runs than twice `runs_merge` are awaited.
    pub log_bytes_most: u64,
    /// The size that partitions of the last level are kept near.
    pub partition_bytes: u64,
    /// Young runs at which they are merged into the last level, while that is small. More of them: fewer bytes written, more
    /// filters.
    pub runs_merge: usize,
    /// How many times the logs that a merge takes go into the last level, once that is large: so many times at most a merge
    /// writes what a change brought. Then more than `runs_merge` runs are awaited. 0: never.
    pub last_per_young: u64,
    /// The most young runs that are awaited for that: each costs a get a look at its filter.
    pub runs_most: usize,
    /// Young runs at which writes are slowed. It grows by as many as `runs_merge` does.
    pub runs_soft: usize,
    /// Young runs at which writes wait. It grows by as many as `runs_merge` does.
    pub runs_hard: usize,
    /// Frozen logs at which writes wait.
    pub logs_hard: usize,
    /// The longest that one write waits for the background, before it fails with [`StoreError::Stalled`].
    pub stall_max: Duration,
    /// Bytes that conversions and merges write each second; 0: no limit.
    pub merge_bytes_per_second: u64,
    /// The index of new runs.
    pub index: RunIndex,
    /// Bits a key of the last level's filter; 0: none, so a miss reads a block as a hit does.
    pub last_level_filter_bits: u8,
    /// Bytes of disk left free, for deletes and for merges; 0: three logs, as long as they are now, and a partition. As much as
    /// waits to be merged is left free besides.
    pub reserve_bytes: u64,
    /// Threads that read for blocking calls with several keys.
    pub read_threads: usize,
    /// Open for reading: no lock is taken, no file is changed, no thread is started.
    pub read_only: bool,
    /// A log that ends in corruption, not in a torn tail, is cut there instead of refused.
    pub repair: bool,
    /// Which entries conversions and merges keep; `None`: all. What was dead once must stay dead. Gets don't ask.
    /// If it panics, neither goes on until the store is opened again, and who waits for them is told.
    pub alive: Option<Arc<Alive>>,
    /// Called between the steps of conversions, merges and edits. For tests that crash there.
    #[doc(hidden)]
    pub at_point: Option<Arc<dyn Fn(&'static str) + Send + Sync>>,
    /// A manifest of this many bytes is written anew. For tests of that.
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
    /// Bytes of disk that stay free though nothing waits to be merged, when the last level has so many.
    pub(crate) fn reserve_least(&self, last_bytes: u64) -> u64 {
        match self.reserve_bytes {
            0 => {
                let logs = self.log_bytes_at(last_bytes).saturating_mul(3);
                logs.saturating_add(self.partition_bytes)
            }
            bytes => bytes,
        }
    }

    /// Bytes of the next log, when the last level has so many: a few runs of long logs cost a get less than many of short
    /// ones, and long logs cost more memory than a small store should take.
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

    /// Bytes of logs that a merge should take, when the last level has so many.
    fn young_bytes(&self, last_bytes: u64) -> u64 {
        last_bytes.checked_div(self.last_per_young).unwrap_or(0)
    }

    /// Young runs at which a merge is due, when the last level has so many bytes. A run counts as long as a full log.
    pub(crate) fn runs_due(&self, last_bytes: u64) -> usize {
        let runs = self.young_bytes(last_bytes).div_ceil(self.log_bytes_at(last_bytes));
        usize::try_from(runs).unwrap_or(usize::MAX).min(self.runs_most).max(self.runs_merge)
    }

    /// Of keys that a young run doesn't have, the share that its filter lets through, when so many runs are merged: all
    /// filters together let less than a get in a hundred through.
    pub(crate) fn young_rate(runs_due: usize) -> f64 {
        READS_OF_YOUNG / runs_due.max(RUNS_LEAST) as f64
    }

    /// Refuses what can't work.
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

/// Reads for nothing of a get, at most, while runs wait for their merge.
const READS_OF_YOUNG: f64 = 0.008;
/// Fewer runs don't get a filter that lets more through: while a merge lags there are more of them.
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
        // So many bytes of the last level ask for a run more.
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
