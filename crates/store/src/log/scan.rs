//! A scan of a file's records, in order, through a window.

use crate::error::StoreError;
use crate::log::record::{HEAD_BYTES, Record, RecordHead, Salt, UNIT};
use guira_disk::DiskFile;
use std::path::Path;

/// A reader of records. Its memory is the window, or the largest record whose head verifies.
pub(crate) struct Scan<'a> {
    file: &'a dyn DiskFile,
    path: &'a Path,
    salt: Salt,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Scan<'a> {
    /// Creates a reader up to `end`, which is inside the file.
    pub(crate) fn new(file: &'a dyn DiskFile, path: &'a Path, salt: Salt, end: u64) -> Self {
        Self { file, path, salt, end, window: Vec::new(), window_at: 0 }
    }

    /// Returns the record at `at`, if a whole one is there.
    pub(crate) fn record(&mut self, at: u64) -> Result<Option<Record<'_>>, StoreError> {
        let salt = self.salt;
        let head = self.bytes(at, HEAD_BYTES)?.and_then(|it| RecordHead::decode(it, salt));
        let Some(head) = head else { return Ok(None) };
        Ok(self.bytes(at, head.len())?.and_then(|it| Record::decode(it, salt)))
    }

    /// Returns the next place from `at` on where a record may begin: where a head verifies.
    pub(crate) fn next_head(&mut self, mut at: u64) -> Result<Option<u64>, StoreError> {
        let salt = self.salt;
        while let Some(bytes) = self.bytes(at, HEAD_BYTES)? {
            if RecordHead::decode(bytes, salt).is_some() {
                return Ok(Some(at));
            }
            let is_zero = bytes == &ZEROES[..HEAD_BYTES];
            at += UNIT as u64;
            // Skips space that was allocated in advance. A head of zeros doesn't verify, as was just seen.
            while is_zero && self.bytes(at, ZEROES.len())? == Some(&ZEROES) {
                at += (ZEROES.len() - HEAD_BYTES) as u64;
            }
        }
        Ok(None)
    }

    /// Returns `len` bytes from `at`; `None` if they extend past the end.
    fn bytes(&mut self, at: u64, len: usize) -> Result<Option<&[u8]>, StoreError> {
        let Some(left) = self.end.checked_sub(at).filter(|&left| len as u64 <= left) else {
            return Ok(None);
        };
        let held = at.checked_sub(self.window_at).and_then(|it| usize::try_from(it).ok());
        let held = held.filter(|&from| from + len <= self.window.len());
        let from = if let Some(from) = held {
            from
        } else {
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(len.max(WINDOW_BYTES));
            // After a failed read the window is invalid.
            self.window_at = u64::MAX;
            self.window.resize(want, 0);
            let read = self.file.read_at(&mut self.window, at);
            read.map_err(|error| StoreError::io("read", self.path, error))?;
            self.window_at = at;
            0
        };
        Ok(self.window.get(from..from + len))
    }
}

const WINDOW_BYTES: usize = 1 << 20;

/// A head, and a multiple of [`UNIT`] more.
static ZEROES: [u8; 4096] = [0; 4096];
