//! A store's figures: each is a line of `stats store` and a metric.

macro_rules! figures {
    ($($kind:ident $name:ident, $meaning:literal;)*) => {
        /// A store's figures; 0 where it doesn't know.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Figures {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        pub(crate) const FIGURES: &[FigureRow] = &[$(FigureRow {
            name: stringify!($name),
            kind: stringify!($kind),
            meaning: $meaning,
            read: |figures| figures.$name,
        }),*];
    };
}

figures! {
    gauge entries, "entries of all files: a key that was written again, or deleted, counts in each file until merges drop what is old";
    gauge disk_bytes, "bytes of logs, runs and partitions";
    gauge disk_limit_bytes, "bytes that the files may take (--disk-max)";
    gauge disk_free_bytes, "bytes that are free for the store: on the file system, and below --disk-max";
    gauge disk_reserve_bytes, "bytes that stay free for merges: with fewer, only deletes are taken";
    gauge logs, "logs: the one that is written to, and those that wait to be sorted";
    gauge log_bytes, "bytes of logs";
    gauge log_memory_bytes, "bytes of memory for the indexes and the last records of logs";
    gauge runs, "sorted runs that wait to be merged into the last level";
    gauge run_bytes, "bytes of these runs";
    gauge run_index_bytes, "bytes of memory for their indexes";
    gauge run_filter_bytes, "bytes of memory for their filters";
    gauge partitions, "partitions of the last level";
    gauge partition_bytes, "bytes of these partitions";
    gauge partition_index_bytes, "bytes of memory for their indexes";
    gauge partition_filter_bytes, "bytes of memory for their filters (--last-level-filter)";
    counter gets_found, "keys that were looked up in files and found";
    counter gets_missed, "keys that were looked up in files and not found";
    counter gets_without_read, "of both, keys that took no read from the device";
    counter reads_found, "reads from the device for keys that were found";
    counter reads_missed, "reads from the device for keys that weren't";
    counter read_blocks, "blocks of 4 KiB that these reads fetched";
    counter false_positives, "reads because a filter mistook a key for another";
    counter writes, "records written: values and deletes";
    counter user_bytes, "bytes of keys and values in these records";
    counter logged_bytes, "bytes written to logs";
    counter converted_bytes, "bytes written when logs were sorted into runs";
    counter merged_bytes, "bytes written when runs were merged into the last level";
    counter manifest_bytes, "bytes written to the list of files";
    counter syncs, "times that the device was told to make a log durable";
    counter synced_writes, "records that these syncs made durable";
    counter sync_us, "microseconds that the syncs took";
    gauge sync_us_max, "microseconds that the longest of them took";
    counter conversions, "logs that were sorted into runs";
    counter merges, "partitions that were merged";
    counter background_failures, "conversions and merges that failed, and are tried again";
    counter dropped, "entries that merges have dropped: replaced, deleted, expired or flushed";
    counter refused, "changes that were refused because there was no room on the device";
    counter corrupt, "damaged blocks and records that were met";
    gauge is_read_only, "1 once the device failed while it was written to: nothing is written any more";
    gauge is_out_of_disk, "1 while there is no room for values";
    gauge seq, "number of the newest change";
}

/// A figure with its meaning. Its name stands in `stats store` and, behind `guira_store_`, in metrics.
pub(crate) struct FigureRow {
    pub(crate) name: &'static str,
    /// `gauge` or `counter`.
    pub(crate) kind: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) read: fn(&Figures) -> u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_row_that_reads_it() {
        let figures = Figures { entries: 7, seq: 9, ..Figures::default() };
        let read =
            |name| FIGURES.iter().find(|row| row.name == name).map(|row| (row.read)(&figures));
        assert_eq!((read("entries"), read("seq"), read("merges")), (Some(7), Some(9), Some(0)));
        for row in FIGURES {
            assert!(["gauge", "counter"].contains(&row.kind), "{}", row.name);
        }
    }
}
