//! The service of one thread's clients: what each request becomes.
//!
//! # Invariants
//! 1. A client's `flush_all` takes effect between its earlier and its later requests. It waits for the earlier ones, and
//!    the later ones begin once it is submitted. None of them waits for its sync.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use bytes::Bytes;
use guira_client::{Op, Outcome, Purse, Reply, Request};
use guira_front::sessions::{Answer, AsServer, ClientTap, Feed, Listing, Service, Start};
use tokio::sync::RwLock;

use crate::counts::{Count, Counts};
use crate::customer::Customer;
use crate::decide::{failed, is_blind};
use crate::engine::Engine;
use crate::item::expiry;
use crate::listing;
use crate::node::{Fetched, lost, now};
use crate::pending::{Getting, Pending, Place, Putting};
use crate::process::Process;
use crate::replica::{Front, Lines};
use crate::stats::{self, VERSION};
use crate::terms::Terms;

/// See the module's head.
pub(crate) struct Desk<E> {
    pub(crate) process: Arc<Process<E>>,
    /// This thread's counters.
    pub(crate) counts: Arc<Counts>,
}

/// The state of a client.
pub(crate) struct Guest {
    pub(crate) customer: Arc<Customer>,
    /// Flushes that aren't submitted, and requests behind them that haven't begun.
    gated: Rc<Cell<usize>>,
    /// Held for writing by a flush, and for reading by every other request. Those that came first have it first.
    gate: Arc<RwLock<()>>,
    /// The lines in which requests of a replicated store wait for each other.
    lines: Option<Lines>,
}

impl Guest {
    /// The place of a request before the next flush. It is free: no flush waits now.
    fn place(&self) -> Option<Place> {
        Arc::clone(&self.gate).try_read_owned().ok()
    }
}

impl<E: Engine> Desk<E> {
    pub(crate) fn new(process: Arc<Process<E>>, number: usize) -> Self {
        let counts = Arc::clone(&process.counts[number]);
        Self { process, counts }
    }

    /// Begins a request for one key, which no flush holds up.
    fn ask(&self, guest: &Guest, request: Request) -> Pending<E> {
        let terms = Terms::of(&request);
        match request.op {
            op if op.is_get() && !matches!(op, Op::Gat | Op::Gats) && !terms.may_write() => {
                self.get(guest, request, terms)
            }
            _ if is_blind(&request, &terms) => self.put(guest, request, terms),
            _ => self.change(guest, request, false),
        }
    }

    fn get(&self, guest: &Guest, request: Request, terms: Terms) -> Pending<E> {
        if guest.customer.is_changing(&request.key) {
            // It would overtake the client's own change: it waits for the key's turn behind it.
            return self.change(guest, request, false);
        }
        match self.process.node.fetch(&request.key, &guest.customer) {
            Fetched::Known(found) => {
                match self.process.node.found((&request, &terms), found, &guest.customer) {
                    Some(reply) => Pending::Done(reply),
                    None => self.change(guest, request, false),
                }
            }
            Fetched::Coming(coming) => {
                let (node, place) = (Arc::clone(&self.process.node), guest.place());
                Pending::Get(Box::new(Getting { node, request, terms, coming, place }))
            }
        }
    }

    /// Begins a request of a replicated store.
    fn ask_cluster(
        &self,
        front: &Arc<Front>,
        guest: &Guest,
        lines: &Lines,
        request: Request,
    ) -> Pending<E> {
        let (terms, customer) = (Terms::of(&request), &guest.customer);
        let serve = |request, place| {
            let (front, customer) = (Arc::clone(front), Arc::clone(customer));
            front.serve(request, customer, (lines.clone(), place))
        };
        let Some(read) = front.begin_read((&request, &terms), lines) else {
            return Pending::Doing(Box::pin(serve(request, None)));
        };
        let (coming, place) = match self.process.node.fetch(&request.key, customer) {
            Fetched::Known(found) => {
                return match front.end_read(&read, (&request, &terms), found, customer) {
                    Some(reply) => Pending::Done(reply),
                    None => Pending::Doing(Box::pin(serve(request, None))),
                };
            }
            Fetched::Coming(coming) => match front.place(&read, lines) {
                Some(place) => (coming, place),
                None => return Pending::Doing(Box::pin(serve(request, None))),
            },
        };
        let (front, customer, lines) = (Arc::clone(front), Arc::clone(customer), lines.clone());
        Pending::Doing(Box::pin(async move {
            let found = coming.await.unwrap_or_else(|_| Err(lost()));
            match front.end_read(&read, (&request, &terms), found, &customer) {
                Some(reply) => reply,
                // On the heap: few gets come here, and all of them would take its memory.
                None => Box::pin(front.serve(request, customer, (lines, Some(place)))).await,
            }
        }))
    }

    fn put(&self, guest: &Guest, mut request: Request, terms: Terms) -> Pending<E> {
        match self.process.node.begin_blind(&request, &terms, &guest.customer) {
            None => self.change(guest, request, true),
            Some(Err(reply)) => Pending::Done(reply),
            Some(Ok((write, reply))) => {
                // The value was copied.
                request.value = Bytes::new();
                let node = Arc::clone(&self.process.node);
                Pending::Put(Box::new(Putting { node, request, terms, write, reply }))
            }
        }
    }

    fn change(&self, guest: &Guest, request: Request, is_blind: bool) -> Pending<E> {
        let who = (&guest.customer, guest.place());
        Pending::change(&self.process.node, who, request, is_blind)
    }

    fn flush(&self, guest: &Guest, exptime: i64) -> Pending<E> {
        if !self.process.options.is_flush_enabled {
            return Pending::Done(Reply::failure(Outcome::ClientError, "flush_all not allowed"));
        }
        let at = if exptime > 0 { expiry(exptime, now()) } else { 0 };
        let (node, counts) = (Arc::clone(&self.process.node), Arc::clone(&self.counts));
        let (gate, gated) = (Arc::clone(&guest.gate), Rc::clone(&guest.gated));
        let customer = Arc::clone(&guest.customer);
        gated.set(gated.get() + 1);
        Pending::Doing(Box::pin(async move {
            let closed = gate.write().await;
            node.give_way(&customer).await;
            let begun = node.begin_flush(at);
            gated.set(gated.get() - 1);
            drop(closed);
            let done = match begun {
                Ok(write) => write.wait().await,
                Err(failure) => Err(failure),
            };
            let reply = match done {
                Ok(()) => Reply::new(Outcome::Ok),
                Err(failure) => failed(&failure),
            };
            counts.ended(Op::FlushAll, false, reply.outcome);
            reply
        }))
    }
}

impl<E: Engine> Service for Desk<E> {
    type Client = Guest;
    type Answer = Pending<E>;
    type Manners = AsServer;
    const VERSION: &'static str = VERSION;

    fn enter(&self, _peer: Option<IpAddr>, purse: Arc<dyn Purse>) -> Guest {
        self.counts.add(Count::Connections, 1);
        let counts = Arc::clone(&self.counts);
        Guest {
            customer: Arc::new(Customer::new(purse, counts)),
            gated: Rc::default(),
            gate: Arc::default(),
            lines: self.process.replica.is_some().then(Lines::default),
        }
    }

    fn tap(&self, _: Option<SocketAddr>, _: Option<SocketAddr>) -> Option<Box<dyn ClientTap>> {
        None
    }

    fn begin(self: &Rc<Self>, guest: &Guest, request: Request, _: Start<'_>) -> Pending<E> {
        if let (Some(replica), Some(lines)) = (&self.process.replica, &guest.lines) {
            return self.ask_cluster(&replica.front, guest, lines, request);
        }
        if request.op == Op::FlushAll {
            return self.flush(guest, request.exptime);
        }
        if guest.gated.get() == 0 {
            return self.ask(guest, request);
        }
        let (node, customer) = (Arc::clone(&self.process.node), Arc::clone(&guest.customer));
        let (gate, gated) = (Arc::clone(&guest.gate), Rc::clone(&guest.gated));
        gated.set(gated.get() + 1);
        Pending::Doing(Box::pin(async move {
            let _place = gate.read_owned().await;
            let line = node.line_up(&request.key, &customer);
            gated.set(gated.get() - 1);
            node.change(line, (request, false), customer).await
        }))
    }

    fn begin_keys(
        self: &Rc<Self>,
        guest: &Guest,
        op: Op,
        exptime: i64,
        keys: impl ExactSizeIterator<Item = Bytes>,
        start: Start<'_>,
    ) -> Pending<E> {
        let request = |key| Request { exptime, ..Request::new(op, key) };
        Pending::Keys(keys.map(|key| self.begin(guest, request(key), start)).collect())
    }

    fn spent(&self, guest: &Guest) -> usize {
        guest.customer.take_spent()
    }

    fn replied(&self, _reply: &Reply) {}

    fn stats(&self, group: &str) -> Vec<u8> {
        stats::answer(&self.process, group)
    }

    fn shut_down(&self) {
        self.process.lifecycle.stop_for("a client's shutdown");
    }

    fn set_verbosity(&self, level: u32) {
        self.process.log.set_verbosity(u8::try_from(level).unwrap_or(u8::MAX));
    }

    fn list(self: &Rc<Self>, listing: Listing) -> Option<Box<dyn Feed>> {
        // A replicated node has a part of the items only, and doesn't know which of them count.
        let is_whole = self.process.replica.is_none();
        is_whole.then(|| listing::begin(&self.process.node, &self.process.lists, listing))
    }
}

impl<E: Engine> Answer<Desk<E>> for Pending<E> {
    fn poll(&mut self, guest: &Guest, cx: &mut Context<'_>) {
        self.go_on(&guest.customer, cx);
    }

    fn reply(&self, n: usize) -> Option<&Reply> {
        self.reply_to(n)
    }

    fn under_way(&self) -> usize {
        self.count_under_way()
    }

    fn held(&self, value_bytes: usize) -> usize {
        self.held_with(value_bytes)
    }
}
