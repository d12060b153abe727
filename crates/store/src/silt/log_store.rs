//! `LogStore`, the first stage: records in the order of writing, and in memory a cuckoo table of their places.
//!
//! # Invariants
//! 1. A key has at most one slot, which points to the key's newest record.
//! 2. A record is entered into the table before it is written to the file, so the file has no record that the table
//!    refused.
//!
//! # Costs
//! 6 bytes of memory per slot. A put reads a record if its key is here or seems to be. The last records are in memory
//! until [`PIECE_BYTES`] of them are written at once.
//! Bad at: corruption. When the log is opened, a record that fails its checksum ends the log, as if a loss of power had
//! torn it. The records after it are discarded.

use super::fixed::{Fixed, FixedWriter, Place, Traffic};
use super::record::{Record, Shape, SiltKey};
use super::tags::Tags;
use crate::error::StoreError;
use std::sync::Arc;

/// See the module's head.
pub(super) struct LogStore {
    pub(super) index: Tags<u32>,
    file: Fixed,
    writer: FixedWriter,
    shape: Shape,
    /// The number of records, including those in `tail`.
    records: u64,
    records_max: u64,
    tail: Vec<u8>,
    /// A sync failed, so it is unknown what is on the disk. The success of a later sync wouldn't change that.
    is_poisoned: bool,
}

impl LogStore {
    /// Creates an empty log, in memory and on the disk.
    pub(super) fn create(
        place: &Place,
        id: u64,
        buckets: usize,
        traffic: &Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let index = Tags::new(buckets);
        let records_max = index.slots() as u64;
        let writer = FixedWriter::create(place, id, records_max, traffic)?;
        writer.sync()?;
        Ok(Self::with(index, Fixed::open(place, id, traffic)?, writer, 0, place.shape))
    }

    /// Opens an existing log: all records up to the first that isn't whole.
    pub(super) fn open(
        place: &Place,
        id: u64,
        buckets: usize,
        traffic: &Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let file = Fixed::open(place, id, traffic)?;
        let mut index = Tags::new(buckets);
        let records_max = index.slots() as u64;
        let mut keys: Vec<SiltKey> = Vec::new();
        let records = file.replay(records_max, |number, record| {
            let place = u32::try_from(number).expect("at most 2^17 records");
            let old = index.candidates(&record.key).find(|it| keys[it.1 as usize] == record.key);
            keys.push(record.key);
            match old {
                Some((slot, _)) => index.replace(slot, place),
                // The table accepted the same inserts before.
                None if index.insert(&record.key, place) => {}
                None => {
                    return Err(StoreError::Foreign {
                        path: file.path.clone(),
                        what: "its table refuses what it took before",
                    });
                }
            }
            Ok(())
        })?;
        let writer = FixedWriter::reopen(place, id, records, records_max, traffic)?;
        Ok(Self::with(index, file, writer, records, place.shape))
    }

    fn with(
        index: Tags<u32>,
        file: Fixed,
        writer: FixedWriter,
        records: u64,
        shape: Shape,
    ) -> Self {
        let records_max = index.slots() as u64;
        let (tail, is_poisoned) = (Vec::new(), false);
        Self { index, file, writer, shape, records, records_max, tail, is_poisoned }
    }

    pub(super) fn id(&self) -> u64 {
        self.file.id
    }

    /// Returns what the log knows about a key: its value, that it is deleted, or nothing.
    pub(super) fn get(&self, key: &SiltKey) -> Result<Option<Option<Vec<u8>>>, StoreError> {
        let found = self.slot_of(key, |record| record.value.map(<[u8]>::to_vec))?;
        Ok(found.map(|it| it.1))
    }

    /// Appends a record. If the log is full, returns false and changes nothing.
    pub(super) fn put(&mut self, record: Record<'_>) -> Result<bool, StoreError> {
        if self.is_poisoned {
            return Err(StoreError::ReadOnly);
        }
        if self.records == self.records_max {
            return Ok(false);
        }
        if self.tail.len() >= PIECE_BYTES {
            self.write_tail()?;
        }
        let place = u32::try_from(self.records).expect("at most 2^17 records");
        match self.slot_of(&record.key, |_| ())? {
            Some((slot, ())) => self.index.replace(slot, place),
            None if self.index.insert(&record.key, place) => {}
            None => return Ok(false),
        }
        self.shape.encode(self.file.id, record, &mut self.tail);
        self.records += 1;
        Ok(true)
    }

    /// Makes all records durable.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if self.is_poisoned {
            return Err(StoreError::ReadOnly);
        }
        self.write_tail()?;
        let synced = self.writer.sync();
        self.is_poisoned = synced.is_err();
        synced
    }

    /// Passes all records and their places to `see`, superseded ones too. All must be in the file: call
    /// [`LogStore::sync`] first.
    pub(super) fn scan(
        &self,
        see: impl FnMut(u64, Record<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.file.scan(self.records, see)
    }

    fn write_tail(&mut self) -> Result<(), StoreError> {
        self.writer.write(self.written(), &self.tail)?;
        self.tail.clear();
        Ok(())
    }

    /// The number of records in the file.
    fn written(&self) -> u64 {
        self.records - (self.tail.len() / self.shape.bytes()) as u64
    }

    /// Returns the key's slot, and what `see` returns for its record.
    fn slot_of<T>(
        &self,
        key: &SiltKey,
        see: impl Fn(Record<'_>) -> T,
    ) -> Result<Option<(usize, T)>, StoreError> {
        let see_own = |record: Record<'_>| (record.key == *key).then(|| see(record));
        for (slot, place) in self.index.candidates(key) {
            let place = u64::from(place);
            let found = match place.checked_sub(self.written()) {
                Some(number) => {
                    let from = number as usize * self.shape.bytes();
                    self.shape.decode(self.file.id, &self.tail[from..]).and_then(see_own)
                }
                None => self.file.find(place..place + 1, see_own)?,
            };
            if let Some(found) = found {
                return Ok(Some((slot, found)));
            }
        }
        Ok(None)
    }
}

const PIECE_BYTES: usize = 64 << 10;
