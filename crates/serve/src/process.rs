//! What every thread of the server sees: settings, the cache, the clock, counters, mailboxes.

pub(crate) mod crawler;
pub(crate) mod watch;
pub(crate) mod detail;
pub(crate) mod dump;
pub(crate) mod feed;
pub(crate) mod roster;
pub(crate) mod measure;
pub(crate) mod allowance;
pub(crate) mod memory_limit;
pub(crate) mod replies;
pub(crate) mod unfinished;
pub(crate) mod backlog;
pub(crate) mod source_budget;
pub(crate) mod budget;

use crate::auth::Auth;
use crate::queues::QueueSettings;
use crate::server::handover::Heir;
use crate::settings::ServerSettings;
use crate::time::ServerTime;
use crate::tls::Tls;
use crate::transport::listener::Arrival;
use allowance::Allowance;
use budget::ByteBudget;
use crawler::Crawler;
use detail::Detail;
use guira_cache::Cache;
use guira_log::Log;
use measure::Measures;
use memory_limit::Memory;
use parking_lot::Mutex;
use roster::Roster;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use source_budget::Budget;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use watch::Watch;

/// The parts of a server that its threads share; made once, before they start.
pub(crate) struct Process {
    pub(crate) settings: ServerSettings,
    pub(crate) cache: Cache,
    pub(crate) auth: Auth,
    /// Only with `-Z`.
    pub(crate) tls: Option<Tls>,
    pub(crate) time: ServerTime,
    pub(crate) log: Log,
    pub(crate) roster: Roster,
    pub(crate) gauges: Gauges,
    pub(crate) detail: Detail,
    pub(crate) allowance: Allowance,
    pub(crate) memory: Memory,
    pub(crate) crawler: Crawler,
    pub(crate) queues: QueueSettings,
    pub(crate) watch: Watch,
    pub(crate) mailboxes: Vec<Mailbox>,
    /// What each worker measures.
    pub(crate) measures: Vec<Measures>,
    /// What sources of datagrams may be sent.
    pub(crate) budget: Budget,
    /// What requests that aren't whole may hold.
    pub(crate) unfinished: ByteBudget,
    /// What replies may hold that clients have yet to take.
    pub(crate) unsent: ByteBudget,
    /// What requests may hold that wait for their turns.
    pub(crate) backlog: ByteBudget,
    /// Set before `stop` rings, for threads that look rather than wait.
    pub(crate) is_stopping: AtomicBool,
    /// Rings once when the server stops gracefully: no new connections, finish, go.
    pub(crate) stop: Bell,
    /// Set when no more connections will be dealt.
    pub(crate) is_listener_gone: AtomicBool,
    /// Who takes over, once somebody does.
    pub(crate) heir: Heir,
}

/// An event that can wait in an epoll.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes whoever waits for it, until it is silenced.
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

/// Figures of the server as a whole that no worker owns.
#[derive(Default)]
pub(crate) struct Gauges {
    connections: AtomicU64,
    connections_total: AtomicU64,
    rejected: AtomicU64,
    pauses: AtomicU64,
    paused_us: AtomicU64,
    kicked: AtomicU64,
    datagrams_dropped: AtomicU64,
    replies_refused: AtomicU64,
    pieces_refused: AtomicU64,
    handshakes_put_off: AtomicU64,
    logins_paused: AtomicU64,
    connections_lost: AtomicU64,
    handovers_failed: AtomicU64,
    is_paused: AtomicBool,
}

/// A reading of [`Gauges`].
pub(crate) struct GaugeReading {
    pub(crate) connections: u64,
    pub(crate) connections_total: u64,
    pub(crate) rejected: u64,
    pub(crate) pauses: u64,
    pub(crate) paused_us: u64,
    pub(crate) kicked: u64,
    pub(crate) datagrams_dropped: u64,
    pub(crate) replies_refused: u64,
    pub(crate) pieces_refused: u64,
    pub(crate) handshakes_put_off: u64,
    pub(crate) logins_paused: u64,
    pub(crate) connections_lost: u64,
    pub(crate) handovers_failed: u64,
    pub(crate) is_accepting: bool,
}

impl Gauges {
    pub(crate) fn opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.connections_total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was closed for being idle.
    pub(crate) fn kicked(&self) {
        self.kicked.fetch_add(1, Ordering::Relaxed);
    }

    /// A reply over UDP was not sent, or not all of it.
    pub(crate) fn datagrams_dropped(&self) {
        self.datagrams_dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// There was no memory for replies, by `read_buf_mem_limit`.
    pub(crate) fn replies_refused(&self) {
        self.replies_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// There was no memory for a piece of a request, by `read_buf_mem_limit`.
    pub(crate) fn pieces_refused(&self) {
        self.pieces_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A TLS handshake waits for a later turn.
    pub(crate) fn handshake_put_off(&self) {
        self.handshakes_put_off.fetch_add(1, Ordering::Relaxed);
    }

    /// An attempt to log in waits, because another one from there failed.
    pub(crate) fn login_paused(&self) {
        self.logins_paused.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection could not be accepted, or not be watched.
    pub(crate) fn connection_lost(&self) {
        self.connections_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// A successor could not be let in.
    pub(crate) fn handover_failed(&self) {
        self.handovers_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn listening_paused(&self) {
        self.is_paused.store(true, Ordering::Relaxed);
        self.pauses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn listening_resumed(&self, after_us: u64) {
        self.paused_us.fetch_add(after_us, Ordering::Relaxed);
        self.is_paused.store(false, Ordering::Relaxed);
    }

    /// Lets the counts start at 0 again; connections and pauses under way are as they are.
    pub(crate) fn reset(&self) {
        for count in [
            &self.connections_total,
            &self.rejected,
            &self.pauses,
            &self.paused_us,
            &self.kicked,
            &self.datagrams_dropped,
            &self.replies_refused,
            &self.pieces_refused,
            &self.handshakes_put_off,
            &self.logins_paused,
            &self.connections_lost,
            &self.handovers_failed,
        ] {
            count.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> GaugeReading {
        GaugeReading {
            connections: self.connections.load(Ordering::Relaxed),
            connections_total: self.connections_total.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            pauses: self.pauses.load(Ordering::Relaxed),
            paused_us: self.paused_us.load(Ordering::Relaxed),
            kicked: self.kicked.load(Ordering::Relaxed),
            datagrams_dropped: self.datagrams_dropped.load(Ordering::Relaxed),
            replies_refused: self.replies_refused.load(Ordering::Relaxed),
            pieces_refused: self.pieces_refused.load(Ordering::Relaxed),
            handshakes_put_off: self.handshakes_put_off.load(Ordering::Relaxed),
            logins_paused: self.logins_paused.load(Ordering::Relaxed),
            connections_lost: self.connections_lost.load(Ordering::Relaxed),
            handovers_failed: self.handovers_failed.load(Ordering::Relaxed),
            is_accepting: !self.is_paused.load(Ordering::Relaxed),
        }
    }
}
