//! A client's requests, from its input to its output, without the socket.
//!
//! ```text
//! input ─▶ next: waits until it may begin ─▶ lines: under way ─▶ outlet: replies, in order
//! ```
//! # Invariants
//! 1. Replies reach the outlet in the order of their requests.
//! 2. A change that was taken is carried through, also when the client goes before it is answered; a server's `flush_all`
//!    isn't.
//!
//! # Costs
//! A turn polls each request that is under way: bad at thousands of them on one connection whose replies come one by one.
//! Nothing is allocated for a request beyond what its service allocates.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use guira_client::Purse;
use tokio::time::Instant;

use super::input::Input;
use super::lines::{Begun, Line};
use super::outlet::{OUTPUT_BYTES_MAX, Outlet};
use super::pace::Pace;
use super::queue::Lines;
use crate::sessions::line::Asked;
use crate::sessions::memory::{Account, FREE_BYTES};
use crate::sessions::service::{ClientTap, Service, Start};
use crate::sessions::stream::{PeerEnd, Stream};
use crate::sessions::thread::Sessions;

/// See the module's head.
pub(super) struct Pipeline<S: Service> {
    sessions: Rc<Sessions<S>>,
    client: S::Client,
    pub(super) account: Arc<Account>,
    pub(super) input: Input,
    /// A request that waits until it may begin.
    next: Option<Box<Asked>>,
    pub(super) pace: Pace,
    pub(super) lines: Lines<S>,
    pub(super) outlet: Outlet,
    /// Whether no further request is taken: the client has gone, or must go.
    pub(super) is_ending: bool,
    /// Whether the client was told why it must go. What it still sends is read and discarded: otherwise the system would
    /// take the message back.
    pub(super) is_refused: bool,
    /// The observer of what goes through, if there is one.
    tap: Option<Box<dyn ClientTap>>,
}

impl<S: Service> Pipeline<S> {
    /// Creates the pipeline of a client that sent `input` already.
    pub(super) fn new(
        sessions: Rc<Sessions<S>>,
        stream: &Stream,
        input: BytesMut,
        account: Arc<Account>,
    ) -> Self {
        let purse = Arc::clone(&account) as Arc<dyn Purse>;
        let (peer, local) = stream.ends();
        Self {
            client: sessions.service.enter(stream.peer(), purse),
            tap: sessions.service.tap(peer, local),
            pace: Pace::new(Rc::clone(&sessions.lanes)),
            sessions,
            input: Input::new(input, Arc::clone(&account)),
            account,
            next: None,
            lines: Lines::new(),
            outlet: Outlet::default(),
            is_ending: false,
            is_refused: false,
        }
    }

    /// Begins the changes that were sent by a client that has gone. Drops everything else, except for values that others
    /// have to wait for.
    pub(super) fn keep_changes(&mut self, stream: &Stream, cx: &mut Context<'_>) {
        self.pace.leave();
        self.lines.keep_changes(self.pace.is_in_lane());
        // The client takes no replies any more.
        self.outlet = Outlet::default();
        let start = Start { at: Instant::now(), waker: Some(cx.waker()) };
        if let Some(asked) = self.next.take().filter(|asked| asked.is_change::<S::Manners>()) {
            self.begin(*asked, stream, start);
        }
        while let Some(asked) = self.input.next::<S::Manners>() {
            if asked.is_change::<S::Manners>() {
                self.begin(asked, stream, start);
            }
        }
        // An unfinished request never becomes whole: nothing of it is kept.
        self.input.discard();
        self.account.hold(self.held());
    }

    /// Ready once the changes of a client that has gone are carried through, and the values that it asked for in a lane
    /// have come.
    pub(super) fn poll_changes(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.lines.poll(cx, &self.client);
        if self.lines.are_over() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Polls all requests that are under way.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        self.lines.poll(cx, &self.client);
        self.pay();
    }

    /// Charges the turn for requests that cost much although little was moved, such as an append to a long value.
    #[inline]
    fn pay(&mut self) {
        let bytes = self.sessions.service.spent(&self.client);
        if bytes > 0 {
            self.pace.spend(bytes);
        }
    }

    /// Gives back what was taken of lanes for requests that are answered.
    #[cold]
    pub(super) fn settle_lanes(&mut self) {
        self.pace.set_under_way(self.lines.under_way());
        self.pace.stored(|number| self.lines.is_answered(number));
    }

    /// Whether the client must go, and has all that it asked for.
    pub(super) fn is_over(&self) -> bool {
        self.is_ending && self.is_idle() && self.next.is_none() && !self.input.has_more()
    }

    /// Whether more may be read.
    pub(super) fn may_read(&self) -> bool {
        self.lines.requests() < self.sessions.clients.limits.outstanding_max
            && !self.waits()
            && !self.input.is_taking()
            && self.may_begin()
    }

    /// Whether a request waits to begin, or part of a get does.
    pub(super) fn waits(&self) -> bool {
        self.next.is_some() || self.lines.is_cut()
    }

    /// Whether there is room for another request and its reply. A client for whom nothing is held may always ask.
    fn may_begin(&self) -> bool {
        self.is_idle() || self.has_room() && self.lines.said_bytes() < SAID_BYTES_MAX
    }

    /// Whether nothing is held for the client.
    pub(super) fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.outlet.is_empty()
    }

    /// Whether there is room for more replies, and for the bytes of more requests.
    fn has_room(&self) -> bool {
        self.outlet.has_room() && self.account.room() > 0
    }

    /// Bytes that are held for the client, without its long values.
    pub(super) fn held(&self) -> usize {
        self.lines.held() + self.input.held() + self.outlet.capacity()
    }

    /// Gives back rooms that were needed once. Gives back all unused rooms if many clients have some.
    #[inline]
    pub(super) fn tidy(&mut self) {
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

    /// Refuses the unfinished request: there is no room for it.
    pub(super) fn refuse_unfinished(&mut self) {
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
    pub(super) fn say_answered(&mut self, cx: &mut Context<'_>) -> bool {
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
    pub(super) fn begin_all(&mut self, stream: &Stream, cx: &mut Context<'_>) -> bool {
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
                Some(asked) => self.begin(*asked, stream, start),
                None if self.waits() => break,
                None => match self.take() {
                    Some(asked) => self.begin(asked, stream, start),
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
    fn is_in_vain(&mut self, stream: &Stream) -> bool {
        match stream.end() {
            PeerEnd::Open => false,
            PeerEnd::HalfClosed => !self.pace.step_aside(),
            PeerEnd::Gone => true,
        }
    }

    /// Begins a request. Returns false if it waits.
    #[inline]
    fn begin(&mut self, asked: Asked, stream: &Stream, start: Start<'_>) -> bool {
        if self.pace.is_newcomer() && asked.gets() > 0 && self.is_in_vain(stream) {
            self.push(Line::Said(BUSY.to_vec()));
            return true;
        }
        let Some(admitted) = self.admit(&asked, start) else {
            self.next = Some(Box::new(asked));
            return false;
        };
        let from = (&*self.sessions, &self.client, stream);
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
const TOO_MUCH_HELD: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
/// mcrouter's number and word for "later".
const BUSY: &[u8] = b"SERVER_ERROR 307 busy\r\n";
/// The cost of a request in addition to its bytes, as bytes that could be read or written instead.
pub(super) const REQUEST_COST: usize = 256;
