//! A get of several keys on its way: asked for in parts, and answered whole or as its parts come.
//!
//! # Invariants
//! 1. A get whose replies are short is answered with all its values or with one line that says what failed.
//! 2. One whose replies are long is answered as they come: values, and then `END` or the line that says what failed.
//! 3. Of a get's keys, one part is under way; the next is begun when most of the replies before it were said.

use bytes::Bytes;
use guira_client::{Op, Reply};

use super::lines::Gets;
use crate::outcome::is_error;

/// See the module's head.
pub(super) struct Get {
    pub(super) op: Op,
    pub(super) exptime: i64,
    keys: Vec<Bytes>,
    /// Keys before this one are answered to the client.
    said: usize,
    /// Replies of the parts before the one under way: of the keys before that one's.
    replies: Vec<Reply>,
    replies_bytes: usize,
    /// The part under way, and the key after its last.
    pub(super) part: Gets,
    asked: usize,
}

impl Get {
    pub(super) fn new(op: Op, exptime: i64, keys: Vec<Bytes>) -> Self {
        let part = Gets::new(op, 0);
        Self { op, exptime, keys, said: 0, replies: Vec::new(), replies_bytes: 0, part, asked: 0 }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Keys that no server was asked for.
    pub(super) fn rest(&self) -> usize {
        self.keys.len() - self.asked
    }

    /// Whether the next part may be begun.
    pub(super) fn may_go_on(&self) -> bool {
        self.rest() > 0 && self.part.is_answered() && self.replies_bytes < LONG_BYTES
    }

    /// The keys of the next part, of which there are `n`; its replies take the place of those before.
    pub(super) fn next_part(&mut self, n: usize) -> Vec<Bytes> {
        self.collect();
        let from = self.asked;
        self.asked += n;
        self.keys[from..self.asked].to_vec()
    }

    fn collect(&mut self) {
        self.replies.extend(self.part.replies().cloned());
        self.replies_bytes += self.part.replies().map(bytes_of).sum::<usize>();
        self.part = Gets::new(self.op, 0);
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
        self.replies_bytes >= LONG_BYTES || self.said > 0 && !self.replies.is_empty()
    }

    /// What isn't said and may be: keys and their replies.
    pub(super) fn unsaid(&self) -> impl Iterator<Item = (&Bytes, &Reply)> {
        let part = if self.is_answered() { Some(self.part.replies()) } else { None };
        self.keys[self.said..].iter().zip(self.replies.iter().chain(part.into_iter().flatten()))
    }

    /// The reply that failed, if one did.
    pub(super) fn failure(&self) -> Option<&Reply> {
        self.unsaid().map(|(_, reply)| reply).find(|reply| is_error(reply.outcome))
    }

    /// So many of the unsaid are said now.
    pub(super) fn say(&mut self, n: usize) {
        self.said += n;
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
