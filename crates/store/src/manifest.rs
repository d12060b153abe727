//! The manifest: a file of edits that names the store's live files, and `CURRENT`, which names the manifest.
//!
//! A manifest begins with the header block that every file has, and two marks that show how far the manifest is durable
//! (`mark.rs`). Records (`record.rs`) of edits (`edits.rs`) follow. When a manifest is longer than
//! `Options::manifest_bytes`, a new one is written as a snapshot. `CURRENT` holds the manifest's name and the CRC-32C
//! of that name. It is replaced by a rename, so it names the old manifest or the new one.
//!
//! # Invariants
//! 1. [`Manifest::append`] returns after its record was synced, and then a mark. A file that the edit replaced is
//!    removed later than that. So all files that a manifest names exist, whenever the power fails.
//! 2. An acknowledged edit is inside a mark. So if its record can't be read, the manifest is corrupt. A torn record
//!    outside the marks was never acknowledged, and is cut off.
//! 3. A record that can't be written is cut off again, durably. If that fails too, or a sync or a mark fails, it is
//!    unknown what the disk holds, and no more edits are accepted.
//!
//! # Costs
//! An edit takes two writes and two syncs. A store of 1 TiB in partitions of 256 MiB has 4096 of them: a snapshot of
//! 100 KB.

mod found;
mod names;
mod mark;
mod record;
mod edits;

pub(crate) use edits::{Edit, FileSet, Identity, YoungEntry};
pub(crate) use found::{FoundManifest, read};
pub(crate) use names::{CURRENT, CURRENT_NEW, LOCK, file_name, parse_name};

use crate::error::StoreError;
use crate::file::{FileKind, Header};
use crate::replaced;
use crate::stats::{self, Tally};
use guira_disk::{Disk, DiskFile, FileAccess};
use mark::{MARK_OFFSETS, Marks, RECORDS_START};
use names::current_text;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A manifest that is open for writing.
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    tally: Arc<Tally>,
    hash_id: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    id: u64,
    /// The offset of the next record.
    end: u64,
    /// Space is allocated up to this offset, so that a full disk accepts edits.
    allocated: u64,
    set: FileSet,
    marks: Marks,
    is_poisoned: bool,
    /// The manifest is rewritten at this length.
    rewrite_bytes: u64,
}

impl Manifest {
    /// Writes `set` as a new manifest. It takes effect once [`Manifest::make_current`] has succeeded.
    pub(crate) fn create(
        (disk, dir): (&Arc<dyn Disk>, &Path),
        (id, hash_id): (u64, u64),
        set: FileSet,
        tally: &Arc<Tally>,
    ) -> Result<Self, StoreError> {
        let path = dir.join(file_name(FileKind::Manifest, id));
        let kind = FileKind::Manifest;
        let header = Header { kind, file_id: id, uuid: set.identity.uuid, hash_id, before: 0 };
        let mut records = Vec::new();
        record::push(
            &mut records,
            &set.as_edits(),
            (id, RECORDS_START),
            (set.next_id, set.last_seq),
        );
        let end = RECORDS_START + records.len() as u64;
        let marks = [0, 1].map(|number| mark::encode(id, end, number));
        let bytes = [&header.encode()[..], &marks[0], &marks[1], &records].concat();
        let written = (|| {
            let file = disk.create(&path, false)?;
            file.allocate(end + AHEAD_BYTES)?;
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
            allocated: end + AHEAD_BYTES,
            set,
            marks: Marks::both(end),
            is_poisoned: false,
            rewrite_bytes: REWRITE_BYTES,
        })
    }

    /// Continues a manifest that was read, after its last whole record.
    pub(crate) fn resume(
        (disk, dir): (&Arc<dyn Disk>, &Path),
        found: FoundManifest,
        tally: &Arc<Tally>,
    ) -> Result<Self, StoreError> {
        let (path, end, marks) = (found.path, found.end, found.marks);
        let mut allocated = found.len;
        let mut open = || {
            let file = disk.open(&path, FileAccess { write: true, direct: false })?;
            if found.is_torn {
                file.set_len(end)?;
                allocated = end;
            }
            file.sync_data()?;
            // A process that was killed may have renamed `CURRENT` without making that durable.
            disk.sync_dir(dir)?;
            Ok(file)
        };
        let file = open().map_err(|e| StoreError::io("open", &path, e))?;
        let (disk, dir, tally) = (disk.clone(), dir.to_owned(), tally.clone());
        let (hash_id, id, set) = (found.hash_id, found.id, found.set);
        let mut manifest = Self {
            disk,
            dir,
            tally,
            hash_id,
            path,
            file,
            id,
            end,
            allocated,
            set,
            marks,
            is_poisoned: false,
            rewrite_bytes: REWRITE_BYTES,
        };
        // The last record is durable: it was synced before the power failed, or just now.
        if marks.durable() != Some(end) || marks.is_damaged() {
            manifest.mark(end)?;
        }
        Ok(manifest)
    }

    /// Makes `CURRENT` name this manifest. After an error `CURRENT` may name the old manifest or this one.
    pub(crate) fn make_current(&self) -> Result<(), StoreError> {
        self.write_current_new()?;
        self.replace_current()
    }

    /// Writes the file that will become `CURRENT`.
    fn write_current_new(&self) -> Result<(), StoreError> {
        let text = current_text(self.id);
        replaced::prepare(&*self.disk, &self.dir.join(CURRENT_NEW), text.as_bytes())
    }

    fn replace_current(&self) -> Result<(), StoreError> {
        let [new, current] = [CURRENT_NEW, CURRENT].map(|it| self.dir.join(it));
        replaced::replace(&*self.disk, &new, &current)
    }

    /// Returns the manifest with another length at which it is rewritten.
    pub(crate) fn with_rewrite_at(mut self, bytes: u64) -> Self {
        self.rewrite_bytes = bytes;
        self
    }

    /// The live files.
    pub(crate) fn set(&self) -> &FileSet {
        &self.set
    }

    /// The path of the manifest.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes edits durable, all or none. `spare` is a file number above all others, for a manifest that is rewritten.
    /// `last_seq` is the highest sequence number.
    ///
    /// After an error the manifest is either as before or poisoned: see [`Manifest::is_poisoned`].
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
        record::push(&mut record, edits, (self.id, self.end), (set.next_id, set.last_seq));
        let end = self.end + record.len() as u64;
        if let Err(e) = self.reach(end).and_then(|()| self.file.write_at(&record, self.end)) {
            let undone = self.file.set_len(self.end).and_then(|()| self.file.sync_data());
            self.allocated = self.end;
            self.is_poisoned = undone.is_err();
            return Err(StoreError::io("write", &self.path, e));
        }
        let synced = self.file.sync_data().map_err(|e| StoreError::io("sync", &self.path, e));
        if let Err(e) = synced.and_then(|()| self.mark(end)) {
            self.is_poisoned = true;
            return Err(e);
        }
        self.end = end;
        stats::add(&self.tally.bytes_of_manifest, record.len() as u64);
        self.set = set;
        self.rewrite_if_long(spare);
        Ok(())
    }

    /// Whether no more edits are accepted. After a failed sync, mark or undo it is unknown what the disk holds, until
    /// the store is reopened.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }

    /// Allocates space up to `end`, and in advance if there is enough.
    fn reach(&mut self, end: u64) -> io::Result<()> {
        if end > self.allocated {
            let ahead = self.file.allocate(end + AHEAD_BYTES).map(|()| end + AHEAD_BYTES);
            self.allocated = ahead.or_else(|_| self.file.allocate(end).map(|()| end))?;
        }
        Ok(())
    }

    /// Records durably that the file is durable up to `end`.
    fn mark(&mut self, end: u64) -> Result<(), StoreError> {
        let number = self.marks.next();
        let block = mark::encode(self.id, end, number);
        let written = self.file.write_at(&block, MARK_OFFSETS[number]);
        let synced = written.and_then(|()| self.file.sync_data());
        synced.map_err(|e| StoreError::io("mark", &self.path, e))?;
        self.marks.wrote(end);
        stats::add(&self.tally.bytes_of_manifest, block.len() as u64);
        Ok(())
    }

    /// Replaces a long manifest by a snapshot. If that can't be written now, the old manifest is kept. If `CURRENT` may
    /// name either one, no more edits are accepted: edits to one would be missing from the other.
    fn rewrite_if_long(&mut self, id: u64) {
        if self.end < self.rewrite_bytes {
            return;
        }
        let at = (&self.disk, &*self.dir);
        let set = self.set.clone();
        let Ok(new) = Self::create(at, (id, self.hash_id), set, &self.tally) else { return };
        if new.write_current_new().is_err() {
            // A file that can't be removed is a stray, which the next open removes.
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

/// Bytes of space that are allocated in advance.
const AHEAD_BYTES: u64 = 32 << 10;
/// A longer manifest is rewritten, unless the options set another length.
const REWRITE_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests;
