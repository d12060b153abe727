//! Replay: opens a log that was written before. It enters the records into the index again, and cuts off a torn tail.
//!
//! # Which end is torn, and which is corrupt
//! Records are read from the start. At the first place without a whole record:
//!
//! | the log | what follows | result |
//! |---|---|---|
//! | has its last record before that place | anything | it is whole |
//! | is not the newest | anything | corrupt: it was durable before the next one began |
//! | is the newest | a whole record which shows that this place was durable | corrupt |
//! | is the newest | no such record | torn: the log ends here, or before the batch that has no end |
//!
//! A corrupt log is refused, unless a repair was requested: then it ends there, like a torn one.
//!
//! # Invariants
//! 1. A log that was opened for writing is sealed and durable: new records go into a new file, and a crash during the
//!    replay leaves a log that the next replay reads the same way.
//! 2. The replay's memory is the index, the records of one batch, and a window of the file.

use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, Header};
use crate::hash::{Hasher, KeyHash};
use crate::log::record::{Record, RecordKind, Salt, UNIT, fold};
use crate::log::scan::Scan;
use crate::log::segment::{LOG_START, LogFile};
use crate::opening::OpenProgress;
use guira_disk::{Disk, DiskFile, FileAccess};
use std::path::Path;
use std::sync::Arc;

/// How a log is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayAs {
    /// No log is newer: this one may have a torn tail.
    pub(crate) is_newest: bool,
    /// A corrupt log ends at the corruption instead of being refused.
    pub(crate) repair: bool,
    /// The file isn't changed.
    pub(crate) read_only: bool,
}

/// A replayed log, which is frozen.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The log, with all its keys.
    pub(crate) log: Arc<LogFile>,
    /// Bytes that a repair discarded, from the first corrupt one to the end of the last whole record.
    pub(crate) lost_bytes: u64,
    /// The number of the log before it, which must exist. It is below its own number.
    pub(crate) before: u64,
}

/// Opens the log that `header` describes, and adds its bytes to the progress.
///
/// # Errors
/// If it is corrupt or of another store, can't be read, or can't be sealed; or if the opening was cancelled.
pub(crate) fn replay(
    (disk, progress): (&dyn Disk, &OpenProgress),
    path: &Path,
    header: &Header,
    hasher: &Hasher,
    how: ReplayAs,
) -> Result<Replayed, StoreError> {
    let io = |what| move |error| StoreError::io(what, path, error);
    let access = FileAccess { write: !how.read_only, direct: false };
    let file = disk.open(path, access).map_err(io("open"))?;
    let len = file.len().map_err(io("read"))?;
    let before = read_header(&*file, path, header, len)?.before;
    let log = LogFile::new(path, file.clone(), header, len);
    let mut scan = Scan::new(&*file, path, Salt::of(header), len);
    let mut reader = Reader::new(&log, hasher);
    let mut counted = 0;
    while let Some(record) = scan.record(reader.at)? {
        if !reader.take(&record) {
            break;
        }
        progress.note_replayed(reader.at - counted)?;
        counted = reader.at;
    }
    // The rest is a seal, a torn tail, or space that was allocated in advance.
    progress.note_replayed(len - counted)?;
    let Reader { is_sealed, end, records, seq_max, crcs, .. } = reader;
    let lost_bytes = if is_sealed { 0 } else { judge(&mut scan, path, end, how)? };
    if !is_sealed && !how.read_only {
        file.set_len(end).map_err(io("cut"))?;
    }
    log.set_replayed(end, records, seq_max, crcs);
    if is_sealed {
        log.set_sealed();
    }
    if !how.read_only {
        log.seal()?;
        log.trim();
    }
    Ok(Replayed { log: Arc::new(log), lost_bytes, before })
}

/// Reads the header, which was durable before the file got its name.
fn read_header(
    file: &dyn DiskFile,
    path: &Path,
    wanted: &Header,
    len: u64,
) -> Result<Header, StoreError> {
    let corrupt = |what| StoreError::corrupt(path, 0, what);
    if len < BLOCK_BYTES as u64 {
        return Err(corrupt("the log is cut inside its header"));
    }
    let mut block = vec![0; BLOCK_BYTES];
    file.read_at(&mut block, 0).map_err(|e| StoreError::io("read", path, e))?;
    let header = Header::decode(&block).map_err(corrupt)?;
    let foreign = |what| StoreError::Foreign { path: path.to_owned(), what };
    header.expect(wanted).map_err(foreign)?;
    if header.before >= header.file_id {
        return Err(corrupt("it names a log before it that is no older"));
    }
    Ok(header)
}

/// Checks whether the log may end at `end`. Returns the bytes that a repair loses.
fn judge(scan: &mut Scan<'_>, path: &Path, end: u64, how: ReplayAs) -> Result<u64, StoreError> {
    let corrupt = StoreError::corrupt(path, end, "a record that was durable is not whole");
    if !how.is_newest && !how.repair {
        return Err(corrupt);
    }
    let (mut at, mut lost_to) = (end, end);
    while let Some(next) = scan.next_head(at)? {
        let record = scan.record(next)?.map(|it| (it.head.durable, it.head.len() as u64));
        if let Some((_, len)) = record.filter(|&(durable, _)| durable > end || !how.is_newest) {
            if !how.repair {
                return Err(corrupt);
            }
            lost_to = next + len;
        }
        at = next + record.map_or(UNIT as u64, |(_, len)| len);
    }
    Ok(lost_to - end)
}

/// Enters records in order.
struct Reader<'a> {
    log: &'a LogFile,
    hasher: &'a Hasher,
    /// Where the next record is expected.
    at: u64,
    /// Where the log ends if nothing more is entered. Never inside a batch.
    end: u64,
    records: u64,
    seq_max: u64,
    /// The checksums of checksums of all records up to `at`, and up to `end`.
    crcs_at: u32,
    crcs: u32,
    batch: Option<Pending>,
    is_sealed: bool,
}

/// A batch whose end hasn't been read yet.
struct Pending {
    count: u32,
    crcs: u32,
    entries: Vec<(KeyHash, u64, Box<[u8]>)>,
    seq: u64,
}

impl<'a> Reader<'a> {
    fn new(log: &'a LogFile, hasher: &'a Hasher) -> Self {
        Self {
            log,
            hasher,
            at: LOG_START,
            end: LOG_START,
            records: 0,
            seq_max: 0,
            crcs_at: 0,
            crcs: 0,
            batch: None,
            is_sealed: false,
        }
    }

    /// Enters a whole record. False if the log ends before it, or with it.
    fn take(&mut self, record: &Record<'_>) -> bool {
        let at = self.at;
        let is_expected = match record.head.kind {
            RecordKind::Entry(_) => self.entry(record, at),
            RecordKind::BatchBegin => self.begin(record),
            RecordKind::BatchEnd => self.finish(record),
            RecordKind::Seal => return self.seal(record),
        };
        if is_expected {
            self.crcs_at = fold(self.crcs_at, record.head.crc);
            self.at += record.head.len() as u64;
            if self.batch.is_none() {
                (self.end, self.crcs) = (self.at, self.crcs_at);
            }
        }
        is_expected
    }

    fn entry(&mut self, record: &Record<'_>, at: u64) -> bool {
        let (hash, seq) = (self.hasher.hash(record.key), record.head.seq);
        let Some(batch) = &mut self.batch else {
            let grows = seq > self.seq_max;
            if grows {
                self.log.enter(hash, at, record.key);
                self.seq_max = seq;
                self.records += 1;
            }
            return grows;
        };
        let is_next = seq == batch.seq && batch.entries.len() < batch.count as usize;
        batch.seq = batch.seq.saturating_add(1);
        batch.crcs = fold(batch.crcs, record.head.crc);
        batch.entries.push((hash, at, record.key.into()));
        is_next
    }

    fn begin(&mut self, record: &Record<'_>) -> bool {
        let (count, seq) = (record.count(), record.head.seq);
        let is_expected = self.batch.is_none() && seq > self.seq_max;
        self.batch = Some(Pending { count, crcs: 0, entries: Vec::new(), seq });
        is_expected
    }

    fn finish(&mut self, record: &Record<'_>) -> bool {
        let Some(batch) = self.batch.take() else { return false };
        let is_whole = batch.entries.len() == batch.count as usize
            && record.count() == batch.count
            && record.crc_of_crcs() == batch.crcs;
        if is_whole {
            for (hash, at, key) in &batch.entries {
                self.log.enter(*hash, *at, key);
            }
            self.records += u64::from(batch.count);
            self.seq_max = batch.seq.saturating_sub(1);
        }
        is_whole
    }

    /// Handles the last record. If it doesn't match what was read, the log ends before it.
    fn seal(&mut self, record: &Record<'_>) -> bool {
        let is_of_this = self.batch.is_none()
            && record.crc_of_crcs() == self.crcs_at
            && record.head.seq == self.seq_max;
        if is_of_this {
            self.is_sealed = true;
            self.at += record.head.len() as u64;
            self.end = self.at;
        }
        false
    }
}
