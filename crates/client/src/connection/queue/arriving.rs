//! A long value that is arriving: it is charged step by step, and given up if no caller waits for it or can pay.
//!
//! # Invariants
//! 1. At most one value is arriving: the one at the front of the input.
//! 2. Its request keeps its place in `order` until the value is complete or given up. So the request can time out
//!    meanwhile.
//!
//! # Costs
//! For each stretch of a long value, a search among the requests of the oldest line. Short values don't get here.

use std::task::Waker;

use super::{Queue, Repeats};
use crate::connection::options::Protocol;
use crate::connection::purse::{Charge, no_room};
use crate::wire::OutOfStep;
use crate::{Outcome, Reply};

impl Queue {
    /// Charges the caller for what has come of a value. `input` begins with the value's header and has only a part of
    /// its `whole` bytes. Returns false if the value was given up and its request answered. The caller must then
    /// discard the rest of the value and take the charge by [`forgo`](Self::forgo).
    pub(crate) fn arrives(
        &mut self,
        input: &[u8],
        whole: usize,
        woken: &mut Vec<Waker>,
    ) -> Result<bool, OutOfStep> {
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return Ok(true) };
        let (header, came) = (&input[..end], input.len() - end - 1);
        let mut words = header.split(|&byte| byte == b' ');
        let is_meta = words.next() == Some(b"VA");
        let key = words.next().filter(|_| !is_meta);
        let at = match key {
            Some(key) => self.oldest_of(key),
            None => self.is_metas_turn().then_some(0),
        };
        let Some(entry) = at.and_then(|at| self.order.get(at)) else {
            return Err(OutOfStep("a long value came that nobody asked for".into()));
        };
        let value_bytes = whole - (end + 1) - b"\r\n".len();
        let reply = match self.slots.payer(entry.slot) {
            Some(None) => return Ok(true),
            Some(Some(purse)) => {
                let is_begun = self.slots.ahead.is_some();
                let charge = self.slots.ahead.get_or_insert_with(|| Charge::new(&purse));
                if (is_begun || purse.has_room(value_bytes))
                    && charge.raise_to(came.min(value_bytes))
                {
                    return Ok(true);
                }
                no_room()
            }
            None => Reply::new(Outcome::Timeout),
        };
        match key {
            Some(key) => self.value(key, reply, woken)?,
            None => {
                let entry = self.order.pop_front();
                entry
                    .into_iter()
                    .for_each(|e| self.answer((e.slot, e.place), reply.clone(), woken));
            }
        }
        self.showed_keys();
        Ok(false)
    }

    /// Takes the charge of the value that was given up.
    pub(crate) fn forgo(&mut self) -> Option<Charge> {
        self.slots.ahead.take()
    }

    /// Returns the index of the request that a value under `key` answers, by the same rules as [`value`](Self::value).
    fn oldest_of(&self, key: &[u8]) -> Option<usize> {
        let last = self.order.iter().position(|entry| entry.ends_line)?;
        let of_line = self.order.range(..=last);
        let found = of_line.clone().position(|entry| entry.op.is_get() && entry.key == key);
        let is_by_order = self.repeats == Repeats::Nothing
            || self.limits.trusts_order && self.repeats == Repeats::Unknown;
        let alone = (last == 0 && is_by_order && self.order[0].op.is_get()).then_some(0);
        found.or(alone).filter(|_| !self.is_end_due)
    }

    /// Whether a meta reply may answer the oldest request.
    fn is_metas_turn(&self) -> bool {
        let is_meta = self.limits.protocol == Protocol::Meta;
        let front = self.order.front();
        !self.is_end_due && front.is_some_and(|entry| is_meta || entry.is_verbatim)
    }
}
