//! A client's requests that aren't answered yet, and how each is answered.
//!
//! # Invariants
//! 1. A reply is read where its answer has it, and stays there until its line is said: no reply is moved.

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
    /// Text that is ready to be said.
    Said(Vec<u8>),
    /// A request for one key or for none, which isn't a get.
    One { op: Op, is_quiet: bool, answer: S::Answer },
    /// A get of several keys.
    Get(Get<S>),
    /// A get of one key.
    GetOne { op: Op, key: Bytes, answer: S::Answer },
    /// A meta command.
    Meta { wanted: Wanted, key: Bytes, answer: S::Answer },
    /// An answer that comes in parts. `part` is the next one; `None` once the last was said.
    Feed { feed: Box<dyn Feed>, part: Poll<Option<Vec<u8>>> },
    /// A request to end the process. It is carried out once all lines before it are answered, if the client may do so.
    Shutdown(Verdict),
}

/// The outcome of beginning a request.
pub(super) enum Begun<S: Service> {
    /// Its answer is under way, or already there.
    Line(Line<S>),
    /// It is the client's last request: the client is closed after the answer.
    Last { line: Line<S>, is_refused: bool },
    /// It must be begun later.
    Waits(Asked),
}

impl<S: Service> Line<S> {
    /// Begins a request of a client. Of a get, `keys_admitted` keys are begun; a short value is assumed to have `short`
    /// bytes.
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

    /// Begins a list of all items if the service has one; otherwise answers with an error.
    fn list(service: &Rc<S>, listing: Listing) -> Self {
        match service.list(listing) {
            Some(feed) => Line::Feed { feed, part: Poll::Pending },
            None => Line::Said(fixed::ERROR.to_vec()),
        }
    }

    /// Sets how much is logged from now on.
    fn verbosity(service: &Rc<S>, level: u32, is_quiet: bool) -> Self {
        service.set_verbosity(level);
        Line::Said(if is_quiet { Vec::new() } else { fixed::OK.to_vec() })
    }

    /// The operation; `None` for meta commands and for lines without one.
    pub(super) fn op(&self) -> Option<Op> {
        match self {
            Line::Said(_) | Line::Meta { .. } | Line::Feed { .. } | Line::Shutdown(_) => None,
            Line::One { op, .. } | Line::GetOne { op, .. } => Some(*op),
            Line::Get(get) => Some(get.op),
        }
    }

    /// Whether the request must be carried through even after its client has gone.
    pub(super) fn is_change(&self) -> bool {
        match self {
            Line::Said(_) | Line::Shutdown(_) | Line::Feed { .. } => false,
            Line::Get { .. } | Line::GetOne { .. } => false,
            Line::One { op, .. } => keeps_change::<S::Manners>(*op),
            Line::Meta { wanted, .. } => !wanted.is_get(),
        }
    }

    /// Polls the answer, if it is under way.
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

    /// Whether the answer, or part of it, may be said now.
    pub(super) fn is_sayable(&mut self) -> bool {
        if let Line::Get(get) = self { get.is_sayable() } else { self.is_answered() }
    }

    /// Whether all its replies are there.
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

    /// Whether this is a get of one key whose value was too long for the memory that was left.
    pub(super) fn is_dropped(&self) -> bool {
        let (Line::GetOne { answer, .. } | Line::Meta { answer, .. }) = self else { return false };
        answer.reply(0).is_some_and(|reply| reply.outcome.is_error() && !tells_of_length(reply))
    }

    /// For a get, bytes of the longest value that has come. Failures don't count: they show nothing about values.
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

    /// How many requests the line stands for.
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

    /// Bytes that count for the client's account, if a value has `value_bytes`.
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

    /// Appends the answer to a sayable line. A long answer stops once `output` has `most` bytes. Returns whether the whole
    /// answer is said, and for how many keys of a get.
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

/// Bytes for one part of a feed, and for the next one, which is made meanwhile.
const FEED_BYTES: usize = 128 << 10;
/// Bytes that are kept here for a line, without its keys.
const LINE_BYTES: usize = 256;
