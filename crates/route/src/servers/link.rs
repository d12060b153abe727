//! A proxy thread's connection to one server, and what is known of that server.
//!
//! Leaves of the same address and timeouts share a link, over trees: a new configuration finds the links of the old.
//!
//! # Invariants
//! 1. Whoever marks a server TKO on a link probes it over that link until a probe succeeds or the link is gone; a link
//!    that goes takes its mark off, or hands that over to another of the same server, if that is owed deletes.
//! 2. While the server is marked no request travels: only probes do, and deletes that were written down.
//! 3. A server that returns, or comes back into the configuration, is asked once it has the deletes that it is owed
//!    ([`returning`]).

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use guira_client::{
    Ask, AskKeys, Connection, ConnectionOptions, Event, Op, Outcome, Reply, Request,
};
use tokio::sync::SemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::deletes::debts::Account;
use super::returning;
use super::shared::{STOPPING, Shared};
use super::tko::Tko;
use super::turns::Turns;
use crate::{Destination, Server};

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
    turns: Option<Turns>,
    connection: Connection,
    connect_timeout: Duration,
    /// A reply that takes longer is late, a probe's too.
    timeout: Duration,
    shared: Arc<Shared>,
    /// This link's thread is to probe.
    is_responsible: AtomicBool,
    /// We close the connection ourselves, because it is idle.
    is_resetting: AtomicBool,
}

/// What happened on a link: written by its thread, but for `is_up`.
#[derive(Debug, Default)]
pub(crate) struct LinkStats {
    pub(crate) outstanding: AtomicUsize,
    pub(crate) results: [AtomicU64; Outcome::ALL.len()],
    pub(crate) sent: AtomicU64,
    /// Replies, and how long they took in all.
    pub(crate) answered: AtomicU64,
    pub(crate) took_us: AtomicU64,
    pub(crate) is_up: AtomicBool,
    pub(crate) opened: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) probes: AtomicU64,
}

impl Link {
    /// A link that connects when the first request comes. The thread must be in a tokio runtime.
    pub(crate) fn new(
        name: String,
        tko: Arc<Tko>,
        wanted: &Destination,
        shared: Arc<Shared>,
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
                stall: if shared.options.tko.is_tracked { STALL } else { STALL_UNTRACKED },
                traffic_class,
                observer: Some(Arc::new(observer)),
                ..shared.connection_options(&server)
            };
            let connection = Connection::new(address, options);
            Self {
                name,
                server,
                account: shared.debts.account(&tko.name),
                tko,
                stats: LinkStats::default(),
                turns: Turns::new(shared.options.at_servers),
                connection,
                connect_timeout,
                timeout: wanted.timeout,
                shared,
                is_responsible: AtomicBool::new(false),
                is_resetting: AtomicBool::new(false),
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
                self.stats.opened.fetch_add(1, Relaxed);
            }
            Event::Down(reply) => {
                if self.stats.is_up.swap(false, Relaxed) {
                    self.stats.closed.fetch_add(1, Relaxed);
                }
                let was_asked = self.stats.outstanding.load(Relaxed) > 0;
                match reply.outcome {
                    Outcome::ConnectError | Outcome::ConnectTimeout => self.failed(reply.outcome),
                    _ if self.is_resetting.swap(false, Relaxed) => {}
                    _ if was_asked => self.failed(Outcome::ConnectError),
                    // The server closed an idle connection: it has ended, or just tidies up. A connection that fails
                    // marks it before a client's request has to.
                    _ => {
                        let link = Arc::downgrade(self);
                        tokio::spawn(async move {
                            if let Some(link) = link.upgrade() {
                                link.probe().await;
                            }
                        });
                    }
                }
            }
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

    /// The same for one request, until its reply is there; also says how long that took.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        request: Request,
        timeout: Duration,
        context: &crate::Context,
    ) -> (Reply, Duration) {
        let start = Start { at: Instant::now(), waker: None };
        match self.begin(request, timeout, (start, context)) {
            Ok(mut under_way) => poll_fn(|cx| under_way.poll(cx)).await,
            Err(reply) => (reply, Duration::ZERO),
        }
    }

    fn admit(&self, op: Op) -> Result<(), Reply> {
        let options = &self.shared.options.tko;
        let is_out = self.tko.is_marked() && options.is_tracked;
        if is_out && !(op == Op::Delete && self.account.is_sending()) {
            let words = format!("Server unavailable. Reason: {}", self.tko.reason());
            return Err(self.noted(Reply::failure(Outcome::Tko, words)));
        }
        Ok(())
    }

    /// A turn at a server that may have so much under way, which takes part of the time that a reply may take; what is
    /// left of that, too.
    pub(crate) async fn turn(
        &self,
        timeout: Duration,
    ) -> Result<(Option<SemaphorePermit<'_>>, Duration), Reply> {
        let Some(turns) = &self.turns else { return Ok((None, timeout)) };
        let began = Instant::now();
        match tokio::time::timeout(timeout, turns.take()).await {
            Ok(Some(turn)) => Ok((Some(turn), timeout.saturating_sub(began.elapsed()))),
            Ok(None) => {
                let (most, name) = (self.shared.options.at_servers.waiting, &self.tko.name);
                let words =
                    format!("Max pending requests ({most}) reached for destination \"{name}\".");
                Err(self.noted(Reply::failure(Outcome::LocalError, words)))
            }
            Err(_) => Err(self.noted(Reply::failure(Outcome::Timeout, "Reply timeout"))),
        }
    }

    /// Whether what a server may have under way is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.turns.is_some()
    }

    /// Counts a reply, and says it in mcrouter's words. `took` is how long the server took; `None`: it said nothing, and
    /// the reply, a refusal or a lost connection, tells nothing good of it.
    fn settle(self: &Arc<Self>, reply: &mut Reply, took: Option<Duration>) {
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
            _ => {
                if let Some(took) = took {
                    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                    add(&self.stats.took_us, took_us);
                    add(&self.stats.answered, 1);
                    self.tko.succeeded();
                }
            }
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

    fn failed(self: &Arc<Self>, outcome: Outcome) {
        if !self.shared.options.tko.is_tracked || !self.tko.failed(outcome) {
            return;
        }
        let kind = if self.tko.is_hard() { "hard" } else { "soft" };
        let (name, standing) = (&self.tko.name, self.tko.standing());
        let reason = self.tko.reason();
        tracing::warn!("{name} marked {kind} TKO. {standing}. Reply: {reason}");
        self.take_charge();
    }

    /// From now on this link probes its server, which is marked.
    fn take_charge(self: &Arc<Self>) {
        self.is_responsible.store(true, Relaxed);
        // The task holds no link, so that a configuration without this server ends it.
        tokio::spawn(probe(Arc::downgrade(self), self.shared.options.tko.probe_first));
    }

    /// The first link of a server that is owed deletes, and marked for that if servers are marked at all: sends them at
    /// once. The task ends when that is done, or has failed and will be tried again.
    pub(crate) fn recover(self: &Arc<Self>) -> JoinHandle<()> {
        let is_marked = self.tko.is_marked();
        if is_marked {
            self.is_responsible.store(true, Relaxed);
            tracing::warn!("{} marked hard TKO: it is owed deletes", self.tko.name);
        }
        let link = Arc::downgrade(self);
        tokio::spawn(async move {
            let Some(link) = link.upgrade() else { return };
            if link.probe().await && link.returned().await {
                return;
            }
            if is_marked {
                link.take_charge();
            } else {
                returning::tend(&link.account, &link.shared, link.shared.options.tko.probe_first);
            }
        })
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
        let waiting = self.turns.as_ref().map_or(0, Turns::waiting);
        let outstanding = self.connection.load().0;
        if self.stats.is_up.load(Relaxed) {
            (waiting, outstanding)
        } else {
            (waiting + outstanding, 0)
        }
    }

    /// Whether the server answers in the time that a request has.
    pub(crate) async fn probe(&self) -> bool {
        self.stats.probes.fetch_add(1, Relaxed);
        let deadline = Instant::now() + self.patience(self.timeout);
        let reply = self.connection.ask(Request::new(Op::Version, ""), deadline).await;
        reply.outcome == Outcome::Ok
    }

    /// Past the mark: for deletes that are sent again before the server counts as returned.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// Probes until the server answers or nobody wants it any more.
async fn probe(link: Weak<Link>, first: Duration) {
    let mut pause = first;
    loop {
        // Spread, so that routers which lost a server together don't probe it together.
        sleep(pause.mul_f64(1.05 + 0.45 * fastrand::f64())).await;
        let Some(link) = link.upgrade() else { return };
        if link.probe().await && link.returned().await {
            return;
        }
        // Packets that a network lost are sent again late: the next probe finds out faster over a fresh connection.
        link.close_if_idle();
        pause = pause.mul_f64(1.5).min(link.shared.options.tko.probe_most);
    }
}

impl Link {
    /// False: the server failed again before it had its deletes.
    async fn returned(self: &Arc<Self>) -> bool {
        let was_marked = self.tko.is_marked();
        if !returning::settle(self, &self.shared).await {
            return false;
        }
        if was_marked {
            tracing::info!("{} unmarked TKO. {}", self.tko.name, self.tko.standing());
        }
        true
    }

    /// The server serves again.
    pub(crate) fn unmark(&self) {
        self.is_responsible.store(false, Relaxed);
        self.tko.clear();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.is_responsible.load(Relaxed) {
            return;
        }
        // Where there is no runtime any more the process ends.
        let is_kept = !self.account.is_paid() && tokio::runtime::Handle::try_current().is_ok();
        let is_heir = |link: &Arc<Link>| is_kept && Arc::ptr_eq(&link.tko, &self.tko);
        if let Some(heir) = self.shared.links().into_iter().rfind(is_heir) {
            heir.take_charge();
        } else {
            self.tko.clear();
            // At the end of the process all links go, and nothing was removed.
            if self.shared.phase.load(Relaxed) != STOPPING {
                let (name, standing) = (&self.tko.name, self.tko.standing());
                tracing::info!("{name} was TKO, removed from config. {standing}");
            }
        }
    }
}

/// How a request begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'w> {
    /// When: those of one turn may share a look at the clock.
    pub(crate) at: Instant,
    /// Told of the reply, without a first poll.
    pub(crate) waker: Option<&'w Waker>,
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
}

impl<A> UnderWay<A> {
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
        self.link.settle(&mut reply, came.map(|_| took));
        Poll::Ready((reply, took))
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
        replies.iter_mut().for_each(|reply| self.link.settle(reply, came.map(|_| took)));
        Poll::Ready((replies, took))
    }
}

impl<A> Drop for UnderWay<A> {
    fn drop(&mut self) {
        let outstanding = &self.link.stats.outstanding;
        outstanding.store(outstanding.load(Relaxed) - self.keys, Relaxed);
    }
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
