//! What a store tells of itself: a line of `stats store` and a metric for each figure.

/// A figure's meaning: its name in `stats store` and, behind `guira_store_`, in metrics.
pub(crate) struct FigureRow {
    pub(crate) name: &'static str,
    /// `gauge` or `counter`.
    pub(crate) kind: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) read: fn(&Figures) -> u64,
}

macro_rules! figures {
    ($($kind:ident $name:ident, $meaning:literal;)*) => {
        /// What a store tells of itself; 0 where it doesn't know.
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
    gauge keys, "keys in the store, deleted and expired ones that no merge has dropped among them";
    gauge live_bytes, "bytes of the newest version of each key, as far as merges have seen them";
    gauge dead_bytes, "bytes of records that a merge will drop";
    gauge disk_bytes, "bytes of the store's files";
    gauge disk_limit_bytes, "bytes that they may take (--disk-max)";
    gauge disk_free_bytes, "bytes that are free on their file system";
    gauge disk_reserve_bytes, "bytes that stay free for merges: with fewer, writes fail";
    gauge logs, "logs: the one that is written to, and those that wait to be sorted";
    gauge log_bytes, "bytes of logs";
    gauge runs, "sorted runs that wait to be merged into the last level";
    gauge run_bytes, "bytes of these runs";
    gauge partitions, "partitions of the last level";
    gauge partition_bytes, "bytes of the last level";
    gauge index_bytes, "bytes of memory for indexes of runs and partitions";
    gauge filter_bytes, "bytes of memory for filters";
    gauge log_index_bytes, "bytes of memory for indexes of logs";
    gauge buffer_bytes, "bytes of memory for buffers of logs, merges and reads";
    counter gets, "keys that were looked up";
    counter gets_found, "of these, keys that were found";
    counter reads_found, "reads from the device for keys that were found";
    counter reads_missing, "reads from the device for keys that weren't";
    counter read_bytes, "bytes read from the device for look-ups";
    counter false_positives, "reads because a filter or a tag mistook a key for another";
    counter writes, "records written: values and deletes";
    counter user_bytes, "bytes of keys and values that were written";
    counter written_bytes, "bytes written to the device: logs, sorted runs, merges; divided by bytes of users, the write amplification";
    counter syncs, "times that the device was told to make a log durable";
    counter sync_us, "microseconds that this took";
    gauge sync_p99_us, "microseconds that 99 in 100 of the last syncs took at most";
    counter groups, "groups of changes that were written together";
    counter conversions, "logs that were sorted into runs";
    counter merges, "partitions that were merged";
    counter merged_bytes, "bytes that merges have written";
    counter dropped, "records that merges have dropped: replaced, deleted, expired or flushed";
    counter stalls, "changes that waited because merges had fallen behind";
    counter stall_us, "microseconds that they waited";
    counter refused, "changes that were refused because there was no room on the device";
    counter corrupt, "damaged blocks and records that were met";
    gauge is_read_only, "1 once the device failed while it was written to: nothing is written any more";
    gauge is_out_of_disk, "1 while there is no room for changes";
    gauge seq, "number of the newest change";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_row_that_reads_it() {
        let figures = Figures { keys: 7, seq: 9, ..Figures::default() };
        let read =
            |name| FIGURES.iter().find(|row| row.name == name).map(|row| (row.read)(&figures));
        assert_eq!((read("keys"), read("seq"), read("merges")), (Some(7), Some(9), Some(0)));
        for row in FIGURES {
            assert!(["gauge", "counter"].contains(&row.kind), "{}", row.name);
        }
    }
}
