//! `--disk-max`: a disk that reports at most as much free space as the flag leaves.
//!
//! The store takes no value while less than its reserve is free. The free space reported here is the lesser of two: what
//! the file system has free, and what the flag leaves after the files that exist.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use guira_disk::{Disk, DiskFile, FileAccess, System};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Limited(pub(crate) u64);

impl Disk for Limited {
    fn create(&self, path: &Path, direct: bool) -> io::Result<Arc<dyn DiskFile>> {
        System.create(path, direct)
    }

    fn open(&self, path: &Path, how: FileAccess) -> io::Result<Arc<dyn DiskFile>> {
        System.open(path, how)
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
        Ok(System.free_bytes(dir)?.min(self.0.saturating_sub(used(dir)?)))
    }
}

/// Bytes of the files in a folder. A file that is removed meanwhile counts as empty.
pub(crate) fn used(dir: &Path) -> io::Result<u64> {
    let paths = System.list(dir)?;
    let lengths = paths.iter().filter_map(|path| fs::metadata(path).ok());
    Ok(lengths.filter(fs::Metadata::is_file).map(|file| file.len()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_take_from_what_the_flag_leaves() {
        let folder = tempfile::tempdir().expect("a folder");
        let free = |bytes_max| Limited(bytes_max).free_bytes(folder.path()).expect("a number");
        assert_eq!(free(5000), 5000);
        fs::write(folder.path().join("a"), [0; 3000]).expect("a file");
        assert_eq!((free(5000), free(1000)), (2000, 0));
        assert_eq!(free(u64::MAX), System.free_bytes(folder.path()).expect("a number"));
    }
}
