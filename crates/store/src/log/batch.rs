//! Batches: writes that take effect together or not at all.

use crate::entry::EntryKind;
use crate::error::{KEY_BYTES_MAX, StoreError, VALUE_BYTES_MAX};
use crate::log::record::{HEAD_BYTES, RecordKind, put_unstamped};
use std::fmt;

/// Puts and deletes that take effect together or not at all, in order: of several writes of one key, the last counts.
///
/// Keys and values are copied, in the form that they have in the log.
#[derive(Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ops: Vec<BatchOp>,
    puts: usize,
    body_bytes: u64,
    is_freeing: bool,
}

/// One put or delete of a batch: its range in the batch's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchOp {
    pub(crate) from: usize,
    pub(crate) to: usize,
    key_bytes: usize,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put.
    ///
    /// # Errors
    /// If the key is empty, or key or value are too long. The batch is unchanged then.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.add(EntryKind::Put, key, value)?;
        self.puts += 1;
        Ok(())
    }

    /// Adds a delete.
    ///
    /// # Errors
    /// If the key is empty or too long. The batch is unchanged then.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.add(EntryKind::Delete, key, b"")
    }

    /// The number of puts and deletes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether the batch has no put and no delete.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The bytes that the batch takes in the log.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + if self.ops.len() > 1 { FRAME_BYTES } else { 0 }
    }

    /// The bytes of its keys and values.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Declares that the batch's puts make more data dead, by [`crate::Options::alive`], than they add. A full disk
    /// accepts such a batch as it accepts deletes.
    pub fn set_freeing(&mut self) {
        self.is_freeing = true;
    }

    /// Whether the batch frees space sooner or later, and takes little.
    pub(crate) fn is_freeing(&self) -> bool {
        self.puts == 0 || self.is_freeing
    }

    pub(crate) fn ops(&self) -> &[BatchOp] {
        &self.ops
    }

    /// The records, without sequence numbers and checksums.
    pub(crate) fn records(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn key(&self, op: &BatchOp) -> &[u8] {
        &self.bytes[op.from + HEAD_BYTES..][..op.key_bytes]
    }

    fn add(&mut self, kind: EntryKind, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
            return Err(StoreError::KeyLength(key.len()));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(StoreError::ValueLength(value.len()));
        }
        self.body_bytes += (key.len() + value.len()) as u64;
        let from = self.bytes.len();
        put_unstamped(&mut self.bytes, RecordKind::Entry(kind), key, value);
        self.ops.push(BatchOp { from, to: self.bytes.len(), key_bytes: key.len() });
        Ok(())
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} writes, {} B)", self.ops.len(), self.bytes())
    }
}

/// The bytes that frame several records as one batch: a record before them and one after.
pub(crate) const FRAME_BYTES: usize = 40 + 40;
