//! A proxy thread's servers: the leaves that a tree is given, and the links behind them.
//!
//! # Invariants
//! 1. A leaf holds its link; the fleet only knows it. A link ends with the last tree that reaches it.
//!
//! # Costs
//! A request that reaches a leaf through a route that waits for it allocates a future; one that goes straight to its leaf,
//! [`Leaf::begin`], none.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{self, Arc};
use std::task::{self, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use guira_client::{Ask, AskKeys, Op, Outcome, Reply, Request};
use tokio::task::JoinHandle;

use super::histogram::Histogram;
use super::link::{Link, Start, UnderWay};
use super::returning;
use super::shared::Shared;
use crate::outcome::{default_reply, is_error, is_failover_error};
use crate::{BoxFuture, Context, Counter, Destination, Destinations, Route, Server, key};

/// What tells links apart: name, time to connect, mark of packets, and which of several.
type LinkKey = (String, Duration, u8, u32);

/// The links of one proxy thread.
#[derive(Debug)]
pub(crate) struct Fleet {
    shared: Arc<Shared>,
    links: RefCell<HashMap<LinkKey, sync::Weak<Link>>>,
    /// How many configurations this thread has had: the same one has the same number on each thread.
    configuration: Cell<u64>,
    /// Links that send first what their servers are owed.
    recovering: RefCell<Vec<JoinHandle<()>>>,
    /// Under way.
    shadows: Rc<Cell<usize>>,
}

impl Fleet {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (links, configuration) = (RefCell::default(), Cell::new(1));
        let recovering = RefCell::default();
        Self { shared, links, configuration, recovering, shadows: Rc::default() }
    }

    /// What is asked for from now on is of the next configuration.
    pub(crate) fn reconfigure(&self) {
        self.configuration.set(self.configuration.get() + 1);
    }

    fn link(&self, wanted: &Destination, number: u32) -> Arc<Link> {
        let timeout = wanted.timeout.as_millis();
        let name = format!("{}-{timeout}", wanted.server);
        let key = (name.clone(), wanted.connect_timeout, wanted.dscp, number);
        let mut links = self.links.borrow_mut();
        if let Some(link) = links.get(&key).and_then(sync::Weak::upgrade) {
            return link;
        }
        let (tko, is_owed) = self.shared.tko(&wanted.server.host_port());
        let shared = Arc::clone(&self.shared);
        let link = Link::new(name, tko, wanted, shared);
        links.retain(|_, link| link.strong_count() > 0);
        links.insert(key, Arc::downgrade(&link));
        self.shared.enter_link(&link);
        if is_owed {
            self.recovering.borrow_mut().push(link.recover());
        } else if link.account.is_owed() && !link.tko.is_marked() {
            returning::tend(&link.account, &self.shared, Duration::ZERO);
        }
        link
    }

    /// The links since the last call that send first what their servers are owed.
    pub(crate) fn take_recovering(&self) -> Vec<JoinHandle<()>> {
        self.recovering.take()
    }

    /// The links that a tree holds.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.links.borrow().values().filter_map(sync::Weak::upgrade).collect()
    }

    /// Closes, from now on and each `interval`, connections that were idle since the last look.
    pub(crate) async fn close_idle(self: Rc<Self>, interval: Duration) {
        let mut sent: HashMap<*const Link, u64> = HashMap::new();
        loop {
            tokio::time::sleep(interval).await;
            let links = self.links();
            for link in &links {
                let now = link.stats.sent.load(Relaxed);
                if sent.get(&Arc::as_ptr(link)) == Some(&now) {
                    link.close_if_idle();
                }
            }
            sent = links.iter().map(|l| (Arc::as_ptr(l), l.stats.sent.load(Relaxed))).collect();
        }
    }
}

impl Destinations for Fleet {
    fn destination(&self, wanted: &Destination) -> Rc<dyn Route> {
        let links: Vec<_> = (0..wanted.connections.max(1)).map(|n| self.link(wanted, n)).collect();
        let configuration = self.configuration.get();
        let limits = wanted.fail_open;
        let fail_open =
            limits.map(|limits| self.shared.fail_open(&wanted.pool, configuration, limits));
        links.iter().for_each(|link| link.tko.follow(configuration, fail_open.as_ref()));
        let stats = Arc::new(LeafStats::default());
        self.shared.enter_leaf(&wanted.pool, &wanted.server.host_port(), &stats);
        let all_shadows = Rc::clone(&self.shadows);
        let (turn, shadows, wanted) = (Cell::new(0), Cell::new(0), wanted.clone());
        let shared = Arc::clone(&self.shared);
        let counted = shared.pool_stats.number(&wanted.pool);
        if let Some(number) = counted {
            links.iter().for_each(|link| shared.pool_stats.enter_link(number, link));
        }
        let keeping = (wanted.stale_on_delete_s > 0)
            .then(|| format!("I T{}", wanted.stale_on_delete_s).into_bytes().into());
        Rc::new_cyclic(|this| {
            let this = Weak::clone(this);
            Leaf {
                this,
                counted,
                links,
                turn,
                stats,
                wanted,
                shadows,
                all_shadows,
                shared,
                keeping,
            }
        })
    }
}

/// A place in a pool.
#[derive(Debug)]
pub(crate) struct Leaf {
    this: Weak<Leaf>,
    /// At least one.
    links: Vec<Arc<Link>>,
    turn: Cell<usize>,
    stats: Arc<LeafStats>,
    wanted: Destination,
    /// Under way.
    shadows: Cell<usize>,
    /// The same of the whole thread.
    all_shadows: Rc<Cell<usize>>,
    shared: Arc<Shared>,
    /// What a delete says at a server that keeps the value as stale.
    keeping: Option<Arc<[u8]>>,
    /// The pool's number, where it has statistics of its own.
    counted: Option<usize>,
}

/// What happened at a place in a pool, on one thread.
#[derive(Debug, Default)]
pub(crate) struct LeafStats {
    pub(crate) took: Histogram,
    pub(crate) errors: AtomicU64,
}

impl Leaf {
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
        let is_full = self.shadows.get() >= self.shared.options.shadows_max
            || self.all_shadows.get() >= self.shared.options.all_shadows_max;
        if is_full {
            return Reply::failure(Outcome::LocalError, "too many shadow requests");
        }
        let _counted = [Counted::begin(&self.shadows), Counted::begin(&self.all_shadows)];
        let reply = self.send(request, context).await;
        self.count(&reply, context);
        reply
    }

    /// Itself, if a request of this context may be begun by [`begin`](Self::begin) or [`begin_keys`](Self::begin_keys):
    /// nothing but sending it and waiting is to be done here.
    pub(crate) fn plain(&self, context: &Context) -> Option<Rc<Leaf>> {
        let is_plain = context.record.is_none()
            && !context.is_shadow
            && context.asynclog.is_none()
            && !self.links[0].is_limited();
        if is_plain { self.this.upgrade() } else { None }
    }

    /// Sends a request, without a future on the heap; `Err`: it was answered at once.
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

    /// Sends a get of several keys.
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
        let (reply, took) = match link.turn(self.wanted.timeout).await {
            Ok((_turn, left)) => link.ask(request, left, context).await,
            Err(reply) => (reply, Duration::ZERO),
        };
        self.stats.took.add(took);
        if let Some(number) = self.counted {
            self.shared.pool_stats.replied(number, took);
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

    /// Makes of a request what travels: its key, and a delete that leaves the value as stale, where the pool wants that and
    /// the client says nothing of its own.
    fn fit(&self, request: &mut Request) {
        self.strip(&mut request.key);
        let is_plain = request.op == Op::Delete && request.meta.is_none() && request.exptime == 0;
        if is_plain && let Some(flags) = &self.keeping {
            request.meta = Some(Arc::clone(flags));
        }
    }

    /// Leaves of a key what travels.
    fn strip(&self, key: &mut Bytes) {
        if !self.wanted.keep_routing_prefix {
            key.advance(key::prefix(key).len());
        }
    }

    /// The key as it travels.
    fn key(&self, key: &Bytes) -> Bytes {
        let mut key = key.clone();
        self.strip(&mut key);
        key
    }

    fn count(&self, reply: &Reply, context: &Context) {
        if !is_error(reply.outcome) {
            return;
        }
        self.stats.errors.store(self.stats.errors.load(Relaxed) + 1, Relaxed);
        let (counter, with_shadows) = Counter::of_error(reply.outcome);
        context.count(with_shadows);
        context.count(Counter::ResultAnyAll);
        if !context.is_shadow {
            context.count(counter);
            context.count(Counter::ResultAny);
        }
    }

    /// Writes a delete down to be sent when the server is back; then the client may believe it done.
    async fn write_down(
        &self,
        request: &Request,
        pool: &str,
        context: &Context,
        reply: Reply,
    ) -> Reply {
        let key = self.key(&request.key);
        // What reads the log sends a text command: it takes such a key for another, or for several commands.
        let is_text = std::str::from_utf8(&key)
            .is_ok_and(|key| !key.contains(|c: char| c <= ' ' || c == '\x7f'));
        if !is_text {
            return reply;
        }
        let (link, server) = (&self.links[0], &self.wanted.server);
        if !self.shared.debts.owe(&link.account, server, &key, pool).await {
            return reply;
        }
        context.count(Counter::Spooled);
        // Where the server is marked, the link that probes it sends the delete before the mark comes off.
        if !link.tko.is_marked() {
            returning::tend(&link.account, &self.shared, self.shared.options.tko.probe_first);
            if reply.outcome == Outcome::Tko {
                // It returned just now: the next get may be quicker than that.
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

/// One more, until it is dropped.
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

/// A request that a leaf sent.
#[derive(Debug)]
pub(crate) struct Asking {
    leaf: Rc<Leaf>,
    under_way: UnderWay<Ask>,
}

impl Asking {
    /// The reply, once it is there. Each poll is by the task whose waker it began with: it costs next to nothing as long
    /// as the server answers nobody.
    pub(crate) fn poll(&mut self, cx: &mut task::Context<'_>, context: &Context) -> Poll<Reply> {
        if !self.under_way.is_due() {
            return Poll::Pending;
        }
        let (reply, took) = ready!(self.under_way.poll(cx));
        self.leaf.settle(&reply, took, context);
        Poll::Ready(reply)
    }
}

/// A get of several keys that a leaf sent.
#[derive(Debug)]
pub(crate) struct AskingKeys {
    leaf: Rc<Leaf>,
    under_way: UnderWay<AskKeys>,
}

impl AskingKeys {
    /// The replies in the order of the keys, once all are there; as [`Asking::poll`].
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

impl Route for Leaf {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(self.ask(request, context))
    }

    fn name(&self) -> Cow<'_, str> {
        let Destination {
            server, pool, index, timeout, keep_routing_prefix, failure_domain, ..
        } = &self.wanted;
        let timeout = timeout.as_millis();
        format!(
            "host|pool={pool}|id={index}|ap={server}|timeout={timeout}ms|\
             keep_routing_prefix={keep_routing_prefix}|msb={failure_domain}"
        )
        .into()
    }

    fn visit(&self, _request: &Request, _visitor: &mut dyn FnMut(&dyn Route, &Request)) {}

    fn server(&self) -> Option<&Server> {
        Some(&self.wanted.server)
    }

    fn leaf(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn failure_domain(&self) -> u32 {
        self.wanted.failure_domain
    }
}
