//! One client's connection: requests in, replies out, in order.
//!
//! A turn is one poll of the session's task. It reads what the client sent and begins each request. Answers that are ready
//! at the front of the queue go out in one write. Requests of one turn reach their service together, so that they can share
//! a write there too. A client that keeps the thread busy goes on in a later turn ([`pace`]).
//!
//! # Invariants
//! 1. Replies leave in the order of their requests, however many are under way.
//! 2. A client isn't read from while it has as many requests under way as it may, or doesn't take its replies.
//! 3. All that is held for a client is on its [`Account`], in bytes: what it sent, what is under way, what it hasn't taken.
//!    A client above its room isn't read from; an unfinished request or a value that finds no room is refused. A client
//!    that leaves memory unused while others need it loses its unfinished request, or the connection.
//! 4. A change that was read is carried through, also when the client goes before it is answered; a server's `flush_all`
//!    isn't. Until then the session keeps its place among the clients. It also keeps it while values come for which the
//!    client waited in a lane: other clients' values would come behind them.
//!
//! # Costs
//! A turn polls each request that is under way: bad at thousands of them on one connection whose replies come one by one.
//! Nothing is allocated for a request beyond what its service allocates.

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
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use guira_client::Purse;
use guira_log::Seldom;
use tokio::time::Instant;

use crate::sessions::line::Asked;
use crate::sessions::memory::{Account, FREE_BYTES, Way};
use crate::sessions::service::{ClientTap, Service, Start};
use crate::sessions::stream::{PeerEnd, Stream};
use crate::sessions::thread::{Phase, Sessions};
use crate::sessions::yielding::Place;
use input::Input;
use lines::{Begun, Line};
use outlet::{OUTPUT_BYTES_MAX, Outlet};
use pace::Pace;
use patience::Patience;
use queue::Lines;

/// A client's connection.
pub(crate) struct Session<S: Service> {
    sessions: Rc<Sessions<S>>,
    client: S::Client,
    stream: Stream,
    input: Input,
    /// A request that waits until it may begin.
    next: Option<Box<Asked>>,
    pace: Pace,
    account: Arc<Account>,
    /// The client's place in the line to give way, while its request is unfinished.
    place: Place,
    /// Whether the client isn't read from before others have given way.
    is_short: bool,
    lines: Lines<S>,
    outlet: Outlet,
    /// Whether nothing more is read: the client has gone, or must go.
    is_ending: bool,
    /// Whether the client was told why it must go. What it still sends is read and discarded: otherwise the system would
    /// take the message back.
    is_refused: bool,
    /// The observer of what goes through, if there is one.
    tap: Option<Box<dyn ClientTap>>,
    patience: Patience,
}

impl<S: Service> Session<S> {
    /// Creates the session of a client that sent `input` already.
    pub(crate) fn new(sessions: Rc<Sessions<S>>, stream: Stream, input: BytesMut) -> Self {
        let account = Account::new(&sessions.clients.bank);
        let purse = Arc::clone(&account) as Arc<dyn Purse>;
        let place = Place::new(&sessions.clients.bank.yielding, stream.peer());
        let (peer, local) = stream.ends();
        Self {
            client: sessions.service.enter(stream.peer(), purse),
            tap: sessions.service.tap(peer, local),
            pace: Pace::new(Rc::clone(&sessions.lanes)),
            sessions,
            stream,
            input: Input::new(input, Arc::clone(&account)),
            next: None,
            account,
            place,
            is_short: false,
            lines: Lines::new(),
            outlet: Outlet::default(),
            is_ending: false,
            is_refused: false,
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
        let mut is_kept = false;
        std::future::poll_fn(|cx| {
            if !std::mem::replace(&mut is_kept, true) {
                self.keep_changes(cx);
            }
            self.poll_changes(cx)
        })
        .await;
        if let Some(bytes) = self.lines.longest_value() {
            self.pace.came_for_nobody(bytes);
        }
        self.pace.set_under_way(0);
        let goodbye = async {
            std::future::poll_fn(|cx| self.stream.poll_goodbye(cx)).await?;
            match self.is_refused {
                true => {
                    std::future::poll_fn(|cx| self.input.read_to_end(&mut self.stream, cx)).await
                }
                false => Ok(()),
            }
        };
        let _ = tokio::time::timeout(GOODBYE_MAX, goodbye).await;
    }

    /// Begins the changes that were sent by a client that has gone. Drops everything else, except for values that others
    /// have to wait for.
    fn keep_changes(&mut self, cx: &mut std::task::Context<'_>) {
        self.pace.leave();
        self.lines.keep_changes(self.pace.is_in_lane());
        // The client takes no replies any more.
        self.outlet = Outlet::default();
        let start = Start { at: Instant::now(), waker: Some(cx.waker()) };
        if let Some(asked) = self.next.take().filter(|asked| asked.is_change::<S::Manners>()) {
            self.begin(*asked, start);
        }
        while let Some(asked) = self.input.next::<S::Manners>() {
            if asked.is_change::<S::Manners>() {
                self.begin(asked, start);
            }
        }
        // An unfinished request never becomes whole: nothing of it is kept.
        self.input.discard();
        self.account.hold(self.held());
        self.place.leave();
    }

    /// Ready once the changes of a client that has gone are carried through, and the values that it asked for in a lane
    /// have come.
    fn poll_changes(&mut self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        self.lines.poll(cx, &self.client);
        if self.lines.are_over() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_turn(&mut self, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.sessions.phase.get();
        self.is_ending |= phase == Phase::Closing;
        self.pace.begin_turn(cx.waker());
        self.lines.poll(cx, &self.client);
        self.pay();
        if self.waits() && !self.pace.is_waiting() {
            // The client isn't read from, so only this check notices its end.
            self.stream.check()?;
        }
        if self.pace.is_in_lane() {
            self.settle_lanes();
        }
        while !self.pace.is_spent(cx.waker()) {
            let has_more_to_say = !self.say_answered(cx);
            self.outlet.flush(&mut self.stream, (&mut self.pace, &mut self.patience), cx)?;
            let has_begun = self.begin_all(cx);
            if has_begun || has_more_to_say && self.outlet.is_empty() {
                continue;
            }
            if self.is_over() {
                return Poll::Ready(Ok(()));
            }
            if self.is_short && self.audit(cx) {
                continue;
            }
            if self.is_ending || self.is_short || !self.may_read() {
                break;
            }
            match self.input.poll_read(&mut self.stream, cx)? {
                Poll::Ready(0) => self.is_ending = true,
                Poll::Ready(n) => {
                    // A part of a request costs no less than a whole one.
                    self.pace.spend(if self.input.is_unfinished() { n + REQUEST_COST } else { n });
                    self.patience.sent(n);
                    self.audit(cx);
                }
                Poll::Pending if self.audit(cx) => {}
                Poll::Pending => {
                    let is_quiet = self.lines.is_empty() && self.outlet.is_empty();
                    if is_quiet && phase != Phase::Serving {
                        return Poll::Ready(Ok(()));
                    }
                    break;
                }
            }
        }
        if self.pace.is_in_lane() {
            // Requests that were answered as they were begun leave the lane, even if the client doesn't read.
            self.settle_lanes();
        }
        self.pace.end_turn();
        self.tidy();
        self.account.hold(self.held());
        self.give_way(cx)?;
        let limit = self.sessions.clients.limits.timeout;
        self.patience.poll(cx, limit, (self.outlet.waits(), self.stream.taken()))
    }

    /// Charges the turn for requests that cost much although little was moved, such as an append to a long value.
    #[inline]
    fn pay(&mut self) {
        let bytes = self.sessions.service.spent(&self.client);
        if bytes > 0 {
            self.pace.spend(bytes);
        }
    }

    /// Takes back memory that the client leaves unused, if others need it. Fails, so that the connection ends, if the
    /// client leaves replies unread. Otherwise its unfinished request is refused.
    fn give_way(&mut self, cx: &mut std::task::Context<'_>) -> io::Result<()> {
        let has_more = self.input.held() > FREE_BYTES;
        if has_more || self.place.is_taken() {
            self.stand_in_line(cx);
        }
        let is_its_turn = self.outlet.waits() || has_more;
        let is_its_turn = is_its_turn && !self.pace.is_waiting();
        if !self.patience.is_over(cx, &self.account, is_its_turn) {
            return Ok(());
        }
        if self.outlet.waits() {
            static TOLD: Seldom = Seldom::new();
            if TOLD.admits() {
                tracing::warn!("a client is closed: {LEFT_UNREAD} (--client-memory)");
            }
            self.account.refuse();
            return Err(io::Error::other(LEFT_UNREAD));
        }
        if self.input.is_unfinished() {
            self.account.refuse();
            self.refuse_unfinished();
        }
        // In the next turn the client is told, or checked again.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Updates the client's place in the line of those that may have to give way, and gives way if it has to.
    #[cold]
    fn stand_in_line(&mut self, cx: &mut std::task::Context<'_>) {
        let is_unfinished = self.input.held() > FREE_BYTES && self.input.is_unfinished();
        let held = if is_unfinished { self.input.held() } else { 0 };
        if self.place.note(held, cx.waker()) {
            self.account.refuse();
            self.refuse_unfinished();
            self.account.hold(self.held());
            self.place.leave();
            // The client is told in the next turn.
            cx.waker().wake_by_ref();
        }
    }

    /// Gives back what was taken of lanes for requests that are answered.
    #[cold]
    fn settle_lanes(&mut self) {
        self.pace.set_under_way(self.lines.under_way());
        self.pace.stored(|number| self.lines.is_answered(number));
    }

    /// Whether more may be read.
    fn may_read(&self) -> bool {
        self.lines.requests() < self.sessions.clients.limits.outstanding_max
            && !self.waits()
            && !self.input.is_taking()
            && self.may_begin()
    }

    /// Whether the client must go, and has all that it asked for.
    fn is_over(&self) -> bool {
        let is_said = self.lines.is_empty() && self.outlet.is_empty() && self.next.is_none();
        self.is_ending && is_said && !self.input.has_more()
    }

    /// Whether a request waits to begin, or part of a get does.
    fn waits(&self) -> bool {
        self.next.is_some() || self.lines.is_cut()
    }

    /// Whether there is room for another request and its reply. A client for whom nothing is held may always ask.
    fn may_begin(&self) -> bool {
        self.is_idle() || self.has_room() && self.lines.said_bytes() < SAID_BYTES_MAX
    }

    /// Whether nothing is held for the client.
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.outlet.is_empty()
    }

    /// Whether there is room for more replies, and for the bytes of more requests.
    fn has_room(&self) -> bool {
        self.outlet.has_room() && self.account.room() > 0
    }

    /// Bytes that are held for the client, without its long values.
    fn held(&self) -> usize {
        self.lines.held() + self.input.held() + self.outlet.capacity()
    }

    /// Gives back rooms that were needed once. Gives back all unused rooms if many clients have some.
    #[inline]
    fn tidy(&mut self) {
        self.input.tidy();
        let rooms = self.lines.places_bytes() + self.outlet.capacity();
        if self.lines.has_many_places() || self.is_idle() && rooms > FREE_BYTES {
            self.forget_rooms();
        }
    }

    #[cold]
    fn forget_rooms(&mut self) {
        if self.is_idle() && self.account.is_scarce() {
            self.lines.forget_places();
            self.outlet = Outlet::default();
        } else {
            self.lines.shrink();
        }
    }

    /// Refuses an unfinished request if there is no room for it and none can be made. Returns whether it did.
    fn audit(&mut self, cx: &mut std::task::Context<'_>) -> bool {
        self.is_short = false;
        if self.input.held() <= FREE_BYTES {
            return false;
        }
        self.account.hold(self.held());
        let is_too_long = self.input.wanted() > self.account.longest_value();
        let finds_none = (self.account.room() == 0 || is_too_long) && self.input.is_unfinished();
        let is_refused = finds_none && (is_too_long || self.make_way(cx) == Way::Closed);
        if is_refused {
            // A request that is too long would find no room even if no other client held anything.
            self.account.refuse_bytes(if is_too_long { usize::MAX } else { 1 });
            self.refuse_unfinished();
        }
        is_refused
    }

    /// Tells others to make room for the next part of the unfinished request.
    #[cold]
    fn make_way(&mut self, cx: &mut std::task::Context<'_>) -> Way {
        let is_told = self.place.note(self.input.held(), cx.waker());
        let way = if is_told { Way::Closed } else { self.account.make_way(1, Some(&self.place)) };
        self.is_short = way == Way::Later;
        if self.is_short {
            // Clients of this thread that were told give way before the task runs again, those of other threads in their
            // next turn.
            cx.waker().wake_by_ref();
        }
        way
    }

    fn refuse_unfinished(&mut self) {
        self.input.give_up();
        self.push(Line::Said(TOO_MUCH_HELD.to_vec()));
    }

    #[inline]
    fn push(&mut self, line: Line<S>) {
        match line {
            // A tap sees each reply alone.
            Line::Said(text) => self.lines.push_said(text, self.tap.is_none()),
            line => self.lines.push(line, self.pace.short()),
        }
    }

    /// Says the answers that are ready at the front of the queue, as long as there is room. Returns false if the room is
    /// used up.
    fn say_answered(&mut self, cx: &mut std::task::Context<'_>) -> bool {
        while let Some(line) = self.lines.first() {
            if !line.is_sayable() {
                break;
            }
            let output = &mut self.outlet.output;
            let before = output.left();
            if before >= OUTPUT_BYTES_MAX {
                return false;
            }
            // Only a tap needs the operation.
            let op = if self.tap.is_some() { line.op() } else { None };
            let service = &*self.sessions.service;
            let (is_done, keys) = line.say(service, output, OUTPUT_BYTES_MAX);
            let bytes = output.left() - before;
            if keys > 0 {
                self.pace.answered(keys, bytes);
            } else if bytes > 0 && line.is_dropped() {
                self.pace.dropped();
            }
            if let Some(tap) = &self.tap
                && (bytes > 0 || op.is_some())
                && tap.is_open()
            {
                tap.answered(op, &output.copy()[before..]);
            }
            if is_done {
                self.lines.pop();
            } else if let Some(line @ Line::Feed { .. }) = self.lines.first() {
                line.poll(cx, &self.client);
            }
        }
        true
    }

    /// Begins the requests that were read, as far as there is room, and polls each once. Returns whether anything was
    /// begun.
    fn begin_all(&mut self, cx: &mut std::task::Context<'_>) -> bool {
        if !self.waits() && !self.input.has_more() {
            return false;
        }
        self.pace.set_under_way(self.lines.under_way());
        let start = Start { at: Instant::now(), waker: Some(cx.waker()) };
        let mut has_begun = self.go_on(start);
        if has_begun {
            self.lines.poll_last(cx, &self.client);
        }
        // The account doesn't change while requests begin: it is told of their bytes afterwards.
        let has_room = self.has_room();
        while has_room && self.lines.said_bytes() < SAID_BYTES_MAX || self.is_idle() {
            if self.pace.is_spent(cx.waker()) {
                break;
            }
            let is_under_way = match self.next.take() {
                Some(asked) => self.begin(*asked, start),
                None if self.waits() => break,
                None => match self.take() {
                    Some(asked) => self.begin(asked, start),
                    None => break,
                },
            };
            if !is_under_way {
                break;
            }
            has_begun = true;
            self.pace.spend(REQUEST_COST);
            self.lines.poll_last(cx, &self.client);
            self.pay();
        }
        if self.next.is_none() && !self.lines.is_empty() {
            // The requests are slices of the chunk: it goes with the last of them.
            self.lines.grow_last(self.input.finished());
        }
        has_begun
    }

    /// Takes the next request from what was read.
    fn take(&mut self) -> Option<Asked> {
        let asked = self.input.next::<S::Manners>();
        if let (Some(tap), Some(asked)) = (&self.tap, &asked)
            && tap.is_open()
            && !self.input.taken().is_empty()
        {
            tap.asked(asked.op(), self.input.taken());
        }
        asked
    }

    /// Begins the next part of the get at the end of the queue. Returns whether it did.
    fn go_on(&mut self, start: Start<'_>) -> bool {
        let has_own = !self.outlet.is_empty();
        let Some(Line::Get(get)) = self.lines.last() else { return false };
        if !get.may_go_on() {
            return false;
        }
        let (keys, value_bytes) = get.news();
        if keys > 0 {
            self.pace.answered(keys, value_bytes);
        }
        let n = self.pace.affordable(get.rest(), &self.account, has_own);
        let n = start.waker.map_or(0, |waker| self.pace.admit(n, waker));
        if n > 0 {
            self.pace.spend(n * REQUEST_COST);
            let (service, client, short) =
                (&self.sessions.service, &self.client, self.pace.short());
            let before = get.held(short);
            get.begin(n, short, |op, exptime, keys| {
                service.begin_keys(client, op, exptime, keys, start)
            });
            let more = get.held(short).saturating_sub(before);
            self.lines.grow_last(more);
        }
        n > 0
    }

    /// Returns how many keys of a get may be asked for now; 0 for any other request. `None`: the request waits.
    #[inline]
    fn admit(&mut self, asked: &Asked, start: Start<'_>) -> Option<usize> {
        let keys = asked.gets();
        if keys > 0 {
            let keys = self.pace.affordable(keys, &self.account, !self.outlet.is_empty());
            let n = start.waker.map_or(0, |waker| self.pace.admit(keys, waker));
            self.pace.spend(n.saturating_sub(1) * REQUEST_COST);
            return (n > 0).then_some(n);
        }
        let number = self.lines.next_number();
        let may_ask =
            start.waker.is_none_or(|waker| self.pace.may_ask::<S::Manners>(number, asked, waker));
        may_ask.then_some(0)
    }

    /// Whether the client has gone, or may have gone while too many such clients wait already.
    #[cold]
    fn is_in_vain(&mut self) -> bool {
        match self.stream.end() {
            PeerEnd::Open => false,
            PeerEnd::HalfClosed => !self.pace.step_aside(),
            PeerEnd::Gone => true,
        }
    }

    /// Begins a request. Returns false if it waits.
    #[inline]
    fn begin(&mut self, asked: Asked, start: Start<'_>) -> bool {
        if self.pace.is_newcomer() && asked.gets() > 0 && self.is_in_vain() {
            self.push(Line::Said(BUSY.to_vec()));
            return true;
        }
        let Some(admitted) = self.admit(&asked, start) else {
            self.next = Some(Box::new(asked));
            return false;
        };
        let from = (&*self.sessions, &self.client, &self.stream);
        match Line::begin(from, asked, (admitted, self.pace.short()), start) {
            Begun::Line(line) => self.push(line),
            Begun::Last { line, is_refused } => {
                self.end();
                self.is_refused |= is_refused;
                self.push(line);
            }
            Begun::Waits(asked) => {
                self.next = Some(Box::new(asked));
                return false;
            }
        }
        true
    }

    /// Stops reading from the client, and discards its input.
    fn end(&mut self) {
        self.is_ending = true;
        self.input.discard();
    }
}

/// With this many bytes of text in the queue that needs no server, behind requests that do, nothing more is read.
const SAID_BYTES_MAX: usize = 256 << 10;
/// Why a client that doesn't read is closed.
const LEFT_UNREAD: &str = "it left replies unread while others needed the memory";
const TOO_MUCH_HELD: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
/// mcrouter's number and word for "later".
const BUSY: &[u8] = b"SERVER_ERROR 307 busy\r\n";
/// The cost of a request in addition to its bytes, as bytes that could be read or written instead.
const REQUEST_COST: usize = 256;
/// How long the end of a connection may take: the end of TLS, and what a refused client still sends.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
