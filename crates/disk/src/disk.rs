//! What a store asks of a file system, as traits: the real one and the simulated one keep the same contract.
//!
//! # Contract
//! 1. `read_at` and `write_at` move all bytes or fail. They go on after a signal and after a short transfer.
//! 2. What was written is durable once a later `sync_data` of the file succeeded. After one failed, what was not durable
//!    may be lost although it can still be read, and a later success says nothing about it.
//! 3. A name that was created, renamed, linked or removed is durable once a later `sync_dir` of its folder succeeded.
//!    Until then it may be there or not, independent of other names.
//! 4. A file opened with `direct` wants offsets, lengths and addresses in multiples of [`BLOCK`](crate::BLOCK), even
//!    where the file system knows no direct I/O and the file is read through its cache.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAccess {
    /// For writing too.
    pub write: bool,
    /// Past the system's page cache, where the file system can. See the module's fourth rule.
    pub direct: bool,
}

/// A file system, or a model of one. Object safe: stores hold an `Arc<dyn Disk>`.
pub trait Disk: Send + Sync + 'static {
    /// A new file, readable and writable by its owner alone; fails with `AlreadyExists`.
    fn create(&self, path: &Path, direct: bool) -> io::Result<Arc<dyn DiskFile>>;

    /// A file that exists.
    fn open(&self, path: &Path, how: FileAccess) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name in place of what has that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a name away. The file is freed once nobody has it open.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Gives a file one more name; fails with `AlreadyExists`.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Paths of all that is in a folder, in order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// A folder for its owner alone; succeeds if it is there.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks a file, made if it isn't there, until the result is dropped; fails with `WouldBlock` if somebody has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Bytes that this process may still allocate there.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// An open file. All methods may be called from several threads at once.
pub trait DiskFile: Send + Sync {
    /// Fills `bytes` from `offset`; fails with `UnexpectedEof` if the file ends before.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes what was written, and the length, durable: `fdatasync`.
    fn sync_data(&self) -> io::Result<()>;

    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;

    /// True if no byte is in the file.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or makes it longer by zeroes that take no space.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Takes space for `len` bytes ahead of use and makes the file at least as long; new bytes are zeroes.
    ///
    /// Where the file system can't, the file becomes longer without the space.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// For `io_uring`; `None` if only the methods above can read it.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// The error of rule 4: a request of a direct file that isn't in whole blocks.
pub(crate) fn check_aligned(bytes: &[u8], offset: u64) -> io::Result<()> {
    let block = crate::BLOCK;
    let whole = offset.is_multiple_of(block as u64)
        && bytes.len().is_multiple_of(block)
        && bytes.as_ptr().align_offset(block) == 0;
    let complaint =
        || format!("a direct file wants multiples of {block}: {} bytes at {offset}", bytes.len());
    whole.then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, complaint()))
}
