//! What the tier counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a compaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Records that were moved.
    pub rescues: u64,
    /// Of them, to the pages of cold items.
    pub cold: u64,
    /// Of them, to the pages of old items.
    pub old: u64,
    /// Records that were alive and are gone: no get had found them.
    pub skipped: u64,
    /// Records that were alive and are gone: there was no room for them, or they could not be read.
    pub lost: u64,
}

macro_rules! counts {
    ($($(#[$meaning:meta])+ $name:ident,)+) => {
        /// Counters, which any thread may raise.
        #[derive(Default)]
        pub(crate) struct Counts {
            $(pub(crate) $name: AtomicU64,)+
        }

        /// What was counted so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counted {
            $($(#[$meaning])+ pub $name: u64,)+
        }

        impl Counts {
            pub(crate) fn read(&self) -> Counted {
                Counted { $($name: self.$name.load(Relaxed),)+ }
            }
        }
    };
}

counts! {
    /// Items entered.
    objects_written,
    /// Bytes placed in write buffers, by items and by compaction.
    bytes_written,
    /// Hits.
    objects_read,
    /// Bytes asked of the files and of write buffers.
    bytes_read,
    /// Entries removed by sets and quiet deletes, innocent ones included.
    forgotten,
    /// Entries that had to go because the index was full.
    crowded_out,
    /// Reads that found another key's record.
    false_reads,
    /// Records that weren't whole.
    bad_crcs,
    /// Reads that failed.
    read_errors,
    /// Writes that failed.
    write_errors,
    /// Records moved by compaction.
    rescues,
    /// Of them, cold ones.
    rescues_cold,
    /// Of them, old ones.
    rescues_old,
    /// Records that compaction dropped because nobody had read them.
    skipped,
    /// Records that compaction lost.
    lost,
}

impl Counts {
    pub(crate) fn add_compacted(&self, done: &Compacted) {
        self.rescues.fetch_add(done.rescues, Relaxed);
        self.rescues_cold.fetch_add(done.cold, Relaxed);
        self.rescues_old.fetch_add(done.old, Relaxed);
        self.skipped.fetch_add(done.skipped, Relaxed);
        self.lost.fetch_add(done.lost, Relaxed);
    }
}
