//! A get of several keys on its way: asked for in parts, and answered whole or as its parts come.
//!
//! # Invariants
//! 1. A get whose replies are short is answered with all its values or with one line that says what failed.
//! 2. One whose replies are long is answered as they come: values, and then `END` or the line that says what failed.
//! 3. Of a get's keys, one part is under way; the next is begun when most of the replies before it were said.
//!
//! # Costs
//! Of the keys that aren't under way only their line is kept, and of their replies what fits into [`LONG_BYTES`].

use guira_client::{Op, Reply};

use super::lines::Gets;
use crate::front::keys::Keys;
use crate::outcome::is_error;

/// See the module's head.
pub(super) struct Get {
    pub(super) op: Op,
    pub(super) exptime: i64,
    keys: usize,
    /// Of which no server was asked.
    unasked: Keys,
    /// Which aren't answered to the client.
    unsaid: Keys,
    has_said: bool,
    /// Replies of the parts before the one under way: of the keys before that one's.
    replies: Vec<Reply>,
    replies_bytes: usize,
    /// The part under way.
    pub(super) part: Gets,
    /// What the largest part takes.
    part_bytes: usize,
    /// Keys that were answered since somebody asked for this, and the bytes of their values.
    news: (usize, usize),
}

impl Get {
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
            part: Gets::new(op, 0),
            part_bytes: 0,
            news: (0, 0),
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Keys that no server was asked for.
    pub(super) fn rest(&self) -> usize {
        self.unasked.len()
    }

    /// Bytes that it takes beside its line, if a value has so many: its largest part, and the replies of those before.
    pub(super) fn held(&self, value_bytes: usize) -> usize {
        let replies_bytes = self.keys * (REPLY_BYTES + value_bytes);
        self.part_bytes + if self.rest() > 0 { replies_bytes.min(LONG_BYTES) } else { 0 }
    }

    /// Whether the next part may be begun.
    pub(super) fn may_go_on(&self) -> bool {
        self.rest() > 0 && self.part.is_answered() && self.replies_bytes < LONG_BYTES
    }

    /// The next part takes the place of those before, whose replies are kept. `ask` makes it of the first of the keys.
    pub(super) fn go_on(&mut self, value_bytes: usize, ask: impl FnOnce(&mut Keys) -> Gets) {
        self.collect();
        self.part = ask(&mut self.unasked);
        self.part_bytes = self.part_bytes.max(self.part.held(value_bytes));
    }

    fn collect(&mut self) {
        let before = self.replies.len();
        self.replies.extend(self.part.replies().cloned());
        let fresh = &self.replies[before..];
        self.replies_bytes += fresh.iter().map(bytes_of).sum::<usize>();
        // A failure tells nothing of values.
        for reply in fresh.iter().filter(|reply| !is_error(reply.outcome)) {
            self.news = (self.news.0 + 1, self.news.1 + reply.value.len());
        }
        self.part = Gets::new(self.op, 0);
    }

    /// How many keys were answered since this was asked last, and with how many bytes; those of the last part aren't told.
    pub(super) fn news(&mut self) -> (usize, usize) {
        if self.part.is_answered() {
            self.collect();
        }
        std::mem::take(&mut self.news)
    }

    /// Whether all replies are there.
    pub(super) fn is_answered(&self) -> bool {
        self.rest() == 0 && self.part.is_answered()
    }

    /// Whether something may be said: all, or part of a long answer.
    pub(super) fn is_sayable(&mut self) -> bool {
        if self.is_answered() {
            return true;
        }
        if self.part.is_answered() {
            self.collect();
        }
        self.replies_bytes >= LONG_BYTES || self.has_said && !self.replies.is_empty()
    }

    /// What isn't said and may be: keys and their replies.
    pub(super) fn unsaid(&self) -> impl Iterator<Item = (&[u8], &Reply)> {
        self.unsaid.words().zip(self.unsaid_replies())
    }

    pub(super) fn unsaid_replies(&self) -> impl Iterator<Item = &Reply> {
        let part = if self.is_answered() { Some(self.part.replies()) } else { None };
        self.replies.iter().chain(part.into_iter().flatten())
    }

    /// The reply that failed, if one did.
    pub(super) fn failure(&self) -> Option<&Reply> {
        self.unsaid_replies().find(|reply| is_error(reply.outcome))
    }

    /// So many of the unsaid are said now.
    pub(super) fn say(&mut self, n: usize) {
        self.unsaid.pass(n);
        self.has_said |= n > 0;
        let collected = n.min(self.replies.len());
        self.replies.drain(..collected);
        self.replies_bytes = self.replies.iter().map(bytes_of).sum();
        self.part.skip(n - collected);
    }
}

fn bytes_of(reply: &Reply) -> usize {
    reply.value.len() + REPLY_BYTES
}

/// A reply beside its value.
const REPLY_BYTES: usize = 128;
/// An answer of so many bytes is given as it comes.
const LONG_BYTES: usize = 64 << 10;
