//! The steps of work on a connection's input, one function per state.

use super::Connection;
use crate::batch::{Dialect, End, Piece, Rooms, Skip, Source, run};
use crate::dialects::{Binary, Text};
use crate::execute::{Executor, Flow, Opened, StoreForm, earns_chunk};
use crate::settings::WireProtocol;
use crate::transport::state::{Arriving, State, Step};
use guira_cache::NoRoom;
use guira_proto::Parsed;
use guira_proto::binary::REQUEST_MAGIC;
use std::ops::ControlFlow;

impl Connection {
    /// Does one step of work on the input: a batch, some keys, a piece of a body.
    pub(super) fn step(
        &mut self,
        executor: &mut Executor<'_>,
        rooms: &mut Rooms,
        input: &[u8],
        consumed: &mut usize,
    ) -> Step {
        if executor.is_full() {
            return Step::Full;
        }
        let rest = &input[*consumed..];
        match self.state {
            State::New => self.begin(executor, rest),
            State::Login(_) => self.log_in(executor, rest, consumed),
            State::Requests if self.speaks_binary() => {
                self.run_batch::<Binary>(executor, rooms, rest, consumed)
            }
            State::Requests => self.run_batch::<Text>(executor, rooms, rest, consumed),
            State::Keys(_) => self.run_keys(executor, rest, consumed),
            State::Value(_) => self.take_value(executor, rest, consumed),
            State::Swallow(_) => self.swallow(rest, consumed),
            State::SwallowLine => self.swallow_line(rest, consumed),
            State::Refused(_) => self.turn_away(executor, rest, consumed),
            State::Fed(_) => Step::Fed,
            State::Listing(_) => self.list_on(executor),
            State::Closing => Step::Close,
        }
    }

    /// Determines the protocol from the first byte.
    fn begin(&mut self, executor: &Executor<'_>, rest: &[u8]) -> Step {
        if self.protocol == WireProtocol::Auto {
            self.protocol = match rest.first() {
                None => return Step::Piece(Piece::Line(0)),
                Some(&REQUEST_MAGIC) => WireProtocol::Binary,
                Some(_) => WireProtocol::Ascii,
            };
        }
        let must_log_in = executor.turn.process.auth.is_required(self.protocol);
        self.state = if must_log_in { Self::logged_out() } else { State::Requests };
        Step::More
    }

    pub(super) fn speaks_binary(&self) -> bool {
        self.protocol == WireProtocol::Binary
    }

    /// Executes a batch.
    fn run_batch<D: Dialect>(
        &mut self,
        executor: &mut Executor<'_>,
        rooms: &mut Rooms,
        input: &[u8],
        consumed: &mut usize,
    ) -> Step {
        if input.is_empty() {
            return Step::Piece(Piece::Line(0));
        }
        if executor.is_spent() {
            return if executor.is_overrun() { Step::Overrun } else { Step::Spent };
        }
        let scanned = std::mem::take(&mut self.scanned);
        let (used, end) = run::<D, _>(executor, rooms, self, input, scanned);
        *consumed += used;
        match end {
            End::Stopped(step) => step,
            End::More => Step::More,
            End::Piece(piece) => Step::Piece(piece),
            End::Refused(error) => self.skip::<D>(executor, &error, consumed),
            End::Large { request, head_bytes } => {
                let Some(command) = D::storing(&request) else { return Step::Close };
                let (head, body) = input[used..].split_at(head_bytes);
                self.begin_value(executor, command, (head, body.len()), consumed)
            }
        }
    }

    /// Replies to an input that isn't a request, and skips it.
    fn skip<D: Dialect>(
        &mut self,
        executor: &mut Executor<'_>,
        error: &D::Error,
        consumed: &mut usize,
    ) -> Step {
        if D::is_login(error) && executor.turn.process.auth.has_sasl() {
            self.state = Self::logged_out();
            return Step::More;
        }
        executor.spend();
        let Skip { used, swallow, close } = D::refuse(executor, error);
        *consumed += used;
        if swallow > 0 {
            self.state = State::Swallow(swallow);
        }
        self.is_broken |= close;
        if close { Step::Close } else { Step::More }
    }

    /// Continues with the keys of a multiget.
    fn run_keys(&mut self, executor: &mut Executor<'_>, rest: &[u8], consumed: &mut usize) -> Step {
        let State::Keys(more) = self.state else { return Step::More };
        if executor.is_spent() {
            return Step::Spent;
        }
        executor.more = more;
        let flow = executor.go_on(rest);
        let left = if flow == Flow::Keys { executor.more.line_bytes() } else { 0 };
        *consumed += more.line_bytes() - left;
        self.state = State::Requests;
        self.after(executor, flow)
    }

    /// Continues with a listing, if this turn may execute another costly command.
    fn list_on(&mut self, executor: &mut Executor<'_>) -> Step {
        let State::Listing(listing) = &mut self.state else { return Step::More };
        if executor.puts_off() {
            return Step::PutOff;
        }
        if executor.list(listing) {
            return Step::PutOff;
        }
        self.state = State::Requests;
        self.after(executor, Flow::Done)
    }

    fn swallow(&mut self, rest: &[u8], consumed: &mut usize) -> Step {
        let State::Swallow(left) = &mut self.state else { return Step::More };
        let taken = usize::try_from(*left).map_or(rest.len(), |n| n.min(rest.len()));
        *left -= taken as u64;
        *consumed += taken;
        if *left > 0 {
            return Step::Piece(Piece::Body);
        }
        self.state = State::Requests;
        Step::More
    }

    /// Begins a large item, of whose value `arrived_bytes` follow its line. Its memory is allocated as they arrive.
    pub(super) fn begin_value(
        &mut self,
        executor: &mut Executor<'_>,
        command: StoreForm<'_>,
        (line, arrived_bytes): (&[u8], usize),
        consumed: &mut usize,
    ) -> Step {
        match executor.open(command, arrived_bytes) {
            Opened::Arriving { new, end_bytes } => {
                let arriving = Arriving { line: line.into(), new, end_bytes };
                self.state = State::Value(Box::new(arriving));
            }
            Opened::Refused { swallow } => self.state = State::Swallow(swallow),
            Opened::Waiting => return Step::Piece(Piece::Body),
            Opened::Later => return Step::Later,
        }
        *consumed += line.len();
        self.after(executor, Flow::Done)
    }

    /// Copies the value of a large item into its memory, and stores the item once it is complete.
    fn take_value(
        &mut self,
        executor: &mut Executor<'_>,
        rest: &[u8],
        consumed: &mut usize,
    ) -> Step {
        let State::Value(arriving) = &mut self.state else { return Step::More };
        let mut rest = rest;
        while !rest.is_empty() && arriving.new.missing_bytes() > 0 {
            if executor.handle().wants_chunk(&arriving.new) {
                let arrived = arriving.new.value_bytes() - arriving.new.missing_bytes();
                let chunk = executor.handle().chunk_bytes_max();
                if !earns_chunk(arrived + rest.len(), chunk.min(arriving.new.missing_bytes())) {
                    return Step::Piece(Piece::Body);
                }
            }
            match executor.handle().room(&mut arriving.new, executor.now()) {
                Ok(room) => {
                    let taken = room.len().min(rest.len());
                    room[..taken].copy_from_slice(&rest[..taken]);
                    arriving.new.advance(taken);
                    rest = &rest[taken..];
                    *consumed += taken;
                    // Memory has become free, so the wait for the next chunk starts anew.
                    self.waits_since_ms = None;
                    executor.can_wait = true;
                }
                Err(NoRoom::Later) if executor.can_wait => return Step::Later,
                Err(_) => return self.abandon_value(executor),
            }
        }
        let is_whole = arriving.new.missing_bytes() == 0;
        let Some(end) = rest.get(..arriving.end_bytes).filter(|_| is_whole) else {
            return Step::Piece(Piece::Body);
        };
        self.finish_value(executor, end, consumed)
    }

    /// Replies that there is no memory for the rest of the value, and discards the rest.
    pub(super) fn abandon_value(&mut self, executor: &mut Executor<'_>) -> Step {
        let State::Value(arriving) = std::mem::replace(&mut self.state, State::Requests) else {
            return Step::More;
        };
        let missing = arriving.new.missing_bytes() + arriving.end_bytes;
        executor.handle().discard(arriving.new);
        self.with_command(&arriving.line, |command| executor.refuse_for_memory(command));
        self.state = State::Swallow(missing as u64);
        self.after(executor, Flow::Done)
    }

    fn finish_value(
        &mut self,
        executor: &mut Executor<'_>,
        end: &[u8],
        consumed: &mut usize,
    ) -> Step {
        let State::Value(arriving) = std::mem::replace(&mut self.state, State::Requests) else {
            return Step::More;
        };
        let Arriving { line, new, end_bytes } = *arriving;
        match self.with_command(&line, |command| executor.close(command, new, end)) {
            None => Step::Close,
            Some(Err(new)) => {
                self.state = State::Value(Box::new(Arriving { line, new, end_bytes }));
                self.after_part(executor, Flow::Later)
            }
            Some(Ok(())) => {
                *consumed += end.len();
                self.after(executor, Flow::Done)
            }
        }
    }

    /// Calls `what` with the storage command whose head is `head`.
    fn with_command<R>(&self, head: &[u8], what: impl FnOnce(StoreForm<'_>) -> R) -> Option<R> {
        fn of<D: Dialect, R>(head: &[u8], what: impl FnOnce(StoreForm<'_>) -> R) -> Option<R> {
            let Ok(Parsed::Request { request, .. }) = D::parse(head, 0) else { return None };
            D::storing(&request).map(what)
        }
        if self.speaks_binary() { of::<Binary, R>(head, what) } else { of::<Text, R>(head, what) }
    }

    /// Converts a request's outcome to the connection's next step.
    #[inline(always)]
    pub(super) fn after(&mut self, executor: &mut Executor<'_>, flow: Flow) -> Step {
        if flow != Flow::Done {
            return self.after_part(executor, flow);
        }
        self.waits_since_ms = None;
        executor.can_wait = true;
        if executor.handle().moved() >= MOVED_MAX { Step::Full } else { Step::More }
    }

    /// The next step after a request that isn't done. Kept out of the path of those that are.
    #[cold]
    fn after_part(&mut self, executor: &mut Executor<'_>, flow: Flow) -> Step {
        match flow {
            Flow::Done => Step::More,
            Flow::Later if executor.is_put_off() => Step::PutOff,
            Flow::Later if executor.is_parked() => Step::Parked,
            Flow::Later => Step::Later,
            Flow::Close => Step::Close,
            Flow::Fed => {
                let Some(fed) = executor.fed.take() else { return Step::Close };
                self.state = State::Fed(fed);
                Step::Fed
            }
            Flow::Listing => {
                let Some(listing) = executor.listing.take() else { return Step::Close };
                self.state = State::Listing(listing);
                Step::PutOff
            }
            Flow::Keys => {
                self.state = State::Keys(executor.more);
                if executor.is_parked() {
                    return Step::Parked;
                }
                if executor.is_spent() { Step::Spent } else { Step::Full }
            }
        }
    }
}

impl Source for Connection {
    type Stop = Step;
    const BODY_MAX: usize = 16 << 10;

    #[inline(always)]
    fn after(&mut self, executor: &mut Executor<'_>, flow: Flow) -> ControlFlow<Step> {
        match self.after(executor, flow) {
            Step::More if executor.is_full() => ControlFlow::Break(Step::Full),
            Step::More => ControlFlow::Continue(()),
            other => ControlFlow::Break(other),
        }
    }
}

/// Bytes of values that a connection's requests may copy before the turn's work is checked.
const MOVED_MAX: usize = 256 << 10;
