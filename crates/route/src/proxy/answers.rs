//! The work of a proxy thread for a client: a request at a server, in the tree, or several at once.
//!
//! # Costs
//! A request that goes straight to a server takes two uncontended locks, when it is queued and when its reply is
//! fetched. It allocates for the value. A request through routes is a heap-allocated future. A get of several keys
//! allocates a list of places, and for each server its keys and replies.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};

use bytes::Bytes;
use guira_client::{Op, Reply};
use guira_front::sessions::{KEY_BYTES, Start};

use crate::context::Context;
use crate::servers::{Asking, AskingKeys, Leaf};

/// The answer to a request, or to the keys of a get, while it is under way.
pub(crate) enum Answer {
    /// Under way through routes.
    Routed(Pin<Box<dyn Future<Output = Reply>>>),
    /// Sent to a server, without routes above.
    Sent(Asking),
    Done(Reply),
    /// Boxed to keep answers to single keys small, which are the usual case.
    Keys(Box<Gets>),
}

impl Answer {
    /// Polls the work under way.
    #[inline]
    pub(crate) fn go_on(&mut self, cx: &mut task::Context<'_>, context: &Context) {
        let poll = match self {
            Answer::Routed(future) => future.as_mut().poll(cx),
            Answer::Sent(asking) => asking.poll(cx, context),
            Answer::Done(_) => return,
            Answer::Keys(gets) => return gets.poll(cx, context),
        };
        if let Poll::Ready(reply) = poll {
            *self = Answer::Done(reply);
        }
    }

    /// The memory that it takes, in bytes, if each value has `value_bytes`.
    pub(crate) fn held_with(&self, value_bytes: usize) -> usize {
        value_bytes
            + match self {
                Answer::Keys(gets) => return gets.held_with(value_bytes),
                Answer::Routed(_) => ROUTED_BYTES,
                Answer::Sent(_) | Answer::Done(_) => KEY_BYTES,
            }
    }

    /// The reply to the nth key, if it has arrived.
    #[inline]
    pub(crate) fn reply_to(&self, n: usize) -> Option<&Reply> {
        match self {
            Answer::Done(reply) => Some(reply),
            Answer::Keys(gets) => gets.reply(n),
            Answer::Routed(_) | Answer::Sent(_) => None,
        }
    }
}

/// The keys of a get. Keys for the same server are requested together.
pub(crate) struct Gets {
    op: Op,
    /// The place of the reply to each key.
    places: Vec<Place>,
    shares: Vec<Share>,
    /// Keys that go through routes, one by one.
    others: Vec<Answer>,
}

/// The place of the reply to a key.
#[derive(Clone, Copy)]
enum Place {
    Share { number: u32, at: u32 },
    Other(u32),
}

/// The part of a get of several keys that one server answers.
struct Share {
    leaf: Rc<Leaf>,
    /// The number of keys.
    count: u32,
    state: ShareState,
}

enum ShareState {
    /// Not sent yet.
    Keys(Vec<Bytes>),
    Asking(AskingKeys),
    Done(Vec<Reply>),
}

impl Gets {
    /// Creates a get without keys, with room for `keys` of them.
    pub(crate) fn new(op: Op, keys: usize) -> Self {
        let places = Vec::with_capacity(keys);
        Self { op, places, shares: Vec::new(), others: Vec::new() }
    }

    /// Adds a key that goes through routes.
    pub(crate) fn ask(&mut self, answer: Answer) {
        self.places.push(Place::Other(index(self.others.len())));
        self.others.push(answer);
    }

    /// Adds a key for this server, which may be requested together with others.
    pub(crate) fn share(&mut self, leaf: Rc<Leaf>, key: Bytes) {
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

    /// Sends the requests to the servers.
    pub(crate) fn begin(&mut self, context: &Context, start: Start<'_>) {
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
        self.others.iter_mut().for_each(|answer| answer.go_on(cx, context));
    }

    fn held_with(&self, value_bytes: usize) -> usize {
        let others: usize = self.others.iter().map(|answer| answer.held_with(value_bytes)).sum();
        (self.places.len() - self.others.len()) * (KEY_BYTES + value_bytes) + others
    }

    /// The number of keys whose replies haven't arrived.
    pub(crate) fn under_way(&self) -> usize {
        let shares = self.shares.iter().filter(|share| !share.is_answered());
        let others = self.others.iter().filter(|answer| answer.reply_to(0).is_none());
        shares.map(|share| share.count as usize).sum::<usize>() + others.count()
    }

    fn reply(&self, n: usize) -> Option<&Reply> {
        match *self.places.get(n)? {
            Place::Share { number, at } => match &self.shares[number as usize].state {
                ShareState::Done(replies) => replies.get(at as usize),
                _ => None,
            },
            Place::Other(at) => self.others[at as usize].reply_to(0),
        }
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

/// The memory of a key that goes through routes, without its value: its futures. Bytes.
const ROUTED_BYTES: usize = 2 << 10;

/// Converts an index of a list in memory.
fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
