//! One file of the log: one thread at a time appends to it, all threads read it, and it is frozen when it is full.
//!
//! # Invariants
//! 1. Only the thread that holds the writer's lock appends, seals and enters keys. `written` grows after the bytes are
//!    in the file, and the index gets a place after that.
//! 2. The file is longer than its written part by at least a block, so a read of whole blocks around a record ends
//!    inside it. No read goes further than that block, so the rest of a sealed log can be given back to the disk.
//! 3. Once `is_broken` is set, no thread writes or syncs. The result of a failed sync is unknown, and a second sync
//!    would hide that. Syncs exclude each other, so that one thread's failure isn't another's success.

mod find;

pub(crate) use find::{LogFind, LogRead};

use crate::cuckoo::LogIndex;
use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, Header};
use crate::log::group::{Group, SEAL_BYTES};
use crate::log::record::{HEAD_BYTES, RecordHead, Salt, UNIT};
use crate::log::tail::Tail;
use bytes::Bytes;
use guira_disk::{Disk, DiskFile};
use parking_lot::Mutex;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// One file of the log. See the module's head.
pub(crate) struct LogFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    salt: Salt,
    /// The log is full at this size.
    capacity: u64,
    index: LogIndex,
    tail: Tail,
    /// Space is allocated up to this offset.
    allocated: AtomicU64,
    /// The file is at least this long.
    length: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
    seq_max: AtomicU64,
    records: AtomicU64,
    crcs: AtomicU32,
    is_sealed: AtomicBool,
    is_broken: AtomicBool,
    syncing: Mutex<()>,
}

impl LogFile {
    /// Creates a log of `capacity` bytes, allocates them, and makes its name durable. A failure leaves no file.
    ///
    /// The file gets its name only once its header is durable. So a file that has the name but no whole header is
    /// corrupt.
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &Path,
        header: &Header,
        capacity: u64,
    ) -> Result<Self, StoreError> {
        let unfinished = path.with_extension("new");
        let _ = disk.remove(&unfinished);
        let file = disk.create(&unfinished, false);
        let file = file.map_err(|e| StoreError::io("create", &unfinished, e))?;
        let log = Self::new(path, file, header, capacity);
        log.prepare(disk, header, &unfinished).inspect_err(|_| {
            // A file that can't be removed now is removed by the next open: it has no record, and no later log names it.
            let _ = disk.remove(&unfinished);
            let _ = disk.remove(path);
        })?;
        Ok(log)
    }

    /// Wraps a file that may have records, none of which the log knows yet.
    pub(crate) fn new(
        path: &Path,
        file: Arc<dyn DiskFile>,
        header: &Header,
        capacity: u64,
    ) -> Self {
        let keys = capacity / BYTES_PER_KEY;
        Self {
            path: path.to_owned(),
            file,
            salt: Salt::of(header),
            capacity,
            index: LogIndex::with_keys(usize::try_from(keys).unwrap_or(usize::MAX)),
            tail: Tail::default(),
            allocated: AtomicU64::new(0),
            length: AtomicU64::new(0),
            written: AtomicU64::new(LOG_START),
            durable: AtomicU64::new(LOG_START),
            seq_max: AtomicU64::new(0),
            records: AtomicU64::new(0),
            crcs: AtomicU32::new(0),
            is_sealed: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            syncing: Mutex::new(()),
        }
    }

    fn prepare(
        &self,
        disk: &dyn Disk,
        header: &Header,
        unfinished: &Path,
    ) -> Result<(), StoreError> {
        let io = |what, path| move |error| StoreError::io(what, path, error);
        self.allocate(self.capacity)?;
        self.file.write_at(&header.encode(), 0).map_err(io("write", &self.path))?;
        self.file.sync_data().map_err(io("sync", &self.path))?;
        disk.rename(unfinished, &self.path).map_err(io("name", &self.path))?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        disk.sync_dir(dir).map_err(io("sync", dir))
    }

    /// Allocates space up to `end`, and a block more.
    fn allocate(&self, end: u64) -> Result<(), StoreError> {
        let len = file_len(end);
        if len > self.allocated.load(Relaxed) {
            self.file.allocate(len).map_err(|e| StoreError::io("allocate", &self.path, e))?;
            self.allocated.store(len, Relaxed);
            self.length.fetch_max(len, Relaxed);
        }
        Ok(())
    }

    /// Creates an empty group for this log.
    pub(crate) fn group(&self) -> Group {
        Group::new(self.salt, self.durable.load(Acquire), self.crcs.load(Relaxed))
    }

    /// Returns whether so many bytes with so many keys fit. An empty log accepts more than that if it must.
    pub(crate) fn has_room(&self, bytes: u64, keys: usize) -> bool {
        let end = self.written() + bytes + SEAL_BYTES;
        !self.is_sealed() && end <= self.capacity && self.index.has_room(keys)
    }

    /// Appends a group and enters its keys. Called by the thread that writes.
    ///
    /// # Errors
    /// After [`StoreError::NoSpace`] nothing has changed, and no replay finds a part of the group. After any other
    /// error the log is broken.
    pub(crate) fn append(&self, group: Group) -> Result<(), StoreError> {
        if self.is_broken() {
            return Err(StoreError::ReadOnly);
        }
        let at = self.written();
        let end = at + group.bytes.len() as u64;
        // Places in the index are 32 bits, in units of 8 bytes.
        if end > PLACES_END {
            return Err(StoreError::ValueLength(group.bytes.len()));
        }
        // Space is allocated first: without space nothing is written.
        self.allocate(end + group.reserved).map_err(|error| match error {
            StoreError::NoSpace => error,
            error => self.break_with(error),
        })?;
        let written = self.file.write_at(&group.bytes, at);
        let written = written.map_err(|error| StoreError::io("write", &self.path, error));
        match written {
            Ok(()) => {}
            Err(StoreError::NoSpace) => {
                self.take_back(at)?;
                return Err(StoreError::NoSpace);
            }
            Err(error) => return Err(self.break_with(error)),
        }
        let bytes = Bytes::from(group.bytes);
        self.tail.push(at, bytes.clone());
        self.crcs.store(group.crcs, Relaxed);
        self.seq_max.fetch_max(group.seq_max, Relaxed);
        self.records.fetch_add(group.entries.len() as u64, Relaxed);
        self.written.store(end, Release);
        for entry in &group.entries {
            self.enter(entry.hash, at + entry.at as u64, &bytes[entry.key.clone()]);
        }
        Ok(())
    }

    /// Makes sure that no replay finds a part of a refused write at `at`, even after a loss of power. Records of it
    /// further on have lower numbers than those that will be written over them, so no replay accepts them.
    fn take_back(&self, at: u64) -> Result<(), StoreError> {
        let _turn = self.syncing.lock();
        let zeroed = self.file.write_at(&[0; HEAD_BYTES], at).or_else(|_| {
            // There isn't even space for that. The part that is cut off is allocated again by the next write.
            self.file.set_len(at)?;
            self.allocated.store(at, Relaxed);
            self.file.set_len(file_len(at))
        });
        let synced = zeroed.and_then(|()| self.file.sync_data());
        synced.map_err(|e| self.break_with(StoreError::io("take back a write to", &self.path, e)))
    }

    fn break_with(&self, error: StoreError) -> StoreError {
        self.is_broken.store(true, Release);
        error
    }

    /// Enters a key whose record lies at `at`. The place replaces that of the key's older record, if there is one here.
    pub(crate) fn enter(&self, hash: crate::hash::KeyHash, at: u64, key: &[u8]) {
        let place = to_place(at);
        let old = self.index.candidates(hash).find(|&old| self.is_key_at(old, key));
        if !old.is_some_and(|old| self.index.replace(hash, old, place)) {
            self.index.insert(hash, place);
        }
    }

    /// Returns whether the record at a place is of this key. False if the place can't be read: then both records stay
    /// in the index, and the newer one is found first.
    fn is_key_at(&self, place: u32, key: &[u8]) -> bool {
        let at = to_offset(place);
        let len = HEAD_BYTES + key.len();
        let is_key = |bytes: &[u8]| {
            let head = RecordHead::decode(bytes, self.salt);
            head.is_some_and(|it| it.key_bytes == key.len())
                && bytes.get(HEAD_BYTES..len) == Some(key)
        };
        if let Some(bytes) = self.tail.get(at) {
            return is_key(&bytes);
        }
        let mut bytes = vec![0; len];
        self.file.read_at(&mut bytes, at).is_ok() && is_key(&bytes)
    }

    /// Makes everything that was written so far durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let _turn = self.syncing.lock();
        if self.is_broken() {
            return Err(StoreError::ReadOnly);
        }
        let upto = self.written();
        let synced = self.file.sync_data();
        synced.map_err(|e| self.break_with(StoreError::io("sync", &self.path, e)))?;
        self.durable.fetch_max(upto, Release);
        Ok(())
    }

    /// Makes durable what isn't durable yet.
    pub(crate) fn sync_rest(&self) -> Result<(), StoreError> {
        if self.unsynced() == 0 { Ok(()) } else { self.sync() }
    }

    /// Ends the log: appends the last record and makes everything durable. Called by the thread that writes.
    pub(crate) fn seal(&self) -> Result<(), StoreError> {
        if !self.is_sealed() {
            let mut group = self.group();
            let keys = self.index.len() as u64;
            group.seal(self.records(), keys, self.seq_max());
            self.append(group)?;
        }
        self.sync_rest()?;
        self.is_sealed.store(true, Release);
        self.tail.clear();
        Ok(())
    }

    /// Gives the allocated space that a sealed log doesn't need back to the disk. If that fails, it stays allocated.
    pub(crate) fn trim(&self) {
        let needed = file_len(self.written());
        if self.length.load(Relaxed) > needed && self.file.set_len(needed).is_ok() {
            self.length.store(needed, Relaxed);
            self.allocated.store(needed, Relaxed);
        }
    }

    /// The offset that reads may extend to.
    pub(crate) fn readable(&self) -> u64 {
        self.length.load(Relaxed).min(file_len(self.written()))
    }

    /// Takes over the results of a replay.
    pub(crate) fn set_replayed(&self, end: u64, records: u64, seq_max: u64, crcs: u32) {
        self.length.store(self.file.len().unwrap_or(0), Relaxed);
        self.records.store(records, Relaxed);
        self.seq_max.store(seq_max, Relaxed);
        self.crcs.store(crcs, Relaxed);
        self.written.store(end, Release);
    }

    /// Marks the log as sealed: a replay found its last record.
    pub(crate) fn set_sealed(&self) {
        self.is_sealed.store(true, Release);
    }
}

/// Accessors.
impl LogFile {
    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for reads in flight. It isn't open for direct I/O, so any offset may be read.
    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    pub(crate) fn salt(&self) -> Salt {
        self.salt
    }

    /// The end of what was written.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// The number of bytes that are not known to be durable.
    pub(crate) fn unsynced(&self) -> u64 {
        self.written().saturating_sub(self.durable.load(Acquire))
    }

    /// Whether no record was ever appended.
    pub(crate) fn is_empty(&self) -> bool {
        self.written() == LOG_START
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.is_sealed.load(Acquire)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Acquire)
    }

    /// The number of puts and deletes, including several of the same key.
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// The number of keys with a put or a delete.
    pub(crate) fn keys(&self) -> usize {
        self.index.len()
    }

    /// The highest sequence number.
    pub(crate) fn seq_max(&self) -> u64 {
        self.seq_max.load(Relaxed)
    }

    /// Memory of the index.
    pub(crate) fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Memory of the index and of the groups in the tail.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.bytes() + self.tail.bytes()
    }
}

impl fmt::Debug for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogFile({}, {} records)", self.path.display(), self.records())
    }
}

/// The length of a file whose records end at `end`: whole blocks, and one more.
fn file_len(end: u64) -> u64 {
    end.next_multiple_of(BLOCK_BYTES as u64) + BLOCK_BYTES as u64
}

fn to_place(at: u64) -> u32 {
    u32::try_from(at / UNIT as u64).unwrap_or(u32::MAX)
}

fn to_offset(place: u32) -> u64 {
    u64::from(place) * UNIT as u64
}

/// The offset at which records begin.
pub(crate) const LOG_START: u64 = BLOCK_BYTES as u64;

/// The index has room for one key per so many bytes of the log. Smaller records fill the index before the file.
pub(crate) const BYTES_PER_KEY: u64 = 128;

/// The end of the places that the index can hold: 32 GiB.
const PLACES_END: u64 = u32::MAX as u64 * UNIT as u64;
