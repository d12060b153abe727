//! Who is connected: what `stats conns` shows of every socket, whichever thread serves it.
//!
//! A worker writes two relaxed atomics of its own connections; the map is locked when a connection
//! comes or goes and by `stats conns`.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::sockets::name_of;

/// All sockets of the server by descriptor.
#[derive(Default)]
pub(crate) struct Roster {
    seats: Mutex<BTreeMap<RawFd, Arc<Seat>>>,
}

/// What is known about one socket.
pub(crate) struct Seat {
    peer: Peer,
    doing: AtomicU8,
    last_request_s: AtomicU32,
}

/// The other end of a socket, or the socket's own name.
pub(crate) enum Peer {
    /// A socket of ours.
    Own(Arc<str>),
    /// A client over TCP, and the socket that it came to.
    Tcp { from: SocketAddr, to: Arc<str> },
    /// A client over the unix socket.
    Unix { to: Arc<str> },
}

/// What a connection waits for or does; names are memcached's connection states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Doing {
    Listening,
    /// Waits for a request.
    Reading,
    /// Waits for the body of a storage request.
    ReadingBody,
    /// Throws the body of a refused request away.
    Swallowing,
    /// Waits for the client to read.
    Writing,
}

impl Roster {
    pub(crate) fn enter(&self, fd: RawFd, peer: Peer, doing: Doing, now: u32) -> Arc<Seat> {
        let seat = Arc::new(Seat {
            peer,
            doing: AtomicU8::new(doing as u8),
            last_request_s: AtomicU32::new(now),
        });
        self.seats.lock().insert(fd, Arc::clone(&seat));
        seat
    }

    pub(crate) fn leave(&self, fd: RawFd) {
        self.seats.lock().remove(&fd);
    }

    /// Calls `show` for each socket, by rising descriptor.
    pub(crate) fn each(&self, mut show: impl FnMut(RawFd, &Seat)) {
        for (&fd, seat) in self.seats.lock().iter() {
            show(fd, seat);
        }
    }
}

impl Seat {
    pub(crate) fn set_doing(&self, doing: Doing) {
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    pub(crate) fn set_last_request(&self, now: u32) {
        self.last_request_s.store(now, Ordering::Relaxed);
    }

    pub(crate) fn last_request(&self) -> u32 {
        self.last_request_s.load(Ordering::Relaxed)
    }

    /// Whether an idle timeout applies: memcached exempts unix sockets.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.peer, Peer::Tcp { .. })
    }

    /// The address of the other end, or of the socket itself if it is ours.
    pub(crate) fn address(&self) -> String {
        match &self.peer {
            Peer::Own(name) => name.to_string(),
            Peer::Tcp { from, .. } => name_of("tcp", *from),
            // A client's unix socket has no name; memcached shows the server's.
            Peer::Unix { to } => to.to_string(),
        }
    }

    /// The socket of ours that it came to.
    pub(crate) fn listening(&self) -> Option<&str> {
        match &self.peer {
            Peer::Own(_) => None,
            Peer::Tcp { to, .. } | Peer::Unix { to } => Some(to),
        }
    }

    /// memcached's name of the state.
    pub(crate) fn state(&self) -> &'static str {
        const NAMES: [&str; 5] =
            ["conn_listening", "conn_read", "conn_nread", "conn_swallow", "conn_mwrite"];
        NAMES[usize::from(self.doing.load(Ordering::Relaxed))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_shown_by_rising_descriptor_until_they_leave() {
        let roster = Roster::default();
        let to: Arc<str> = "tcp:127.0.0.1:11211".into();
        let from = "[::1]:4000".parse().unwrap();
        roster.enter(9, Peer::Tcp { from, to: Arc::clone(&to) }, Doing::Reading, 7);
        roster.enter(3, Peer::Own(Arc::clone(&to)), Doing::Listening, 2);
        roster.enter(5, Peer::Unix { to }, Doing::Writing, 2);
        roster.leave(5);
        let mut seen = Vec::new();
        roster.each(|fd, seat| {
            seen.push((fd, seat.address(), seat.state(), seat.listening().map(str::to_owned)));
        });
        let own = "tcp:127.0.0.1:11211".to_owned();
        assert_eq!(
            seen,
            [
                (3, own.clone(), "conn_listening", None),
                (9, "tcp6:[::1]:4000".to_owned(), "conn_read", Some(own)),
            ]
        );
    }
}
