//! What a client asked and isn't answered yet, line by line.
//!
//! # Invariants
//! 1. A reply is looked for where it will be, and stays there until its line is said: none is moved about.
//!
//! # Costs
//! A get of several keys allocates a list of places, and for each server that it asks its keys and its replies.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};

use bytes::Bytes;
use guira_client::{Op, Reply};

use crate::Context;
use crate::front::meta::Wanted;
use crate::front::owner::Verdict;
use crate::servers::{Asking, AskingKeys, Leaf, Start};

use super::get::Get;

/// A request line that is not answered yet.
pub(super) enum Line {
    /// Known what to say.
    Said(Vec<u8>),
    /// For one key.
    One { op: Op, is_quiet: bool, part: Part },
    /// A get of several keys.
    Get(Get),
    /// A get of one key.
    GetOne { op: Op, part: Part },
    /// A meta command.
    Meta { wanted: Wanted, part: Part },
    /// To end the process, once all before it is answered, if the client may.
    Shutdown(Verdict),
}

/// One key's part of a line.
pub(super) struct Part {
    pub(super) key: Bytes,
    pub(super) state: State,
}

pub(super) enum State {
    /// On its way through routes.
    Waiting(Pin<Box<dyn Future<Output = Reply>>>),
    /// On its way to a server, and no more.
    Asking(Asking),
    Done(Reply),
}

/// A part of a get of several keys, those that one server answers asked for together.
pub(super) struct Gets {
    op: Op,
    /// Of each key, where its reply will be.
    places: Vec<Place>,
    /// Keys whose replies were said.
    skipped: usize,
    shares: Vec<Share>,
    /// Keys that go through routes, each by itself.
    others: Vec<Part>,
}

/// Where the reply to a key will be.
#[derive(Clone, Copy)]
enum Place {
    Share { number: u32, at: u32 },
    Other(u32),
}

/// What one server answers of a get of several keys.
struct Share {
    leaf: Rc<Leaf>,
    /// How many of the line's keys.
    count: u32,
    state: ShareState,
}

enum ShareState {
    /// Not asked yet.
    Keys(Vec<Bytes>),
    Asking(AskingKeys),
    Done(Vec<Reply>),
}

impl Line {
    /// What it asks, where that is one thing.
    pub(super) fn op(&self) -> Option<Op> {
        match self {
            Line::Said(_) | Line::Meta { .. } | Line::Shutdown(_) => None,
            Line::One { op, .. } | Line::GetOne { op, .. } => Some(*op),
            Line::Get(get) => Some(get.op),
        }
    }

    /// Whether it is to be carried through though nobody waits for its answer.
    pub(super) fn is_change(&self) -> bool {
        match self {
            Line::Said(_) | Line::Shutdown(_) | Line::Get { .. } | Line::GetOne { .. } => false,
            Line::One { op, .. } => !op.is_get(),
            Line::Meta { wanted, .. } => !wanted.is_get(),
        }
    }

    /// Polls what is under way.
    pub(super) fn poll(&mut self, cx: &mut task::Context<'_>, context: &Context) {
        match self {
            Line::Said(_) => {}
            Line::Shutdown(verdict) => verdict.poll(cx),
            Line::One { part, .. } | Line::GetOne { part, .. } | Line::Meta { part, .. } => {
                part.poll(cx, context);
            }
            Line::Get(get) => get.part.poll(cx, context),
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
            Line::One { part, .. } | Line::GetOne { part, .. } | Line::Meta { part, .. } => {
                part.reply().is_some()
            }
            Line::Get(get) => get.is_answered(),
        }
    }

    /// How many requests that are to be answered it stands for.
    pub(super) fn requests(&self) -> usize {
        match self {
            Line::Said(_) => 0,
            Line::One { .. } | Line::GetOne { .. } | Line::Meta { .. } | Line::Shutdown(_) => 1,
            Line::Get(get) => get.keys(),
        }
    }

    /// Keys of a get that a server was asked for and didn't answer yet.
    pub(super) fn under_way(&self) -> usize {
        match self {
            Line::GetOne { part, .. } => part.reply().is_none().into(),
            Line::Meta { wanted, part } => (wanted.is_get() && part.reply().is_none()).into(),
            Line::Get(get) => get.part.under_way(),
            Line::Said(_) | Line::One { .. } | Line::Shutdown(_) => 0,
        }
    }

    /// Bytes that the client's account is to know of, if a value has so many.
    pub(super) fn held(&self, value_bytes: usize) -> usize {
        let more = match self {
            Line::Said(text) => text.capacity(),
            Line::One { part, .. } | Line::GetOne { part, .. } | Line::Meta { part, .. } => {
                part.held(value_bytes)
            }
            Line::Get(get) => get.held(value_bytes),
            Line::Shutdown(_) => 0,
        };
        LINE_BYTES + more
    }
}

impl Part {
    fn poll(&mut self, cx: &mut task::Context<'_>, context: &Context) {
        let poll = match &mut self.state {
            State::Waiting(future) => future.as_mut().poll(cx),
            State::Asking(asking) => asking.poll(cx, context),
            State::Done(_) => return,
        };
        if let Poll::Ready(reply) = poll {
            self.state = State::Done(reply);
        }
    }

    fn held(&self, value_bytes: usize) -> usize {
        let is_routed = matches!(self.state, State::Waiting(_));
        value_bytes + if is_routed { ROUTED_BYTES } else { KEY_BYTES }
    }

    /// The reply, once it is there.
    pub(super) fn reply(&self) -> Option<&Reply> {
        if let State::Done(reply) = &self.state { Some(reply) } else { None }
    }
}

impl Gets {
    /// Of no key yet, with room for so many.
    pub(super) fn new(op: Op, keys: usize) -> Self {
        let places = Vec::with_capacity(keys);
        Self { op, places, skipped: 0, shares: Vec::new(), others: Vec::new() }
    }

    /// The next key goes through routes.
    pub(super) fn ask(&mut self, part: Part) {
        self.places.push(Place::Other(index(self.others.len())));
        self.others.push(part);
    }

    /// The next key is for this server, and may be asked together with others.
    pub(super) fn share(&mut self, leaf: Rc<Leaf>, key: Bytes) {
        let known = self.shares.iter().position(|share| Rc::ptr_eq(&share.leaf, &leaf));
        let number = known.unwrap_or_else(|| {
            let keys = Vec::with_capacity(self.places.capacity() - self.places.len());
            self.shares.push(Share { leaf, count: 0, state: ShareState::Keys(keys) });
            self.shares.len() - 1
        });
        let share = &mut self.shares[number];
        self.places.push(Place::Share { number: index(number), at: share.count });
        share.count += 1;
        if let ShareState::Keys(keys) = &mut share.state {
            keys.push(key);
        }
    }

    /// Asks the servers.
    pub(super) fn begin(&mut self, context: &Context, start: Start<'_>) {
        for share in &mut self.shares {
            let ShareState::Keys(keys) = &mut share.state else { continue };
            let (keys, count) = (std::mem::take(keys), share.count as usize);
            share.state = match Rc::clone(&share.leaf).begin_keys(self.op, keys, context, start) {
                Ok(asking) => ShareState::Asking(asking),
                Err(reply) => ShareState::Done(vec![reply; count]),
            };
        }
    }

    fn poll(&mut self, cx: &mut task::Context<'_>, context: &Context) {
        self.shares.iter_mut().for_each(|share| share.poll(cx, context));
        self.others.iter_mut().for_each(|part| part.poll(cx, context));
    }

    /// Bytes that it takes, if a value has so many.
    pub(super) fn held(&self, value_bytes: usize) -> usize {
        let others: usize = self.others.iter().map(|part| part.held(value_bytes)).sum();
        (self.places.len() - self.others.len()) * (KEY_BYTES + value_bytes) + others
    }

    pub(super) fn is_answered(&self) -> bool {
        self.shares.iter().all(Share::is_answered)
            && self.others.iter().all(|part| part.reply().is_some())
    }

    fn under_way(&self) -> usize {
        let shares = self.shares.iter().filter(|share| !share.is_answered());
        let others = self.others.iter().filter(|part| part.reply().is_none());
        shares.map(|share| share.count as usize).sum::<usize>() + others.count()
    }

    /// So many more replies were said.
    pub(super) fn skip(&mut self, n: usize) {
        self.skipped += n;
    }

    /// The reply to each key that isn't said, once all are there.
    pub(super) fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.places[self.skipped..].iter().filter_map(|place| match *place {
            Place::Share { number, at } => match &self.shares[number as usize].state {
                ShareState::Done(replies) => replies.get(at as usize),
                _ => None,
            },
            Place::Other(at) => self.others[at as usize].reply(),
        })
    }
}

impl Share {
    fn is_answered(&self) -> bool {
        matches!(self.state, ShareState::Done(_))
    }

    fn poll(&mut self, cx: &mut task::Context<'_>, context: &Context) {
        if let ShareState::Asking(asking) = &mut self.state
            && let Poll::Ready(replies) = asking.poll(cx, context)
        {
            self.state = ShareState::Done(replies);
        }
    }
}

/// A line beside its keys, and a key of one beside its value: what is kept of it here and on its way. Bytes.
const LINE_BYTES: usize = 256;
pub(super) const KEY_BYTES: usize = 256;
/// The same of a key that goes through routes: their futures. Bytes.
const ROUTED_BYTES: usize = 2 << 10;

/// Of a list in memory.
fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
