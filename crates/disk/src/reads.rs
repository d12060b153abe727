//! Many reads under way for one thread, which learns of their ends by a descriptor that it can poll.
//!
//! Two ways, one contract: the kernel's ring (`reads/ring.rs`), or threads that call `pread` (`reads/pool.rs`).
//! [`Reads::open`] asks the kernel which it may use: containers often forbid `io_uring`, and old kernels lack it.
//!
//! # Contract
//! 1. A read that was submitted and flushed ends, once, in [`Reads::reap`], with its tag: a full buffer, or an error.
//! 2. The order of ends is any order. Tags are the caller's, and need not differ.
//! 3. After an end that wasn't reaped yet, the descriptor is readable. It may also be readable for nothing.
//! 4. Dropping [`Reads`] discards reads that are under way. By the ring it waits for the kernel to let go of their buffers.
//!
//! # Costs
//! A read that is submitted but not flushed costs no system call. More reads than the depth wait inside, in order.

#[expect(unsafe_code, reason = "the one place: the kernel fills buffers that the ring owns")]
mod ring;
mod pool;
mod wake;
mod asked;

pub use pool::ReadThreads;

use crate::{Buffer, DiskFile};
use asked::Read;
use pool::Inbox;
use ring::Ring;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Reads in flight, of one thread. See the module's head.
pub struct Reads {
    way: Way,
    under_way: usize,
}

// A ring is large, but there is one `Reads` per thread.
#[expect(clippy::large_enum_variant, reason = "one per thread; a box would cost each read a look")]
enum Way {
    Ring(Ring),
    Pool(Inbox),
}

impl Reads {
    /// Up to `depth` reads at once by `io_uring`, or where the kernel refuses that, all by `threads`.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub fn open(depth: u32, threads: &Arc<ReadThreads>) -> io::Result<Self> {
        Self::by_ring(depth).or_else(|_| Self::by_pool(threads))
    }

    /// Up to `depth` reads at once by `io_uring`.
    ///
    /// # Errors
    /// If the kernel has no `io_uring`, or refuses it to this process.
    pub fn by_ring(depth: u32) -> io::Result<Self> {
        Ok(Self { way: Way::Ring(Ring::open(depth)?), under_way: 0 })
    }

    /// Reads by threads that several `Reads` may share.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub fn by_pool(threads: &Arc<ReadThreads>) -> io::Result<Self> {
        Ok(Self { way: Way::Pool(Inbox::open(threads)?), under_way: 0 })
    }

    /// `ring` or `pool`, for statistics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.way {
            Way::Ring(_) => "ring",
            Way::Pool(_) => "pool",
        }
    }

    /// Takes a read in: it fills all of `buffer` from `offset`. It begins with the next [`Reads::flush`].
    pub fn submit(&mut self, tag: u64, file: Arc<dyn DiskFile>, buffer: Buffer, offset: u64) {
        self.under_way += 1;
        let read = Read { tag, file, buffer, offset };
        match &mut self.way {
            Way::Ring(ring) => ring.submit(read),
            Way::Pool(inbox) => inbox.submit(read),
        }
    }

    /// Begins what was submitted.
    ///
    /// # Errors
    /// If the kernel refuses the ring's queue. Nothing is lost: the next flush tries again.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Ring(ring) => ring.flush(),
            Way::Pool(inbox) => {
                inbox.flush();
                Ok(())
            }
        }
    }

    /// Readable when something can be reaped.
    #[must_use]
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        match &self.way {
            Way::Ring(ring) => ring.event_fd(),
            Way::Pool(inbox) => inbox.event_fd(),
        }
    }

    /// Gives out each read that has ended, with its buffer.
    ///
    /// # Errors
    /// If the kernel refuses to begin reads that had waited for room; see [`Reads::flush`].
    pub fn reap(&mut self, each: &mut dyn FnMut(u64, io::Result<Buffer>)) -> io::Result<()> {
        let (ended, flushed) = match &mut self.way {
            Way::Ring(ring) => ring.reap(),
            Way::Pool(inbox) => (inbox.reap(), Ok(())),
        };
        self.under_way -= ended.len();
        for (tag, read) in ended {
            each(tag, read);
        }
        flushed
    }

    /// Waits until something may be reaped; returns at once if nothing is under way.
    ///
    /// # Errors
    /// If the descriptor can't be polled.
    pub fn wait(&self) -> io::Result<()> {
        if self.under_way == 0 {
            return Ok(());
        }
        loop {
            let event = self.event_fd();
            match rustix::event::poll(&mut [PollFd::new(&event, PollFlags::IN)], None) {
                Err(Errno::INTR) => {}
                polled => return Ok(polled.map(|_| ())?),
            }
        }
    }

    /// Reads that were submitted and not reaped.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reads by {}, {} under way", self.kind(), self.under_way)
    }
}
