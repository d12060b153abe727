//! Mailboxes: new connections for a worker, and calls for connections that have something to send, from other threads.

use super::roster::Seat;
use crate::settings::ClientCerts;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;

/// A worker's new connections, and its connections that have been called.
pub(crate) struct Mailbox {
    arrivals: Mutex<Vec<Arrival>>,
    /// Places of connections whose feed holds something.
    calls: Mutex<Vec<usize>>,
    pub(crate) bell: Bell,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        Ok(Mailbox { arrivals: Mutex::default(), calls: Mutex::default(), bell: Bell::new()? })
    }

    pub(crate) fn put(&self, arrival: Arrival) {
        self.arrivals.lock().push(arrival);
        self.bell.ring();
    }

    /// Asks the worker to serve a connection even though its socket isn't ready.
    pub(crate) fn call(&self, place: usize) {
        self.calls.lock().push(place);
        self.bell.ring();
    }

    /// Takes the places of the connections that were called.
    pub(crate) fn take_calls(&self) -> Vec<usize> {
        std::mem::take(&mut self.calls.lock())
    }

    /// Silences the bell and takes the new connections.
    pub(crate) fn take(&self) -> Vec<Arrival> {
        self.bell.silence();
        std::mem::take(&mut self.arrivals.lock())
    }
}

/// A connection on its way to a worker.
pub(crate) struct Arrival {
    pub(crate) socket: OwnedFd,
    pub(crate) seat: Arc<Seat>,
    /// What TLS demands of the client; `None`: no TLS.
    pub(crate) tls: Option<ClientCerts>,
}

/// An event that an epoll can wait for.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes the waiting thread, until [`Bell::silence`] is called.
    pub(crate) fn ring(&self) {
        // Any number rings. The write fails only if the counter is near 2^64, and then the bell rings already.
        let _ = rustix::io::write(&self.0, &1u64.to_le_bytes());
    }

    pub(crate) fn silence(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }

    /// Whether the bell has rung and wasn't silenced since.
    pub(crate) fn has_rung(&self) -> bool {
        let mut fd = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fd, Some(&Timespec::default())).is_ok_and(|rung| rung > 0)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
