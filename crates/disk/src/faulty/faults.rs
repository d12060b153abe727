//! Which call fails, when, and how.

use rustix::io::Errno;
use std::io;
use std::path::Path;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// `create`.
    Create,
    /// `open`.
    Open,
    /// `rename`.
    Rename,
    /// `remove`.
    Remove,
    /// `link`.
    Link,
    /// `sync_dir`.
    SyncDir,
    /// `read_at`.
    Read,
    /// `write_at`.
    Write,
    /// `sync_data`.
    Sync,
    /// `set_len` and `allocate`.
    Resize,
}

/// Calls that shall fail: those of a kind, on paths with a part of this name.
#[derive(Clone, Debug)]
pub struct Injected {
    /// The kind of call.
    pub op: DiskOp,
    /// What the file's name contains; all do if it is empty.
    pub name: String,
    /// So many calls succeed before.
    pub skip: usize,
    /// So many fail, and then they succeed again.
    pub times: usize,
    /// The system's number of the error: 5 is `EIO`, 28 `ENOSPC`. 0 is a read that comes short.
    pub errno: i32,
}

impl Injected {
    /// The next call of the kind on any file fails, once.
    #[must_use]
    pub fn once(op: DiskOp, errno: i32) -> Self {
        Self { op, name: String::new(), skip: 0, times: 1, errno }
    }
}

/// All that was injected and not used up.
#[derive(Default)]
pub(super) struct Faults(Vec<Injected>);

impl Faults {
    pub(super) fn add(&mut self, fault: Injected) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Fails if a fault is for this call.
    pub(super) fn check(&mut self, op: DiskOp, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(fault) = self.0.iter_mut().find(|it| {
            it.op == op && name.contains(it.name.as_str()) && (it.skip > 0 || it.times > 0)
        }) else {
            return Ok(());
        };
        if fault.skip > 0 {
            fault.skip -= 1;
            return Ok(());
        }
        fault.times -= 1;
        Err(match fault.errno {
            0 => io::ErrorKind::UnexpectedEof.into(),
            number => Errno::from_raw_os_error(number).into(),
        })
    }
}
