//! The matching of replies: the input is split into replies, and each answers the oldest request that it can.
//!
//! # Invariants
//! 1. Replies come in the order of their requests. Only a miss in a get line leaves no reply of its own.
//! 2. A reply that can't belong to the oldest request ends the connection: nothing after it can be trusted.
//!
//! # Costs
//! Each byte is read once. A long value shares the memory that it was read into; a short one is copied.

use std::task::Waker;

use bytes::{Buf, Bytes, BytesMut};
use guira_proto::MetaFlags;
use guira_proto::reply::{MetaStatus, ReplyLine, ReplyParsed, parse};

use super::{Entry, MISS, Queue, Repeats, SHARED_BYTES_MIN};
use crate::connection::options::Protocol;
use crate::wire::{OutOfStep, copy, meta, text, verbatim};
use crate::{Op, Outcome, Reply};

impl Queue {
    /// Takes all whole replies from the front of `input`. Returns the size of `input` below which another call is
    /// useless.
    pub(crate) fn receive(
        &mut self,
        input: &mut BytesMut,
        woken: &mut Vec<Waker>,
    ) -> Result<usize, OutOfStep> {
        loop {
            if input.is_empty() {
                return Ok(1);
            }
            let (line, used) = match parse(input, &self.limits.reply) {
                Ok(ReplyParsed::Reply { reply, used }) => (reply, used),
                Ok(ReplyParsed::Incomplete { at_least }) => return Ok(at_least),
                Err(error) => return Err(OutOfStep(error.to_string())),
            };
            match line {
                ReplyLine::Value { key, flags, cas, value } if value.len() >= SHARED_BYTES_MIN => {
                    let (key, value_bytes) = (copy(key), value.len());
                    let whole = input.split_to(used).freeze();
                    let value = whole.slice(used - 2 - value_bytes..used - 2);
                    let found = Reply { value, flags, token: cas.unwrap_or(0), ..FOUND };
                    self.value(&key, found, woken)?;
                    self.showed_keys();
                    continue;
                }
                ReplyLine::Value { key, flags, cas, value } => {
                    let token = cas.unwrap_or(0);
                    self.value(key, Reply { value: copy(value), flags, token, ..FOUND }, woken)?;
                }
                ReplyLine::MetaValue { value, .. } if value.len() >= SHARED_BYTES_MIN => {
                    let value_bytes = value.len();
                    let whole = input.split_to(used).freeze();
                    let start = used - 2 - value_bytes;
                    let flags = meta::flags_of(&whole[..start]);
                    self.meta(None, flags, whole.slice(start..used - 2), woken)?;
                    continue;
                }
                ReplyLine::MetaValue { flags, value } => {
                    self.meta(None, flags, copy(value), woken)?;
                }
                ReplyLine::Meta { status, flags } => {
                    self.meta(Some(status), flags, Bytes::new(), woken)?;
                }
                ReplyLine::LeaseValue { key, token, flags, value } => {
                    let outcome = text::lease_outcome(token, value.len());
                    let value = copy(value);
                    self.value(key, Reply { outcome, value, flags, token, ..FOUND }, woken)?;
                }
                ReplyLine::End => self.end(&MISS, woken)?,
                line => self.line(line, woken)?,
            }
            self.showed_keys();
            input.advance(used);
        }
    }

    pub(super) fn showed_keys(&mut self) {
        if self.repeats == Repeats::Unknown {
            self.repeats = Repeats::Keys;
        }
    }

    /// Answers the first entry of the oldest line that has the value's key. The entries before it are misses. If the
    /// server is trusted to keep the order and doesn't repeat keys, the value answers the oldest entry. That entry must
    /// be alone on its line.
    pub(super) fn value(
        &mut self,
        key: &[u8],
        reply: Reply,
        woken: &mut Vec<Waker>,
    ) -> Result<(), OutOfStep> {
        let alone = self.order.front().filter(|entry| entry.ends_line);
        let is_first = self.limits.trusts_order && self.repeats == Repeats::Unknown;
        if is_first && alone.is_some_and(|entry| entry.key != key) {
            self.repeats = Repeats::Nothing;
        }
        let is_told_by_order = alone.is_some() && self.repeats == Repeats::Nothing;
        while let Some(entry) = self.order.front().filter(|e| e.op.is_get() && !self.is_end_due) {
            let (at, ends_line) = ((entry.slot, entry.place), entry.ends_line);
            let is_it = entry.key == key || is_told_by_order;
            if ends_line && !is_it {
                break;
            }
            self.order.pop_front();
            if is_it {
                self.is_end_due = ends_line;
                self.answer(at, reply, woken);
                return Ok(());
            }
            self.answer(at, MISS, woken);
        }
        Err(OutOfStep("a value came that nobody asked for".into()))
    }

    /// Handles the end of a get line: the entries left on the line are answered with `reply`.
    fn end(&mut self, reply: &Reply, woken: &mut Vec<Waker>) -> Result<(), OutOfStep> {
        if std::mem::take(&mut self.is_end_due) {
            return Ok(());
        }
        loop {
            let entry = self.order.front().filter(|entry| entry.op.is_get());
            let Some(&Entry { slot, place, ends_line, .. }) = entry else {
                return Err(OutOfStep("an END came that nobody waits for".into()));
            };
            self.order.pop_front();
            self.answer((slot, place), reply.clone(), woken);
            if ends_line {
                return Ok(());
            }
        }
    }

    /// Answers the oldest request with a meta reply.
    fn meta(
        &mut self,
        status: Option<MetaStatus>,
        flags: MetaFlags<'_>,
        value: Bytes,
        woken: &mut Vec<Waker>,
    ) -> Result<(), OutOfStep> {
        self.no_end_is_due()?;
        let is_meta = self.limits.protocol == Protocol::Meta;
        let front = self.order.front().filter(|entry| is_meta || entry.is_verbatim);
        let Some(&Entry { op, slot, place, is_verbatim, .. }) = front else {
            return Err(OutOfStep("a meta reply came that nobody asked for".into()));
        };
        let reply = if is_verbatim {
            verbatim::decode(op, status, flags, value)?
        } else {
            meta::decode(op, status, flags, value)?
        };
        self.order.pop_front();
        self.answer((slot, place), reply, woken);
        Ok(())
    }

    /// Fails between the last value of a line and its `END`: no reply there can answer the next request.
    fn no_end_is_due(&self) -> Result<(), OutOfStep> {
        if self.is_end_due {
            return Err(OutOfStep("a reply came in place of the END after the last value".into()));
        }
        Ok(())
    }

    fn line(&mut self, line: ReplyLine<'_>, woken: &mut Vec<Waker>) -> Result<(), OutOfStep> {
        self.no_end_is_due()?;
        let Some(&Entry { op, slot, place, .. }) = self.order.front() else {
            return Err(OutOfStep("a reply came that nobody asked for".into()));
        };
        if let (Op::MetaGet, ReplyLine::Line(whole)) = (op, line) {
            let key = &self.order[0].key;
            let Some(message) = text::meta_text(whole, key).map(copy) else {
                return Err(OutOfStep::unfit_line(op, line));
            };
            (self.is_end_due, _) = (true, self.order.pop_front());
            self.answer((slot, place), Reply { message, ..FOUND }, woken);
            return Ok(());
        }
        let reply = text::decode(op, line)?;
        if op.is_get() {
            return self.end(&reply, woken);
        }
        let is_unread_body = op.is_update() && reply.outcome == Outcome::BadCommand;
        self.order.pop_front();
        self.answer((slot, place), reply, woken);
        if is_unread_body {
            return Err(OutOfStep(format!(
                "the server has no {op:?} and read its value as commands"
            )));
        }
        Ok(())
    }
}

const FOUND: Reply = Reply::new(Outcome::Found);
