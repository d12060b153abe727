//! The manifest: a file of edits that names the store's live files, and `CURRENT`, which names the manifest.
//!
//! A manifest begins with the header block of every file and two marks that say how far it is durable (`mark.rs`); then
//! come records (`record.rs`) of edits (`edits.rs`). A new one is written as a snapshot when the old one is longer than
//! `Options::manifest_bytes`. `CURRENT` holds the manifest's name and the CRC-32C of that name; it is replaced by
//! renaming, so it names the old one or the new one.
//!
//! # Invariants
//! 1. [`Manifest::append`] returns after its record was synced, and after that a mark. Whoever removes a file that the
//!    edit replaced does so later. So the files that a manifest names are there, whatever moment the power fails at.
//! 2. What an acknowledged edit said is inside a mark. So if its record can't be read, the manifest is corrupt; and a
//!    torn record outside the marks was never acknowledged, and is cut off.
//! 3. A record that failed to be written is cut off again, durably. If that fails too, or a sync or a mark fails, nobody
//!    knows what the disk holds, and no edit is accepted any more.
//!
//! # Costs
//! An edit: two writes and two syncs. A store of 1 TiB in partitions of 256 MiB has 4096 of them: a snapshot of 100 KB.

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
    /// Space was taken up to here, so that a full disk takes edits.
    allocated: u64,
    set: FileSet,
    marks: Marks,
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

    /// Goes on with a manifest that was read, behind its last whole record.
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
            // A process that was killed may have renamed `CURRENT` and not made that durable.
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
        // The last record was synced before the power failed, or just now.
        if marks.durable() != Some(end) || marks.is_damaged() {
            manifest.mark(end)?;
        }
        Ok(manifest)
    }

    /// Makes `CURRENT` name this manifest. After an error it may name either.
    pub(crate) fn make_current(&self) -> Result<(), StoreError> {
        self.write_current_new()?;
        self.replace_current()
    }

    /// Writes what will be `CURRENT`.
    fn write_current_new(&self) -> Result<(), StoreError> {
        let text = current_text(self.id);
        replaced::prepare(&*self.disk, &self.dir.join(CURRENT_NEW), text.as_bytes())
    }

    fn replace_current(&self) -> Result<(), StoreError> {
        let [new, current] = [CURRENT_NEW, CURRENT].map(|it| self.dir.join(it));
        replaced::replace(&*self.disk, &new, &current)
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

    /// True after a failed sync: what the disk holds is unknown until the store is reopened.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }

    /// Takes space up to `end`, and ahead if there is some.
    fn reach(&mut self, end: u64) -> io::Result<()> {
        if end > self.allocated {
            let ahead = self.file.allocate(end + AHEAD_BYTES).map(|()| end + AHEAD_BYTES);
            self.allocated = ahead.or_else(|_| self.file.allocate(end).map(|()| end))?;
        }
        Ok(())
    }

    /// Says that the file is durable up to `end`, durably.
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

/// Space that is taken ahead of use.
const AHEAD_BYTES: u64 = 32 << 10;
/// A longer manifest is written anew, unless options tell another length.
const REWRITE_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests;
