//! A get of several keys under way: asked for in parts, and answered whole or as its parts come.
//!
//! # Invariants
//! 1. A get whose replies are short is answered with all its values, or with one line that names the failure.
//! 2. A get whose replies are long is answered as they come: values, and then `END` or the line that names the failure.
//! 3. One part of a get's keys is under way at a time. The next part is begun when most of the replies before it were said
//!    and none of them failed: replies behind a failure are never said.
//!
//! # Costs
//! Keys that aren't under way are kept as their line only. Their replies are kept up to [`LONG_BYTES`].

use std::iter::Take;
use std::ops::Range;
use std::task::Context;

use guira_client::{NO_ROOM, Op, Output, Reply};

use crate::sessions::answer;
use crate::sessions::keys::Keys;
use crate::sessions::service::{Answer, Service};

/// See the module's head.
pub(super) struct Get<S: Service> {
    pub(super) op: Op,
    exptime: i64,
    keys: usize,
    /// Keys that were not begun.
    unasked: Keys,
    /// Keys whose replies aren't said yet.
    unsaid: Keys,
    has_said: bool,
    /// Replies of the parts before the one under way that aren't said yet.
    replies: Vec<Reply>,
    replies_bytes: usize,
    /// Whether a reply of these parts was a failure.
    has_failed: bool,
    /// The part under way, if there is one.
    part: Option<Part<S>>,
    /// Bytes of the largest part.
    part_bytes: usize,
    /// Keys answered since [`news`](Get::news) was called last, and the bytes of their values.
    news: (usize, usize),
}

/// The answer to some of a get's keys. `unsaid` is the range of keys whose replies aren't said.
struct Part<S: Service> {
    answer: S::Answer,
    unsaid: Range<usize>,
}

impl<S: Service> Part<S> {
    /// The replies that aren't said, once all of the part are there.
    fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.unsaid.clone().filter_map(|n| self.answer.reply(n))
    }
}

impl<S: Service> Get<S> {
    pub(super) fn new(op: Op, exptime: i64, keys: Keys) -> Self {
        Self {
            op,
            exptime,
            keys: keys.len(),
            unasked: keys.clone(),
            unsaid: keys,
            has_said: false,
            replies: Vec::new(),
            replies_bytes: 0,
            has_failed: false,
            part: None,
            part_bytes: 0,
            news: (0, 0),
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Keys that were not begun.
    pub(super) fn rest(&self) -> usize {
        self.unasked.len()
    }

    /// Bytes that the get takes in addition to its line, if a value has `value_bytes`: its largest part, and the replies of
    /// the parts before.
    pub(super) fn held(&self, value_bytes: usize) -> usize {
        let replies_bytes = self.keys * (REPLY_BYTES + value_bytes);
        self.part_bytes + if self.rest() > 0 { replies_bytes.min(LONG_BYTES) } else { 0 }
    }

    /// Whether the next part may be begun.
    pub(super) fn may_go_on(&self) -> bool {
        self.rest() > 0
            && self.under_way() == 0
            && self.replies_bytes < LONG_BYTES
            && !self.has_failed
    }

    /// Begins the next part, of `n` keys. It replaces the part before, whose replies are kept.
    pub(super) fn begin(
        &mut self,
        n: usize,
        value_bytes: usize,
        begin: impl FnOnce(Op, i64, Take<&mut Keys>) -> S::Answer,
    ) {
        self.collect();
        let answer = begin(self.op, self.exptime, self.unasked.by_ref().take(n));
        self.part_bytes = self.part_bytes.max(answer.held(value_bytes));
        self.part = Some(Part { answer, unsaid: 0..n });
    }

    pub(super) fn poll(&mut self, client: &S::Client, cx: &mut Context<'_>) {
        if let Some(part) = &mut self.part {
            part.answer.poll(client, cx);
        }
    }

    /// Keys that were begun and have no reply.
    pub(super) fn under_way(&self) -> usize {
        self.part.as_ref().map_or(0, |part| part.answer.under_way())
    }

    fn collect(&mut self) {
        let Some(part) = self.part.take() else { return };
        for reply in part.replies() {
            self.replies_bytes += bytes_of(reply);
            self.has_failed |= reply.outcome.is_error();
            // A failure shows nothing about the length of values.
            if !reply.outcome.is_error() {
                self.news = (self.news.0 + 1, self.news.1 + reply.value.len());
            }
            self.replies.push(reply.clone());
        }
    }

    /// Returns how many keys were answered since the last call, and the bytes of their values. It is called before each
    /// further part, so the last part isn't counted.
    pub(super) fn news(&mut self) -> (usize, usize) {
        if self.under_way() == 0 {
            self.collect();
        }
        std::mem::take(&mut self.news)
    }

    /// Bytes of the longest value that has come and isn't said.
    pub(super) fn longest_value(&self) -> Option<usize> {
        let part = self.part.iter().flat_map(Part::replies);
        let values = self.replies.iter().chain(part).filter(|reply| !reply.outcome.is_error());
        values.map(|reply| reply.value.len()).max()
    }

    /// Whether all replies are there.
    pub(super) fn is_answered(&self) -> bool {
        self.rest() == 0 && self.under_way() == 0
    }

    /// Whether something may be said: all, or part of a long answer.
    pub(super) fn is_sayable(&mut self) -> bool {
        if self.is_answered() {
            return true;
        }
        if self.under_way() == 0 {
            self.collect();
        }
        let is_long = self.replies_bytes >= LONG_BYTES;
        is_long || self.has_failed || self.has_said && !self.replies.is_empty()
    }

    /// The replies that aren't said and may be said now.
    fn unsaid(&self) -> impl Iterator<Item = &Reply> {
        let part = self.part.as_ref().filter(|_| self.is_answered());
        self.replies.iter().chain(part.into_iter().flat_map(Part::replies))
    }

    /// See [`Line::say`](super::lines::Line::say).
    pub(super) fn say(&mut self, service: &S, output: &mut Output, most: usize) -> (bool, usize) {
        let failure = self.unsaid().find(|reply| reply.outcome.is_error());
        if let Some(failed) = failure {
            self.unsaid().for_each(|reply| service.replied(reply));
            answer::append_error(&mut output.bytes, failed);
            return (true, if tells_of_length(failed) { self.unsaid().count() } else { 0 });
        }
        let (mut n, mut is_cut) = (0, false);
        for (key, reply) in self.unsaid.words().zip(self.unsaid()) {
            is_cut = output.left() >= most;
            if is_cut {
                break;
            }
            service.replied(reply);
            answer::append_value(output, self.op, key, reply);
            n += 1;
        }
        let is_done = self.is_answered() && !is_cut;
        if is_done {
            output.bytes.extend_from_slice(b"END\r\n");
        } else {
            self.forget(n);
        }
        (is_done, n)
    }

    /// Records that the first `n` unsaid replies are said.
    fn forget(&mut self, n: usize) {
        self.unsaid.pass(n);
        self.has_said |= n > 0;
        let collected = n.min(self.replies.len());
        self.replies.drain(..collected);
        self.replies_bytes = self.replies.iter().map(bytes_of).sum();
        if let Some(part) = &mut self.part {
            part.unsaid.start += n - collected;
        }
    }
}

/// Whether the length of this reply predicts the client's next values. It doesn't if a long value was dropped for lack of
/// memory.
pub(super) fn tells_of_length(reply: &Reply) -> bool {
    reply.message != NO_ROOM
}

fn bytes_of(reply: &Reply) -> usize {
    reply.value.len() + REPLY_BYTES
}

/// Bytes of a reply without its value.
const REPLY_BYTES: usize = 128;
/// An answer of at least this many bytes is said as it comes.
const LONG_BYTES: usize = 64 << 10;
