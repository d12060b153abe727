//! A place in a pool: sends requests to its server, counts the replies, and logs deletes that fail.
//!
//! # Costs
//! A request sent by [`Leaf::begin`], which only its server can delay, needs no heap-allocated future.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{self, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use guira_client::{Ask, AskKeys, Op, Outcome, Reply, Request};
use guira_front::sessions::Start;

use super::directory::Servers;
use super::histogram::LeafStats;
use super::link::{Care, Link, UnderWay};
use crate::context::Context;
use crate::counters::Counter;
use crate::key;
use crate::outcome::{default_reply, is_failover_error};
use crate::server::LeafSpec;

/// A place in a pool.
#[derive(Debug)]
pub(crate) struct Leaf {
    this: Weak<Leaf>,
    /// At least one.
    links: Vec<Arc<Link>>,
    turn: Cell<usize>,
    stats: Arc<LeafStats>,
    wanted: LeafSpec,
    /// Shadow requests under way.
    shadows: Cell<usize>,
    /// Shadow requests under way on the whole thread.
    all_shadows: Rc<Cell<usize>>,
    servers: Arc<Servers>,
    /// The flags for a delete that leaves the value as stale.
    keeping: Option<Arc<[u8]>>,
    /// The pool's number, if the pool has statistics of its own.
    counted: Option<usize>,
}

impl Leaf {
    /// Creates a leaf over `links`, which must not be empty. `all_shadows` counts the shadow requests of its thread.
    pub(super) fn new(
        wanted: &LeafSpec,
        links: Vec<Arc<Link>>,
        servers: &Arc<Servers>,
        all_shadows: &Rc<Cell<usize>>,
    ) -> Rc<Self> {
        let stats = Arc::new(LeafStats::default());
        servers.enter_leaf(&wanted.pool, &wanted.server.host_port(), &stats);
        let counted = servers.pool_stats.number(&wanted.pool);
        if let Some(number) = counted {
            links.iter().for_each(|link| servers.pool_stats.enter_link(number, link));
        }
        let keeping = (wanted.stale_on_delete_s > 0)
            .then(|| format!("I T{}", wanted.stale_on_delete_s).into_bytes().into());
        Rc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            links,
            turn: Cell::new(0),
            stats,
            wanted: wanted.clone(),
            shadows: Cell::new(0),
            all_shadows: Rc::clone(all_shadows),
            servers: Arc::clone(servers),
            keeping,
            counted,
        })
    }

    /// The leaf's configuration.
    pub(crate) fn spec(&self) -> &LeafSpec {
        &self.wanted
    }

    /// Sends the request and waits for its reply.
    pub(crate) async fn ask(&self, request: &Request, context: &Context) -> Reply {
        if let Some(record) = &context.record {
            record.borrow_mut().push(self.wanted.server.clone());
            return default_reply(request);
        }
        if context.is_shadow {
            return self.shadow(request, context).await;
        }
        if let (Some(_), Some(first)) = (self.counted, &context.first_pool)
            && first.get().is_none()
        {
            first.set(self.counted);
        }
        let reply = self.send(request, context).await;
        self.count(&reply, context);
        match &context.asynclog {
            Some(pool) if request.op == Op::Delete && is_failover_error(reply.outcome) => {
                self.write_down(request, pool, context, reply).await
            }
            _ => reply,
        }
    }

    async fn shadow(&self, request: &Request, context: &Context) -> Reply {
        let is_full = self.shadows.get() >= self.servers.options.shadows_max
            || self.all_shadows.get() >= self.servers.options.all_shadows_max;
        if is_full {
            return Reply::failure(Outcome::LocalError, "too many shadow requests");
        }
        let _counted = [Counted::begin(&self.shadows), Counted::begin(&self.all_shadows)];
        let reply = self.send(request, context).await;
        self.count(&reply, context);
        reply
    }

    /// Returns itself if the request may be sent by [`begin`](Self::begin) or [`begin_keys`](Self::begin_keys): it
    /// needs nothing but sending and waiting.
    pub(crate) fn plain(&self, request: &Request, context: &Context) -> Option<Rc<Leaf>> {
        let is_plain = self.links.iter().all(|link| link.may_carry(request))
            && context.record.is_none()
            && !context.is_shadow
            && context.asynclog.is_none()
            && !self.links[0].is_limited();
        if is_plain { self.this.upgrade() } else { None }
    }

    /// Sends a request without a heap-allocated future. `Err`: the reply is known at once.
    pub(crate) fn begin(
        self: Rc<Self>,
        mut request: Request,
        context: &Context,
        start: Start<'_>,
    ) -> Result<Asking, Reply> {
        self.fit(&mut request);
        match self.link().begin(request, self.wanted.timeout, (start, context)) {
            Ok(under_way) => Ok(Asking { leaf: self, under_way }),
            Err(reply) => {
                self.settle(&reply, Duration::ZERO, context);
                Err(reply)
            }
        }
    }

    /// Sends a get of several keys. `Err`: the reply for all of them is known at once.
    pub(crate) fn begin_keys(
        self: Rc<Self>,
        op: Op,
        mut keys: Vec<Bytes>,
        context: &Context,
        start: Start<'_>,
    ) -> Result<AskingKeys, Reply> {
        keys.iter_mut().for_each(|key| self.strip(key));
        let count = keys.len();
        match self.link().begin_keys(op, keys, self.wanted.timeout, (start, context)) {
            Ok(under_way) => Ok(AskingKeys { leaf: self, under_way }),
            Err(reply) => {
                (1..count).for_each(|_| self.count(&reply, context));
                self.settle(&reply, Duration::ZERO, context);
                Err(reply)
            }
        }
    }

    fn settle(&self, reply: &Reply, took: Duration, context: &Context) {
        self.stats.took.add(took);
        self.count(reply, context);
    }

    async fn send(&self, request: &Request, context: &Context) -> Reply {
        let mut request = request.clone();
        self.fit(&mut request);
        let link = self.link();
        let (reply, took) = match link.permit(self.wanted.timeout).await {
            Ok((_permit, left)) => link.ask(request, left, context).await,
            Err(reply) => (reply, Duration::ZERO),
        };
        self.stats.took.add(took);
        if let Some(number) = self.counted {
            self.servers.pool_stats.replied(number, took);
        }
        reply
    }

    fn link(&self) -> &Arc<Link> {
        match &self.links[..] {
            [link] => link,
            links => {
                self.turn.set((self.turn.get() + 1) % links.len());
                &links[self.turn.get()]
            }
        }
    }

    /// Prepares a request for sending: its key, and the flags of a delete that leaves the value as stale. The flags are
    /// added if the pool wants them and the client gave none of its own.
    fn fit(&self, request: &mut Request) {
        self.strip(&mut request.key);
        let is_plain = request.op == Op::Delete && request.meta.is_none() && request.exptime == 0;
        if is_plain && let Some(flags) = &self.keeping {
            request.meta = Some(Arc::clone(flags));
        }
    }

    /// Removes the routing prefix of a key, unless the pool keeps it.
    fn strip(&self, key: &mut Bytes) {
        if !self.wanted.keep_routing_prefix {
            key.advance(key::prefix(key).len());
        }
    }

    /// The key as it is sent.
    fn key(&self, key: &Bytes) -> Bytes {
        let mut key = key.clone();
        self.strip(&mut key);
        key
    }

    fn count(&self, reply: &Reply, context: &Context) {
        if !reply.outcome.is_error() {
            return;
        }
        self.stats.errors.store(self.stats.errors.load(Relaxed) + 1, Relaxed);
        context.count_error(reply.outcome);
    }

    /// Logs a delete, to be sent when the server returns. If that succeeds, the client gets a reply as if the delete
    /// was done.
    async fn write_down(
        &self,
        request: &Request,
        pool: &str,
        context: &Context,
        reply: Reply,
    ) -> Reply {
        let key = self.key(&request.key);
        // Readers of the log send a text command, in which such a key would become another one, or several commands.
        if key.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
            return reply;
        }
        let (link, server) = (&self.links[0], &self.wanted.server);
        if !self.servers.debts.owe(&link.account, server, &key, pool).await {
            return reply;
        }
        context.count(Counter::Spooled);
        // If the server is marked, the link that probes it sends the delete before the mark is cleared.
        if !link.tko.is_marked() {
            Arc::clone(&self.servers).tend(&link.account, self.servers.options.tko.probe_first);
            if reply.outcome == Outcome::Tko {
                // The server has just returned. Its next get may be faster than the logged delete, so try again now.
                let request = Request { key, ..request.clone() };
                let (again, _) = link.ask(request, self.wanted.timeout, context).await;
                if !is_failover_error(again.outcome) {
                    return again;
                }
            }
        }
        Reply::new(Outcome::NotFound)
    }
}

/// Adds one to a count until it is dropped.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn begin(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A request that a leaf has sent.
#[derive(Debug)]
pub(crate) struct Asking {
    leaf: Rc<Leaf>,
    under_way: UnderWay<Ask>,
}

impl Asking {
    /// Returns the reply when it has arrived. Must be polled by the task whose waker it began with. Polling costs
    /// almost nothing while the server sends no replies.
    pub(crate) fn poll(&mut self, cx: &mut task::Context<'_>, context: &Context) -> Poll<Reply> {
        if !self.under_way.is_due() {
            return Poll::Pending;
        }
        let (reply, took) = ready!(self.under_way.poll(cx));
        self.leaf.settle(&reply, took, context);
        Poll::Ready(reply)
    }
}

/// A get of several keys that a leaf has sent.
#[derive(Debug)]
pub(crate) struct AskingKeys {
    leaf: Rc<Leaf>,
    under_way: UnderWay<AskKeys>,
}

impl AskingKeys {
    /// Returns the replies in the order of the keys, when all have arrived. Otherwise as [`Asking::poll`].
    pub(crate) fn poll(
        &mut self,
        cx: &mut task::Context<'_>,
        context: &Context,
    ) -> Poll<Vec<Reply>> {
        if !self.under_way.is_due() {
            return Poll::Pending;
        }
        let (replies, took) = ready!(self.under_way.poll(cx));
        replies.iter().for_each(|reply| self.leaf.settle(reply, took, context));
        Poll::Ready(replies)
    }
}
