//! A read that was asked for, and how it ends.

use crate::{Buffer, DiskFile};
use std::io;
use std::sync::Arc;

/// A read that was asked for.
pub(super) struct Read {
    pub(super) tag: u64,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) buffer: Buffer,
    pub(super) offset: u64,
}

/// A read that has ended.
pub(super) type Ended = (u64, io::Result<Buffer>);

impl Read {
    /// Does it, on this thread.
    pub(super) fn run(mut self) -> Ended {
        let read = self.file.read_at(&mut self.buffer, self.offset);
        (self.tag, read.map(|()| self.buffer))
    }
}
