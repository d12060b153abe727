//! Asynchronous reads of one thread, which learns of completions by a descriptor that it can poll.
//!
//! There are two implementations with one contract: the kernel's ring (`reads/ring.rs`), and threads that call `pread`
//! (`reads/pool.rs`). [`Reads::open`] asks the kernel which one it may use: containers often forbid `io_uring`, and old
//! kernels lack it.
//!
//! # Contract
//! 1. A read that was submitted and flushed completes once, in [`Reads::reap`], with its tag and a full buffer or an
//!    error.
//! 2. Reads complete in any order. Tags are the caller's, and need not differ.
//! 3. While a completion hasn't been reaped, the descriptor is readable. It may also be readable when there is none.
//! 4. Dropping [`Reads`] discards reads in flight. With the ring, it waits until the kernel has released their buffers.
//!
//! # Costs
//! Submitting a read without a flush costs no system call. Reads beyond the depth wait in a queue, in order.

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

/// The reads in flight of one thread. See the module's head.
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
    /// Creates a reader with up to `depth` reads at once by `io_uring`. If the kernel refuses that, `threads` do all
    /// reads.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub fn open(depth: u32, threads: &Arc<ReadThreads>) -> io::Result<Self> {
        Self::by_ring(depth).or_else(|_| Self::by_pool(threads))
    }

    /// Creates a reader with up to `depth` reads at once by `io_uring`.
    ///
    /// # Errors
    /// If the kernel has no `io_uring`, or refuses it to this process.
    pub fn by_ring(depth: u32) -> io::Result<Self> {
        Ok(Self { way: Way::Ring(Ring::open(depth)?), under_way: 0 })
    }

    /// Creates a reader that uses threads, which several `Reads` may share.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub fn by_pool(threads: &Arc<ReadThreads>) -> io::Result<Self> {
        Ok(Self { way: Way::Pool(Inbox::open(threads)?), under_way: 0 })
    }

    /// Returns `ring` or `pool`, for statistics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.way {
            Way::Ring(_) => "ring",
            Way::Pool(_) => "pool",
        }
    }

    /// Submits a read that fills all of `buffer` from `offset`. It begins with the next [`Reads::flush`].
    pub fn submit(&mut self, tag: u64, file: Arc<dyn DiskFile>, buffer: Buffer, offset: u64) {
        self.under_way += 1;
        let read = Read { tag, file, buffer, offset };
        match &mut self.way {
            Way::Ring(ring) => ring.submit(read),
            Way::Pool(inbox) => inbox.submit(read),
        }
    }

    /// Begins the submitted reads.
    ///
    /// # Errors
    /// If the kernel refuses the ring's queue. No read is lost: the next flush tries again.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Ring(ring) => ring.flush(),
            Way::Pool(inbox) => {
                inbox.flush();
                Ok(())
            }
        }
    }

    /// The descriptor that is readable when something can be reaped.
    #[must_use]
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        match &self.way {
            Way::Ring(ring) => ring.event_fd(),
            Way::Pool(inbox) => inbox.event_fd(),
        }
    }

    /// Passes each completed read, with its buffer, to `each`.
    ///
    /// # Errors
    /// If the kernel refuses to begin reads that were waiting for room; see [`Reads::flush`].
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

    /// Waits until something may be reaped. Returns at once if nothing is in flight.
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

    /// The number of reads that were submitted and not reaped.
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
