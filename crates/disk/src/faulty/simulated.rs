//! The disk in memory: names, bytes, the journal, and the gate at which syncs can be held.

use super::faults::{DiskOp, Faults, Injected};
use super::journal::{Event, Inode, Journal};
use crate::disk::{Disk, DiskFile, FileAccess, check_aligned};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk in memory. Clones share it. See the module `faulty`.
#[derive(Clone, Default)]
pub struct SimulatedDisk(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    names: BTreeMap<PathBuf, Inode>,
    dirs: BTreeSet<PathBuf>,
    files: Vec<Vec<u8>>,
    locked: BTreeSet<PathBuf>,
    journal: Vec<Event>,
    faults: Faults,
    space: Option<u64>,
    syncs_are_held: bool,
    syncs_waiting: usize,
    counts: [u64; 3],
}

impl SimulatedDisk {
    /// Creates an empty disk with this folder.
    #[must_use]
    pub fn with_dir(dir: &Path) -> Self {
        let disk = Self::default();
        disk.state().dirs.insert(dir.to_owned());
        disk
    }

    /// Creates a disk as a crash left it: everything on it is durable.
    pub(super) fn from_parts(
        names: BTreeMap<PathBuf, Inode>,
        dirs: BTreeSet<PathBuf>,
        files: Vec<Vec<u8>>,
    ) -> Self {
        let disk = Self::default();
        *disk.state() = State { names, dirs, files, ..State::default() };
        disk
    }

    /// Returns what has happened so far. It is complete only on a disk that began empty, by [`SimulatedDisk::with_dir`].
    #[must_use]
    pub fn journal(&self) -> Journal {
        Journal(self.state().journal.clone())
    }

    /// The number of events so far, which identifies the instant at which a test did something.
    #[must_use]
    pub fn events(&self) -> usize {
        self.state().journal.len()
    }

    /// Injects a fault, which makes calls fail.
    pub fn inject(&self, fault: Injected) {
        self.state().faults.add(fault);
    }

    /// Removes all injected faults.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Sets how many bytes all files may have together. A write beyond that writes what fits, and fails with `ENOSPC`.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.state().space = bytes;
    }

    /// The bytes of all files that have a name.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state().used()
    }

    /// Flips bits of a stored byte. False if there is no such byte.
    #[must_use]
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> bool {
        let mut state = self.state();
        let inode = state.names.get(path).copied();
        let byte = inode.and_then(|it| state.files[it].get_mut(usize::try_from(offset).ok()?));
        byte.is_some_and(|byte| {
            *byte ^= mask;
            true
        })
    }

    /// The bytes of a file, as a reader would find them now.
    #[must_use]
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).map(|&inode| state.files[inode].clone())
    }

    /// Makes syncs wait until they are released, so that writes accumulate.
    pub fn hold_syncs(&self, hold: bool) {
        self.state().syncs_are_held = hold;
        self.0.changed.notify_all();
    }

    /// Waits until at least `count` syncs are waiting.
    pub fn await_held_syncs(&self, count: usize) {
        let mut state = self.state();
        while state.syncs_waiting < count {
            self.0.changed.wait(&mut state);
        }
    }

    /// The numbers of reads, writes and syncs of files so far.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        self.state().counts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    fn file(&self, inode: Inode, path: &Path, how: FileAccess) -> Arc<dyn DiskFile> {
        let file = SimulatedFile { disk: self.clone(), inode, path: path.to_owned(), how };
        Arc::new(file)
    }
}

impl State {
    fn used(&self) -> u64 {
        let named: BTreeSet<Inode> = self.names.values().copied().collect();
        named.iter().map(|&inode| self.files[inode].len() as u64).sum()
    }

    /// Bytes that may still be allocated.
    fn free(&self) -> u64 {
        self.space.map_or(u64::MAX / 2, |space| space.saturating_sub(self.used()))
    }

    fn check_dir(&self, path: &Path) -> io::Result<()> {
        let is_there = path.parent().is_some_and(|dir| self.dirs.contains(dir));
        is_there.then_some(()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn check_new(&self, path: &Path) -> io::Result<()> {
        self.check_dir(path)?;
        let is_taken = self.names.contains_key(path) || self.dirs.contains(path);
        if is_taken { Err(ErrorKind::AlreadyExists.into()) } else { Ok(()) }
    }

    fn inode(&self, path: &Path) -> io::Result<Inode> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Makes a file longer, as far as there is space. Returns its new length.
    fn grow(&mut self, inode: Inode, len: u64) -> u64 {
        let now = self.files[inode].len() as u64;
        let len = len.min(now.saturating_add(self.free())).max(now);
        self.files[inode].resize(to_index(len), 0);
        len
    }
}

/// Converts an offset: a file in memory can't be longer than memory.
fn to_index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &Path, direct: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.faults.check(DiskOp::Create, path)?;
        state.check_new(path)?;
        let inode = state.files.len();
        state.files.push(Vec::new());
        state.names.insert(path.to_owned(), inode);
        state.journal.push(Event::Create(path.to_owned()));
        Ok(self.file(inode, path, FileAccess { write: true, direct }))
    }

    fn open(&self, path: &Path, how: FileAccess) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.faults.check(DiskOp::Open, path)?;
        let inode = state.inode(path)?;
        Ok(self.file(inode, path, how))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.faults.check(DiskOp::Rename, from)?;
        let inode = state.inode(from)?;
        state.check_dir(to)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), inode);
        state.journal.push(Event::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.faults.check(DiskOp::Remove, path)?;
        state.inode(path)?;
        state.names.remove(path);
        state.journal.push(Event::Remove(path.to_owned()));
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.faults.check(DiskOp::Link, from)?;
        let inode = state.inode(from)?;
        state.check_new(to)?;
        state.names.insert(to.to_owned(), inode);
        state.journal.push(Event::Link(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        if !state.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let all: BTreeSet<_> = state.names.keys().chain(&state.dirs).collect();
        Ok(all.into_iter().filter(|path| path.parent() == Some(dir)).cloned().collect())
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.names.contains_key(dir) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if !state.dirs.contains(dir) {
            state.check_dir(dir)?;
            state.dirs.insert(dir.to_owned());
            state.journal.push(Event::MakeDir(dir.to_owned()));
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.faults.check(DiskOp::SyncDir, dir)?;
        if !state.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        state.journal.push(Event::SyncDir(dir.to_owned()));
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.state();
        state.check_dir(path)?;
        if !state.locked.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Held { disk: self.clone(), path: path.to_owned() }))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let state = self.state();
        if state.dirs.contains(dir) { Ok(state.free()) } else { Err(ErrorKind::NotFound.into()) }
    }
}

/// A held lock.
struct Held {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    inode: Inode,
    path: PathBuf,
    how: FileAccess,
}

impl SimulatedFile {
    fn check(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.how.direct { check_aligned(bytes, offset) } else { Ok(()) }
    }

    fn check_writable(&self) -> io::Result<()> {
        let error = || io::Error::new(ErrorKind::PermissionDenied, "the file is open for reading");
        self.how.write.then_some(()).ok_or_else(error)
    }
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(bytes, offset)?;
        let mut state = self.disk.state();
        state.counts[0] += 1;
        state.faults.check(DiskOp::Read, &self.path)?;
        let from = to_index(offset);
        let there = state.files[self.inode].get(from..from.saturating_add(bytes.len()));
        let there = there.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        bytes.copy_from_slice(there);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check(bytes, offset)?;
        self.check_writable()?;
        let mut state = self.disk.state();
        state.counts[1] += 1;
        state.faults.check(DiskOp::Write, &self.path)?;
        let end = offset + bytes.len() as u64;
        let end = end.min(state.grow(self.inode, end));
        let fits = to_index(end.saturating_sub(offset));
        let from = to_index(offset);
        if fits > 0 {
            state.files[self.inode][from..from + fits].copy_from_slice(&bytes[..fits]);
            state.journal.push(Event::Write(self.inode, offset, bytes[..fits].into()));
        }
        if fits < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.counts[2] += 1;
        let covers = state.journal.len();
        state.syncs_waiting += 1;
        self.disk.0.changed.notify_all();
        while state.syncs_are_held {
            self.disk.0.changed.wait(&mut state);
        }
        state.syncs_waiting -= 1;
        let synced = state.faults.check(DiskOp::Sync, &self.path);
        let event = if synced.is_ok() { Event::Sync } else { Event::SyncFailed };
        state.journal.push(event(self.inode, covers));
        synced
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.inode].len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.state();
        state.faults.check(DiskOp::Resize, &self.path)?;
        state.files[self.inode].truncate(to_index(len));
        let got = state.grow(self.inode, len);
        state.journal.push(Event::SetLen(self.inode, got));
        if got < len { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.len()? < len { self.set_len(len) } else { self.check_writable() }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
