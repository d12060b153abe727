//! What a session asks of the program that it is part of.
//!
//! A session reads requests, and writes replies in the order of the requests; a [`Service`] answers them, in any order. Both
//! are of one thread: nothing here is `Send`.
//!
//! # Invariants
//! 1. A session begins requests in the order in which they were sent, and polls each answer once before it begins the next:
//!    requests of one client that wait for the same thing wait in order.
//! 2. A session drops the answer to a get when its client goes. It polls the answer to a change until that is there, also when
//!    the client has gone.
//! 3. A session takes a client's long values from its purse only through what the service charges there: what a reply holds
//!    on its way is the service's to charge.

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
    /// What the requests of one client have in common.
    type Client;
    /// The answer to a request, or to keys of a get, on its way.
    type Answer: Answer<Self>;
    /// How it speaks.
    type Manners: Manners;

    /// What `version` answers after `VERSION`: first the version of memcached that is spoken, as client libraries read it
    /// from there.
    const VERSION: &'static str;

    /// A client comes. `purse` pays for the values that its requests bring.
    fn enter(&self, peer: Option<IpAddr>, purse: Arc<dyn Purse>) -> Self::Client;

    /// What watches a connection between these ends, if anything does.
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

    /// What a client's requests have cost this thread since this was asked last, beside what every request costs and what
    /// moves to and from the client: as much as moving so many bytes.
    fn spent(&self, _client: &Self::Client) -> usize {
        0
    }

    /// A client is told a reply.
    fn replied(&self, reply: &Reply);

    /// The answer to `stats` and what follows it.
    fn stats(&self, group: &str) -> Vec<u8>;

    /// A client that may do so ends the process.
    fn shut_down(&self);

    /// `verbosity`, which only a server has.
    fn set_verbosity(&self, _level: u32) {}

    /// A list of what is stored, which only a server has.
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
    /// The next part; `None`: that was the last.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
}

/// The answer to a request, or to keys of a get, on its way.
pub trait Answer<S: Service> {
    /// Goes on as far as that is possible. Every poll is by the task whose waker the request began with. It must cost next to
    /// nothing while there is no news: a session polls all of its answers when one has news.
    fn poll(&mut self, client: &S::Client, cx: &mut Context<'_>);

    /// The reply to the nth key, once it is there: at the latest when nothing is under way.
    fn reply(&self, n: usize) -> Option<&Reply>;

    /// Keys whose replies are not there.
    fn under_way(&self) -> usize;

    /// Bytes that it takes, if a value has so many.
    fn held(&self, value_bytes: usize) -> usize;
}

/// Sees what goes to and from one client, so that people find out what is wrong.
pub trait ClientTap: Debug {
    /// Whether anybody looks: else nothing is shown.
    fn is_open(&self) -> bool;

    /// A request came.
    fn asked(&self, op: Option<Op>, request: &[u8]);

    /// A reply, or part of one, goes out.
    fn answered(&self, op: Option<Op>, reply: &[u8]);
}

/// How a request begins.
#[derive(Clone, Copy, Debug)]
pub struct Start<'w> {
    /// When: requests of one turn share a reading of the clock.
    pub at: Instant,
    /// Woken by the reply, without a first poll.
    pub waker: Option<&'w Waker>,
}

/// What a key of a request takes on its way, without its value, where nothing but its server is asked. Bytes.
pub const KEY_BYTES: usize = 256;
