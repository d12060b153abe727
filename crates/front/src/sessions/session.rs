//! One client's connection: requests in, replies out, in order.
//!
//! A turn is one poll of the session's task. It reads what the client sent and begins each request. Answers that are ready
//! at the front of the queue go out in one write. Requests of one turn reach their service together, so that they can share
//! a write there too. A client that keeps the thread busy goes on in a later turn ([`pace`]). The session moves bytes
//! between the socket and the client's [`Pipeline`], and decides when the client must give way, or go.
//!
//! # Invariants
//! 1. Replies leave in the order of their requests, however many are under way.
//! 2. A client isn't read from while it has as many requests under way as it may, or doesn't take its replies.
//! 3. All that is held for a client is on its [`Account`], in bytes: what it sent, what is under way, what it hasn't taken.
//!    A client above its room isn't read from; an unfinished request or a value that finds no room is refused. A client
//!    that leaves memory unused while others need it loses its unfinished request, or the connection.
//! 4. A change that was read is carried through, also when the client goes before it is answered; a server's `flush_all`
//!    isn't. Until then the session keeps its place among the clients, but at most for [`DEPARTED_FOR`], and one of a crowd
//!    for [`CROWD_FOR`]: clients send and leave faster than slow changes are made. It also keeps it while values come for
//!    which the client waited in a lane: other clients' values would come behind them.

mod pipeline;
mod input;
mod growing;
mod outlet;
mod pace;
mod changes;
mod patience;
mod queue;
mod lines;
mod get;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use guira_log::Seldom;

use crate::sessions::memory::{Account, FREE_BYTES, Way};
use crate::sessions::service::Service;
use crate::sessions::stream::Stream;
use crate::sessions::thread::{Phase, Sessions};
use crate::sessions::yielding::Place;
use patience::Patience;
use pipeline::{Pipeline, REQUEST_COST};

/// A client's connection.
pub(crate) struct Session<S: Service> {
    sessions: Rc<Sessions<S>>,
    pipe: Pipeline<S>,
    stream: Stream,
    /// The client's place in the line to give way, while its request is unfinished.
    place: Place,
    /// Whether the client isn't read from before others have given way.
    is_short: bool,
    patience: Patience,
}

impl<S: Service> Session<S> {
    /// Creates the session of a client that sent `input` already.
    pub(crate) fn new(sessions: Rc<Sessions<S>>, stream: Stream, input: BytesMut) -> Self {
        let bank = &sessions.clients.bank;
        let place = Place::new(&bank.yielding, stream.peer());
        let account = Account::new(bank);
        Self {
            pipe: Pipeline::new(Rc::clone(&sessions), &stream, input, account),
            sessions,
            stream,
            place,
            is_short: false,
            patience: Patience::default(),
        }
    }

    /// Serves the client until it goes. The log names `from` as its origin.
    pub(crate) async fn serve(mut self, from: &str) {
        let sessions = Rc::clone(&self.sessions);
        let mut ending = pin!(sessions.is_ending.notified());
        let mut is_listening = false;
        let turns = std::future::poll_fn(|cx| {
            // Polled once: the task's waker stays the same. The phase shows why the task was woken.
            if !std::mem::replace(&mut is_listening, true) {
                let _ = ending.as_mut().poll(cx);
            }
            self.poll_turn(cx)
        });
        // After any error the connection is over, and no client is left to tell.
        if let Err(error) = turns.await {
            tracing::debug!("the connection from {from} ends: {error}");
        }
        self.carry_through().await;
        if let Some(bytes) = self.pipe.lines.longest_value() {
            self.pipe.pace.came_for_nobody(bytes);
        }
        self.pipe.pace.set_under_way(0);
        let goodbye = async {
            std::future::poll_fn(|cx| self.stream.poll_goodbye(cx)).await?;
            match self.pipe.is_refused {
                true => {
                    std::future::poll_fn(|cx| self.pipe.input.read_to_end(&mut self.stream, cx))
                        .await
                }
                false => Ok(()),
            }
        };
        let _ = tokio::time::timeout(GOODBYE_MAX, goodbye).await;
    }

    /// Carries the changes of the client through, which has gone.
    async fn carry_through(&mut self) {
        let sessions = Rc::clone(&self.sessions);
        let departed = &sessions.departed;
        departed.set(departed.get() + 1);
        let is_crowd = departed.get() > CROWD_MIN;
        let mut is_kept = false;
        let changes = std::future::poll_fn(|cx| {
            if !std::mem::replace(&mut is_kept, true) {
                self.pipe.keep_changes(&self.stream, cx);
                self.place.leave();
            }
            self.pipe.poll_changes(cx)
        });
        let limit = if is_crowd { CROWD_FOR } else { DEPARTED_FOR };
        if tokio::time::timeout(limit, changes).await.is_err() {
            static TOLD: Seldom = Seldom::new();
            if TOLD.admits() {
                tracing::warn!("changes of a client that has left took too long, and are given up");
            }
        }
        departed.set(departed.get() - 1);
    }

    fn poll_turn(&mut self, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.sessions.phase.get();
        self.pipe.is_ending |= phase == Phase::Closing;
        self.pipe.pace.begin_turn(cx.waker());
        self.pipe.poll(cx);
        if self.pipe.waits() && !self.pipe.pace.is_waiting() {
            // The client isn't read from, so only this check notices its end.
            self.stream.check()?;
        }
        if self.pipe.pace.is_in_lane() {
            self.pipe.settle_lanes();
        }
        while !self.pipe.pace.is_spent(cx.waker()) {
            let has_more_to_say = !self.pipe.say_answered(cx);
            self.pipe.outlet.flush(
                &mut self.stream,
                (&mut self.pipe.pace, &mut self.patience),
                cx,
            )?;
            let has_begun = self.pipe.begin_all(&self.stream, cx);
            if has_begun || has_more_to_say && self.pipe.outlet.is_empty() {
                continue;
            }
            if self.pipe.is_over() {
                return Poll::Ready(Ok(()));
            }
            if self.is_short && self.audit(cx) {
                continue;
            }
            if self.pipe.is_ending || self.is_short || !self.pipe.may_read() {
                break;
            }
            match self.pipe.input.poll_read(&mut self.stream, cx)? {
                Poll::Ready(0) => self.pipe.is_ending = true,
                Poll::Ready(n) => {
                    // A part of a request costs no less than a whole one.
                    self.pipe.pace.spend(if self.pipe.input.is_unfinished() {
                        n + REQUEST_COST
                    } else {
                        n
                    });
                    self.patience.sent(n);
                    self.audit(cx);
                }
                Poll::Pending if self.audit(cx) => {}
                Poll::Pending => {
                    if self.pipe.is_idle() && phase != Phase::Serving {
                        return Poll::Ready(Ok(()));
                    }
                    break;
                }
            }
        }
        if self.pipe.pace.is_in_lane() {
            // Requests that were answered as they were begun leave the lane, even if the client doesn't read.
            self.pipe.settle_lanes();
        }
        self.pipe.pace.end_turn();
        self.pipe.tidy();
        self.pipe.account.hold(self.pipe.held());
        self.give_way(cx)?;
        let limit = self.sessions.clients.limits.timeout;
        self.patience.poll(cx, limit, (self.pipe.outlet.waits(), self.stream.taken()))
    }

    /// Takes back memory that the client leaves unused, if others need it. Fails, so that the connection ends, if the
    /// client leaves replies unread. Otherwise its unfinished request is refused.
    fn give_way(&mut self, cx: &mut std::task::Context<'_>) -> io::Result<()> {
        let has_more = self.pipe.input.held() > FREE_BYTES;
        if has_more || self.place.is_taken() {
            self.stand_in_line(cx);
        }
        let is_its_turn = self.pipe.outlet.waits() || has_more;
        let is_its_turn = is_its_turn && !self.pipe.pace.is_waiting();
        if !self.patience.is_over(cx, &self.pipe.account, is_its_turn) {
            return Ok(());
        }
        if self.pipe.outlet.waits() {
            static TOLD: Seldom = Seldom::new();
            if TOLD.admits() {
                tracing::warn!("a client is closed: {LEFT_UNREAD} (--client-memory)");
            }
            self.pipe.account.refuse();
            return Err(io::Error::other(LEFT_UNREAD));
        }
        if self.pipe.input.is_unfinished() {
            self.pipe.account.refuse();
            self.pipe.refuse_unfinished();
        }
        // In the next turn the client is told, or checked again.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Updates the client's place in the line of those that may have to give way, and gives way if it has to.
    #[cold]
    fn stand_in_line(&mut self, cx: &mut std::task::Context<'_>) {
        let is_unfinished = self.pipe.input.held() > FREE_BYTES && self.pipe.input.is_unfinished();
        let held = if is_unfinished { self.pipe.input.held() } else { 0 };
        if self.place.note(held, cx.waker()) {
            self.pipe.account.refuse();
            self.pipe.refuse_unfinished();
            self.pipe.account.hold(self.pipe.held());
            self.place.leave();
            // The client is told in the next turn.
            cx.waker().wake_by_ref();
        }
    }

    /// Refuses an unfinished request if there is no room for it and none can be made. Returns whether it did.
    fn audit(&mut self, cx: &mut std::task::Context<'_>) -> bool {
        self.is_short = false;
        if self.pipe.input.held() <= FREE_BYTES {
            return false;
        }
        self.pipe.account.hold(self.pipe.held());
        let is_too_long = self.pipe.input.wanted() > self.pipe.account.longest_value();
        let finds_none =
            (self.pipe.account.room() == 0 || is_too_long) && self.pipe.input.is_unfinished();
        let is_refused = finds_none && (is_too_long || self.make_way(cx) == Way::Closed);
        if is_refused {
            // A request that is too long would find no room even if no other client held anything.
            self.pipe.account.refuse_bytes(if is_too_long { usize::MAX } else { 1 });
            self.pipe.refuse_unfinished();
        }
        is_refused
    }

    /// Tells others to make room for the next part of the unfinished request.
    #[cold]
    fn make_way(&mut self, cx: &mut std::task::Context<'_>) -> Way {
        let is_told = self.place.note(self.pipe.input.held(), cx.waker());
        let way =
            if is_told { Way::Closed } else { self.pipe.account.make_way(1, Some(&self.place)) };
        self.is_short = way == Way::Later;
        if self.is_short {
            // Clients of this thread that were told give way before the task runs again, those of other threads in their
            // next turn.
            cx.waker().wake_by_ref();
        }
        way
    }
}

/// Why a client that doesn't read is closed.
const LEFT_UNREAD: &str = "it left replies unread while others needed the memory";
/// How long the end of a connection may take: the end of TLS, and what a refused client still sends.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// How long the changes of a client are carried through that has gone: as long as one change may take in a cluster.
const DEPARTED_FOR: Duration = Duration::from_secs(10);
/// The same if a thread has more than [`CROWD_MIN`] of them.
const CROWD_FOR: Duration = Duration::from_secs(1);
const CROWD_MIN: usize = 256;
