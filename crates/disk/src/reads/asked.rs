//! A requested read, and its result.

use crate::{Buffer, DiskFile};
use std::io;
use std::sync::Arc;

/// A requested read.
pub(super) struct Read {
    pub(super) tag: u64,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) buffer: Buffer,
    pub(super) offset: u64,
}

/// A completed read: its tag, and its buffer or an error.
pub(super) type Ended = (u64, io::Result<Buffer>);

impl Read {
    /// Does the read on this thread.
    pub(super) fn run(mut self) -> Ended {
        let read = self.file.read_at(&mut self.buffer, self.offset);
        (self.tag, read.map(|()| self.buffer))
    }
}
