//! The roster: all sockets, and what `stats conns` shows of each, whichever thread serves it.
//!
//! A worker stores relaxed atomics for its own connections; the charged bytes only when they change. The
//! map is locked when a connection opens or closes, and by `stats conns`.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// All sockets of the server, by descriptor.
#[derive(Default)]
pub(crate) struct Roster {
    seats: Mutex<Seats>,
}

#[derive(Default)]
struct Seats {
    by_fd: BTreeMap<RawFd, Arc<Seat>>,
    /// How many TCP connections each remote address has.
    connected: HashMap<IpAddr, usize>,
}

/// What is known about one socket.
pub(crate) struct Seat {
    peer: Peer,
    doing: AtomicU8,
    last_request_s: AtomicU32,
    /// Bytes that the connection is charged, by [`Held`].
    held: [AtomicUsize; Held::ALL.len()],
}

/// The budgets that count bytes held by connections (`process/budget.rs`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    Unfinished,
    Unsent,
    Backlog,
}

/// The other end of a socket, or the name of a socket of the server.
pub(crate) enum Peer {
    /// A socket of the server itself.
    Own(Arc<str>),
    /// A client over TCP, and the name of the socket that accepted it.
    Tcp { from: SocketAddr, to: Arc<str> },
    /// A client over the unix socket, and that socket's name.
    Unix { to: Arc<str> },
}

/// What a connection waits for or does. memcached has a connection state for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Doing {
    Listening,
    /// Waits for a request.
    Reading,
    /// Waits for the body of a storage request.
    ReadingBody,
    /// Discards the body of a refused request.
    Swallowing,
    /// Waits for the client to read.
    Writing,
    /// Is fed by another thread.
    Fed,
}

impl Roster {
    pub(crate) fn enter(&self, fd: RawFd, peer: Peer, doing: Doing, now: u32) -> Arc<Seat> {
        let seat = Arc::new(Seat {
            peer,
            doing: AtomicU8::new(doing as u8),
            last_request_s: AtomicU32::new(now),
            held: Default::default(),
        });
        let mut seats = self.seats.lock();
        if let Some(remote) = seat.peer.remote() {
            *seats.connected.entry(remote.ip()).or_default() += 1;
        }
        seats.by_fd.insert(fd, Arc::clone(&seat));
        seat
    }

    pub(crate) fn leave(&self, fd: RawFd) {
        let mut seats = self.seats.lock();
        let Some(remote) = seats.by_fd.remove(&fd).and_then(|seat| seat.peer.remote()) else {
            return;
        };
        let address = remote.ip();
        if let Some(count) = seats.connected.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                seats.connected.remove(&address);
            }
        }
    }

    /// Whether this address has a connection over TCP, which proves that the address is the client's own.
    pub(crate) fn is_connected(&self, address: IpAddr) -> bool {
        self.seats.lock().connected.contains_key(&address)
    }

    /// Returns the first `n` sockets from descriptor `first` on, in ascending order. The caller formats
    /// them without the lock, because connections that open or close, and other listings, wait for it.
    pub(crate) fn from(&self, first: RawFd, n: usize) -> Vec<(RawFd, Arc<Seat>)> {
        let seats = self.seats.lock();
        seats.by_fd.range(first..).take(n).map(|(&fd, seat)| (fd, Arc::clone(seat))).collect()
    }
}

impl Peer {
    /// The client's address over TCP.
    fn remote(&self) -> Option<SocketAddr> {
        match self {
            Peer::Tcp { from, .. } => Some(*from),
            Peer::Own(_) | Peer::Unix { .. } => None,
        }
    }
}

/// Shows the address of the other end, or of the socket itself if it is the server's.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Own(name) => f.write_str(name),
            Peer::Tcp { from, .. } => f.write_str(&name_of("tcp", *from)),
            // A client's unix socket has no name; memcached shows the server's.
            Peer::Unix { to } => f.write_str(to),
        }
    }
}

impl Held {
    pub(crate) const ALL: [Held; 3] = [Held::Unfinished, Held::Unsent, Held::Backlog];

    /// The name under which `stats guira` shows the budget's sum over all connections.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Held::Unfinished => "unfinished_bytes",
            Held::Unsent => "unsent_bytes",
            Held::Backlog => "backlog_bytes",
        }
    }
}

impl Seat {
    pub(crate) fn set_held(&self, what: Held, bytes: usize) {
        self.held[what as usize].store(bytes, Ordering::Relaxed);
    }

    /// Bytes that the connection is charged: 0 while it holds no more than its free allowance.
    pub(crate) fn held(&self, what: Held) -> usize {
        self.held[what as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn set_doing(&self, doing: Doing) {
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    pub(crate) fn set_last_request(&self, now: u32) {
        self.last_request_s.store(now, Ordering::Relaxed);
    }

    pub(crate) fn last_request(&self) -> u32 {
        self.last_request_s.load(Ordering::Relaxed)
    }

    /// Whether an idle timeout applies: as in memcached, not to unix sockets.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.peer, Peer::Tcp { .. })
    }

    /// The address of the other end, or of the socket itself if it is the server's.
    pub(crate) fn address(&self) -> String {
        self.peer.to_string()
    }

    /// The other end's address over TCP.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.peer.remote()
    }

    /// The name of the server's socket that accepted the connection.
    pub(crate) fn listening(&self) -> Option<&str> {
        match &self.peer {
            Peer::Own(_) => None,
            Peer::Tcp { to, .. } | Peer::Unix { to } => Some(to),
        }
    }

    /// memcached's name for the state.
    pub(crate) fn state(&self) -> &'static str {
        const NAMES: [&str; 6] = [
            "conn_listening",
            "conn_read",
            "conn_nread",
            "conn_swallow",
            "conn_mwrite",
            "conn_watch",
        ];
        NAMES[usize::from(self.doing.load(Ordering::Relaxed))]
    }
}

/// Formats an address as memcached does.
pub(crate) fn name_of(transport: &str, address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(a) => format!("{transport}:{}:{}", a.ip(), a.port()),
        SocketAddr::V6(a) => format!("{transport}6:[{}]:{}", a.ip(), a.port()),
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
        let seen = roster.from(0, 9).into_iter().map(|(fd, seat)| {
            (fd, seat.address(), seat.state(), seat.listening().map(str::to_owned))
        });
        let seen: Vec<_> = seen.collect();
        assert_eq!(roster.from(4, 1).len(), 1);
        let own = "tcp:127.0.0.1:11211".to_owned();
        assert_eq!(
            seen,
            [
                (3, own.clone(), "conn_listening", None),
                (9, "tcp6:[::1]:4000".to_owned(), "conn_read", Some(own)),
            ]
        );
    }

    #[test]
    fn an_address_is_connected_as_long_as_one_connection_of_it_is() {
        let roster = Roster::default();
        let to: Arc<str> = "tcp:127.0.0.1:11211".into();
        let enter = |fd, from: &str| {
            let from = from.parse().unwrap();
            roster.enter(fd, Peer::Tcp { from, to: Arc::clone(&to) }, Doing::Reading, 2);
        };
        enter(7, "192.0.2.1:4000");
        enter(8, "192.0.2.1:4001");
        enter(9, "192.0.2.2:4000");
        let is_connected = |address: &str| roster.is_connected(address.parse().unwrap());
        roster.leave(7);
        roster.leave(9);
        roster.leave(9);
        assert!(is_connected("192.0.2.1") && !is_connected("192.0.2.2"));
        roster.leave(8);
        assert!(!is_connected("192.0.2.1"));
    }
}
