//! Refusing the request that a connection is within, so that what it holds comes free and the stream stays in step.
//!
//! | what there is of it | answer | what is read away |
//! |---|---|---|
//! | a storage request's line, and a piece of its value | `SERVER_ERROR out of memory storing object` | the value |
//! | a piece of a get line longer than other lines can be | `SERVER_ERROR out of memory reading request` | the line |
//! | a get line that is answered in part | `SERVER_ERROR out of memory writing get response` | the line |
//! | a piece of a packet's head that is larger than what is free | none before its end, which tells what to read away | then as above |
//!
//! A piece of another line is at most what is free, so it is never refused.
//! A client that lets its replies wait hears nothing, nor does one that hasn't logged in: the connection is closed.

use super::Connection;
use crate::batch::Rooms;
use crate::batch::{Dialect, Piece};
use crate::dialects::{Binary, Text};
use crate::execute::{Executor, Flow};
use crate::process::budget::UNFINISHED_FREE_BYTES;
use crate::transport::state::{Next, Refused, State, Step};
use crate::turn::Turn;
use guira_cache::Handle;
use guira_proto::{Limits, Parsed, fixed};
use std::net::IpAddr;

impl Connection {
    /// Bytes that it is charged: what it holds for a request that isn't whole, or not answered because its client lets
    /// replies wait, if that is more than is free. Requests that this server didn't get to are no fault of the client's,
    /// and are gone in a turn or two.
    #[inline]
    pub(crate) fn unfinished_bytes(&self, handle: &Handle<'_>) -> usize {
        let is_between = matches!(self.state, State::Requests) && self.input.capacity() == 0;
        if is_between {
            return 0;
        }
        let bytes = self.piece_bytes(handle);
        if bytes > UNFINISHED_FREE_BYTES { bytes } else { 0 }
    }

    /// Its client's address, over TCP.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.seat().remote().map(|remote| remote.ip())
    }

    fn piece_bytes(&self, handle: &Handle<'_>) -> usize {
        let is_servers = self.has_backlog && self.unsent.is_empty();
        match &self.state {
            State::Keys(_) => self.input_bytes(),
            State::Value(arriving) => {
                let piece = if is_servers { 0 } else { self.input_bytes() };
                piece + arriving.line.len() + handle.chunk_bytes(&arriving.new)
            }
            // An attempt that has to wait isn't what the server was slow at.
            State::Login(_) => self.input_bytes(),
            // At most a packet's head, and its end is awaited in any case.
            State::Refused(_) => 0,
            _ if is_servers => 0,
            _ => self.input_bytes(),
        }
    }

    /// Refuses the request that it is within.
    pub(crate) fn refuse(&mut self, turn: &Turn<'_>, rooms: &mut Rooms) -> Next {
        if !self.unsent.is_empty() {
            self.is_broken = true;
            return Next::Close;
        }
        self.state = match std::mem::replace(&mut self.state, State::Closing) {
            State::Requests => State::Refused(Refused::Piece),
            State::Keys(more) => State::Refused(Refused::Keys(more)),
            State::Value(arriving) => State::Refused(Refused::Value(arriving)),
            other => {
                self.state = other;
                self.is_broken = true;
                return Next::Close;
            }
        };
        let input = std::mem::take(&mut self.input);
        let done = std::mem::take(&mut self.done);
        let worked = self.work_on(turn, rooms, input, done);
        self.judge(worked)
    }

    /// Answers the request that is to be refused, as soon as there is enough of it to know what to read away.
    pub(super) fn turn_away(
        &mut self,
        executor: &mut Executor<'_>,
        rest: &[u8],
        consumed: &mut usize,
    ) -> Step {
        let scanned = std::mem::take(&mut self.scanned);
        match std::mem::replace(&mut self.state, State::Requests) {
            State::Refused(Refused::Value(arriving)) => {
                self.state = State::Value(arriving);
                return self.abandon_value(executor);
            }
            State::Refused(Refused::Keys(more)) => {
                *consumed += more.line_bytes();
                executor.say(fixed::OUT_OF_MEMORY_WRITING);
            }
            _ if self.speaks_binary() => {
                return self.turn_request_away::<Binary>(executor, (rest, 0), consumed);
            }
            _ => return self.turn_request_away::<Text>(executor, (rest, scanned), consumed),
        }
        self.after(executor, Flow::Done)
    }

    fn turn_request_away<D: Dialect>(
        &mut self,
        executor: &mut Executor<'_>,
        (rest, scanned): (&[u8], usize),
        consumed: &mut usize,
    ) -> Step {
        match D::parse(rest, scanned) {
            Ok(Parsed::Request { request, used }) => {
                *consumed += used;
                match D::storing(&request) {
                    Some(command) => {
                        executor.refuse_for_memory(command);
                        self.state = State::Swallow(command.body_bytes());
                    }
                    None => D::out_of_memory(executor, &request),
                }
                self.after(executor, Flow::Done)
            }
            Ok(Parsed::Incomplete { .. }) if D::ENDS_WITH_NEWLINE => {
                // Only a get line can be longer than what is free.
                const { assert!(UNFINISHED_FREE_BYTES >= Limits::DEFAULT.line_bytes_max) };
                *consumed += rest.len();
                executor.say(fixed::OUT_OF_MEMORY_READING);
                self.state = State::SwallowLine;
                self.after(executor, Flow::Done)
            }
            Ok(Parsed::Incomplete { .. }) => {
                self.state = State::Refused(Refused::Piece);
                Step::Piece(Piece::Line(0))
            }
            // The usual way has the answer.
            Err(_) => Step::More,
        }
    }

    /// Reads a line away to its end.
    pub(super) fn swallow_line(&mut self, rest: &[u8], consumed: &mut usize) -> Step {
        match memchr::memchr(b'\n', rest) {
            Some(newline) => {
                *consumed += newline + 1;
                self.state = State::Requests;
                Step::More
            }
            None => {
                *consumed += rest.len();
                Step::Piece(Piece::Line(0))
            }
        }
    }
}
