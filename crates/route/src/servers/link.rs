//! A proxy thread's connection to one server, and the thread's knowledge about that server.
//!
//! Leaves with the same address and timeouts share a link, also across trees: a new configuration finds the links of
//! the old one.
//!
//! # Invariants
//! 1. A link that marks its server TKO probes it, until a probe succeeds or the link is gone. A link that goes clears
//!    its mark, or hands it over to another link of the server if the server is owed deletes.
//! 2. While the server is marked, no requests are sent. Only probes are, and deletes that were logged.
//! 3. If a connection is lost on which the server has answered, the server isn't marked: a request can make a server
//!    close the connection. The server is asked for its version at once, and marked if it doesn't answer.
//! 4. A server that returns, or comes back into the configuration, gets the deletes that it is owed before any requests
//!    (`returning`).

mod carrying;
mod requests;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use guira_client::{Connection, ConnectionOptions, Event, Op, Outcome, Reply, Request};
use guira_log::Seldom;
use tokio::time::Instant;

use super::permits::{PermitLimits, Permits};
use super::skills::Skills;
use super::tko::Tko;
use crate::deletes::account::Account;
use crate::server::{LeafSpec, Server};
pub(super) use requests::UnderWay;

/// The connection of one thread to one server.
#[derive(Debug)]
pub(crate) struct Link {
    /// The name in `stats servers`: address, protocol, timeout.
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) tko: Arc<Tko>,
    /// The deletes that the server is owed.
    pub(crate) account: Arc<Account>,
    pub(crate) stats: LinkStats,
    /// The limits of requests under way, if there are any.
    permits: Option<Permits>,
    connection: Connection,
    connect_timeout: Duration,
    /// The time limit of a reply, including a probe's.
    timeout: Duration,
    /// Whether servers are marked at all.
    is_tracked: bool,
    care: Arc<dyn Care>,
    /// Whether this link must probe the server.
    is_responsible: AtomicBool,
    /// Whether this router closes the connection itself, because it is idle or abandoned.
    is_resetting: AtomicBool,
    /// The abilities that the server has shown on this connection.
    skills: Skills,
}

/// Counters of a link. Only its own thread writes them, except `is_up`.
#[derive(Debug, Default)]
pub(crate) struct LinkStats {
    pub(crate) outstanding: AtomicUsize,
    pub(crate) results: [AtomicU64; Outcome::ALL.len()],
    pub(crate) sent: AtomicU64,
    /// Requests that the server answered or that timed out, and their total time.
    pub(crate) timed: AtomicU64,
    pub(crate) took_us: AtomicU64,
    pub(crate) is_up: AtomicBool,
    pub(crate) opened: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) probes: AtomicU64,
}

impl Link {
    /// Creates a link that connects at the first request. The thread must be in a tokio runtime.
    pub(super) fn new(
        name: String,
        tko: Arc<Tko>,
        account: Arc<Account>,
        wanted: &LeafSpec,
        LinkOptions { connection, at_server, is_tracked, care }: LinkOptions,
    ) -> Arc<Self> {
        let (server, connect_timeout) = (wanted.server.clone(), wanted.connect_timeout);
        let (address, traffic_class) = (server.address(), wanted.dscp);
        Arc::new_cyclic(|link: &Weak<Self>| {
            let link = link.clone();
            let observer = move |event: &Event| {
                if let Some(link) = link.upgrade() {
                    link.observe(event);
                }
            };
            let options = ConnectionOptions {
                connect_timeout,
                // TKO takes the place of back-off, and also replaces connections of silent servers.
                backoff: None,
                stall: if is_tracked { STALL } else { STALL_UNTRACKED },
                traffic_class,
                observer: Some(Arc::new(observer)),
                ..connection
            };
            let connection = Connection::new(address, options);
            Self {
                name,
                server,
                account,
                tko,
                stats: LinkStats::default(),
                permits: Permits::new(at_server),
                connection,
                connect_timeout,
                timeout: wanted.timeout,
                is_tracked,
                care,
                is_responsible: AtomicBool::new(false),
                is_resetting: AtomicBool::new(false),
                skills: Skills::default(),
            }
        })
    }

    fn observe(self: &Arc<Self>, event: &Event) {
        match event {
            Event::Up => {
                // A connection that follows its server's name replaces another one without an event.
                if self.stats.is_up.swap(true, Relaxed) {
                    self.stats.closed.fetch_add(1, Relaxed);
                }
                self.is_resetting.store(false, Relaxed);
                self.skills.forget();
                self.stats.opened.fetch_add(1, Relaxed);
            }
            Event::Down { why, has_answered } => {
                if self.stats.is_up.swap(false, Relaxed) {
                    self.stats.closed.fetch_add(1, Relaxed);
                }
                let was_asked = self.stats.outstanding.load(Relaxed) > 0;
                // An idle connection that is closed says nothing about the server.
                if !*has_answered && self.tko.note_said(&why.message) && !self.is_tracked {
                    self.tell_of_end(why);
                }
                match why.outcome {
                    Outcome::ConnectError | Outcome::ConnectTimeout => self.failed(why.outcome),
                    // The server isn't at fault, and the next request tries again.
                    Outcome::LocalError => self.tell_of_lack(why),
                    _ if self.is_resetting.swap(false, Relaxed) => {}
                    // The server refused a request, ended, or closed an idle connection.
                    _ if *has_answered && !self.tko.is_marked() => self.check(),
                    _ if was_asked => self.lost(),
                    _ => {}
                }
            }
        }
    }

    /// Asks for the version, so that a failed server is marked before client requests have to fail.
    fn check(self: &Arc<Self>) {
        let link = Arc::downgrade(self);
        tokio::spawn(async move {
            if let Some(link) = link.upgrade() {
                match link.ask_version().await {
                    Outcome::RemoteError => link.lost(),
                    Outcome::Timeout => link.failed(Outcome::Timeout),
                    // A failure to connect is counted elsewhere.
                    _ => {}
                }
            }
        });
    }

    /// Warns that this process lacks a resource that a connection needs.
    fn tell_of_lack(&self, reply: &Reply) {
        static TOLD: Seldom = Seldom::new();
        if TOLD.admits() {
            let (name, words) = (&self.tko.name, String::from_utf8_lossy(&reply.message));
            tracing::warn!(
                "no connection to {name}, which isn't at fault: {words}. Raise the limit of open files (ulimit -n, LimitNOFILE=)."
            );
        }
    }

    /// Logs why a connection failed, or ended on which the server answered nothing.
    fn tell_of_end(&self, why: &Reply) {
        let is_reset = self.is_resetting.load(Relaxed);
        if !is_reset && why.outcome != Outcome::LocalError && self.tko.told.admits() {
            let (name, words) = (&self.tko.name, String::from_utf8_lossy(&why.message));
            tracing::warn!("no answer from {name}: {words}");
        }
    }

    /// The time limit of a reply. While there is no connection, connecting must fail before the request does.
    fn patience(&self, timeout: Duration) -> Duration {
        let is_up = self.stats.is_up.load(Relaxed);
        if is_up { timeout } else { timeout.max(self.connect_timeout) + CONNECT_SLACK }
    }

    /// Marks the server: the connection was lost before the server answered on it.
    fn lost(self: &Arc<Self>) {
        self.mark(Outcome::ConnectError, true);
    }

    fn failed(self: &Arc<Self>, outcome: Outcome) {
        self.mark(outcome, false);
    }

    /// Records a failure. `is_prompt`: the server may work, so probe it at once if this failure marks it.
    fn mark(self: &Arc<Self>, outcome: Outcome, is_prompt: bool) {
        if !self.is_tracked || !self.tko.failed(outcome) {
            return;
        }
        let kind = if self.tko.is_hard() { "hard" } else { "soft" };
        let (name, standing) = (&self.tko.name, self.tko.standing());
        let reason = self.tko.whole_reason();
        tracing::warn!("{name} marked {kind} TKO. {standing}. Reply: {reason}");
        self.is_responsible.store(true, Relaxed);
        Arc::clone(&self.care).probe(self, is_prompt);
    }

    /// Makes this link probe its server, which is marked.
    pub(super) fn take_charge(self: &Arc<Self>) {
        self.is_responsible.store(true, Relaxed);
        Arc::clone(&self.care).probe(self, false);
    }

    /// Records that the caller probes the server, which is marked.
    pub(super) fn is_in_charge(&self) {
        self.is_responsible.store(true, Relaxed);
    }

    /// Clears the server's mark.
    pub(super) fn unmark(&self) {
        self.is_responsible.store(false, Relaxed);
        self.tko.clear();
    }

    /// Closes the connection if no request is under way.
    pub(crate) fn close_if_idle(&self) {
        if self.stats.outstanding.load(Relaxed) == 0 {
            self.give_up();
        }
    }

    /// Closes the connection without marking the server. Requests that weren't sent are never sent.
    pub(crate) fn give_up(&self) {
        if self.stats.is_up.load(Relaxed) {
            self.is_resetting.store(true, Relaxed);
            self.connection.reset();
        }
    }

    /// Fails all requests under way, connected or not.
    pub(crate) fn abandon(&self) {
        self.is_resetting.store(true, Relaxed);
        self.connection.reset();
    }

    /// The numbers of requests that wait to be sent, and that wait for replies.
    pub(crate) fn load(&self) -> (usize, usize) {
        let waiting = self.permits.as_ref().map_or(0, Permits::waiting);
        let outstanding = self.connection.load().0;
        if self.stats.is_up.load(Relaxed) {
            (waiting, outstanding)
        } else {
            (waiting + outstanding, 0)
        }
    }

    /// Whether the server answers within the time limit of a request.
    pub(crate) async fn probe(&self) -> bool {
        self.ask_version().await == Outcome::Ok
    }

    async fn ask_version(&self) -> Outcome {
        self.stats.probes.fetch_add(1, Relaxed);
        let deadline = Instant::now() + self.patience(self.timeout);
        self.connection.ask(Request::new(Op::Version, ""), deadline).await.outcome
    }

    /// The connection, which ignores the mark. It sends logged deletes before the server counts as returned.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_responsible.load(Relaxed) {
            Arc::clone(&self.care).hand_over(self);
        }
    }
}

/// The options of a new link.
pub(super) struct LinkOptions {
    pub(super) connection: ConnectionOptions,
    pub(super) at_server: PermitLimits,
    /// Whether servers are marked at all.
    pub(super) is_tracked: bool,
    pub(super) care: Arc<dyn Care>,
}

/// The work that a link leaves to its owner.
pub(crate) trait Care: fmt::Debug + Send + Sync {
    /// Probes the link's server, which is marked, until it answers. The first probe comes at once, or after a pause.
    fn probe(self: Arc<Self>, link: &Arc<Link>, is_prompt: bool);

    /// Takes over from a link that was to probe its server and is dropped.
    fn hand_over(self: Arc<Self>, link: &Link);

    /// Sends the deletes that a server is owed after a first pause, though the server isn't marked.
    fn tend(self: Arc<Self>, account: &Arc<Account>, first: Duration);
}

/// How much earlier a connection times out than the requests that wait for it.
const CONNECT_SLACK: Duration = Duration::from_millis(20);
/// How long a server may be silent, with its oldest request overdue, before its connection is closed. Marked servers
/// are probed and get new connections before that.
const STALL: Duration = Duration::from_secs(60);
/// The same if servers are never marked.
const STALL_UNTRACKED: Duration = Duration::from_secs(5);
