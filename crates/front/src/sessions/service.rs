//! The interface between a session and the program that it is part of.
//!
//! A session reads requests, and writes replies in the order of the requests. A [`Service`] answers them, in any order.
//! Both belong to one thread: nothing here is `Send`.
//!
//! # Invariants
//! 1. A session begins requests in the order in which they were sent, and polls each answer once before it begins the next.
//!    Requests of one client that wait for the same thing therefore wait in order.
//! 2. When a client goes, its session drops the answers to gets, unless the client holds a share of a lane for them. It
//!    polls the answer to a change until that is there.
//! 3. A session charges no reply's value to a client's purse: the service charges what a reply holds while it is under way.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use guira_client::{Op, Purse, Reply, Request};
use tokio::time::Instant;

use crate::sessions::manners::Manners;

/// A program that answers clients' requests, on one of its threads.
pub trait Service: Sized + 'static {
    /// State that the requests of one client share.
    type Client;
    /// The answer to a request, or to keys of a get, on its way.
    type Answer: Answer<Self>;
    /// The dialect that it speaks.
    type Manners: Manners;

    /// What `version` answers after `VERSION`. It begins with the memcached version that is spoken, because client
    /// libraries read that there.
    const VERSION: &'static str;

    /// Called when a client comes. `purse` pays for the values that its requests bring.
    fn enter(&self, peer: Option<IpAddr>, purse: Arc<dyn Purse>) -> Self::Client;

    /// What watches the connection between these ends, if anything does.
    fn tap(
        &self,
        peer: Option<SocketAddr>,
        local: Option<SocketAddr>,
    ) -> Option<Box<dyn ClientTap>>;

    /// Begins a request for one key, or for none.
    fn begin(
        self: &Rc<Self>,
        client: &Self::Client,
        request: Request,
        start: Start<'_>,
    ) -> Self::Answer;

    /// Begins a get of several keys.
    fn begin_keys(
        self: &Rc<Self>,
        client: &Self::Client,
        op: Op,
        exptime: i64,
        keys: impl ExactSizeIterator<Item = Bytes>,
        start: Start<'_>,
    ) -> Self::Answer;

    /// Returns what a client's requests have cost this thread since the last call, as bytes that could be moved instead.
    /// The cost that every request has and the bytes that move to and from the client are left out.
    fn spent(&self, _client: &Self::Client) -> usize {
        0
    }

    /// Called when a client is told a reply.
    fn replied(&self, reply: &Reply);

    /// The answer to `stats` with the words that follow it.
    fn stats(&self, group: &str) -> Vec<u8>;

    /// Called when a client that may do so ends the process.
    fn shut_down(&self);

    /// Sets the verbosity of the log. Only a server does so.
    fn set_verbosity(&self, _level: u32) {}

    /// Begins a list of what is stored. Only a server has one.
    fn list(self: &Rc<Self>, _listing: Listing) -> Option<Box<dyn Feed>> {
        None
    }
}

/// A list of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// `lru_crawler metadump`: a line of `name=value` words for each item.
    Metadump,
    /// `lru_crawler mgdump`: the request that gets each item.
    Mgdump,
}

/// An answer that comes in parts, each of which is said before the next is made.
pub trait Feed {
    /// The next part; `None` after the last.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
}

/// The answer to a request, or to keys of a get, on its way.
pub trait Answer<S: Service> {
    /// Goes on as far as that is possible.
    ///
    /// Every poll is by the task whose waker the request began with. A poll without news must cost next to nothing: a
    /// session polls all of its answers when one has news.
    fn poll(&mut self, client: &S::Client, cx: &mut Context<'_>);

    /// The reply to the nth key, once it is there: at the latest when nothing is under way.
    fn reply(&self, n: usize) -> Option<&Reply>;

    /// Keys that have no reply yet.
    fn under_way(&self) -> usize;

    /// Bytes that the answer takes, if a value has `value_bytes`.
    fn held(&self, value_bytes: usize) -> usize;
}

/// Sees what goes to and from one client, so that people can find out what is wrong.
pub trait ClientTap: Debug {
    /// Whether the traffic is watched; if not, nothing is shown.
    fn is_open(&self) -> bool;

    /// Called with each request.
    fn asked(&self, op: Option<Op>, request: &[u8]);

    /// Called with each reply, or part of one, that goes out.
    fn answered(&self, op: Option<Op>, reply: &[u8]);
}

/// The circumstances in which a request begins.
#[derive(Clone, Copy, Debug)]
pub struct Start<'w> {
    /// The time of the beginning: requests of one turn share a reading of the clock.
    pub at: Instant,
    /// Woken by the reply, even before the first poll.
    pub waker: Option<&'w Waker>,
}

/// Bytes that a key of a request takes on its way, without its value, if only its server is asked.
pub const KEY_BYTES: usize = 256;
