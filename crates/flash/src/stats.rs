//! The counters of the tier.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Records that were moved.
    pub rescues: u64,
    /// Moved records that went to the pages for cold items.
    pub cold: u64,
    /// Moved records that went to the pages for old items.
    pub old: u64,
    /// Live records that were dropped because no get had found them.
    pub skipped: u64,
    /// Live records that were lost: there was no room for them, or they couldn't be read.
    pub lost: u64,
}

macro_rules! counts {
    ($($(#[$meaning:meta])+ $name:ident,)+) => {
        /// Counters, which any thread may raise.
        #[derive(Default)]
        pub(crate) struct Counts {
            $(pub(crate) $name: AtomicU64,)+
        }

        /// The counts so far.
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
    /// Entries removed by sets and quiet deletes, including other keys' entries.
    forgotten,
    /// Entries dropped because the index was full.
    crowded_out,
    /// Reads that found another key's record.
    false_reads,
    /// Records that failed their check.
    bad_crcs,
    /// Reads that failed.
    read_errors,
    /// Writes that failed.
    write_errors,
    /// Records moved by compaction.
    rescues,
    /// Moved records that went to the pages for cold items.
    rescues_cold,
    /// Moved records that went to the pages for old items.
    rescues_old,
    /// Records that compaction dropped because no get had found them.
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
