//! What a route may know beside its request: who asked, what a parent decided, where to count.
//!
//! A copy costs a few counted references: a request that goes on after its reply (a shadow, an upgrade of a cache)
//! takes one along.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use guira_client::{Caller, Purse};

use crate::Server;
use crate::counters::{Counter, Counters};
use crate::hot_cache::Write;

/// What a route may know beside its request.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The client's address, where it has one and the router keeps it.
    pub client: Option<IpAddr>,
    /// The name under which a delete that fails is written down to be sent later; none: it just fails.
    pub asynclog: Option<Rc<str>>,
    /// The request is a copy whose reply nobody waits for.
    pub is_shadow: bool,
    /// How often this request has failed over already.
    pub failovers: u32,
    /// The bucket that the key was put into, where the pool has buckets.
    pub bucket: Option<u64>,
    /// Where leaves note themselves instead of sending: they answer as if they held nothing.
    pub record: Option<Rc<RefCell<Vec<Server>>>>,
    /// What buckets are chosen by, where that isn't the key up to its hash stop.
    pub routing_key: Option<Bytes>,
    /// Which pool the request reached first, where pools are counted.
    pub(crate) first_pool: Option<Rc<Cell<Option<usize>>>>,
    /// The write that this is, or a copy of, where hot caches are to know of it until all its copies are answered.
    pub(crate) write: Option<Rc<Write>>,
    /// Pays for the values that the client's requests bring.
    pub purse: Option<Arc<dyn Purse>>,
    /// This proxy thread's counters.
    pub counters: Arc<Counters>,
}

impl Context {
    /// What a request of this context gives along.
    pub(crate) fn caller<'a>(&'a self, waker: Option<&'a Waker>) -> Caller<'a> {
        Caller { waker, purse: self.purse.as_ref() }
    }

    /// Counts one event.
    pub fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }
}
