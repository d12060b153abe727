//! Reads by the kernel's ring, `io_uring`.
//!
//! This is the crate's only unsafe code: the kernel writes to a buffer while no Rust code borrows it.
//!
//! # Invariants
//! 1. From the push of an entry until its completion is taken, its flight in `flights` owns the buffer and the file,
//!    and nothing accesses the buffer. So the memory stays allocated, and the descriptor stays this file's.
//! 2. A slot has at most one entry in the ring, and there are as many slots as the queue has entries. So a push always
//!    finds room.
//! 3. Dropping the ring waits for its flights. If the kernel refuses even that, their buffers are leaked instead of
//!    reused.
//!
//! A file without a descriptor (a simulated one) is read at once, on this thread.

use super::asked::{Ended, Read};
use super::wake::Wake;
use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(super) struct Ring {
    ring: IoUring,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    waiting: VecDeque<Flight>,
    ended: Vec<Ended>,
    wake: Wake,
}

/// A read, and how much of its buffer is filled.
struct Flight {
    read: Read,
    filled: usize,
}

impl Ring {
    /// Creates a ring, and checks that it can read.
    pub(super) fn open(depth: u32) -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(depth.clamp(1, DEPTH_MAX))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let wake = Wake::open()?;
        ring.submitter().register_eventfd(wake.fd().as_raw_fd())?;
        let slots = ring.params().sq_entries() as usize;
        let flights = (0..slots).map(|_| None).collect();
        let free = (0..slots).collect();
        let mut ring =
            Self { ring, flights, free, waiting: VecDeque::new(), ended: Vec::new(), wake };
        // A seccomp filter may allow creating the ring and forbid using it.
        ring.flush()?;
        Ok(ring)
    }

    pub(super) fn submit(&mut self, read: Read) {
        if read.file.fd().is_none() {
            self.ended.push(read.run());
            self.wake.signal();
        } else {
            self.waiting.push_back(Flight { read, filled: 0 });
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some(slot) = self.free.last().copied() {
            let Some(flight) = self.waiting.pop_front() else { break };
            self.free.pop();
            self.launch(slot, flight);
        }
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel lacks a resource for a moment: the pushed entries are submitted with the next call.
                Err(error) if is_busy(&error) && self.is_flying() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Pushes an entry for the unfilled part of the flight's buffer.
    fn launch(&mut self, slot: usize, mut flight: Flight) {
        let Some(fd) = flight.read.file.fd().map(|fd| types::Fd(fd.as_raw_fd())) else {
            return self.land(slot, flight, Err(Errno::BADF.into()));
        };
        let rest = &mut flight.read.buffer[flight.filled..];
        let len = u32::try_from(rest.len()).unwrap_or(LEN_MAX).min(LEN_MAX);
        let entry = opcode::Read::new(fd, rest.as_mut_ptr(), len)
            .offset(flight.read.offset + flight.filled as u64)
            .build()
            .user_data(slot as u64);
        // SAFETY: `rest` and the file of `fd` belong to `flight`. If the entry is pushed, `flights` keeps that until the
        // completion (invariant 1), and moving it there doesn't move the buffer's bytes. If not, the kernel sees no entry.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        match pushed {
            Ok(()) => self.flights[slot] = Some(flight),
            Err(full) => self.land(slot, flight, Err(io::Error::other(full))),
        }
    }

    /// Completes a flight and frees its slot.
    fn land(&mut self, slot: usize, flight: Flight, how: io::Result<()>) {
        self.free.push(slot);
        let Read { tag, buffer, .. } = flight.read;
        self.ended.push((tag, how.map(|()| buffer)));
    }

    /// Takes completions from the ring. A read that was short or interrupted continues.
    fn take_completions(&mut self) {
        loop {
            let Some(entry) = self.ring.completion().next() else { return };
            let slot = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
            let Some(mut flight) = self.flights.get_mut(slot).and_then(Option::take) else {
                continue;
            };
            match flight.after(entry.result()) {
                Progress::Ended(how) => self.land(slot, flight, how),
                Progress::GoesOn => self.launch(slot, flight),
            }
        }
    }

    /// Returns the completed reads, and whether the kernel accepted the reads that could begin in their place.
    pub(super) fn reap(&mut self) -> (Vec<Ended>, io::Result<()>) {
        self.wake.clear();
        self.take_completions();
        let flushed = self.flush();
        (std::mem::take(&mut self.ended), flushed)
    }

    pub(super) fn event_fd(&self) -> BorrowedFd<'_> {
        self.wake.fd()
    }

    fn is_flying(&self) -> bool {
        self.free.len() < self.flights.len()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.waiting.clear();
        while self.is_flying() {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted && !is_busy(&error) => {
                    // Invariant 3.
                    return std::mem::forget(std::mem::take(&mut self.flights));
                }
                _ => self.take_completions(),
            }
        }
    }
}

enum Progress {
    Ended(io::Result<()>),
    GoesOn,
}

impl Flight {
    /// Evaluates a completion's result.
    fn after(&mut self, result: i32) -> Progress {
        let Ok(count) = usize::try_from(result) else {
            return match Errno::from_raw_os_error(result.wrapping_neg()) {
                Errno::INTR | Errno::AGAIN => Progress::GoesOn,
                // A direct file may end inside a block. Then a read can't continue from its end, which isn't aligned.
                Errno::INVAL if self.filled > 0 => Progress::Ended(Err(eof())),
                error => Progress::Ended(Err(error.into())),
            };
        };
        self.filled += count;
        if self.filled == self.read.buffer.len() {
            Progress::Ended(Ok(()))
        } else if count == 0 {
            Progress::Ended(Err(eof()))
        } else {
            Progress::GoesOn
        }
    }
}

fn eof() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn is_busy(error: &io::Error) -> bool {
    [Errno::AGAIN, Errno::BUSY].iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}

/// More than any device has in flight.
const DEPTH_MAX: u32 = 4096;

/// The most bytes that one entry reads: whole blocks, and within the kernel's limit for one read.
const LEN_MAX: u32 = 1 << 30;
