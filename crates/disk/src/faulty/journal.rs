//! All that happened to a disk, in order.

use std::path::PathBuf;
use std::sync::Arc;

/// A file's number: the order in which files were made.
pub(super) type Inode = usize;

/// What happened.
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
    /// Covers what happened before this many events: what is written while it runs waits for the next.
    Sync(Inode, usize),
    SyncFailed(Inode, usize),
}

/// All that happened to a disk, in order.
#[derive(Clone)]
pub struct Journal(pub(super) Vec<Event>);

impl Journal {
    /// Events so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing happened yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
