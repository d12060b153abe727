//! The journal: everything that happened to a disk, in order.

use std::path::PathBuf;
use std::sync::Arc;

/// A file's number: files are numbered in the order of their creation.
pub(super) type Inode = usize;

/// An operation on the disk.
#[derive(Clone)]
pub(super) enum Event {
    MakeDir(PathBuf),
    Create(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncDir(PathBuf),
    Write(Inode, u64, Arc<[u8]>),
    SetLen(Inode, u64),
    /// Covers the events before this number: what is written while the sync runs waits for the next sync.
    Sync(Inode, usize),
    SyncFailed(Inode, usize),
}

/// Everything that happened to a disk, in order.
#[derive(Clone)]
pub struct Journal(pub(super) Vec<Event>);

impl Journal {
    /// The number of events so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing has happened yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
