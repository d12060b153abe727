//! What other threads leave for a worker: new connections, and calls for connections that have something to send.

use super::roster::Seat;
use crate::settings::ClientCerts;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;

/// New connections for one worker, and connections of its own that something waits for.
pub(crate) struct Mailbox {
    arrivals: Mutex<Vec<Arrival>>,
    /// Places of connections whose feed has something.
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

    /// Asks for a connection to be served though its socket says nothing.
    pub(crate) fn call(&self, place: usize) {
        self.calls.lock().push(place);
        self.bell.ring();
    }

    /// The connections that are to be served.
    pub(crate) fn take_calls(&self) -> Vec<usize> {
        std::mem::take(&mut self.calls.lock())
    }

    /// Empties the mailbox; rings before are answered by it.
    pub(crate) fn take(&self) -> Vec<Arrival> {
        self.bell.silence();
        std::mem::take(&mut self.arrivals.lock())
    }
}

/// A connection on its way to a worker.
pub(crate) struct Arrival {
    pub(crate) socket: OwnedFd,
    pub(crate) seat: Arc<Seat>,
    /// What TLS asks of the client; `None`: no TLS.
    pub(crate) tls: Option<ClientCerts>,
}

/// An event that can wait in an epoll.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes the thread that waits for it, until it is silenced.
    pub(crate) fn ring(&self) {
        // Any number rings; it fails only while one waits that is nearly 2^64.
        let _ = rustix::io::write(&self.0, &1u64.to_le_bytes());
    }

    pub(crate) fn silence(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }

    /// Whether it has rung and not been silenced since.
    pub(crate) fn has_rung(&self) -> bool {
        let mut fd = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fd, Some(&Timespec::default())).is_ok_and(|rung| rung > 0)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
