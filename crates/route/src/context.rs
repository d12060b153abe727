//! What a route may know beside its request: who asked, what a parent decided, where to count.
//!
//! A copy costs a few counted references: a request that goes on after its reply (a shadow, an upgrade of a cache)
//! takes one along.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use guira_client::{Caller, Outcome, Purse};
use tokio::sync::RwLock;

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
    /// The order of the client's requests at clusters of stores.
    pub(crate) order: ClientOrder,
    /// This proxy thread's counters.
    pub counters: Arc<Counters>,
}

impl Context {
    /// What a request of this context gives along.
    pub(crate) fn caller<'a>(&'a self, waker: Option<&'a Waker>) -> Caller<'a> {
        Caller { waker, purse: self.purse.as_ref() }
    }

    /// Counts a server's reply that is an error, of this outcome.
    pub(crate) fn count_error(&self, outcome: Outcome) {
        let (counter, with_shadows) = Counter::of_error(outcome);
        self.count(with_shadows);
        self.count(Counter::ResultAnyAll);
        if !self.is_shadow {
            self.count(counter);
            self.count(Counter::ResultAny);
        }
    }

    /// Counts one event.
    pub fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }
}

/// Where requests of one client wait for each other, by key: those that reach servers by several ways.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientOrder(Rc<OnceCell<[RwLock<()>; LINES]>>);

impl ClientOrder {
    /// A key's place: held by reads together, by a change alone. Who came first has it first.
    pub(crate) fn line(&self, key: &[u8]) -> &RwLock<()> {
        let lines = self.0.get_or_init(Default::default);
        &lines[crc32fast::hash(key) as usize % LINES]
    }
}

const LINES: usize = 16;
