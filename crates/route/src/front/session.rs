//! One client's connection: requests in, replies out, in order.
//!
//! A turn is one poll of the session's task: what the client sent is read and each request begun; what is answered,
//! from the front, goes out in one write. Requests of one turn reach a server's connection together, so that they
//! share a write there too.
//!
//! # Invariants
//! 1. Replies leave in the order of their requests, however many are under way.
//! 2. A client that has as many requests under way as it may, or doesn't take its replies, isn't read from.
//! 3. The memory of a session is bounded by what it may have under way, and one value.
//! 4. A change that was read is carried through, also when the client goes before it is answered. Until then the session
//!    keeps its place among the clients.
//!
//! # Costs
//! A request that goes straight to a server takes two uncontended locks, when it is queued and when its reply is fetched,
//! and allocates for the value; one that goes through routes is a future on the heap. A turn looks at each request that is
//! under way, at a number of its server's: bad at thousands of them on one connection whose replies come one by one.

mod lines;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use guira_client::{Op, Outcome, Reply, Request};
use tokio::time::{Instant, Sleep};

use super::answer;
use super::fifo::FifoTap;
use super::line::{Asked, Taken, take};
use super::link::Start;
use super::meta;
use super::proxy::{Phase, Proxy};
use super::stream::Stream;
use super::{admin, stats};
use crate::outcome::is_error;
use crate::{Context, Counter};
use lines::{Gets, Line, Part, State};

/// A client's connection.
pub(crate) struct Session {
    proxy: Rc<Proxy>,
    context: Rc<Context>,
    stream: Stream,
    /// Read, and not yet a whole request.
    input: BytesMut,
    /// Room that a read finds: more after one that took it all, so that few reads bring much and a client that sends
    /// little goes through little memory.
    room: usize,
    /// With fewer bytes `input` holds no whole request.
    wanted: usize,
    /// Bytes to throw away before the next request.
    swallow: u64,
    lines: VecDeque<Line>,
    /// Requests in `lines`.
    outstanding: usize,
    output: Vec<u8>,
    sent: usize,
    /// No more is read: the client has gone, or is to.
    is_ending: bool,
    /// What was written waits in the stream.
    is_held: bool,
    /// As the stream said last.
    taken: u64,
    /// Shows what goes through.
    tap: Option<FifoTap>,
    /// Runs while the client takes no replies.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Session {
    /// A client that sent `input` already.
    pub(crate) fn new(proxy: Rc<Proxy>, stream: Stream, input: BytesMut) -> Self {
        let client = stream.peer().filter(|_| proxy.shared.options.client.keeps_address);
        let counters = proxy.counters();
        let context = Rc::new(Context { client, counters, ..Context::default() });
        let tap = proxy.shared.client_tap(&stream);
        Self {
            tap,
            proxy,
            context,
            stream,
            input,
            room: READ_BYTES_MIN,
            wanted: 1,
            swallow: 0,
            lines: VecDeque::new(),
            outstanding: 0,
            output: Vec::new(),
            sent: 0,
            is_ending: false,
            is_held: false,
            taken: 0,
            patience: None,
        }
    }

    /// Serves the client until it goes.
    pub(crate) async fn serve(mut self) {
        // Whatever went wrong with the connection, it is over, and nobody is left to tell.
        let mut has_input = !self.input.is_empty();
        let proxy = Rc::clone(&self.proxy);
        let mut ending = pin!(proxy.is_ending.notified());
        let mut is_listening = false;
        let _ = std::future::poll_fn(|cx| {
            // Once: the task's waker stays the same. What it is told is in the proxy's phase.
            if !std::mem::replace(&mut is_listening, true) {
                let _ = ending.as_mut().poll(cx);
            }
            if std::mem::take(&mut has_input) {
                self.begin_all(cx);
            }
            self.poll_turn(cx)
        })
        .await;
        self.lines.retain(Line::is_change);
        std::future::poll_fn(|cx| self.poll_changes(cx)).await;
        let goodbye = std::future::poll_fn(|cx| self.stream.poll_goodbye(cx));
        let _ = tokio::time::timeout(GOODBYE_MAX, goodbye).await;
    }

    /// Ready once the changes of a client that has gone are carried through.
    fn poll_changes(&mut self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        self.lines.iter_mut().for_each(|line| line.poll(cx, &self.context));
        if self.lines.iter().all(Line::is_answered) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_turn(&mut self, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.proxy.phase.get();
        self.is_ending |= phase == Phase::Closing;
        self.poll_lines(cx);
        loop {
            self.flush(cx)?;
            if self.is_ending && self.lines.is_empty() && self.output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if self.is_ending || !self.has_room() {
                break;
            }
            match self.poll_read(cx)? {
                Poll::Ready(()) => self.begin_all(cx),
                Poll::Pending => {
                    let is_quiet = self.lines.is_empty() && self.output.is_empty();
                    if is_quiet && phase != Phase::Serving {
                        return Poll::Ready(Ok(()));
                    }
                    break;
                }
            }
        }
        self.poll_patience(cx)
    }

    /// Whether more may be read.
    fn has_room(&self) -> bool {
        self.outstanding < self.proxy.shared.options.client.outstanding_max
            && self.output.len() - self.sent < OUTPUT_BYTES_MAX
    }

    /// Polls all that is under way, and says what is answered.
    fn poll_lines(&mut self, cx: &mut std::task::Context<'_>) {
        self.lines.iter_mut().for_each(|line| line.poll(cx, &self.context));
        self.say_answered();
    }

    /// Says what is answered, from the front.
    fn say_answered(&mut self) {
        while let Some(line) = self.lines.front().filter(|line| line.is_answered()) {
            self.outstanding -= line.requests();
            let (op, before) = (line.op(), self.output.len());
            self.proxy.say(line, &mut self.output);
            if let Some(tap) = self.tap.as_ref().filter(|tap| tap.is_open()) {
                tap.answered(op, &self.output[before..]);
            }
            self.lines.pop_front();
        }
    }

    /// Writes what there is to write, as far as the socket takes it.
    fn flush(&mut self, cx: &mut std::task::Context<'_>) -> io::Result<()> {
        while self.sent < self.output.len() {
            match self.stream.poll_write(cx, &self.output[self.sent..])? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(n) => {
                    self.sent += n;
                    self.patience = None;
                }
                Poll::Pending => return Ok(()),
            }
        }
        self.output.clear();
        self.sent = 0;
        if self.output.capacity() > OUTPUT_KEPT_BYTES {
            self.output.shrink_to(OUTPUT_KEPT_BYTES);
        }
        // What TLS keeps back goes when the socket has room: it wakes this task.
        let flushed = self.stream.poll_flush(cx)?;
        self.is_held = flushed.is_pending();
        Ok(())
    }

    /// Reads until a whole request may be there; ready too when the client has gone.
    fn poll_read(&mut self, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let missing = self.wanted.saturating_sub(self.input.len());
            // What a client announces is believed as far as it has sent.
            self.input.reserve(missing.min(self.input.len().max(TRUSTED_BYTES)).max(self.room));
            match self.stream.poll_read(cx, &mut self.input)? {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(0) => {
                    self.is_ending = true;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(read) => {
                    let next = if read >= self.room { self.room * 2 } else { self.room / 2 };
                    self.room = next.clamp(READ_BYTES_MIN, READ_BYTES_MAX);
                    if self.input.len() >= self.wanted {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// Begins each whole request that was read, and polls it once.
    fn begin_all(&mut self, cx: &mut std::task::Context<'_>) {
        let chunk = self.input.split().freeze();
        let mut at = self.swallowed(chunk.len());
        self.wanted = 1;
        let now = Instant::now();
        while at < chunk.len() && !self.is_ending {
            match take(&chunk, at) {
                Taken::Whole(asked, used) => {
                    if let Some(tap) = self.tap.as_ref().filter(|tap| tap.is_open()) {
                        tap.asked(&asked, &chunk[at..at + used]);
                    }
                    at += used;
                    self.begin(asked, now, cx);
                }
                Taken::Skip { line, used, swallow } => {
                    self.lines.push_back(Line::Said(line.to_vec()));
                    self.swallow = swallow;
                    at += used;
                    at += self.swallowed(chunk.len() - at);
                }
                Taken::Partial(wanted) => {
                    self.wanted = wanted;
                    break;
                }
            }
        }
        self.input.extend_from_slice(&chunk[at..]);
        drop(chunk);
        self.say_answered();
    }

    /// How many of the next bytes are thrown away.
    fn swallowed(&mut self, bytes: usize) -> usize {
        let n = usize::try_from(self.swallow).unwrap_or(usize::MAX).min(bytes);
        self.swallow -= n as u64;
        n
    }

    fn begin(&mut self, asked: Asked, now: Instant, cx: &mut std::task::Context<'_>) {
        let start = Start { at: now, waker: Some(cx.waker()) };
        let mut line = match asked {
            Asked::Get { op, exptime, keys } => {
                self.count(op, keys.len());
                self.proxy.get_several(op, exptime, keys, &self.context, start)
            }
            Asked::GetOne(request) => {
                self.count(request.op, 1);
                let op = request.op;
                Line::GetOne { op, part: self.proxy.get(request, &self.context, start) }
            }
            Asked::One { request, is_quiet } => {
                self.count(request.op, 1);
                let op = request.op;
                let part = self.proxy.ask(request, &self.context, start);
                Line::One { op, is_quiet, part }
            }
            Asked::Meta { request, wanted } => {
                self.count(request.op, 1);
                let part = self.proxy.ask(request, &self.context, start);
                Line::Meta { wanted, part }
            }
            Asked::Flush { delay, is_quiet } => {
                let op = Op::FlushAll;
                let request = Request { exptime: delay, ..Request::new(op, "") };
                self.count(op, 1);
                let part = if self.proxy.shared.options.is_flush_enabled {
                    self.proxy.ask(request, &self.context, start)
                } else {
                    let refusal = Reply::failure(Outcome::RemoteError, "Command disabled");
                    Part { key: Bytes::new(), state: State::Done(refusal) }
                };
                Line::One { op, is_quiet, part }
            }
            Asked::Stats(group) => Line::Said(stats::answer(&self.proxy.shared, &group)),
            Asked::Version => Line::Said(format!("VERSION {VERSION}\r\n").into_bytes()),
            Asked::Shutdown => Line::Shutdown,
            Asked::Quit => {
                self.is_ending = true;
                return;
            }
            Asked::Refused { line, closes } => {
                self.is_ending = closes;
                Line::Said(line.to_vec())
            }
        };
        self.outstanding += line.requests();
        // What goes through routes reaches a server in the order in which it was sent.
        line.poll(cx, &self.context);
        self.lines.push_back(line);
    }

    fn count(&self, op: Op, n: usize) {
        self.context.counters.add(Counter::of(op), n as u64);
        self.context.counters.add(Counter::RequestSent, n as u64);
    }

    /// Closes a client that takes no replies for too long.
    fn poll_patience(&mut self, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        let limit = self.proxy.shared.options.client.timeout;
        if self.output.is_empty() && !self.is_held || limit.is_zero() {
            self.patience = None;
            return Poll::Pending;
        }
        let taken = self.stream.taken();
        if std::mem::replace(&mut self.taken, taken) != taken {
            self.patience = None;
        }
        let start = || Box::pin(tokio::time::sleep_until(Instant::now() + limit));
        let patience = self.patience.get_or_insert_with(start);
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Proxy {
    /// Begins a get of one key, which may be a question to the router itself.
    fn get(self: &Rc<Self>, request: Request, context: &Rc<Context>, start: Start<'_>) -> Part {
        match self.question(&request) {
            Some(answer) => Part { key: request.key, state: State::Waiting(answer) },
            None => self.ask(request, context, start),
        }
    }

    /// The answer to a get that asks the router about itself.
    fn question(
        self: &Rc<Self>,
        request: &Request,
    ) -> Option<Pin<Box<dyn Future<Output = Reply>>>> {
        let command = request.key.strip_prefix(admin::PREFIX).filter(|_| request.op == Op::Get)?;
        Some(admin::answer(self, command))
    }

    /// Begins a get of several keys.
    fn get_several(
        self: &Rc<Self>,
        op: Op,
        exptime: i64,
        keys: Vec<Bytes>,
        context: &Rc<Context>,
        start: Start<'_>,
    ) -> Line {
        let is_shareable = matches!(op, Op::Get | Op::Gets | Op::LeaseGet);
        let mut gets = Gets::new(op, keys.len());
        for key in &keys {
            let request = Request { exptime, ..Request::new(op, key.clone()) };
            let is_question = request.key.starts_with(admin::PREFIX);
            let leaf =
                if is_shareable && !is_question { self.leaf(&request, context) } else { None };
            match leaf {
                Some(leaf) => gets.share(leaf, request.key),
                None => gets.ask(self.get(request, context, start)),
            }
        }
        gets.begin(context, start);
        Line::Get { keys, gets }
    }

    /// Begins a request.
    fn ask(self: &Rc<Self>, request: Request, context: &Rc<Context>, start: Start<'_>) -> Part {
        let key = request.key.clone();
        if let Some(leaf) = self.leaf(&request, context) {
            let state = leaf.begin(request, context, start).map_or_else(State::Done, State::Asking);
            return Part { key, state };
        }
        let (proxy, context) = (Rc::clone(self), Rc::clone(context));
        let future = async move { proxy.route(&request, &context).await };
        Part { key, state: State::Waiting(Box::pin(future)) }
    }

    /// Appends the answer to a line that is done.
    fn say(&self, line: &Line, out: &mut Vec<u8>) {
        match line {
            Line::Said(text) => out.extend_from_slice(text),
            Line::One { op, is_quiet, part } => {
                if let (false, Some(reply)) = (is_quiet, part.reply()) {
                    self.note(reply);
                    answer::append(out, *op, reply);
                }
            }
            Line::GetOne { op, part } => {
                if let Some(reply) = part.reply() {
                    self.note(reply);
                    if is_error(reply.outcome) {
                        return answer::append_error(out, reply);
                    }
                    answer::append_value(out, *op, &part.key, reply);
                    out.extend_from_slice(b"END\r\n");
                }
            }
            Line::Get { keys, gets } => {
                let replies = || keys.iter().zip(gets.replies());
                replies().for_each(|(_, reply)| self.note(reply));
                if let Some((_, failed)) = replies().find(|(_, reply)| is_error(reply.outcome)) {
                    return answer::append_error(out, failed);
                }
                replies().for_each(|(key, reply)| answer::append_value(out, gets.op, key, reply));
                out.extend_from_slice(b"END\r\n");
            }
            Line::Meta { wanted, part } => {
                if let Some(reply) = part.reply() {
                    self.note(reply);
                    meta::append(out, wanted, &part.key, reply);
                }
            }
            Line::Shutdown => {
                out.extend_from_slice(b"OK\r\n");
                self.shared.stop.notify_one();
            }
        }
    }

    /// Counts what a client was told.
    fn note(&self, reply: &Reply) {
        let counters = self.counters_ref();
        counters.add(Counter::RequestReplied, 1);
        let is_good = !is_error(reply.outcome);
        counters.add(if is_good { Counter::RequestSuccess } else { Counter::RequestError }, 1);
    }
}

/// What `version` says after `VERSION`: the memcached spoken first, as clients read it from there, and refuse a version 0.
pub(crate) const VERSION: &str = concat!("1.6.45-guira-route-", env!("CARGO_PKG_VERSION"));

/// Least room for a read.
const READ_BYTES_MIN: usize = 1 << 10;
/// Most of it, but for a value.
const READ_BYTES_MAX: usize = 64 << 10;
/// A body's announced length is made room for at once up to this.
const TRUSTED_BYTES: usize = 1 << 20;
/// With so much unsent, no more is read.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// How long a client that is to go may take to hear the end of TLS.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// Room for replies that is kept from turn to turn.
const OUTPUT_KEPT_BYTES: usize = 64 << 10;
