//! What a client asked and isn't answered yet, request by request, and how it is answered.
//!
//! # Invariants
//! 1. A reply is looked for where it will be, and stays there until its line is said: none is moved about.

use std::task;

use bytes::Bytes;
use guira_client::{Op, Output};
use guira_proto::fixed;

use super::get::{Get, tells_of_length};
use crate::sessions::answer as text;
use crate::sessions::meta::{self, Wanted};
use crate::sessions::owner::Verdict;
use crate::sessions::service::{Answer, Service};

/// A request line that is not answered yet.
pub(super) enum Line<S: Service> {
    /// Known what to say.
    Said(Vec<u8>),
    /// For one key, or for none.
    One { op: Op, is_quiet: bool, answer: S::Answer },
    /// A get of several keys.
    Get(Get<S>),
    /// A get of one key.
    GetOne { op: Op, key: Bytes, answer: S::Answer },
    /// A meta command.
    Meta { wanted: Wanted, key: Bytes, answer: S::Answer },
    /// To end the process, once all before it is answered, if the client may.
    Shutdown(Verdict),
}

impl<S: Service> Line<S> {
    /// What it asks, where that is one thing.
    pub(super) fn op(&self) -> Option<Op> {
        match self {
            Line::Said(_) | Line::Meta { .. } | Line::Shutdown(_) => None,
            Line::One { op, .. } | Line::GetOne { op, .. } => Some(*op),
            Line::Get(get) => Some(get.op),
        }
    }

    /// Whether it must be carried through though nobody waits for its answer.
    pub(super) fn is_change(&self) -> bool {
        match self {
            Line::Said(_) | Line::Shutdown(_) | Line::Get { .. } | Line::GetOne { .. } => false,
            Line::One { op, .. } => !op.is_get(),
            Line::Meta { wanted, .. } => !wanted.is_get(),
        }
    }

    /// Polls what is under way.
    pub(super) fn poll(&mut self, cx: &mut task::Context<'_>, client: &S::Client) {
        match self {
            Line::Said(_) => {}
            Line::Shutdown(verdict) => verdict.poll(cx),
            Line::One { answer, .. } | Line::GetOne { answer, .. } | Line::Meta { answer, .. } => {
                answer.poll(client, cx);
            }
            Line::Get(get) => get.poll(client, cx),
        }
    }

    /// Whether something of it may be said now.
    pub(super) fn is_sayable(&mut self) -> bool {
        if let Line::Get(get) = self { get.is_sayable() } else { self.is_answered() }
    }

    /// Whether all of its replies are there.
    pub(super) fn is_answered(&self) -> bool {
        match self {
            Line::Said(_) => true,
            Line::Shutdown(verdict) => verdict.known().is_some(),
            Line::One { answer, .. } | Line::GetOne { answer, .. } | Line::Meta { answer, .. } => {
                answer.reply(0).is_some()
            }
            Line::Get(get) => get.is_answered(),
        }
    }

    /// How many requests it stands for.
    pub(super) fn requests(&self) -> usize {
        match self {
            Line::Said(_) => 0,
            Line::One { .. } | Line::GetOne { .. } | Line::Meta { .. } | Line::Shutdown(_) => 1,
            Line::Get(get) => get.keys(),
        }
    }

    /// Keys of a get that were begun and have no reply.
    pub(super) fn under_way(&self) -> usize {
        match self {
            Line::GetOne { answer, .. } => answer.reply(0).is_none().into(),
            Line::Meta { wanted, answer, .. } => {
                (wanted.is_get() && answer.reply(0).is_none()).into()
            }
            Line::Get(get) => get.under_way(),
            Line::Said(_) | Line::One { .. } | Line::Shutdown(_) => 0,
        }
    }

    /// Bytes that count for the client's account, if a value has so many.
    pub(super) fn held(&self, value_bytes: usize) -> usize {
        let more = match self {
            Line::Said(said) => said.capacity(),
            Line::One { answer, .. } | Line::GetOne { answer, .. } | Line::Meta { answer, .. } => {
                answer.held(value_bytes)
            }
            Line::Get(get) => get.held(value_bytes),
            Line::Shutdown(_) => 0,
        };
        LINE_BYTES + more
    }

    /// Appends the answer to a line that is sayable, a long one until `output` has `most` bytes. Returns whether that is all
    /// of it, and the keys of a get in it.
    pub(super) fn say(&mut self, service: &S, output: &mut Output, most: usize) -> (bool, usize) {
        let out = &mut output.bytes;
        match self {
            Line::Said(said) => out.extend_from_slice(said),
            Line::One { op, is_quiet, answer } => {
                if let (false, Some(reply)) = (*is_quiet, answer.reply(0)) {
                    service.replied(reply);
                    text::append(out, *op, reply);
                }
            }
            Line::GetOne { op, key, answer } => {
                let Some(reply) = answer.reply(0) else { return (true, 0) };
                service.replied(reply);
                if reply.outcome.is_error() {
                    text::append_error(out, reply);
                    return (true, tells_of_length(reply).into());
                }
                text::append_value(output, *op, key, reply);
                output.bytes.extend_from_slice(b"END\r\n");
                return (true, 1);
            }
            Line::Get(get) => return get.say(service, output, most),
            Line::Meta { wanted, key, answer } => {
                let Some(reply) = answer.reply(0) else { return (true, 0) };
                service.replied(reply);
                meta::append(output, wanted, key, reply);
                return (true, wanted.is_get().into());
            }
            Line::Shutdown(verdict) if verdict.known() != Some(true) => {
                out.extend_from_slice(fixed::SHUTDOWN_NOT_ENABLED);
            }
            Line::Shutdown(_) => {
                out.extend_from_slice(b"OK\r\n");
                service.shut_down();
            }
        }
        (true, 0)
    }
}

/// A line without its keys: what is kept of it here. Bytes.
const LINE_BYTES: usize = 256;
