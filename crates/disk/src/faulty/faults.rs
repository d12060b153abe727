//! Fault injection: which call fails, when, and how.

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

/// A fault to inject: calls of one kind fail, on files whose names contain a given part.
#[derive(Clone, Debug)]
pub struct Injected {
    /// The kind of call.
    pub op: DiskOp,
    /// The part that the file's name contains; empty: any name.
    pub name: String,
    /// The number of calls that succeed first.
    pub skip: usize,
    /// The number of calls that fail then; later calls succeed again.
    pub times: usize,
    /// The error number: 5 is `EIO`, 28 is `ENOSPC`. 0 is a short read.
    pub errno: i32,
}

impl Injected {
    /// The next call of this kind fails, on any file, once.
    #[must_use]
    pub fn once(op: DiskOp, errno: i32) -> Self {
        Self { op, name: String::new(), skip: 0, times: 1, errno }
    }
}

/// The faults that were injected and aren't used up.
#[derive(Default)]
pub(super) struct Faults(Vec<Injected>);

impl Faults {
    pub(super) fn add(&mut self, fault: Injected) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Fails if a fault applies to this call.
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
