//! What a client asked and isn't answered yet, request by request, and how it is answered.
//!
//! # Invariants
//! 1. A reply is looked for where it will be, and stays there until its line is said: none is moved about.

use std::rc::Rc;
use std::task::{self, Poll};

use bytes::Bytes;
use guira_client::{Op, Output};
use guira_proto::fixed;

use super::get::{Get, tells_of_length};
use crate::sessions::answer as text;
use crate::sessions::line::{Asked, keeps_change};
use crate::sessions::meta::{self, Wanted};
use crate::sessions::owner::Verdict;
use crate::sessions::service::{Answer, Feed, Listing, Service, Start};
use crate::sessions::stream::Stream;
use crate::sessions::thread::Sessions;

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
    /// An answer that comes in parts: the next one, `None` once the last was said.
    Feed { feed: Box<dyn Feed>, part: Poll<Option<Vec<u8>>> },
    /// To end the process, once all before it is answered, if the client may.
    Shutdown(Verdict),
}

/// What became of a request that was begun.
pub(super) enum Begun<S: Service> {
    /// Its answer is on its way, or there.
    Line(Line<S>),
    /// It is the last one of its client, which goes with the answer.
    Last { line: Line<S>, is_refused: bool },
    /// It is to be begun later.
    Waits(Asked),
}

impl<S: Service> Line<S> {
    /// Begins a request of a client: of a get so many keys, where a short value has so many bytes.
    #[inline]
    pub(super) fn begin(
        (sessions, client, stream): (&Sessions<S>, &S::Client, &Stream),
        asked: Asked,
        (keys_admitted, short): (usize, usize),
        start: Start<'_>,
    ) -> Begun<S> {
        let service = &sessions.service;
        Begun::Line(match asked {
            Asked::Get { op, exptime, keys } => {
                let mut get = Get::new(op, exptime, keys);
                get.begin(keys_admitted, short, |op, exptime, keys| {
                    service.begin_keys(client, op, exptime, keys, start)
                });
                Line::Get(get)
            }
            Asked::GetOne(request) => {
                let (op, key) = (request.op, request.key.clone());
                Line::GetOne { op, key, answer: service.begin(client, request, start) }
            }
            Asked::One { request, is_quiet } => {
                let op = request.op;
                Line::One { op, is_quiet, answer: service.begin(client, request, start) }
            }
            Asked::Meta { request, wanted } => {
                let key = request.key.clone();
                Line::Meta { wanted, key, answer: service.begin(client, request, start) }
            }
            Asked::Stats(group) => match sessions.stats(&group, start) {
                Some(text) => Line::Said(text),
                None => return Begun::Waits(Asked::Stats(group)),
            },
            Asked::Version => Line::Said(format!("VERSION {}\r\n", S::VERSION).into_bytes()),
            Asked::Verbosity { level, is_quiet } => Line::verbosity(service, level, is_quiet),
            Asked::List(listing) => Line::list(service, listing),
            Asked::Shutdown => Line::Shutdown(sessions.clients.limits.shutdown_from.judge(stream)),
            Asked::Quit => {
                return Begun::Last { line: Line::Said(Vec::new()), is_refused: false };
            }
            Asked::Refused { line, closes: false } => Line::Said(line.to_vec()),
            Asked::Refused { line, closes: true } => {
                return Begun::Last { line: Line::Said(line.to_vec()), is_refused: true };
            }
        })
    }

    /// A list of all items, where the service has one.
    fn list(service: &Rc<S>, listing: Listing) -> Self {
        match service.list(listing) {
            Some(feed) => Line::Feed { feed, part: Poll::Pending },
            None => Line::Said(fixed::ERROR.to_vec()),
        }
    }

    /// The log says more or less from now on.
    fn verbosity(service: &Rc<S>, level: u32, is_quiet: bool) -> Self {
        service.set_verbosity(level);
        Line::Said(if is_quiet { Vec::new() } else { fixed::OK.to_vec() })
    }

    /// What it asks, where that is one thing.
    pub(super) fn op(&self) -> Option<Op> {
        match self {
            Line::Said(_) | Line::Meta { .. } | Line::Feed { .. } | Line::Shutdown(_) => None,
            Line::One { op, .. } | Line::GetOne { op, .. } => Some(*op),
            Line::Get(get) => Some(get.op),
        }
    }

    /// Whether it must be carried through though nobody waits for its answer.
    pub(super) fn is_change(&self) -> bool {
        match self {
            Line::Said(_) | Line::Shutdown(_) | Line::Feed { .. } => false,
            Line::Get { .. } | Line::GetOne { .. } => false,
            Line::One { op, .. } => keeps_change::<S::Manners>(*op),
            Line::Meta { wanted, .. } => !wanted.is_get(),
        }
    }

    /// Polls what is under way.
    pub(super) fn poll(&mut self, cx: &mut task::Context<'_>, client: &S::Client) {
        match self {
            Line::Said(_) => {}
            Line::Shutdown(verdict) => verdict.poll(cx),
            Line::Feed { feed, part } => {
                if part.is_pending() {
                    *part = feed.poll_part(cx);
                }
            }
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
            Line::Feed { part, .. } => part.is_ready(),
            Line::Shutdown(verdict) => verdict.known().is_some(),
            Line::One { answer, .. } | Line::GetOne { answer, .. } | Line::Meta { answer, .. } => {
                answer.reply(0).is_some()
            }
            Line::Get(get) => get.is_answered(),
        }
    }

    /// Whether it is a get of one key whose value was too long for the memory that was left.
    pub(super) fn is_dropped(&self) -> bool {
        let (Line::GetOne { answer, .. } | Line::Meta { answer, .. }) = self else { return false };
        answer.reply(0).is_some_and(|reply| reply.outcome.is_error() && !tells_of_length(reply))
    }

    /// Bytes of the longest value in it that has come, of a get; a failure tells nothing of values.
    pub(super) fn longest_value(&self) -> Option<usize> {
        let of = |answer: &S::Answer| {
            let reply = answer.reply(0).filter(|reply| !reply.outcome.is_error());
            reply.map(|reply| reply.value.len())
        };
        match self {
            Line::GetOne { answer, .. } => of(answer),
            Line::Meta { wanted, answer, .. } if wanted.is_get() => of(answer),
            Line::Get(get) => get.longest_value(),
            _ => None,
        }
    }

    /// How many requests it stands for.
    pub(super) fn requests(&self) -> usize {
        match self {
            Line::Said(_) => 0,
            Line::One { .. } | Line::GetOne { .. } | Line::Meta { .. } => 1,
            Line::Feed { .. } | Line::Shutdown(_) => 1,
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
            Line::Said(_) | Line::One { .. } | Line::Feed { .. } | Line::Shutdown(_) => 0,
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
            Line::Feed { .. } => FEED_BYTES,
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
            Line::Feed { part, .. } => {
                let Poll::Ready(Some(text)) = std::mem::replace(part, Poll::Pending) else {
                    return (true, 0);
                };
                out.extend_from_slice(&text);
                return (false, 0);
            }
            Line::Meta { wanted, key, answer } => {
                let Some(reply) = answer.reply(0) else { return (true, 0) };
                service.replied(reply);
                meta::append::<S::Manners>(output, wanted, key, reply);
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

/// What a part of a feed takes, and the next one that is made meanwhile. Bytes.
const FEED_BYTES: usize = 128 << 10;
/// A line without its keys: what is kept of it here. Bytes.
const LINE_BYTES: usize = 256;
