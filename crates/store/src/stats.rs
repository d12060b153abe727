//! Event counters, and the copy of them that [`crate::Db::stats`] returns.
//!
//! Each counter is a relaxed atomic: counters are read by people and tests, and order nothing. Gets update four of
//! them. These share a cache line among threads, but that costs nanoseconds, and a read takes tens of microseconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Declares [`Tally`]: each counter with its one line of documentation.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counts of events since the store was opened.
        #[derive(Debug, Default)]
        pub(crate) struct Tally {
            $($(#[doc = $doc])+ pub(crate) $name: AtomicU64,)+
        }

        /// Counts of events since the store was opened, as they were at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct EventCounts {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Tally {
            /// The counts as they are now.
            pub(crate) fn read(&self) -> EventCounts {
                EventCounts { $($name: self.$name.load(Relaxed),)+ }
            }
        }
    };
}

counters! {
    /// Gets that found a value.
    get_hits,
    /// Gets that found none, or a delete.
    get_misses,
    /// Device reads of gets that hit.
    reads_of_hits,
    /// Device reads of gets that missed.
    reads_of_misses,
    /// Blocks of 4 KiB that those reads fetched.
    blocks_read,
    /// Runs whose filter said "perhaps" about a key that they don't hold.
    filter_false_positives,
    /// Gets answered from a log's write buffer or without any read.
    gets_without_read,
    /// Blocks or records that failed their checksum.
    corrupt_blocks,
    /// Records that callers wrote.
    records_written,
    /// Bytes of keys and values that callers wrote.
    bytes_of_callers,
    /// Bytes appended to logs, with their framing.
    bytes_logged,
    /// Bytes written by conversions of logs into runs.
    bytes_converted,
    /// Bytes written by merges.
    bytes_merged,
    /// Bytes written to manifests.
    bytes_of_manifest,
    /// Syncs of a log.
    syncs,
    /// Writes that those syncs made durable: divided by `syncs`, the mean group.
    synced_writes,
    /// The sum of the syncs' times, in microseconds.
    sync_us,
    /// The longest sync, in microseconds.
    sync_us_max,
    /// Writes that waited because merging lags.
    stalls,
    /// The total time of such waits, in microseconds.
    stall_us,
    /// The longest such wait, in microseconds.
    stall_us_max,
    /// Writes refused because the disk was full.
    refused_no_space,
    /// Bytes of corrupt logs that a repair gave up.
    lost_by_repair,
    /// Logs turned into runs.
    conversions,
    /// Partitions of the last level that merges wrote.
    partition_merges,
    /// Conversions and merges that failed and were scheduled for a retry.
    background_failures,
    /// Deletes and dead entries that merges dropped.
    dropped_by_merges,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// Raises a maximum.
pub(crate) fn raise(counter: &AtomicU64, n: u64) {
    counter.fetch_max(n, Relaxed);
}
