//! A frozen log in the order of runs: for conversion and for iteration.
//!
//! # Costs
//! The log's content in memory, and 40 bytes per record, for as long as this exists. One sequential read, and one sort.

use crate::entry::Entry;
use crate::error::StoreError;
use crate::hash::{Hasher, KeyHash};
use crate::log::record::{Record, RecordKind};
use crate::log::segment::{LOG_START, LogFile};

/// The newest record of each key, in the order of (hash, key).
pub(crate) struct SortedLog {
    bytes: Vec<u8>,
    places: Vec<(KeyHash, usize)>,
}

impl SortedLog {
    /// Reads and sorts what was written to a log so far.
    ///
    /// # Errors
    /// If it can't be read, or a record fails its checksum.
    pub(crate) fn of(log: &LogFile, hasher: &Hasher) -> Result<Self, StoreError> {
        let len = usize::try_from(log.written() - LOG_START).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        let read = log.file().read_at(&mut bytes, LOG_START);
        read.map_err(|e| StoreError::io("read", log.path(), e))?;
        let salt = log.salt();
        let mut places = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let record = Record::decode(&bytes[at..], salt).ok_or_else(|| {
                let offset = LOG_START + at as u64;
                StoreError::corrupt(log.path(), offset, "a record fails its checksum")
            })?;
            if let RecordKind::Entry(_) = record.head.kind {
                places.push((hasher.hash(record.key), at));
            }
            at += record.head.len();
        }
        let mut sorted = Self { bytes, places: Vec::new() };
        // Of several records of one key, the last one sorts first and is kept.
        places.sort_unstable_by(|(hash_a, a), (hash_b, b)| {
            hash_a.cmp(hash_b).then_with(|| sorted.key(*a).cmp(sorted.key(*b))).then(b.cmp(a))
        });
        places.dedup_by(|(hash_b, b), (hash_a, a)| {
            hash_a == hash_b && sorted.key(*a) == sorted.key(*b)
        });
        sorted.places = places;
        Ok(sorted)
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The entry number `number`, counted from 0.
    pub(crate) fn entry(&self, number: usize) -> Option<Entry<'_>> {
        let &(hash, at) = self.places.get(number)?;
        let record = Record::decode_again(&self.bytes[at..])?;
        let RecordKind::Entry(kind) = record.head.kind else { return None };
        Some(Entry { hash, seq: record.head.seq, kind, key: record.key, value: record.value })
    }

    fn key(&self, at: usize) -> &[u8] {
        Record::decode_again(&self.bytes[at..]).map_or(&[], |it| it.key)
    }
}
