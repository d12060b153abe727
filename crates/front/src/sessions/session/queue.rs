//! The queue of a client's requests that aren't said yet: whose answer isn't yet in the client's output.
//!
//! # Invariants
//! 1. `bytes`, `said_bytes` and `requests` are sums over `lines`, while the client is there.
//! 2. A line's number is `gone` plus its index. It stays the same while lines before it are said.

use std::collections::VecDeque;
use std::task::Context;

use super::lines::Line;
use crate::sessions::service::Service;

/// The request lines of a client, in order.
pub(super) struct Lines<S: Service> {
    /// Each line, with the bytes that it holds.
    lines: VecDeque<(Line<S>, usize)>,
    /// The sum of these bytes.
    bytes: usize,
    /// Bytes of text in the lines that need no server.
    said_bytes: usize,
    /// Requests in `lines`.
    requests: usize,
    /// How many lines were said and removed.
    gone: u64,
}

impl<S: Service> Lines<S> {
    pub(super) fn new() -> Self {
        Self { lines: VecDeque::new(), bytes: 0, said_bytes: 0, requests: 0, gone: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Requests that have no answer yet, or whose answer isn't said.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    /// Bytes of text that needs no server.
    pub(super) fn said_bytes(&self) -> usize {
        self.said_bytes
    }

    /// Keys of gets that were asked for and have no reply yet.
    pub(super) fn under_way(&self) -> usize {
        self.lines.iter().map(|(line, _)| line.under_way()).sum()
    }

    /// Whether the last line is a get of which some keys aren't asked for yet.
    pub(super) fn is_cut(&self) -> bool {
        let is_cut =
            |(line, _): &(Line<S>, usize)| matches!(line, Line::Get(get) if get.rest() > 0);
        self.lines.back().is_some_and(is_cut)
    }

    /// Whether the line with this number is answered, or already said.
    pub(super) fn is_answered(&self, number: u64) -> bool {
        let at = number.checked_sub(self.gone).and_then(|at| usize::try_from(at).ok());
        at.is_none_or(|at| self.lines.get(at).is_none_or(|(line, _)| line.is_answered()))
    }

    /// Whether all lines are answered. Of a get, only the part that was begun counts.
    pub(super) fn are_over(&self) -> bool {
        self.lines.iter().all(|(line, _)| match line {
            Line::Get(get) => get.under_way() == 0,
            line => line.is_answered(),
        })
    }

    /// Bytes of the longest value that has come and isn't said.
    pub(super) fn longest_value(&self) -> Option<usize> {
        self.lines.iter().filter_map(|(line, _)| line.longest_value()).max()
    }

    /// The number of the line that comes next.
    pub(super) fn next_number(&self) -> u64 {
        self.gone + self.lines.len() as u64
    }

    /// Polls all lines.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, client: &S::Client) {
        self.lines.iter_mut().for_each(|(line, _)| line.poll(cx, client));
    }

    /// Polls the last line, which was just begun. An answer needn't wake its task before the first poll. Requests that wait
    /// for the same thing thereby wait in the order in which they were sent.
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

    /// Appends a line that needs a server. A value is assumed to have `value_bytes`.
    #[inline]
    pub(super) fn push(&mut self, line: Line<S>, value_bytes: usize) {
        let (line, bytes) = self.lines.push_back_mut((line, 0));
        *bytes = line.held(value_bytes);
        self.bytes += *bytes;
        self.requests += line.requests();
    }

    /// Appends text that needs no server. If `may_join`, short texts that follow each other share one line.
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

    /// Records that the last line holds `more` bytes more.
    pub(super) fn grow_last(&mut self, more: usize) {
        if let Some((_, bytes)) = self.lines.back_mut() {
            *bytes += more;
            self.bytes += more;
        }
    }

    /// Removes the first line, which was said.
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

    /// Drops all lines that aren't changes, because the client has gone. With `keeps_gets`, gets with keys under way stay
    /// as well. The sums aren't updated.
    pub(super) fn keep_changes(&mut self, keeps_gets: bool) {
        self.lines.retain(|(line, _)| line.is_change() || keeps_gets && line.under_way() > 0);
    }

    /// Bytes that count for the client's account.
    pub(super) fn held(&self) -> usize {
        let vacant = self.lines.capacity() - self.lines.len();
        self.bytes + vacant * size_of::<(Line<S>, usize)>()
    }

    /// Bytes that the queue's places take, used or not.
    pub(super) fn places_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<(Line<S>, usize)>()
    }

    /// Whether the queue has more places than a client keeps.
    pub(super) fn has_many_places(&self) -> bool {
        self.lines.capacity() > LINES_KEPT
    }

    /// Frees most places if few of them are used.
    pub(super) fn shrink(&mut self) {
        if self.has_many_places() && self.lines.len() < self.lines.capacity() / 4 {
            self.lines.shrink_to(self.lines.len() * 2);
        }
    }

    /// Frees all places. The client must wait for nothing.
    pub(super) fn forget_places(&mut self) {
        self.lines = VecDeque::new();
    }
}

/// Most bytes of texts that share a line: a line of text is said all at once.
const SAID_LINE_BYTES_MAX: usize = 16 << 10;
/// How many places a client keeps.
const LINES_KEPT: usize = 64;
