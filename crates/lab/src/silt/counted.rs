//! The system's disk with counters of the requests to it: independent evidence for the figures that a store reports.
//!
//! A *read* is a call of `read_at`. *Written* are blocks of 4 KiB: each block that was written to between two syncs of
//! its file counts once, because the page cache holds it until then. Unwritten holes don't count.
//!
//! # Weaknesses
//! The system may write a block back before its sync, and then once more; that isn't seen. Files opened for direct I/O
//! are read through the page cache: reads are counted here, not timed.

use guira_disk::{BLOCK, Disk, DiskFile, FileAccess, System};
use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module's head. A clone counts together with the original.
#[derive(Clone, Default)]
pub(super) struct CountedDisk {
    totals: Arc<DiskTotals>,
}

/// Of all files.
#[derive(Default)]
struct DiskTotals {
    reads: AtomicU64,
    blocks: AtomicU64,
}

impl CountedDisk {
    /// Reads so far.
    pub(super) fn reads(&self) -> u64 {
        self.totals.reads.load(Relaxed)
    }

    /// Bytes of the blocks written so far.
    pub(super) fn written_bytes(&self) -> u64 {
        self.totals.blocks.load(Relaxed) * BLOCK as u64
    }

    fn counted(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(CountedFile { file, totals: self.totals.clone(), dirty: Mutex::default() })
    }
}

impl Disk for CountedDisk {
    fn create(&self, path: &Path, _direct: bool) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.counted(System.create(path, false)?))
    }

    fn open(&self, path: &Path, how: FileAccess) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.counted(System.open(path, FileAccess { direct: false, ..how })?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        System.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        System.remove(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        System.link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        System.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        System.make_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        System.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        System.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        System.free_bytes(dir)
    }
}

struct CountedFile {
    file: Arc<dyn DiskFile>,
    totals: Arc<DiskTotals>,
    /// Blocks written to since the last sync.
    dirty: Mutex<HashSet<u64>>,
}

impl CountedFile {
    fn dirty(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_back(&self) {
        let blocks = std::mem::take(&mut *self.dirty()).len();
        self.totals.blocks.fetch_add(blocks as u64, Relaxed);
    }
}

impl DiskFile for CountedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.totals.reads.fetch_add(1, Relaxed);
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let block = BLOCK as u64;
        self.dirty().extend(offset / block..(offset + bytes.len() as u64).div_ceil(block));
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.write_back();
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}

/// Blocks that were never synced are written back anyway.
impl Drop for CountedFile {
    fn drop(&mut self) {
        self.write_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_count_each_and_blocks_once_between_two_syncs() {
        let path = std::env::temp_dir().join(format!("guira-lab-counted-{}", std::process::id()));
        let disk = CountedDisk::default();
        let file = disk.create(&path, true).unwrap();
        let blocks = || disk.written_bytes() / BLOCK as u64;
        // Three blocks, one of them twice, and a hole.
        for (offset, bytes) in [(0, 10), (20, 10), (4000, 200), (3 * 4096, 4096)] {
            file.write_at(&vec![7; bytes], offset).unwrap();
        }
        assert_eq!(blocks(), 0);
        file.sync_data().unwrap();
        assert_eq!(blocks(), 3);
        file.write_at(&[7], 0).unwrap();
        file.write_at(&[], 8192).unwrap();
        drop(file);
        assert_eq!(blocks(), 4);
        let file = disk.open(&path, FileAccess { write: false, direct: true }).unwrap();
        file.read_at(&mut [0; 3], 1).unwrap();
        file.read_at(&mut [0; 3], 1).unwrap();
        assert_eq!((disk.reads(), file.len().unwrap()), (2, 4 * 4096));
        disk.remove(&path).unwrap();
    }
}
