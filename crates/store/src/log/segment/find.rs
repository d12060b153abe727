//! Lookups in a log, in steps: the caller does the reads.

use super::{LogFile, to_offset};
use crate::cuckoo::Candidates;
use crate::entry::EntryKind;
use crate::error::StoreError;
use crate::file::BLOCK_BYTES;
use crate::hash::KeyHash;
use crate::log::record::{HEAD_BYTES, Record, RecordHead, RecordKind};
use bytes::Bytes;

/// What a log knows about a key.
#[derive(Debug)]
pub(crate) enum LogFind {
    /// The log doesn't have it.
    Absent,
    /// It has this value.
    Put { value: Bytes, seq: u64 },
    /// It was deleted.
    Deleted,
    /// A read is needed first.
    Read(LogRead),
}

/// A read that a lookup waits for: whole blocks of [`LogFile::file`], inside the file.
#[derive(Debug)]
pub(crate) struct LogRead {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    at: u64,
    left: Candidates,
}

/// What one record says about a key.
enum Says {
    /// The record is of another key.
    Nothing,
    Put(Bytes, u64),
    Deleted,
    /// The record is longer than what was read.
    More(usize),
}

impl LogFile {
    /// Looks up a key, without I/O.
    ///
    /// # Errors
    /// If a record fails its checksum.
    pub(crate) fn find(&self, hash: KeyHash, key: &[u8]) -> Result<LogFind, StoreError> {
        self.look(self.index.candidates(hash), key)
    }

    /// Continues a lookup. `bytes` are the bytes that were read; more may follow them.
    ///
    /// # Errors
    /// If a record fails its checksum.
    pub(crate) fn fed(
        &self,
        read: LogRead,
        bytes: &[u8],
        key: &[u8],
    ) -> Result<LogFind, StoreError> {
        let from = usize::try_from(read.at - read.offset).unwrap_or(usize::MAX);
        match self.judge(bytes.get(from..).unwrap_or_default(), read.at, key)? {
            Says::Nothing => self.look(read.left, key),
            Says::Put(value, seq) => Ok(LogFind::Put { value, seq }),
            Says::Deleted => Ok(LogFind::Deleted),
            Says::More(len) if read.bytes >= from + len => Err(self.corrupt(read.at)),
            Says::More(len) => Ok(LogFind::Read(self.read(read.at, len, read.left))),
        }
    }

    /// Examines candidates, newest first, until one has the key or must be read.
    fn look(&self, mut left: Candidates, key: &[u8]) -> Result<LogFind, StoreError> {
        while let Some(place) = left.next() {
            let at = to_offset(place);
            let Some(bytes) = self.tail.get(at) else {
                let guess = HEAD_BYTES + key.len() + VALUE_GUESS;
                return Ok(LogFind::Read(self.read(at, guess, left)));
            };
            match self.judge(&bytes, at, key)? {
                Says::Nothing => {}
                Says::Put(value, seq) => return Ok(LogFind::Put { value, seq }),
                Says::Deleted => return Ok(LogFind::Deleted),
                Says::More(_) => return Err(self.corrupt(at)),
            }
        }
        Ok(LogFind::Absent)
    }

    /// Describes a read of the whole blocks around `len` bytes at `at`, as far as the file goes.
    fn read(&self, at: u64, len: usize, left: Candidates) -> LogRead {
        let block = BLOCK_BYTES as u64;
        let offset = at / block * block;
        let file_end = self.readable();
        let end = (at + len as u64).next_multiple_of(block).min(file_end).max(at);
        let bytes = usize::try_from(end - offset).unwrap_or(usize::MAX);
        LogRead { offset, bytes, at, left }
    }

    fn judge(&self, bytes: &[u8], at: u64, key: &[u8]) -> Result<Says, StoreError> {
        let head = RecordHead::decode(bytes, self.salt).ok_or_else(|| self.corrupt(at))?;
        if head.key_bytes != key.len() {
            return Ok(Says::Nothing);
        }
        if head.len() > bytes.len() {
            return Ok(Says::More(head.len()));
        }
        let record = Record::decode(bytes, self.salt).ok_or_else(|| self.corrupt(at))?;
        if record.key != key {
            return Ok(Says::Nothing);
        }
        match head.kind {
            // Copied, so that a small value doesn't keep its whole group in memory.
            RecordKind::Entry(EntryKind::Put) => {
                Ok(Says::Put(Bytes::copy_from_slice(record.value), head.seq))
            }
            RecordKind::Entry(EntryKind::Delete) => Ok(Says::Deleted),
            _ => Err(self.corrupt(at)),
        }
    }

    fn corrupt(&self, at: u64) -> StoreError {
        StoreError::corrupt(self.path(), at, "a record fails its checksum")
    }
}

/// The first read has room for a value of this many bytes.
const VALUE_GUESS: usize = 1000;
