//! An eventfd: a descriptor that is readable while something can be fetched.

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(super) struct Wake(OwnedFd);

impl Wake {
    pub(super) fn open() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(rustix::event::eventfd(0, flags)?))
    }

    /// Makes the descriptor readable. This can only fail if the counter is full, and then the descriptor is readable.
    pub(super) fn signal(&self) {
        // Any number except zero works, in any byte order.
        while rustix::io::write(&self.0, &1_u64.to_le_bytes()) == Err(Errno::INTR) {}
    }

    /// Makes the descriptor unreadable. A later signal makes it readable again.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        while rustix::io::read(&self.0, &mut count) == Err(Errno::INTR) {}
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
