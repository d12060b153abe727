//! A connection: what was received and not yet executed, what was answered and not yet sent.
//!
//! ```text
//!            recv            parse, execute           send
//! socket ──▶ input ──▶ batch ──────────────▶ output ──▶ socket
//!                                              └ what the socket doesn't take: unsent
//! ```
//! # Invariants
//! 1. While `unsent` holds bytes nothing is received and nothing executed: a client that doesn't
//!    read is not read from (back-pressure), and holds at most half a MiB of replies and one value, or far less where
//!    such clients are many (`process/budget.rs`).
//! 2. Input and output buffers belong to the worker; a connection keeps a piece of a request, or what
//!    it didn't get to. An idle one holds neither.
//! 3. A request is taken off the input only when it is answered, or its state says where it stands.
//! 4. What it holds of requests that wait for their turns is charged (`process/budget.rs`).
//! 5. What it holds for a request that isn't whole is charged too: the piece in `input`, and the
//!    chunks of an item in the making, which are taken as its value arrives.
//!
//! # Costs
//! One `recv` and one `send` a batch. No allocation for whole requests.

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

/// One client.
pub(crate) struct Connection {
    stream: Stream,
    seat: Arc<Seat>,
    /// `Auto` until the first byte has come.
    protocol: WireProtocol,
    state: State,
    /// Received and not consumed, from `done` on.
    input: Vec<u8>,
    /// Bytes of `input` that are consumed, while it is too much to move.
    done: usize,
    /// Bytes of `input` known to hold no newline; 0 in binary.
    scanned: usize,
    unsent: Unsent,
    interest: Interest,
    /// There are requests at hand that it didn't get to.
    has_backlog: bool,
    /// It was long to serve last: long replies, long or copied values, many requests or keys. So it may be before its
    /// first.
    is_bulky: bool,
    /// It ends because what came was no request, or because the socket failed.
    is_broken: bool,
    /// Since when the request at hand waits for memory, in milliseconds of the system's clock.
    waits_since_ms: Option<u64>,
    /// The flush that the request at hand waits for.
    flush_asked: Option<FlushAsked>,
    /// What was read from storage for it, or is being read.
    answers: Option<Box<Answers>>,
    last_request_s: u32,
    /// What it is charged for the request that isn't whole.
    pub(crate) charge: Charge,
    /// What it is charged for replies that the client has yet to take.
    pub(crate) unsent_charge: Charge,
    /// The same while it is free of charge, in bytes.
    pub(crate) unsent_free: usize,
    /// Bytes that it is charged for requests that wait for their turns.
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

    /// Receives once, executes what is whole, sends once (more often only if the replies are long).
    /// `ready` is what the socket's event says, `None` that the connection asked for another turn.
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
            // It has its turn coming.
            return Next::Nothing;
        }
        let next = self.try_serve(turn, rooms);
        self.judge(next)
    }

    /// What it wants next, given how the work went.
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
                    // A handshake may have to say something that the socket didn't take.
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

    /// Sends what waits for the client to take it.
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

    /// Counts what was sent, and takes it from the turn's work, if that is much with what else was done.
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

    /// Works on what is in `input` behind its first `done` bytes, and keeps the rest.
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

    /// Executes and sends until the input is used up or something is in the way.
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

    /// Whether the request at hand may wait on for memory.
    #[inline]
    fn may_wait(&self) -> bool {
        self.waits_since_ms.is_none_or(|since| clock_ms() < since + WAIT_MS_MAX)
    }

    /// The input is used up but for a piece.
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

    /// The flags to register for `interest`, if they differ from those registered.
    pub(crate) fn change_interest(&mut self, interest: Interest) -> Option<EventFlags> {
        if self.interest == interest {
            return None;
        }
        self.interest = interest;
        Some(match interest {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Feed => EventFlags::empty(),
            // That the client has gone can't be masked: it is told once.
            Interest::Turn => EventFlags::ET,
        })
    }

    /// Whether nothing more comes: it was answered for the last time, or the client said so.
    fn has_ended(&self) -> bool {
        matches!(self.state, State::Closing)
            || matches!(&self.stream, Stream::Tls(channel) if channel.has_ended())
    }

    /// Whether nothing is under way: no request, no reply.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_watching()
            || matches!(self.state, State::New | State::Login(_) | State::Requests)
                && self.input.is_empty()
                && self.unsent.is_empty()
    }

    /// Whether it came in these seconds and has not said a word: its first request may be on its way.
    pub(crate) fn may_ask_yet(&self, now: u32) -> bool {
        matches!(self.state, State::New) && now <= self.last_request_s + 1
    }

    /// Whether it keeps a piece of a request, or requests that it didn't get to.
    pub(crate) fn keeps_piece(&self) -> bool {
        !self.input.is_empty()
    }

    /// Bytes that it holds of replies that the client has yet to take.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.memory_bytes()
    }

    /// Charges it, at `place`, for so many bytes of them, unless they are so few that they are free.
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

    /// Bytes that it is charged for requests that wait for their turns, or for their client to read.
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

    /// The second in which a handshake must be over, while one is under way.
    pub(crate) fn handshake_ends_s(&self) -> Option<u32> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(channel) => channel.handshake_ends_s(),
        }
    }

    /// Why it ends, if it isn't the server's wish.
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

    /// What is being read from storage for it, if this is the ticket.
    pub(crate) fn answers(&mut self, ticket: u64) -> Option<&mut Answers> {
        self.answers.as_deref_mut().filter(|answers| answers.ticket == ticket)
    }

    /// Marks what is to be read for it.
    pub(crate) fn set_ticket(&mut self, ticket: u64, mark: ParkedMark) {
        if let Some(answers) = &mut self.answers {
            answers.ticket = ticket;
            answers.parked = Some(mark);
        }
    }

    /// Ends it; an item in the making gives its memory back, and who feeds it stops.
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

/// Bytes from which on what is received at once is long.
const LONG_BYTES: usize = 16 << 10;
/// Who has this much done at once waits for those that have less, on a worker that is busy: four changes or sixteen gets.
const MUCH_BYTES: usize = 4 << 10;
/// How long a request may wait for memory, without any coming, before it is told that there is none.
/// Other threads' turns are far shorter, even when they wait for a core.
const WAIT_MS_MAX: u64 = 500;
