//! The store's errors: what failed, where, and what to do next.
//!
//! A [`StoreError`] is cheap to clone, because one failed sync answers every write of its group. `Display` tells an
//! operator what to do. `KeyLength`, `ValueLength` and `Option` are the caller's mistakes. After any other error the
//! store keeps working as far as it can: reads after a failed sync, deletes when the disk is full, other blocks when
//! one is corrupt.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 65_535;
/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// Why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system refused `what`, for the file or directory `path`.
    Io {
        /// What was tried, as a verb: "read", "sync".
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// Another process, or another `Db` of this one, has the directory open.
    Locked(PathBuf),
    /// A file holds what the store never wrote.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The offset in the file, in bytes.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A file that another file names doesn't exist: one of the two is corrupt.
    Missing {
        /// The file.
        path: PathBuf,
        /// The file that names it.
        named_by: PathBuf,
    },
    /// A file has another format version, belongs to another store, or isn't a file of a store at all.
    Foreign {
        /// The file.
        path: PathBuf,
        /// Why it can't be used.
        what: &'static str,
    },
    /// The disk is full, or a write would use its reserve. Deletes and reads still work.
    NoSpace,
    /// A sync failed, so it is unknown what is on the disk. Reads still work; writes need the store to be reopened.
    ReadOnly,
    /// Merging lags so far behind that a write waited for longer than [`crate::Options::stall_max`].
    Stalled,
    /// [`crate::Options::alive`] panicked. Reads and writes still work; conversions and merges need the store to be
    /// reopened.
    Panicked,
    /// The opening was cancelled by [`crate::OpenProgress::cancel`]. The store is unchanged.
    Cancelled,
    /// The store is being closed.
    Closed,
    /// A key is empty or longer than [`KEY_BYTES_MAX`].
    KeyLength(usize),
    /// A value is longer than [`VALUE_BYTES_MAX`].
    ValueLength(usize),
    /// An option has an invalid value.
    Option(&'static str),
}

impl StoreError {
    /// Creates the error for a failed system call that tried to do `what`. A full disk becomes [`Self::NoSpace`].
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            _ => Self::Io { what, path: path.to_owned(), source: Arc::new(source) },
        }
    }

    /// Creates the error for corruption at `offset` of `path`.
    pub(crate) fn corrupt(path: &Path, offset: u64, what: &'static str) -> Self {
        Self::Corrupt { path: path.to_owned(), offset, what }
    }

    /// Turns "file not found" into [`Self::Missing`], with the file `named_by` that names it. Other errors stay as they
    /// are.
    pub(crate) fn missing_from(self, named_by: &Path) -> Self {
        match self {
            Self::Io { path, source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::Missing { path, named_by: named_by.to_owned() }
            }
            other => other,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, source } => {
                write!(f, "can't {what} {}: {source}", path.display())
            }
            Self::Locked(path) => {
                write!(f, "{} is open in another process: stop that one first", path.display())
            }
            Self::Corrupt { path, offset, what } => {
                write!(f, "{} is corrupt at byte {offset}: {what}", path.display())
            }
            Self::Missing { path, named_by } => {
                let (path, named_by) = (path.display(), named_by.display());
                write!(
                    f,
                    "{named_by} names {path}, which is missing: one of the two is damaged; restore a copy of the store"
                )
            }
            Self::Foreign { path, what } => {
                write!(f, "{} can't be used: {what}", path.display())
            }
            Self::NoSpace => f.write_str("no space is left on the disk; free some, or delete keys"),
            Self::ReadOnly => f.write_str(
                "the store is read-only because writing failed; repair the disk and reopen it",
            ),
            Self::Stalled => f.write_str("merging lags behind; write more slowly"),
            Self::Panicked => f.write_str(
                "the rule that says what is alive panicked, so logs and runs are merged no more; \
                 reopen the store",
            ),
            Self::Cancelled => f.write_str("the opening was called off; open the store again"),
            Self::Closed => f.write_str("the store is closed"),
            Self::KeyLength(len) => {
                write!(f, "a key of {len} bytes; 1 to {KEY_BYTES_MAX} are allowed")
            }
            Self::ValueLength(len) => write!(f, "a value of {len} bytes is too long"),
            Self::Option(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
