//! What a client asked and wasn't told yet, in the order of its requests.
//!
//! # Invariants
//! 1. `bytes`, `said_bytes` and `requests` are sums over `lines`.
//! 2. A line's number is `gone` and its place: it stays while those before it are said.

use std::collections::VecDeque;
use std::task::Context;

use super::lines::Line;
use crate::sessions::service::Service;

/// The lines of a client.
pub(super) struct Lines<S: Service> {
    /// With the bytes that each holds.
    lines: VecDeque<(Line<S>, usize)>,
    /// The sum of them.
    bytes: usize,
    /// Of `lines`, the text of those that need no server.
    said_bytes: usize,
    /// Requests in `lines`.
    requests: usize,
    /// Lines before those.
    gone: u64,
}

impl<S: Service> Lines<S> {
    pub(super) fn new() -> Self {
        Self { lines: VecDeque::new(), bytes: 0, said_bytes: 0, requests: 0, gone: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Requests that have no answer yet, or whose answer wasn't said.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    /// Bytes of text that needs no server.
    pub(super) fn said_bytes(&self) -> usize {
        self.said_bytes
    }

    /// Keys of gets that servers were asked for.
    pub(super) fn under_way(&self) -> usize {
        self.lines.iter().map(|(line, _)| line.under_way()).sum()
    }

    /// Whether part of the last get waits.
    pub(super) fn is_cut(&self) -> bool {
        let is_cut =
            |(line, _): &(Line<S>, usize)| matches!(line, Line::Get(get) if get.rest() > 0);
        self.lines.back().is_some_and(is_cut)
    }

    /// Whether the line of this number is answered, or said.
    pub(super) fn is_answered(&self, number: u64) -> bool {
        let at = number.checked_sub(self.gone).and_then(|at| usize::try_from(at).ok());
        at.is_none_or(|at| self.lines.get(at).is_none_or(|(line, _)| line.is_answered()))
    }

    /// Whether all lines are answered, of a get the part that was begun.
    pub(super) fn are_over(&self) -> bool {
        self.lines.iter().all(|(line, _)| match line {
            Line::Get(get) => get.under_way() == 0,
            line => line.is_answered(),
        })
    }

    /// Bytes of the longest value that has come and wasn't said.
    pub(super) fn longest_value(&self) -> Option<usize> {
        self.lines.iter().filter_map(|(line, _)| line.longest_value()).max()
    }

    /// The number of the line that comes next.
    pub(super) fn next_number(&self) -> u64 {
        self.gone + self.lines.len() as u64
    }

    /// Polls what is under way.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, client: &S::Client) {
        self.lines.iter_mut().for_each(|(line, _)| line.poll(cx, client));
    }

    /// Polls the last line, which was just begun: an answer need not wake anything before its first poll, and what waits for
    /// the same thing waits in the order in which it was sent.
    pub(super) fn poll_last(&mut self, cx: &mut Context<'_>, client: &S::Client) {
        if let Some((line, _)) = self.lines.back_mut() {
            line.poll(cx, client);
        }
    }

    /// The line to be said next.
    pub(super) fn first(&mut self) -> Option<&mut Line<S>> {
        self.lines.front_mut().map(|(line, _)| line)
    }

    /// The line that came last.
    pub(super) fn last(&mut self) -> Option<&mut Line<S>> {
        self.lines.back_mut().map(|(line, _)| line)
    }

    /// Appends what needs a server; a value is taken to have so many bytes.
    #[inline]
    pub(super) fn push(&mut self, line: Line<S>, value_bytes: usize) {
        let (line, bytes) = self.lines.push_back_mut((line, 0));
        *bytes = line.held(value_bytes);
        self.bytes += *bytes;
        self.requests += line.requests();
    }

    /// Appends what needs no server: where texts may join, short ones that follow each other are one line.
    pub(super) fn push_said(&mut self, text: Vec<u8>, may_join: bool) {
        self.said_bytes += text.len();
        if let (Some((Line::Said(before), bytes)), true) = (self.lines.back_mut(), may_join)
            && before.len() + text.len() <= SAID_LINE_BYTES_MAX
        {
            let room = before.capacity();
            before.extend_from_slice(&text);
            let grown = before.capacity() - room;
            *bytes += grown;
            self.bytes += grown;
            return;
        }
        let line = Line::Said(text);
        let bytes = line.held(0);
        self.lines.push_back((line, bytes));
        self.bytes += bytes;
    }

    /// The last line holds so many bytes more.
    pub(super) fn grow_last(&mut self, more: usize) {
        if let Some((_, bytes)) = self.lines.back_mut() {
            *bytes += more;
            self.bytes += more;
        }
    }

    /// Forgets the line that was said.
    pub(super) fn pop(&mut self) {
        let Some((line, bytes)) = self.lines.front() else { return };
        self.bytes -= bytes;
        self.requests -= line.requests();
        if let Line::Said(text) = line {
            self.said_bytes -= text.len();
        }
        drop(self.lines.pop_front());
        self.gone += 1;
    }

    /// Gives up all that isn't a change: the client has gone, and no sum is asked for any more. `keeps_gets`: but for gets
    /// that are under way.
    pub(super) fn keep_changes(&mut self, keeps_gets: bool) {
        self.lines.retain(|(line, _)| line.is_change() || keeps_gets && line.under_way() > 0);
    }

    /// Bytes that count for the client's account.
    pub(super) fn held(&self) -> usize {
        let vacant = self.lines.capacity() - self.lines.len();
        self.bytes + vacant * size_of::<(Line<S>, usize)>()
    }

    /// Bytes that the places of lines take, used or not.
    pub(super) fn places_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<(Line<S>, usize)>()
    }

    /// Whether there are more places than stay with a client.
    pub(super) fn has_many_places(&self) -> bool {
        self.lines.capacity() > LINES_KEPT
    }

    /// Gives most places back, if few of them are used.
    pub(super) fn shrink(&mut self) {
        if self.has_many_places() && self.lines.len() < self.lines.capacity() / 4 {
            self.lines.shrink_to(self.lines.len() * 2);
        }
    }

    /// Gives all places back, of a client that waits for nothing.
    pub(super) fn forget_places(&mut self) {
        self.lines = VecDeque::new();
    }
}

/// Of text that needs no server, what is one line: all of a line is said at once.
const SAID_LINE_BYTES_MAX: usize = 16 << 10;
/// Places of so many lines stay with a client.
const LINES_KEPT: usize = 64;
