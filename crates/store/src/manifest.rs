//! The manifest: a file of edits that names the store's live files, and `CURRENT`, which names the manifest.
//!
//! A manifest begins with the header block of every file, then come records; their form is in `edits.rs`. A new one is
//! written as a snapshot when the old one is longer than `Options::manifest_bytes`. `CURRENT` holds the
//! manifest's name and the CRC-32C of that name; it is replaced by renaming, so it names the old one or the new one.
//!
//! # Invariants
//! 1. [`Manifest::append`] returns after its record was synced. Whoever removes a file that the edit replaced does so
//!    later. So the files that a manifest names are there, whatever moment the power fails at.
//! 2. After each synced record stands a short one, not synced: "confirmed". A record that can't be read is a torn tail
//!    if nothing readable stands after it, and a corruption otherwise. So a flipped bit in the last edit isn't taken
//!    for a torn tail. The short one itself may be missing: a loss of power can keep the record after it alone.
//! 3. A record that failed to be written is cut off again. If that fails too, or a sync fails, nobody knows what the
//!    disk holds, and no edit is accepted any more.
//!
//! # Costs
//! An edit: two writes and a sync. A store of 1 TiB in partitions of 256 MiB has 4096 of them: a snapshot of 100 KB.

mod edits;

pub(crate) use edits::{Edit, FileSet, Identity, YoungEntry};

use crate::checksum::crc32c;
use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, FileKind, Header};
use crate::stats::{self, Tally};
use guira_disk::{Disk, DiskFile, FileAccess};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A manifest that is written to.
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    tally: Arc<Tally>,
    hash_id: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    id: u64,
    /// Where the next record goes.
    end: u64,
    set: FileSet,
    is_poisoned: bool,
    /// At this length it is written anew.
    rewrite_bytes: u64,
}

impl Manifest {
    /// Writes `set` as a new manifest. It counts once [`Manifest::make_current`] succeeded.
    pub(crate) fn create(
        (disk, dir): (&Arc<dyn Disk>, &Path),
        (id, hash_id): (u64, u64),
        set: FileSet,
        tally: &Arc<Tally>,
    ) -> Result<Self, StoreError> {
        let path = dir.join(file_name(FileKind::Manifest, id));
        let kind = FileKind::Manifest;
        let header = Header { kind, file_id: id, uuid: set.identity.uuid, hash_id };
        let mut bytes = header.encode().to_vec();
        push_record(&mut bytes, &set.as_edits(), (id, 0), (set.next_id, set.last_seq));
        let written = (|| {
            let file = disk.create(&path, false)?;
            file.write_at(&bytes, 0)?;
            file.sync_data()?;
            disk.sync_dir(dir)?;
            Ok(file)
        })();
        let file = written.map_err(|e| {
            let _ = disk.remove(&path);
            StoreError::io("write", &path, e)
        })?;
        stats::add(&tally.bytes_of_manifest, bytes.len() as u64);
        let end = bytes.len() as u64;
        let (disk, dir, tally) = (disk.clone(), dir.to_owned(), tally.clone());
        Ok(Self {
            disk,
            dir,
            tally,
            hash_id,
            path,
            file,
            id,
            end,
            set,
            is_poisoned: false,
            rewrite_bytes: REWRITE_BYTES,
        })
    }

    /// Goes on with a manifest that was read, behind its last whole record.
    pub(crate) fn resume(
        (disk, dir): (&Arc<dyn Disk>, &Path),
        found: FoundManifest,
        tally: &Arc<Tally>,
    ) -> Result<Self, StoreError> {
        let (path, end) = (found.path, found.end);
        let open = || {
            let file = disk.open(&path, FileAccess { write: true, direct: false })?;
            file.set_len(end)?;
            file.sync_data()?;
            // A process that was killed may have renamed `CURRENT` and not made that durable.
            disk.sync_dir(dir)?;
            Ok(file)
        };
        let file = open().map_err(|e| StoreError::io("open", &path, e))?;
        let (disk, dir, tally) = (disk.clone(), dir.to_owned(), tally.clone());
        let (hash_id, id, set) = (found.hash_id, found.id, found.set);
        Ok(Self {
            disk,
            dir,
            tally,
            hash_id,
            path,
            file,
            id,
            end,
            set,
            is_poisoned: false,
            rewrite_bytes: REWRITE_BYTES,
        })
    }

    /// Makes `CURRENT` name this manifest. After an error it may name either.
    pub(crate) fn make_current(&self) -> Result<(), StoreError> {
        self.write_current_new()?;
        self.replace_current()
    }

    /// Writes what will be `CURRENT`.
    fn write_current_new(&self) -> Result<(), StoreError> {
        let path = self.dir.join(CURRENT_NEW);
        let _ = self.disk.remove(&path);
        let write = || {
            let file = self.disk.create(&path, false)?;
            file.write_at(current_text(self.id).as_bytes(), 0)?;
            file.sync_data()
        };
        write().map_err(|e| StoreError::io("write", &path, e))
    }

    fn replace_current(&self) -> Result<(), StoreError> {
        let current = self.dir.join(CURRENT);
        let renamed = self.disk.rename(&self.dir.join(CURRENT_NEW), &current);
        let synced = renamed.and_then(|()| self.disk.sync_dir(&self.dir));
        synced.map_err(|e| StoreError::io("replace", &current, e))
    }

    /// The same, but written anew when it is this long.
    pub(crate) fn with_rewrite_at(mut self, bytes: u64) -> Self {
        self.rewrite_bytes = bytes;
        self
    }

    /// The live files.
    pub(crate) fn set(&self) -> &FileSet {
        &self.set
    }

    /// Where the manifest is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes edits durable, all or none. `spare`: a file number above all others, for a manifest that is written anew;
    /// `last_seq`: the highest sequence number.
    ///
    /// After `NoSpace` the manifest is as before. After any other error it accepts nothing more.
    pub(crate) fn append(
        &mut self,
        edits: &[Edit],
        (spare, last_seq): (u64, u64),
    ) -> Result<(), StoreError> {
        if self.is_poisoned {
            return Err(StoreError::ReadOnly);
        }
        let mut set = self.set.clone();
        set.next_id = set.next_id.max(spare + 1);
        set.last_seq = set.last_seq.max(last_seq);
        let fits = edits.iter().all(|edit| set.apply(edit).is_some());
        assert!(fits, "an edit that doesn't fit the files: {edits:?}");
        let mut record = Vec::new();
        push_record(&mut record, edits, (self.id, self.end), (set.next_id, set.last_seq));
        if let Err(e) = self.file.write_at(&record, self.end) {
            self.is_poisoned = self.file.set_len(self.end).is_err();
            return Err(StoreError::io("write", &self.path, e));
        }
        if let Err(e) = self.file.sync_data() {
            self.is_poisoned = true;
            return Err(StoreError::io("sync", &self.path, e));
        }
        self.end += record.len() as u64;
        stats::add(&self.tally.bytes_of_manifest, record.len() as u64);
        self.set = set;
        self.confirm();
        self.rewrite_if_long(spare);
        Ok(())
    }

    /// True after a failed sync: what the disk holds is unknown until the store is reopened.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }

    /// Says that the last record was synced (invariant 2). If that fails, a later flipped bit is taken for a torn tail.
    fn confirm(&mut self) {
        let mut record = Vec::new();
        let marks = (self.set.next_id, self.set.last_seq);
        push_record(&mut record, &[Edit::Confirmed], (self.id, self.end), marks);
        match self.file.write_at(&record, self.end) {
            Ok(()) => self.end += record.len() as u64,
            Err(_) => self.is_poisoned = self.file.set_len(self.end).is_err(),
        }
        stats::add(&self.tally.bytes_of_manifest, record.len() as u64);
    }

    /// A snapshot in place of a long history. If it can't be written now, the old manifest goes on. If it was written
    /// and `CURRENT` may name either, nothing more is accepted: edits to one would be lost to the other.
    fn rewrite_if_long(&mut self, id: u64) {
        if self.end < self.rewrite_bytes {
            return;
        }
        let at = (&self.disk, &*self.dir);
        let set = self.set.clone();
        let Ok(new) = Self::create(at, (id, self.hash_id), set, &self.tally) else { return };
        if new.write_current_new().is_err() {
            // What can't be removed is a stray that the next open removes.
            let _ = self.disk.remove(&new.path);
            return;
        }
        self.is_poisoned = new.replace_current().is_err();
        if !self.is_poisoned {
            let new = new.with_rewrite_at(self.rewrite_bytes);
            let old = std::mem::replace(self, new);
            let _ = old.disk.remove(&old.path);
        }
    }
}

/// What `CURRENT` leads to. None if the directory holds no store.
pub(crate) struct FoundManifest {
    /// Its number.
    pub(crate) id: u64,
    /// Its file.
    pub(crate) path: PathBuf,
    /// The files that it names.
    pub(crate) set: FileSet,
    /// Of the hash, as the header tells it.
    pub(crate) hash_id: u64,
    /// Where its last whole record ends.
    pub(crate) end: u64,
}

/// Reads the current manifest.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<FoundManifest>, StoreError> {
    let current = dir.join(CURRENT);
    let text = match read_whole(disk, &current) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        other => other?,
    };
    let id = current_id(&text)
        .ok_or_else(|| StoreError::corrupt(&current, 0, "it doesn't name a manifest"))?;
    let path = dir.join(file_name(FileKind::Manifest, id));
    let bytes = read_whole(disk, &path)?;
    let (block, records) = bytes
        .split_at_checked(BLOCK_BYTES)
        .ok_or_else(|| StoreError::corrupt(&path, 0, "its header is cut short"))?;
    let refuse = |what| StoreError::Foreign { path: path.clone(), what };
    let header = Header::decode(block).map_err(refuse)?;
    let corrupt = |at: usize, what| StoreError::corrupt(&path, (BLOCK_BYTES + at) as u64, what);
    let mut set = None;
    let mut at = 0;
    while let Some((from, body, used)) = next_record(records, at, id) {
        at = from;
        let wrong = || corrupt(at, "an edit that makes no sense");
        let body = edits::decode(body).ok_or_else(wrong)?;
        let set = match (&mut set, body.edits.first()) {
            (Some(set), _) => set,
            (none, Some(Edit::Identity(identity))) => none.insert(FileSet::new(*identity)),
            _ => return Err(wrong()),
        };
        body.edits.iter().try_for_each(|edit| set.apply(edit)).ok_or_else(wrong)?;
        set.next_id = set.next_id.max(body.next_id);
        set.last_seq = set.last_seq.max(body.last_seq);
        at += used;
    }
    let is_torn = records[at..].iter().any(|&byte| byte != 0);
    let later = (at + 8..records.len()).step_by(8);
    if is_torn && later.into_iter().any(|it| record_at(records, it, id).is_some()) {
        return Err(corrupt(at, "a record before the last is corrupt"));
    }
    let set = set.ok_or_else(|| corrupt(0, "its first record is corrupt"))?;
    let wanted =
        Header { file_id: id, uuid: set.identity.uuid, kind: FileKind::Manifest, ..header };
    header.expect(&wanted).map_err(refuse)?;
    let (hash_id, end) = (header.hash_id, (BLOCK_BYTES + at) as u64);
    Ok(Some(FoundManifest { id, path, set, hash_id, end }))
}

/// The name of a file of the store.
pub(crate) fn file_name(kind: FileKind, id: u64) -> String {
    let letter = match kind {
        FileKind::Log => 'L',
        FileKind::Run => 'R',
        FileKind::Manifest => 'M',
        FileKind::Fixed => 'F',
    };
    format!("{letter}-{id:016x}")
}

/// Kind and number of a file of that name.
pub(crate) fn parse_name(name: &OsStr) -> Option<(FileKind, u64)> {
    let name = name.to_str()?;
    let id = u64::from_str_radix(name.get(2..)?, 16).ok()?;
    let kind = match name.get(..2)? {
        "L-" => FileKind::Log,
        "R-" => FileKind::Run,
        "M-" => FileKind::Manifest,
        "F-" => FileKind::Fixed,
        _ => return None,
    };
    // No store gives so many numbers; and the next one must be a number too.
    (file_name(kind, id) == name && id <= u64::MAX / 2).then_some((kind, id))
}

/// Reads a small file.
fn read_whole(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, StoreError> {
    let read = || {
        let file = disk.open(path, FileAccess::default())?;
        let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        file.read_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    read().map_err(|e| StoreError::io("read", path, e))
}

fn current_text(id: u64) -> String {
    let name = file_name(FileKind::Manifest, id);
    format!("{name} {:08x}\n", crc32c(&[name.as_bytes()]))
}

fn current_id(text: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(text).ok()?.split(' ').next()?;
    let (kind, id) = parse_name(OsStr::new(name))?;
    (kind == FileKind::Manifest && current_text(id).as_bytes() == text).then_some(id)
}

/// Appends a record for offset `at.1` of manifest `at.0`.
fn push_record(out: &mut Vec<u8>, edits: &[Edit], at: (u64, u64), (next_id, last_seq): (u64, u64)) {
    let mut body = Vec::new();
    edits::encode(edits, next_id, last_seq, &mut body);
    let begin = out.len();
    let offset = at.1 + begin as u64;
    let len = u32::try_from(body.len()).expect("a set of files is below 4 GiB").to_le_bytes();
    out.extend_from_slice(&record_crc((at.0, offset), len, &body).to_le_bytes());
    out.extend_from_slice(&len);
    out.extend_from_slice(&body);
    out.resize(begin + (out.len() - begin).next_multiple_of(8), 0);
}

/// Where the next record is, its body and whole length: at `at`, or behind a confirmation that was lost there.
fn next_record(records: &[u8], at: usize, id: u64) -> Option<(usize, &[u8], usize)> {
    let found = |from| record_at(records, from, id).map(|(body, used)| (from, body, used));
    found(at).or_else(|| found(at + CONFIRMED_BYTES))
}

/// Body and whole length of the record at `at`, counted from the end of the header.
fn record_at(records: &[u8], at: usize, id: u64) -> Option<(&[u8], usize)> {
    let (crc, rest) = records.get(at..)?.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let bytes = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let body = rest.get(..bytes)?;
    let offset = (BLOCK_BYTES + at) as u64;
    let is_whole = record_crc((id, offset), *len, body).to_le_bytes() == *crc;
    (is_whole && bytes > 0).then(|| (body, (8 + bytes).next_multiple_of(8)))
}

fn record_crc(at: (u64, u64), len: [u8; 4], body: &[u8]) -> u32 {
    crc32c(&[&at.0.to_le_bytes(), &at.1.to_le_bytes(), &len, body])
}

/// The record of a confirmation. All others are longer.
const CONFIRMED_BYTES: usize = 32;
/// Names the manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// What will be `CURRENT`.
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";
/// Locked by the process that has the store open.
pub(crate) const LOCK: &str = "LOCK";
/// A longer manifest is written anew, unless options tell another length.
const REWRITE_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests;
