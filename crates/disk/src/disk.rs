//! The file system interface of a store, as traits: the real and the simulated implementation keep the same contract.
//!
//! # Contract
//! 1. `read_at` and `write_at` transfer all bytes or fail. They continue after a signal and after a short transfer.
//! 2. What was written is durable once a later `sync_data` of the file has succeeded. After a failed one, data that
//!    wasn't durable may be lost although it can still be read, and a later success doesn't show that it is durable.
//! 3. A name that was created, renamed, linked or removed is durable once a later `sync_dir` of its folder has
//!    succeeded. Until then the change may be found or not, independently of other names.
//! 4. A file opened with `direct` requires offsets, lengths and addresses in multiples of [`BLOCK`](crate::BLOCK), even
//!    if the file system doesn't support direct I/O and the file is read through its cache.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAccess {
    /// Whether the file may be written, too.
    pub write: bool,
    /// Whether to bypass the system's page cache, if the file system can. See rule 4 of the module.
    pub direct: bool,
}

/// A file system, or a model of one. Object safe: stores hold an `Arc<dyn Disk>`.
pub trait Disk: Send + Sync + 'static {
    /// Creates a file, readable and writable by its owner only. Fails with `AlreadyExists`.
    fn create(&self, path: &Path, direct: bool) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file.
    fn open(&self, path: &Path, how: FileAccess) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file, and replaces a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. The file is freed once it is closed everywhere.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Gives a file an additional name. Fails with `AlreadyExists`.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Returns the paths of everything in a folder, in order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// Creates a folder for its owner only. Succeeds if the folder exists.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks a file, creating it if needed, until the result is dropped. Fails with `WouldBlock` if it is locked already.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Returns the bytes that this process may still allocate there.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// An open file. All methods may be called from several threads at once.
pub trait DiskFile: Send + Sync {
    /// Fills `bytes` from `offset`. Fails with `UnexpectedEof` if the file ends earlier.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes everything that was written, and the length, durable: `fdatasync`.
    fn sync_data(&self) -> io::Result<()>;

    /// Returns the length of the file in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Truncates the file, or extends it by zeros that take no space.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Allocates space for `len` bytes in advance, and makes the file at least as long. New bytes are zeros.
    ///
    /// If the file system can't allocate, the file is extended without the space.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// The descriptor for `io_uring`; `None` if the file can only be read by the methods above.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// Returns the error of rule 4 for a request to a direct file that isn't in whole blocks.
pub(crate) fn check_aligned(bytes: &[u8], offset: u64) -> io::Result<()> {
    let block = crate::BLOCK;
    let whole = offset.is_multiple_of(block as u64)
        && bytes.len().is_multiple_of(block)
        && bytes.as_ptr().align_offset(block) == 0;
    let complaint =
        || format!("a direct file wants multiples of {block}: {} bytes at {offset}", bytes.len());
    whole.then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, complaint()))
}
