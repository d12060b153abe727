//! How a proxy thread answers a client's line, once its replies are there.

use guira_client::{NO_ROOM, Output, Reply};
use guira_proto::fixed;

use super::get::Get;
use super::lines::Line;
use crate::Counter;
use crate::front::{answer, meta};
use crate::outcome::is_error;
use crate::proxy::Proxy;

impl Proxy {
    /// Appends the answer to a line that is sayable, a long one until `output` has `most` bytes. Says whether that is all
    /// of it, and the keys of a get in it.
    pub(super) fn say(&self, line: &mut Line, output: &mut Output, most: usize) -> (bool, usize) {
        let out = &mut output.bytes;
        match line {
            Line::Said(text) => out.extend_from_slice(text),
            Line::One { op, is_quiet, part } => {
                if let (false, Some(reply)) = (*is_quiet, part.reply()) {
                    self.note(reply);
                    answer::append(out, *op, reply);
                }
            }
            Line::GetOne { op, part } => {
                let Some(reply) = part.reply() else { return (true, 0) };
                self.note(reply);
                if is_error(reply.outcome) {
                    answer::append_error(out, reply);
                    return (true, tells_of_length(reply).into());
                }
                answer::append_value(output, *op, &part.key, reply);
                output.bytes.extend_from_slice(b"END\r\n");
                return (true, 1);
            }
            Line::Get(get) => return self.say_get(get, output, most),
            Line::Meta { wanted, part } => {
                let Some(reply) = part.reply() else { return (true, 0) };
                self.note(reply);
                meta::append(output, wanted, &part.key, reply);
                return (true, wanted.is_get().into());
            }
            Line::Shutdown(verdict) if verdict.known() != Some(true) => {
                out.extend_from_slice(fixed::SHUTDOWN_NOT_ENABLED);
            }
            Line::Shutdown(_) => {
                out.extend_from_slice(b"OK\r\n");
                self.process.stop_for("a client's shutdown");
            }
        }
        (true, 0)
    }

    fn say_get(&self, get: &mut Get, output: &mut Output, most: usize) -> (bool, usize) {
        if let Some(failed) = get.failure() {
            get.unsaid_replies().for_each(|reply| self.note(reply));
            answer::append_error(&mut output.bytes, failed);
            let keys = if tells_of_length(failed) { get.unsaid_replies().count() } else { 0 };
            return (true, keys);
        }
        let (mut n, mut is_cut) = (0, false);
        for (key, reply) in get.unsaid() {
            is_cut = output.left() >= most;
            if is_cut {
                break;
            }
            self.note(reply);
            answer::append_value(output, get.op, key, reply);
            n += 1;
        }
        let is_done = get.is_answered() && !is_cut;
        if is_done {
            output.bytes.extend_from_slice(b"END\r\n");
        } else {
            get.say(n);
        }
        (is_done, n)
    }

    /// Counts what a client was told.
    fn note(&self, reply: &Reply) {
        let counters = self.counters_ref();
        counters.add(Counter::RequestReplied, 1);
        let is_good = !is_error(reply.outcome);
        counters.add(if is_good { Counter::RequestSuccess } else { Counter::RequestError }, 1);
    }
}

/// Whether the next values of a client are perhaps as long as what it was told: not if a long one was dropped.
fn tells_of_length(reply: &Reply) -> bool {
    reply.message != NO_ROOM
}
