//! Refusal of the request that a connection is within, so that its memory is freed and the stream stays in step.
//!
//! | what has arrived | reply | what is discarded |
//! |---|---|---|
//! | a storage request's line, and part of its value | `SERVER_ERROR out of memory storing object` | the value |
//! | part of a get line that is longer than other lines can be | `SERVER_ERROR out of memory reading request` | the line |
//! | a get line that is answered in part | `SERVER_ERROR out of memory writing get response` | the line |
//! | part of a packet's head that exceeds the free allowance | none before its end, which tells what to discard | then as above |
//!
//! Part of any other line is within the free allowance, so it is never refused. A connection is closed
//! without a reply if its client doesn't take its replies, or hasn't logged in.

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
    /// Bytes to charge for a request that is incomplete, or that isn't answered because its client
    /// doesn't take its replies; 0 up to the free allowance. Requests that this server hasn't executed
    /// yet aren't the client's fault, and are gone in a turn or two.
    #[inline]
    pub(crate) fn unfinished_bytes(&self, handle: &Handle<'_>) -> usize {
        let is_between = matches!(self.state, State::Requests) && self.input.capacity() == 0;
        if is_between {
            return 0;
        }
        let bytes = self.piece_bytes(handle);
        if bytes > UNFINISHED_FREE_BYTES { bytes } else { 0 }
    }

    /// The client's address over TCP.
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
            // A login attempt that has to wait isn't a delay of the server's.
            State::Login(_) => self.input_bytes(),
            // At most a packet's head, whose end is awaited in any case.
            State::Refused(_) => 0,
            _ if is_servers => 0,
            _ => self.input_bytes(),
        }
    }

    /// Refuses the request that the connection is within.
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

    /// Replies to the request that is refused, as soon as enough of it has arrived to know what to discard.
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
                // Only a get line can be longer than the free allowance.
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
            // The usual path has the reply.
            Err(_) => Step::More,
        }
    }

    /// Discards a line up to its end.
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
