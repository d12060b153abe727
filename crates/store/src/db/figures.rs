//! The store's statistics: event counts, sizes and state.

use crate::core::Core;
use crate::error::StoreError;
use crate::stats::EventCounts;
use crate::version::Version;
use std::sync::atomic::Ordering::Relaxed;

/// The statistics of a store at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoreStats {
    /// What happened since the store was opened.
    pub events: EventCounts,
    /// The number of logs, active and frozen.
    pub logs: u64,
    /// Bytes written to these logs.
    pub log_bytes: u64,
    /// Keys in these logs. A key may be in several files and is counted in each.
    pub log_keys: u64,
    /// Memory of the logs: their indexes, and the records that were written last.
    pub log_memory_bytes: u64,
    /// The part of this memory that the indexes take.
    pub log_index_bytes: u64,
    /// The number of young runs.
    pub young_runs: u64,
    /// The number of young runs at which they are merged into the last level.
    pub young_runs_due: u64,
    /// Bytes of the young runs.
    pub young_bytes: u64,
    /// Entries of the young runs, including deletes.
    pub young_entries: u64,
    /// Memory of the young runs' block indexes.
    pub young_index_bytes: u64,
    /// Memory of the young runs' filters.
    pub young_filter_bytes: u64,
    /// The number of partitions of the last level that aren't empty.
    pub partitions: u64,
    /// Bytes of the last level.
    pub last_bytes: u64,
    /// Entries of the last level: it has no deletes, and each key once.
    pub last_entries: u64,
    /// Memory of the last level's block indexes.
    pub last_index_bytes: u64,
    /// Memory of the last level's filters.
    pub last_filter_bytes: u64,
    /// The highest sequence number given so far.
    pub last_seq: u64,
    /// Entries up to this sequence number are dead.
    pub horizon: u64,
    /// Writing failed in a way that only reopening can repair, or the store was opened for reading only.
    pub is_read_only: bool,
    /// Bytes of disk that puts must leave free now.
    pub reserve_bytes: u64,
    /// The disk is full: only deletes are accepted until space is free again.
    pub is_full: bool,
    /// Why the last conversion or merge failed, unless one has succeeded since.
    pub trouble: Option<StoreError>,
}

/// Reads the statistics as they are now.
pub(crate) fn read(core: &Core, version: &Version, last_seq: u64) -> StoreStats {
    let mut stats = StoreStats {
        events: core.tally.read(),
        logs: version.logs.len() as u64,
        young_runs: version.young.len() as u64,
        young_runs_due: core.options.runs_due(version.last_bytes()) as u64,
        last_seq,
        horizon: version.horizon,
        is_read_only: core.is_read_only.load(Relaxed)
            || version.logs.first().is_some_and(|it| it.log.is_broken()),
        reserve_bytes: core.reserve(),
        is_full: core.is_full.load(Relaxed),
        trouble: core.trouble.lock().clone(),
        ..StoreStats::default()
    };
    for held in &version.logs {
        stats.log_bytes += held.log.written();
        stats.log_keys += held.log.keys() as u64;
        stats.log_memory_bytes += held.log.memory_bytes() as u64;
        stats.log_index_bytes += held.log.index_bytes() as u64;
    }
    for young in &version.young {
        stats.young_bytes += young.run.facts().bytes;
        stats.young_entries += young.run.facts().entries;
        stats.young_index_bytes += young.run.index_bytes() as u64;
        stats.young_filter_bytes += young.run.filter_bytes() as u64;
    }
    for run in version.last.iter().filter_map(|it| it.run.as_ref()) {
        stats.partitions += 1;
        stats.last_bytes += run.facts().bytes;
        stats.last_entries += run.facts().entries;
        stats.last_index_bytes += run.index_bytes() as u64;
        stats.last_filter_bytes += run.filter_bytes() as u64;
    }
    stats
}
