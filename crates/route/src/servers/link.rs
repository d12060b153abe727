//! A proxy thread's connection to one server, and what is known of that server.
//!
//! Leaves of the same address and timeouts share a link, over trees: a new configuration finds the links of the old.
//!
//! # Invariants
//! 1. Whoever marks a server TKO on a link probes it over that link until a probe succeeds or the link is gone; a link
//!    that goes takes its mark off, or hands that over to another of the same server, if that is owed deletes.
//! 2. While the server is marked no request travels: only probes do, and deletes that were written down.
//! 3. A connection that is lost after the server answered on it marks nobody: a request that makes a server close the
//!    connection is no outage. The server is asked for its version at once, and marked if it doesn't answer.
//! 4. A server that returns, or comes back into the configuration, is asked once it has the deletes that it is owed
//!    (`returning`).

mod carrying;

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use guira_client::{
    Ask, AskKeys, Connection, ConnectionOptions, Event, Op, Outcome, Reply, Request,
};
use guira_front::sessions::Start;
use guira_log::Seldom;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::permits::{PermitLimits, Permits};
use super::skills::Skills;
use super::tko::Tko;
use crate::deletes::account::Account;
use crate::server::{LeafSpec, Server};

/// One thread's way to one server.
#[derive(Debug)]
pub(crate) struct Link {
    /// As `stats servers` names it: address, protocol, timeout.
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) tko: Arc<Tko>,
    /// The deletes that the server is owed.
    pub(crate) account: Arc<Account>,
    pub(crate) stats: LinkStats,
    /// What the server may have under way, if that is limited.
    permits: Option<Permits>,
    connection: Connection,
    connect_timeout: Duration,
    /// A reply that takes longer is late, a probe's too.
    timeout: Duration,
    /// Servers are marked at all.
    is_tracked: bool,
    care: Arc<dyn Care>,
    /// This link is to probe.
    is_responsible: AtomicBool,
    /// We close the connection ourselves, because it is idle.
    is_resetting: AtomicBool,
    /// What the server showed on this connection.
    skills: Skills,
}

/// What happened on a link: written by its thread, but for `is_up`.
#[derive(Debug, Default)]
pub(crate) struct LinkStats {
    pub(crate) outstanding: AtomicUsize,
    pub(crate) results: [AtomicU64; Outcome::ALL.len()],
    pub(crate) sent: AtomicU64,
    /// Requests that the server answered, or that waited in vain for its reply, and how long they took in all.
    pub(crate) timed: AtomicU64,
    pub(crate) took_us: AtomicU64,
    pub(crate) is_up: AtomicBool,
    pub(crate) opened: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) probes: AtomicU64,
}

impl Link {
    /// A link that connects when the first request comes. The thread must be in a tokio runtime.
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
                // TKO is the back-off, and it is what makes a silent server's connection worth nothing.
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
                // A connection that follows its server's name takes the place of another without a word about that.
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
                match why.outcome {
                    Outcome::ConnectError | Outcome::ConnectTimeout => self.failed(why.outcome),
                    // Not the server's fault: the next request tries again.
                    Outcome::LocalError => self.tell_of_lack(why),
                    _ if self.is_resetting.swap(false, Relaxed) => {}
                    // A request that the server didn't take, a server that has ended, or one that tidies up.
                    _ if *has_answered && !self.tko.is_marked() => self.check(),
                    _ if was_asked => self.lost(),
                    _ => {}
                }
            }
        }
    }

    /// Marks the server at once if it doesn't answer any more, before a client's request has to.
    fn check(self: &Arc<Self>) {
        let link = Arc::downgrade(self);
        tokio::spawn(async move {
            if let Some(link) = link.upgrade() {
                match link.ask_version().await {
                    Outcome::RemoteError => link.lost(),
                    Outcome::Timeout => link.failed(Outcome::Timeout),
                    // Failures to connect count already.
                    _ => {}
                }
            }
        });
    }

    /// Says that this process lacks what a connection needs.
    fn tell_of_lack(&self, reply: &Reply) {
        static TOLD: Seldom = Seldom::new();
        if TOLD.admits() {
            let (name, words) = (&self.tko.name, String::from_utf8_lossy(&reply.message));
            tracing::warn!(
                "no connection to {name}, which isn't at fault: {words}. Raise the limit of open files (ulimit -n, LimitNOFILE=)."
            );
        }
    }

    /// Sends a request, unless the server is marked or has enough to do: then the reply is there already.
    pub(crate) fn begin(
        self: &Arc<Self>,
        request: Request,
        timeout: Duration,
        (start, context): (Start<'_>, &crate::Context),
    ) -> Result<UnderWay<Ask>, Reply> {
        self.admit(request.op)?;
        let deadline = start.at + self.patience(timeout);
        let ask = self.connection.ask_for(context.caller(start.waker), request, deadline);
        Ok(UnderWay::new(self, ask, 1, start.at))
    }

    /// The same for a get of several keys.
    pub(crate) fn begin_keys(
        self: &Arc<Self>,
        op: Op,
        keys: Vec<Bytes>,
        timeout: Duration,
        (start, context): (Start<'_>, &crate::Context),
    ) -> Result<UnderWay<AskKeys>, Reply> {
        self.admit(op)?;
        let (deadline, count) = (start.at + self.patience(timeout), keys.len());
        let ask = self.connection.ask_keys(context.caller(start.waker), op, keys, deadline);
        Ok(UnderWay::new(self, ask, count, start.at))
    }

    /// The same for one request, until its reply is there; also says how long that took. One whose value a server could read
    /// as commands travels only once that is known not to be so.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        request: Request,
        timeout: Duration,
        context: &crate::Context,
    ) -> (Reply, Duration) {
        let asked = if self.may_carry(&request) {
            self.begin(request, timeout, (now(), context))
        } else {
            self.begin_in_turn(request, timeout, context).await
        };
        match asked {
            Ok(mut under_way) => poll_fn(|cx| under_way.poll(cx)).await,
            Err(reply) => (reply, Duration::ZERO),
        }
    }

    /// The same, whatever the server has shown: it is known to understand all. Also says whether the reply is the server's.
    pub(super) async fn ask_once(
        self: &Arc<Self>,
        request: Request,
        timeout: Duration,
        context: &crate::Context,
    ) -> (Reply, bool) {
        let begun = match self.permit(timeout).await {
            Ok((permit, left)) => {
                self.begin(request, left, (now(), context)).map(|begun| (begun, permit))
            }
            Err(reply) => Err(reply),
        };
        match begun {
            Ok((mut under_way, _permit)) => poll_fn(|cx| under_way.poll_told(cx)).await,
            Err(reply) => (reply, false),
        }
    }

    fn admit(&self, op: Op) -> Result<(), Reply> {
        let is_out = self.tko.is_marked() && self.is_tracked;
        if is_out && !(op == Op::Delete && self.account.is_sending()) {
            let words = format!("Server unavailable. Reason: {}", self.tko.reason());
            return Err(self.noted(Reply::failure(Outcome::Tko, words)));
        }
        Ok(())
    }

    /// A permit, where what the server may have under way is limited. It takes part of the time that a reply may take: what
    /// is left of that, too.
    pub(crate) async fn permit(
        &self,
        timeout: Duration,
    ) -> Result<(Option<SemaphorePermit<'_>>, Duration), Reply> {
        let Some(permits) = &self.permits else { return Ok((None, timeout)) };
        let began = Instant::now();
        match tokio::time::timeout(timeout, permits.take()).await {
            Ok(Some(permit)) => Ok((Some(permit), timeout.saturating_sub(began.elapsed()))),
            Ok(None) => {
                let (most, name) = (permits.waiting_max(), &self.tko.name);
                let words =
                    format!("Max pending requests ({most}) reached for destination \"{name}\".");
                Err(self.noted(Reply::failure(Outcome::LocalError, words)))
            }
            Err(_) => Err(self.noted(Reply::failure(Outcome::Timeout, "Reply timeout"))),
        }
    }

    /// Whether what a server may have under way is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.permits.is_some()
    }

    /// Counts a reply that took so long, and says it in mcrouter's words. `is_servers`: the server sent it; else the reply,
    /// a refusal or a lost connection, tells nothing good of it.
    fn settle(self: &Arc<Self>, reply: &mut Reply, took: Duration, is_servers: bool) {
        // A server that answers too late is slow: that is no time of nothing.
        if is_servers || reply.outcome == Outcome::Timeout {
            add(&self.stats.took_us, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            add(&self.stats.timed, 1);
        }
        match reply.outcome {
            // It was others' long values that the request waited for: that their clients read slowly is no fault of the
            // server.
            Outcome::Timeout if self.connection.brought_long_within(self.timeout) => {}
            Outcome::Timeout
            | Outcome::ConnectError
            | Outcome::ConnectTimeout
            | Outcome::Shutdown => {
                self.failed(reply.outcome);
            }
            _ if is_servers => self.tko.succeeded(),
            _ => {}
        }
        self.note(reply.outcome);
        say_in_mcrouters_words(reply);
    }

    /// How long a reply may take. Where no connection stands, its failure comes before the request's.
    fn patience(&self, timeout: Duration) -> Duration {
        let is_up = self.stats.is_up.load(Relaxed);
        if is_up { timeout } else { timeout.max(self.connect_timeout) + CONNECT_SLACK }
    }

    fn noted(&self, reply: Reply) -> Reply {
        self.note(reply.outcome);
        reply
    }

    fn note(&self, outcome: Outcome) {
        add(&self.stats.results[outcome as usize], 1);
    }

    /// The connection was lost before the server answered anything on it.
    fn lost(self: &Arc<Self>) {
        self.mark(Outcome::ConnectError, true);
    }

    fn failed(self: &Arc<Self>, outcome: Outcome) {
        self.mark(outcome, false);
    }

    /// Notes a failure; `is_prompt`: the server may well serve, so that it is probed at once if it is marked now.
    fn mark(self: &Arc<Self>, outcome: Outcome, is_prompt: bool) {
        if !self.is_tracked || !self.tko.failed(outcome) {
            return;
        }
        let kind = if self.tko.is_hard() { "hard" } else { "soft" };
        let (name, standing) = (&self.tko.name, self.tko.standing());
        let reason = self.tko.reason();
        tracing::warn!("{name} marked {kind} TKO. {standing}. Reply: {reason}");
        self.is_responsible.store(true, Relaxed);
        Arc::clone(&self.care).probe(self, is_prompt);
    }

    /// From now on this link probes its server, which is marked.
    pub(super) fn take_charge(self: &Arc<Self>) {
        self.is_responsible.store(true, Relaxed);
        Arc::clone(&self.care).probe(self, false);
    }

    /// The server is marked, and its owner probes it at once.
    pub(super) fn is_in_charge(&self) {
        self.is_responsible.store(true, Relaxed);
    }

    /// The server serves again.
    pub(super) fn unmark(&self) {
        self.is_responsible.store(false, Relaxed);
        self.tko.clear();
    }

    /// Closes the connection if nothing is under way.
    pub(crate) fn close_if_idle(&self) {
        if self.stats.outstanding.load(Relaxed) == 0 {
            self.give_up();
        }
    }

    /// Closes the connection, without a word about the server; what didn't reach it never will.
    pub(crate) fn give_up(&self) {
        if self.stats.is_up.load(Relaxed) {
            self.is_resetting.store(true, Relaxed);
            self.connection.reset();
        }
    }

    /// Fails all that is under way, whether a connection stands or not.
    pub(crate) fn abandon(&self) {
        self.is_resetting.store(true, Relaxed);
        self.connection.reset();
    }

    /// Requests that wait for the socket, and those that wait for replies.
    pub(crate) fn load(&self) -> (usize, usize) {
        let waiting = self.permits.as_ref().map_or(0, Permits::waiting);
        let outstanding = self.connection.load().0;
        if self.stats.is_up.load(Relaxed) {
            (waiting, outstanding)
        } else {
            (waiting + outstanding, 0)
        }
    }

    /// Whether the server answers in the time that a request has.
    pub(crate) async fn probe(&self) -> bool {
        self.ask_version().await == Outcome::Ok
    }

    async fn ask_version(&self) -> Outcome {
        self.stats.probes.fetch_add(1, Relaxed);
        let deadline = Instant::now() + self.patience(self.timeout);
        self.connection.ask(Request::new(Op::Version, ""), deadline).await.outcome
    }

    /// Past the mark: for deletes that are sent again before the server counts as returned.
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

/// What a link is made with.
pub(super) struct LinkOptions {
    pub(super) connection: ConnectionOptions,
    pub(super) at_server: PermitLimits,
    /// Servers are marked at all.
    pub(super) is_tracked: bool,
    pub(super) care: Arc<dyn Care>,
}

/// What a link leaves to its owner.
pub(crate) trait Care: fmt::Debug + Send + Sync {
    /// Probes the link's server, which is marked, until it answers; at once, or after the first pause.
    fn probe(self: Arc<Self>, link: &Arc<Link>, is_prompt: bool);

    /// A link that was to probe its server goes.
    fn hand_over(self: Arc<Self>, link: &Link);

    /// Has the deletes that a server is owed sent after a first pause, though it isn't marked.
    fn tend(self: Arc<Self>, account: &Arc<Account>, first: Duration);
}

/// A request, or a get of several keys, that was sent and not yet answered; dropped, it counts as outstanding no more.
#[derive(Debug)]
pub(crate) struct UnderWay<A> {
    link: Arc<Link>,
    ask: A,
    keys: usize,
    began: Instant,
}

impl<A> UnderWay<A> {
    fn new(link: &Arc<Link>, ask: A, keys: usize, began: Instant) -> Self {
        add(&link.stats.sent, keys as u64);
        let outstanding = &link.stats.outstanding;
        outstanding.store(outstanding.load(Relaxed) + keys, Relaxed);
        Self { link: Arc::clone(link), ask, keys, began }
    }

    /// How long it took, until the server's reply or until now.
    fn took(&self, came: Option<Instant>) -> Duration {
        came.unwrap_or_else(Instant::now).saturating_duration_since(self.began)
    }
}

impl UnderWay<Ask> {
    /// See [`Ask::is_due`].
    pub(crate) fn is_due(&self) -> bool {
        self.ask.is_due()
    }

    /// The reply, once it is there, and how long it took.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Reply, Duration)> {
        let (mut reply, came) = ready!(self.ask.poll_timed(cx));
        let took = self.took(came);
        self.link.settle(&mut reply, took, came.is_some());
        Poll::Ready((reply, took))
    }

    /// The reply, once it is there, and whether it is the server's.
    fn poll_told(&mut self, cx: &mut Context<'_>) -> Poll<(Reply, bool)> {
        let (mut reply, came) = ready!(self.ask.poll_timed(cx));
        self.link.settle(&mut reply, self.took(came), came.is_some());
        Poll::Ready((reply, came.is_some()))
    }
}

impl UnderWay<AskKeys> {
    /// See [`Ask::is_due`].
    pub(crate) fn is_due(&self) -> bool {
        self.ask.is_due()
    }

    /// The replies, once all are there, and how long they took.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Vec<Reply>, Duration)> {
        let (mut replies, came) = ready!(self.ask.poll_timed(cx));
        let took = self.took(came);
        replies.iter_mut().for_each(|reply| self.link.settle(reply, took, came.is_some()));
        Poll::Ready((replies, took))
    }
}

impl<A> Drop for UnderWay<A> {
    fn drop(&mut self) {
        let outstanding = &self.link.stats.outstanding;
        outstanding.store(outstanding.load(Relaxed) - self.keys, Relaxed);
    }
}

fn now() -> Start<'static> {
    Start { at: Instant::now(), waker: None }
}

/// Adds to a number that only this thread writes.
fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Failures of our own making, as mcrouter's clients know them.
fn say_in_mcrouters_words(reply: &mut Reply) {
    match reply.outcome {
        Outcome::Timeout => *reply = Reply::failure(Outcome::Timeout, "Reply timeout"),
        Outcome::ConnectTimeout | Outcome::BadKey => *reply = Reply::new(reply.outcome),
        Outcome::ConnectError => {
            let words = [b"AsyncSocketException: connect failed: ", &reply.message[..]].concat();
            *reply = Reply::failure(Outcome::ConnectError, words);
        }
        _ => {}
    }
}

/// By so much a connect that takes too long is known before the requests that wait for it fail.
const CONNECT_SLACK: Duration = Duration::from_millis(20);
/// How long a server may be silent, its oldest request overdue, before its connection is given up: marked servers are
/// probed and their connections replaced before that.
const STALL: Duration = Duration::from_secs(60);
/// The same where nobody marks servers.
const STALL_UNTRACKED: Duration = Duration::from_secs(5);
