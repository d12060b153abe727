//! The requests that a link sends: refused while the server is marked, counted, and their replies settled.
//!
//! ```text
//! begin ─ admit ─▶ UnderWay ─ poll ─▶ reply ─ settle: counters, marks, mcrouter's words ─▶ caller
//!            └ the server is marked: a reply at once
//! ```
//! # Invariants
//! 1. Each request that was sent counts as outstanding from `begin` until its [`UnderWay`] is dropped.
//! 2. Each reply is counted once, whether the server, the network or this module made it.
//!
//! # Costs
//! A request costs one clone of the link's `Arc`. Counters are plain loads and stores: only the link's thread writes
//! them.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use guira_client::{Ask, AskKeys, Op, Outcome, Reply, Request};
use guira_front::sessions::Start;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::Link;

impl Link {
    /// Sends a request. `Err`: the server is marked, and the reply is known at once.
    pub(crate) fn begin(
        self: &Arc<Self>,
        request: Request,
        timeout: Duration,
        (start, context): (Start<'_>, &crate::context::Context),
    ) -> Result<UnderWay<Ask>, Reply> {
        self.admit(request.op)?;
        let deadline = start.at + self.patience(timeout);
        let ask = self.connection.ask_for(context.caller(start.waker), request, deadline);
        Ok(UnderWay::new(self, ask, 1, start.at))
    }

    /// As [`begin`](Self::begin), for a get of several keys.
    pub(crate) fn begin_keys(
        self: &Arc<Self>,
        op: Op,
        keys: Vec<Bytes>,
        timeout: Duration,
        (start, context): (Start<'_>, &crate::context::Context),
    ) -> Result<UnderWay<AskKeys>, Reply> {
        self.admit(op)?;
        let (deadline, count) = (start.at + self.patience(timeout), keys.len());
        let ask = self.connection.ask_keys(context.caller(start.waker), op, keys, deadline);
        Ok(UnderWay::new(self, ask, count, start.at))
    }

    /// Sends a request and waits for its reply. Returns the reply, and the time it took. A request whose value a server
    /// could read as commands is sent only after the server has shown that it won't.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        request: Request,
        timeout: Duration,
        context: &crate::context::Context,
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

    /// As [`ask`](Self::ask), for a server that is known to understand all requests. Also returns whether the server
    /// sent the reply.
    pub(in crate::servers) async fn ask_once(
        self: &Arc<Self>,
        request: Request,
        timeout: Duration,
        context: &crate::context::Context,
    ) -> (Reply, bool) {
        let permit = self.permit(timeout).await;
        let begun = permit.and_then(|(permit, left)| {
            self.begin(request, left, (now(), context)).map(|begun| (begun, permit))
        });
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

    /// Returns a permit if requests under way are limited, and the time that is left of `timeout`. Waiting for the
    /// permit counts as part of the time for the reply.
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

    /// Whether requests under way are limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.permits.is_some()
    }

    /// Counts a reply, and translates it to mcrouter's messages. `is_servers`: the server sent the reply. Otherwise it
    /// is a local refusal or a lost connection, and no sign that the server works.
    fn settle(self: &Arc<Self>, reply: &mut Reply, took: Duration, is_servers: bool) {
        // A timeout also counts in the mean time: a server that is too slow has not answered in zero time.
        if is_servers || reply.outcome == Outcome::Timeout {
            add(&self.stats.took_us, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            add(&self.stats.timed, 1);
        }
        match reply.outcome {
            // The request waited for long values of other requests. Their clients may read slowly, which is no fault of
            // the server.
            Outcome::Timeout if self.connection.brought_long_within(self.timeout) => {}
            Outcome::Timeout
            | Outcome::ConnectError
            | Outcome::ConnectTimeout
            | Outcome::Shutdown => {
                self.failed(reply.outcome);
            }
            _ if is_servers => {
                self.tko.succeeded();
                self.skills.notice(reply);
            }
            _ => {}
        }
        add(&self.stats.results[reply.outcome as usize], 1);
        say_in_mcrouters_words(reply);
    }

    /// Counts a reply that this module made.
    pub(super) fn noted(&self, reply: Reply) -> Reply {
        add(&self.stats.results[reply.outcome as usize], 1);
        reply
    }
}

/// A request, or a get of several keys, whose reply hasn't arrived. Until it is dropped, it counts as outstanding.
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

    /// The time until the server's reply, or until now.
    fn took(&self, came: Option<Instant>) -> Duration {
        came.unwrap_or_else(Instant::now).saturating_duration_since(self.began)
    }
}

impl UnderWay<Ask> {
    /// See [`Ask::is_due`].
    pub(crate) fn is_due(&self) -> bool {
        self.ask.is_due()
    }

    /// Returns the reply when it has arrived, and the time it took.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Reply, Duration)> {
        let (mut reply, came) = ready!(self.ask.poll_timed(cx));
        let took = self.took(came);
        self.link.settle(&mut reply, took, came.is_some());
        Poll::Ready((reply, took))
    }

    /// Returns the reply when it has arrived, and whether the server sent it.
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

    /// Returns the replies when all have arrived, and the time they took.
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

/// The start of a request that no client's turn began.
pub(super) fn now() -> Start<'static> {
    Start { at: Instant::now(), waker: None }
}

/// Adds to a counter that only this thread writes.
fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Replaces the messages of local failures by mcrouter's.
fn say_in_mcrouters_words(reply: &mut Reply) {
    match reply.outcome {
        Outcome::Timeout => *reply = Reply::failure(Outcome::Timeout, "Reply timeout"),
        Outcome::ConnectTimeout | Outcome::BadKey => *reply = Reply::new(reply.outcome),
        Outcome::ConnectError => {
            let why = String::from_utf8_lossy(&reply.message);
            // It answers a handshake with something else.
            let hint = if why.contains("InvalidContentType") { ": it speaks no TLS" } else { "" };
            let words = format!("AsyncSocketException: connect failed: {why}{hint}");
            *reply = Reply::failure(Outcome::ConnectError, words);
        }
        _ => {}
    }
}
