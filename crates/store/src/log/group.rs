//! A group: the bytes of one write to the log, which are batches framed and stamped for their place in one file.

use crate::hash::KeyHash;
use crate::log::batch::Batch;
use crate::log::record::{HEAD_BYTES, RecordKind, Salt, fold, put_unstamped, stamp};
use std::ops::Range;

/// Records to append, and where their keys lie.
pub(crate) struct Group {
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: Vec<GroupEntry>,
    /// The log's checksum of checksums, including these records.
    pub(crate) crcs: u32,
    pub(crate) seq_max: u64,
    /// Bytes that must remain free after the group.
    pub(crate) reserved: u64,
    salt: Salt,
    durable: u64,
}

/// A record that goes into the index.
pub(crate) struct GroupEntry {
    pub(crate) hash: KeyHash,
    pub(crate) at: usize,
    pub(crate) key: Range<usize>,
}

impl Group {
    /// Creates an empty group for a file with this salt, of which `durable` bytes are durable.
    pub(crate) fn new(salt: Salt, durable: u64, crcs: u32) -> Self {
        let (bytes, entries, reserved) = (Vec::new(), Vec::new(), SEAL_BYTES);
        Self { bytes, entries, crcs, seq_max: 0, reserved, salt, durable }
    }

    /// Adds a batch whose first write has the number `first_seq`. `hashes` are the hashes of its keys, in order.
    pub(crate) fn add(&mut self, batch: &Batch, hashes: &[KeyHash], first_seq: u64) {
        let count = u32::try_from(batch.len()).unwrap_or(u32::MAX).to_le_bytes();
        let is_framed = batch.len() > 1;
        if is_framed {
            self.frame(RecordKind::BatchBegin, &count, first_seq);
        }
        let base = self.bytes.len();
        self.bytes.extend_from_slice(batch.records());
        let mut inner = 0;
        for ((op, &hash), seq) in batch.ops().iter().zip(hashes).zip(first_seq..) {
            let (from, to) = (base + op.from, base + op.to);
            let crc = stamp(&mut self.bytes[from..to], self.salt, seq, self.durable);
            inner = fold(inner, crc);
            self.crcs = fold(self.crcs, crc);
            let key = from + HEAD_BYTES..from + HEAD_BYTES + batch.key(op).len();
            self.entries.push(GroupEntry { hash, at: from, key });
            self.seq_max = seq;
        }
        if is_framed {
            let value = [count, inner.to_le_bytes()].concat();
            self.frame(RecordKind::BatchEnd, &value, self.seq_max);
        }
    }

    /// Adds the record that ends a log of `records` records and `keys` keys.
    pub(crate) fn seal(&mut self, records: u64, keys: u64, seq_max: u64) {
        let counts = [records, keys, seq_max].map(u64::to_le_bytes).concat();
        let value = [&counts[..], &self.crcs.to_le_bytes()].concat();
        let crcs = self.crcs;
        self.frame(RecordKind::Seal, &value, seq_max);
        self.crcs = crcs;
        self.seq_max = seq_max;
        self.reserved = 0;
    }

    fn frame(&mut self, kind: RecordKind, value: &[u8], seq: u64) {
        let from = self.bytes.len();
        put_unstamped(&mut self.bytes, kind, b"", value);
        let crc = stamp(&mut self.bytes[from..], self.salt, seq, self.durable);
        self.crcs = fold(self.crcs, crc);
    }
}

/// The size of the record that ends a log.
pub(crate) const SEAL_BYTES: u64 = 64;
