//! A connection: its input that is received and not yet executed, and its replies that are not yet sent.
//!
//! ```text
//!            recv            parse, execute           send
//! socket ──▶ input ──▶ batch ──────────────▶ output ──▶ socket
//!                                              └ bytes that the socket doesn't take: unsent
//! ```
//! # Invariants
//! 1. While `unsent` holds bytes, nothing is received or executed. A client that doesn't read is thus not
//!    read from (back-pressure). It holds at most half a MiB of replies and one value, or far less while
//!    there are many such clients (`process/budget.rs`).
//! 2. Input and output buffers belong to the worker. A connection only keeps part of a request, or
//!    requests that weren't executed yet; an idle one keeps neither.
//! 3. A request is removed from the input only when it is answered, or when `state` records how far it
//!    is.
//! 4. The bytes of requests that wait for their turns are charged (`process/budget.rs`).
//! 5. The memory held for an incomplete request is charged too: the part in `input`, and the chunks of an
//!    item being received, which are allocated as its value arrives.
//!
//! # Costs
//! One `recv` and one `send` per batch. No allocation for complete requests.

mod fed;
mod input;
mod login;
mod refuse;
mod steps;
#[cfg(test)]
pub(crate) mod tests;

use super::state::{Interest, Next, Refused, State, Step};
use super::stream::Stream;
use crate::batch::Piece;
use crate::batch::Rooms;
use crate::execute::Executor;
use crate::fetched::{Answers, ParkedMark};
use crate::output::{Mark, Output, Unsent};
use crate::process::Process;
use crate::process::budget::{Charge, Queue, SPARING_BYTES, UNSENT_FREE_BYTES};
use crate::process::gauges::Gauge;
use crate::process::roster::{Doing, Held, Seat};
use crate::process::watch::CloseReason;
use crate::settings::WireProtocol;
use crate::time::clock_ms;
use crate::turn::Turn;
use guira_cache::{Counter, FlushAsked, Handle};
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// The connection of one client.
pub(crate) struct Connection {
    stream: Stream,
    seat: Arc<Seat>,
    /// `Auto` until the first byte has arrived.
    protocol: WireProtocol,
    state: State,
    /// The bytes received; those from `done` on aren't consumed.
    input: Vec<u8>,
    /// How many bytes of `input` are consumed, while too many follow to be moved.
    done: usize,
    /// Bytes of `input` that are known to hold no newline; 0 in binary.
    scanned: usize,
    unsent: Unsent,
    interest: Interest,
    /// Whether the input holds requests that weren't executed in the last turn.
    has_backlog: bool,
    /// Whether serving it last took long: long replies, long or copied values, many requests or keys.
    /// Also set before its first request.
    is_bulky: bool,
    /// Whether it is closed because its input wasn't a request, or because the socket failed.
    is_broken: bool,
    /// Since when the current request has waited for memory, in milliseconds of the system's clock.
    waits_since_ms: Option<u64>,
    /// The flush that the current request waits for.
    flush_asked: Option<FlushAsked>,
    /// The records that were or are being read from storage for it.
    answers: Option<Box<Answers>>,
    last_request_s: u32,
    /// The charge for an incomplete request.
    pub(crate) charge: Charge,
    /// The charge for replies that the client hasn't taken yet.
    pub(crate) unsent_charge: Charge,
    /// Bytes of such replies that are held free of charge.
    pub(crate) unsent_free: usize,
    /// Bytes charged for requests that wait for their turns.
    pub(crate) backlog_charged: usize,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        seat: Arc<Seat>,
        protocol: WireProtocol,
        now: u32,
    ) -> Connection {
        Connection {
            stream,
            seat,
            protocol,
            state: State::New,
            input: Vec::new(),
            done: 0,
            scanned: 0,
            unsent: Unsent::default(),
            interest: Interest::Read,
            has_backlog: false,
            is_bulky: true,
            is_broken: false,
            waits_since_ms: None,
            flush_asked: None,
            answers: None,
            last_request_s: now,
            charge: Charge::default(),
            unsent_charge: Charge::default(),
            unsent_free: 0,
            backlog_charged: 0,
        }
    }

    /// Receives once, executes the complete requests, and sends once (more often only if the replies are
    /// long). `ready` are the flags of the socket's event; `None`: the connection asked for another turn.
    pub(crate) fn serve(
        &mut self,
        turn: &Turn<'_>,
        rooms: &mut Rooms,
        ready: Option<EventFlags>,
    ) -> Next {
        if matches!(self.state, State::Fed(_)) {
            return self.serve_fed(turn, rooms, ready);
        }
        if ready.is_some() && self.has_backlog && self.unsent.is_empty() {
            // The connection has another turn coming anyway.
            return Next::Nothing;
        }
        let next = self.try_serve(turn, rooms);
        self.judge(next)
    }

    /// Decides what the connection waits for next, given the result of its work.
    #[inline]
    fn judge(&mut self, worked: io::Result<Next>) -> Next {
        match worked {
            Ok(Next::Wait(Interest::Read)) if self.has_ended() => Next::Close,
            Ok(next) => next,
            Err(error) => {
                tracing::debug!("<{} {error}, from {}", self.fd(), self.seat.address());
                self.is_broken = true;
                Next::Close
            }
        }
    }

    fn try_serve(&mut self, turn: &Turn<'_>, rooms: &mut Rooms) -> io::Result<Next> {
        if !self.unsent.is_empty() {
            self.send_on(turn, rooms)?;
            if !self.unsent.is_empty() {
                return Ok(Next::Wait(Interest::Write));
            }
            if !self.has_backlog {
                self.seat.set_doing(Doing::Reading);
                return Ok(Next::Wait(Interest::Read));
            }
        }
        let (mut input, done) = self.lend_input(turn, rooms);
        if !self.has_backlog {
            match self.receive(turn, &mut input, rooms) {
                Ok(0) | Err(Errno::CONNRESET) => {
                    self.keep_input(input, done, rooms);
                    return Ok(Next::Close);
                }
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.keep_input(input, done, rooms);
                    // The socket may not have taken all of a handshake's reply.
                    let has_all = self.unsent.is_empty();
                    return Ok(Next::Wait(if has_all { Interest::Read } else { Interest::Write }));
                }
                Err(error) => return Err(error.into()),
            }
            if self.last_request_s != turn.now {
                self.last_request_s = turn.now;
                self.seat.set_last_request(turn.now);
            }
        }
        self.work_on(turn, rooms, input, done)
    }

    /// Sends the replies that wait for the client to take them.
    #[cold]
    fn send_on(&mut self, turn: &Turn<'_>, rooms: &mut Rooms) -> io::Result<()> {
        let mut sent = self.unsent.send(self.stream.as_fd())?;
        if let Some(held) = self.unsent.take_held() {
            let mut output = Output::new(std::mem::take(&mut rooms.replies));
            if !output.resume(&held, turn) {
                turn.process.unsent.count_refused();
                return Err(io::Error::other("a value of which it has a part is gone"));
            }
            let (wire, unsent) = (&mut rooms.wire, &mut self.unsent);
            sent += self.stream.send(&mut output, wire, unsent, turn)?;
            rooms.replies = output.into_bytes();
        }
        self.count_sent(sent, turn.handle.take_moved(), turn);
        Ok(())
    }

    /// Counts the bytes sent, and subtracts them and the other work from the turn's share if that is much.
    #[inline]
    fn count_sent(&mut self, sent: usize, done: usize, turn: &Turn<'_>) {
        turn.handle.count_many(Counter::BytesWritten, sent as u64);
        let work = sent + done;
        let is_bulky = work >= MUCH_BYTES || self.state.is_within_value();
        if is_bulky || self.is_bulky {
            self.is_bulky = is_bulky;
            turn.work_left.set(turn.work_left.get().saturating_sub(work));
        }
    }

    /// Works on the bytes of `input` after the first `done`, and keeps the rest.
    #[inline]
    fn work_on(
        &mut self,
        turn: &Turn<'_>,
        rooms: &mut Rooms,
        input: Vec<u8>,
        done: usize,
    ) -> io::Result<Next> {
        let mut consumed = 0;
        let next = self.work(turn, rooms, &input[done..], &mut consumed);
        self.keep_input(input, done + consumed, rooms);
        next
    }

    /// Executes and sends until the input is used up or the work has to pause.
    fn work(
        &mut self,
        turn: &Turn<'_>,
        rooms: &mut Rooms,
        input: &[u8],
        consumed: &mut usize,
    ) -> io::Result<Next> {
        let output = Output::new(std::mem::take(&mut rooms.replies));
        let mut executor = Executor::new(turn, output, self.fd());
        executor.flush_asked = self.flush_asked;
        executor.can_be_fed = true;
        executor.answers = self.answers.take();
        if turn.process.unsent.is_scarce(0) || turn.work_left.get() == 0 {
            executor.queue_less();
        }
        executor.can_wait = self.may_wait();
        turn.handle.hurry(!executor.can_wait);
        let next = loop {
            let step = match self.step(&mut executor, rooms, input, consumed) {
                Step::More => continue,
                step => step,
            };
            if matches!(step, Step::Overrun) {
                turn.process.gauges.count(Gauge::RepliesRefused);
                executor.output.rewind(Mark::default());
                self.is_broken = true;
                break Next::Close;
            }
            let (wire, unsent) = (&mut rooms.wire, &mut self.unsent);
            let sent = self.stream.send(&mut executor.output, wire, unsent, turn)?;
            self.count_sent(sent, executor.take_work(), turn);
            executor.record_observed();
            self.has_backlog = !matches!(step, Step::Piece(_) | Step::Close);
            match step {
                Step::Piece(piece) => self.rest(piece),
                Step::Close => self.state = State::Closing,
                _ => {}
            }
            if matches!(step, Step::Fed) {
                break Next::Fed;
            }
            if !self.unsent.is_empty() {
                self.seat.set_doing(Doing::Writing);
                break Next::Wait(Interest::Write);
            }
            match step {
                Step::More | Step::Fed | Step::Overrun => {}
                Step::Parked => break Next::Parked,
                Step::Full if turn.work_left.get() > 0 => {}
                Step::Spent | Step::Full => {
                    turn.handle.count(Counter::ConnYields);
                    break Next::Again;
                }
                Step::PutOff => {
                    turn.handle.count(Counter::ConnYields);
                    break Next::PutOff;
                }
                Step::Piece(_) => break Next::Wait(Interest::Read),
                Step::Later => {
                    let first = self.waits_since_ms.is_none();
                    self.waits_since_ms.get_or_insert_with(clock_ms);
                    break Next::Later { first };
                }
                Step::Pause(until_ms) => break Next::Pause { until_ms },
                Step::Close => break Next::Close,
            }
        };
        self.flush_asked = executor.flush_asked;
        self.answers = next.keeps_answers().then(|| executor.answers.take()).flatten();
        rooms.replies = executor.output.into_bytes();
        Ok(next)
    }

    /// Whether the current request may go on waiting for memory.
    #[inline]
    fn may_wait(&self) -> bool {
        self.waits_since_ms.is_none_or(|since| clock_ms() < since + WAIT_MS_MAX)
    }

    /// Updates the state after all of the input except part of a request was used.
    fn rest(&mut self, piece: Piece) {
        let doing = match (&self.state, piece) {
            (State::Swallow(_) | State::SwallowLine, _) => Doing::Swallowing,
            (_, Piece::Body) => Doing::ReadingBody,
            (_, Piece::Line(_)) => Doing::Reading,
        };
        self.scanned = match piece {
            Piece::Line(bytes) => bytes,
            Piece::Body => 0,
        };
        self.seat.set_doing(doing);
    }

    /// Returns the flags to register for `interest`, if they differ from those that are registered.
    pub(crate) fn change_interest(&mut self, interest: Interest) -> Option<EventFlags> {
        if self.interest == interest {
            return None;
        }
        self.interest = interest;
        Some(match interest {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Feed => EventFlags::empty(),
            // The hang-up event can't be masked. Edge-triggered, it is reported only once.
            Interest::Turn => EventFlags::ET,
        })
    }

    /// Whether nothing more comes: the connection has had its last reply, or the client ended the stream.
    fn has_ended(&self) -> bool {
        matches!(self.state, State::Closing)
            || matches!(&self.stream, Stream::Tls(channel) if channel.has_ended())
    }

    /// Whether the connection has no request and no reply under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_watching()
            || matches!(self.state, State::New | State::Login(_) | State::Requests)
                && self.input.is_empty()
                && self.unsent.is_empty()
    }

    /// Whether it was accepted within the last seconds and hasn't sent a byte: its first request may be on its way.
    pub(crate) fn may_ask_yet(&self, now: u32) -> bool {
        matches!(self.state, State::New) && now <= self.last_request_s + 1
    }

    /// Whether it keeps part of a request, or requests that weren't executed yet.
    pub(crate) fn keeps_piece(&self) -> bool {
        !self.input.is_empty()
    }

    /// Bytes held for replies that the client hasn't taken yet.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.memory_bytes()
    }

    /// Charges the connection at `place` for `bytes` of such replies, or counts them as free of charge if they are few.
    #[cold]
    pub(crate) fn charge_unsent(
        &mut self,
        (queue, place): (&mut Queue, usize),
        bytes: usize,
        process: &Process,
    ) {
        let free = if bytes > UNSENT_FREE_BYTES { 0 } else { bytes };
        process.unsent.recount_free(&mut self.unsent_free, free);
        queue.charge((&mut self.unsent_charge, place), bytes - free, &process.unsent);
        self.seat.set_held(Held::Unsent, bytes - free);
    }

    /// Bytes to charge for requests that wait for their turns, or for the client to read.
    #[inline]
    pub(crate) fn backlog_bytes(&self) -> usize {
        let bytes = if self.has_backlog { self.input_bytes() } else { 0 };
        if bytes > SPARING_BYTES { bytes } else { 0 }
    }

    pub(crate) fn is_bulky(&self) -> bool {
        self.is_bulky
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.stream.as_fd().as_raw_fd()
    }

    /// The second by which the handshake must be complete, while one is under way.
    pub(crate) fn handshake_ends_s(&self) -> Option<u32> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(channel) => channel.handshake_ends_s(),
        }
    }

    /// The reason for closing, unless the server decided to close.
    pub(crate) fn close_reason(&self) -> CloseReason {
        if self.is_broken { CloseReason::Error } else { CloseReason::Normal }
    }

    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    pub(crate) fn idle_timeout_applies(&self) -> bool {
        self.seat.is_tcp() && !matches!(self.state, State::Fed(_))
    }

    pub(crate) fn last_request_s(&self) -> u32 {
        self.last_request_s
    }

    /// The reads of storage for this connection, if their ticket is `ticket`.
    pub(crate) fn answers(&mut self, ticket: u64) -> Option<&mut Answers> {
        self.answers.as_deref_mut().filter(|answers| answers.ticket == ticket)
    }

    /// Assigns a ticket to the reads of storage for this connection.
    pub(crate) fn set_ticket(&mut self, ticket: u64, mark: ParkedMark) {
        if let Some(answers) = &mut self.answers {
            answers.ticket = ticket;
            answers.parked = Some(mark);
        }
    }

    /// Closes the connection. The memory of an item being received is freed, and its feed is abandoned.
    pub(crate) fn close(mut self, handle: &Handle<'_>) {
        if let Stream::Tls(channel) = &mut self.stream {
            channel.say_goodbye(&mut self.unsent);
        }
        match self.state {
            State::Value(arriving) | State::Refused(Refused::Value(arriving)) => {
                handle.discard(arriving.new);
            }
            State::Fed(fed) => fed.feed.abandon(),
            _ => {}
        }
    }
}

/// Received bytes count as work if one receive brings at least this many.
const LONG_BYTES: usize = 16 << 10;
/// The work of a turn from which a connection waits for those with less work on a busy worker: four
/// changes or sixteen gets.
const MUCH_BYTES: usize = 4 << 10;
/// How long a request may wait for memory, if none becomes free, before it is refused. The turns of other
/// threads are far shorter, even when they wait for a core.
const WAIT_MS_MAX: u64 = 500;
