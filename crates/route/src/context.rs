//! What a route may know besides its request: the client, the decisions of parents, and where to count.
//!
//! A copy costs a few reference counts. A request that continues after its reply (a shadow, an upgrade of a cache)
//! takes a copy along.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use guira_client::{Caller, Outcome, Purse};
use guira_front::rewrites;
use tokio::sync::RwLock;

use crate::counters::{Counter, Counters};
use crate::hot_cache::Write;
use crate::server::Server;

/// What a route may know besides its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// The client's address, if it has one and the router keeps it.
    pub(crate) client: Option<IpAddr>,
    /// The client's address, if it has one, for what is counted. No route chooses by it.
    pub(crate) peer: Option<IpAddr>,
    /// The name under which a failed delete is logged to be sent later. `None`: it isn't logged.
    pub(crate) asynclog: Option<Rc<str>>,
    /// Whether the request is a copy whose reply is discarded.
    pub(crate) is_shadow: bool,
    /// How often this request has failed over.
    pub(crate) failovers: u32,
    /// The key's bucket, if the pool has buckets.
    pub(crate) bucket: Option<u64>,
    /// If set, leaves record their servers here instead of sending, and answer a miss.
    pub(crate) record: Option<Rc<RefCell<Vec<Server>>>>,
    /// The key for choosing buckets, if it isn't the key up to its hash stop.
    pub(crate) routing_key: Option<Bytes>,
    /// The pool that the request reached first, if pools are counted.
    pub(crate) first_pool: Option<Rc<Cell<Option<usize>>>>,
    /// The write that this request is, or is a copy of. Hot caches hold nothing of its key until all copies are
    /// answered.
    pub(crate) write: Option<Rc<Write>>,
    /// Charged for the values that the client's requests bring.
    pub(crate) purse: Option<Arc<dyn Purse>>,
    /// Keeps the client's requests to clusters of stores in order.
    pub(crate) order: ClientOrder,
    /// This proxy thread's counters.
    pub(crate) counters: Arc<Counters>,
}

impl Context {
    /// The waker and purse for a request of this context.
    pub(crate) fn caller<'a>(&'a self, waker: Option<&'a Waker>) -> Caller<'a> {
        Caller { waker, purse: self.purse.as_ref() }
    }

    /// Counts an error reply of a server.
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
    pub(crate) fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }
}

/// Locks that order the requests of one client that may take several ways to servers: by key, and one for changes of long
/// values.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientOrder(Rc<OnceCell<([RwLock<()>; LINES], rewrites::Own)>>);

impl ClientOrder {
    /// The lock of a key: reads share it, a change has it alone. It is fair.
    pub(crate) fn line(&self, key: &[u8]) -> &RwLock<()> {
        &self.0.get_or_init(Default::default).0[crc32fast::hash(key) as usize % LINES]
    }

    /// The lock at which changes of long values wait.
    pub(crate) fn rewrites(&self) -> &rewrites::Own {
        &self.0.get_or_init(Default::default).1
    }
}

const LINES: usize = 16;
