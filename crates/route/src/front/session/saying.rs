//! How a proxy thread answers a client's line, once its replies are there.

use guira_client::Reply;
use guira_proto::fixed;

use super::get::Get;
use super::lines::Line;
use crate::Counter;
use crate::front::proxy::Proxy;
use crate::front::{answer, meta};
use crate::outcome::is_error;

impl Proxy {
    /// Appends the answer to a line that is sayable, a long one until `out` has `most` bytes. Says whether that is all of it, and the keys of a get in it.
    pub(super) fn say(&self, line: &mut Line, out: &mut Vec<u8>, most: usize) -> (bool, usize) {
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
                } else {
                    answer::append_value(out, *op, &part.key, reply);
                    out.extend_from_slice(b"END\r\n");
                }
                return (true, 1);
            }
            Line::Get(get) => return self.say_get(get, out, most),
            Line::Meta { wanted, part } => {
                let Some(reply) = part.reply() else { return (true, 0) };
                self.note(reply);
                meta::append(out, wanted, &part.key, reply);
                return (true, wanted.is_get().into());
            }
            Line::Shutdown(verdict) if verdict.known() != Some(true) => {
                out.extend_from_slice(fixed::SHUTDOWN_NOT_ENABLED);
            }
            Line::Shutdown(_) => {
                out.extend_from_slice(b"OK\r\n");
                self.shared.stop.notify_one();
            }
        }
        (true, 0)
    }

    fn say_get(&self, get: &mut Get, out: &mut Vec<u8>, most: usize) -> (bool, usize) {
        if let Some(failed) = get.failure() {
            get.unsaid().for_each(|(_, reply)| self.note(reply));
            answer::append_error(out, failed);
            return (true, get.unsaid().count());
        }
        let (mut n, mut is_cut) = (0, false);
        for (key, reply) in get.unsaid() {
            is_cut = out.len() >= most;
            if is_cut {
                break;
            }
            self.note(reply);
            answer::append_value(out, get.op, key, reply);
            n += 1;
        }
        let is_done = get.is_answered() && !is_cut;
        if is_done {
            out.extend_from_slice(b"END\r\n");
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
