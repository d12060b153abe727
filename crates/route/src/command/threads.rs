//! A proxy thread: its clients, its tree of routes, its connections to servers.
//!
//! Nothing of one thread is another's, but for what [`Shared`] holds. A client stays on the thread that it was dealt
//! to.
//!
//! # Invariants
//! 1. A request runs to its end on the tree that it began on: a new configuration replaces the tree for what comes.
//! 2. A thread that is to end answers what was read from clients first, and carries out what nobody waits for. What still
//!    waits for servers after [`GRACE`] fails then: a delete is written down.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::future::join_all;
use guira_client::{Outcome, Reply, Request};
use tokio::runtime;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout};

use super::configuration::Loaded;
use super::entering::Entering;
use super::entrance;
use super::fleet::{Fleet, Leaf};
use super::pools::FirstPool;
use super::refusals;
use super::session::{Lanes, Session};
use super::shared::Shared;
use super::stream::Arrival;
use crate::config::budget::STACK_BYTES;
use crate::{Context, Counters, Settings, Tree, route};

/// What a thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Serve this client.
    Client(Arrival),
    /// Route by this from now on.
    Configuration(Arc<Loaded>),
}

/// A thread that was started. When the sender is dropped, the thread ends.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) orders: UnboundedSender<Order>,
    pub(crate) handle: JoinHandle<()>,
}

/// What is one thread's own.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) shared: Arc<Shared>,
    number: usize,
    /// With this thread's number.
    settings: Settings,
    fleet: Rc<Fleet>,
    tree: RefCell<Rc<Tree>>,
    pub(crate) phase: Cell<Phase>,
    /// Clients that are not let in yet.
    entering: Entering,
    /// Told when the phase is no longer the first.
    pub(crate) is_ending: Notify,
    /// Closes idle connections.
    idle: Option<tokio::task::JoinHandle<()>>,
    /// Where this thread's clients wait that ask for long values.
    pub(crate) lanes: Rc<Lanes>,
    /// When `stats` may be answered again.
    pub(crate) stats_free_at: Cell<Instant>,
}

/// What a thread does with its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// One that has nothing to be answered is closed.
    Draining,
    /// Nothing more is read from any.
    Closing,
}

/// Starts a thread that routes by `loaded`.
///
/// It tells `is_ready` once clients may be served.
///
/// # Errors
/// The system has no thread or no event queue for it.
pub(crate) fn start(
    shared: &Arc<Shared>,
    number: usize,
    loaded: &Arc<Loaded>,
    is_ready: &Sender<()>,
) -> io::Result<Thread> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (orders, received) = unbounded_channel();
    let (shared, loaded, is_ready) = (Arc::clone(shared), Arc::clone(loaded), is_ready.clone());
    let run = move || {
        let tasks = LocalSet::new();
        let proxy = tasks.block_on(&runtime, run(shared, number, loaded, received, is_ready));
        if let Some(proxy) = proxy {
            runtime.block_on(drain(&proxy, tasks));
        }
        // A disk that hangs holds up no process that is to end.
        runtime.shutdown_background();
    };
    let thread = thread::Builder::new().name(format!("proxy-{number}")).stack_size(STACK_BYTES);
    let handle = thread.spawn(run)?;
    Ok(Thread { orders, handle })
}

async fn run(
    shared: Arc<Shared>,
    number: usize,
    loaded: Arc<Loaded>,
    mut orders: UnboundedReceiver<Order>,
    is_ready: Sender<()>,
) -> Option<Rc<Proxy>> {
    let fleet = Rc::new(Fleet::new(Arc::clone(&shared)));
    let proxy_index = u32::try_from(number).unwrap_or(u32::MAX);
    let settings = Settings { proxy_index, ..shared.options.settings.clone() };
    let tree = match loaded.grow(&settings, &*fleet) {
        Ok(tree) => RefCell::new(Rc::new(tree)),
        Err(error) => {
            tracing::error!("proxy {number} has no routes: {error}");
            return None;
        }
    };
    let idle = Some(shared.options.tko.idle_max).filter(|idle| !idle.is_zero());
    let idle = idle.map(|idle| tokio::task::spawn_local(Rc::clone(&fleet).close_idle(idle)));
    // Deletes that are left from before go out first.
    let recovering = fleet.take_recovering();
    tokio::spawn(async move {
        join_all(recovering).await;
        // Whoever waits for this may have had enough of it.
        let _ = is_ready.send(());
    });
    let (phase, is_ending) = (Cell::new(Phase::Serving), Notify::new());
    let proxy = Rc::new(Proxy {
        shared,
        number,
        settings,
        fleet,
        tree,
        phase,
        entering: Entering::default(),
        is_ending,
        idle,
        lanes: Lanes::new(),
        stats_free_at: Cell::new(Instant::now()),
    });
    while let Some(order) = orders.recv().await {
        match order {
            Order::Client(arrival) => {
                tokio::task::spawn_local(serve(Rc::clone(&proxy), arrival));
            }
            Order::Configuration(loaded) => proxy.reconfigure(&loaded),
        }
    }
    Some(proxy)
}

/// Lets a client in and serves it until it goes.
async fn serve(proxy: Rc<Proxy>, arrival: Arrival) {
    let place = Place(Arc::clone(&proxy.shared));
    place.during(enter_and_serve(proxy, arrival)).await;
}

async fn enter_and_serve(proxy: Rc<Proxy>, arrival: Arrival) {
    tracing::trace!("a client comes from {arrival}");
    let entered = tokio::select! {
        entered = entrance::enter(arrival, &proxy.shared, &proxy.entering) => Some(entered),
        () = proxy.is_ending.notified() => None,
    };
    match entered {
        Some(Ok((stream, input))) => Session::new(Rc::clone(&proxy), stream, input).serve().await,
        Some(Err(error)) => refusals::note(&proxy.shared, &error),
        None => {}
    }
}

/// A client's place among those that may be, free when it is dropped, by a panic too.
struct Place(Arc<Shared>);

impl Place {
    /// Keeps the place until a client is served.
    async fn during(self, serving: impl Future<Output = ()>) {
        serving.await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Ends a thread's tasks: its clients are answered, and what nobody waits for is carried out.
async fn drain(proxy: &Proxy, mut tasks: LocalSet) {
    if let Some(idle) = &proxy.idle {
        idle.abort();
    }
    proxy.phase.set(Phase::Draining);
    proxy.is_ending.notify_waiters();
    if timeout(GRACE, &mut tasks).await.is_ok() {
        return;
    }
    proxy.phase.set(Phase::Closing);
    let closed = Instant::now();
    while closed.elapsed() < CLOSING_MAX {
        // Each time, because what fails here may be tried there.
        proxy.fleet.links().iter().for_each(|link| link.abandon());
        if timeout(CLOSING_STEP, &mut tasks).await.is_ok() {
            return;
        }
    }
}

impl Proxy {
    /// Answers a request by the tree, when it has its turn.
    pub(crate) async fn route(&self, request: &Request, context: &Context) -> Reply {
        let _turn = match self.shared.routed.get(self.number) {
            Some(turns) if context.record.is_none() => match turns.take().await {
                Some(turn) => Some(turn),
                None => return Reply::new(Outcome::Busy),
            },
            _ => None,
        };
        if !self.shared.pool_stats.is_empty() {
            return self.route_counted(request, context).await;
        }
        let tree = self.tree();
        route::last(&*tree.root, request, context).route(request, context).await
    }

    /// As [`Self::route`], where pools are counted: notes which of them the request was for.
    async fn route_counted(&self, request: &Request, context: &Context) -> Reply {
        let first = FirstPool::default();
        let context = Context { first_pool: Some(Rc::clone(&first)), ..context.clone() };
        let began = Instant::now();
        let reply = self.tree().root.route(request, &context).await;
        self.shared.pool_stats.finished(&first, &reply, began.elapsed());
        reply
    }

    /// The leaf that answers a request, if that is all there is to do.
    pub(crate) fn leaf(&self, request: &Request, context: &Context) -> Option<Rc<Leaf>> {
        if !self.shared.pool_stats.is_empty() || !self.shared.routed.is_empty() {
            return None;
        }
        let tree = self.tree.borrow();
        let last = route::last(&*tree.root, request, context);
        last.leaf()?.downcast_ref::<Leaf>()?.plain(context)
    }

    pub(crate) fn tree(&self) -> Rc<Tree> {
        Rc::clone(&self.tree.borrow())
    }

    /// The servers that a request reaches when each answers as if it held nothing.
    pub(crate) async fn record(&self, request: &Request) -> Vec<crate::Server> {
        let record = Rc::new(RefCell::new(Vec::new()));
        let context = Context { record: Some(Rc::clone(&record)), ..Context::default() };
        self.route(request, &context).await;
        record.take()
    }

    fn reconfigure(&self, loaded: &Loaded) {
        self.fleet.reconfigure();
        match loaded.grow(&self.settings, &*self.fleet) {
            // The old tree goes with the last request that runs on it.
            Ok(tree) => drop(self.tree.replace(Rc::new(tree))),
            Err(error) => {
                let number = self.number;
                tracing::error!("proxy {number} keeps its routes: {error}");
            }
        }
    }

    /// This thread's counters.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(self.counters_ref())
    }

    pub(crate) fn counters_ref(&self) -> &Arc<Counters> {
        &self.shared.counters[self.number]
    }
}

/// How long clients' requests may take when the process is to end.
const GRACE: Duration = Duration::from_millis(4500);
/// How long what fails then may take to be written down and answered.
const CLOSING_MAX: Duration = Duration::from_secs(2);
const CLOSING_STEP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_whose_session_panics_leaves_its_place_to_the_next() {
        let shared = Shared::idle(&["--max-conns", "1"]);
        for _ in 0..3 {
            assert!(shared.admit(), "the place is free");
            assert!(!shared.admit(), "there is one place");
            let place = Place(Arc::clone(&shared));
            let session = async { panic!("as it should") };
            let tasks = LocalSet::new();
            let ended = tasks.spawn_local(place.during(session));
            let ended = tasks.run_until(ended).await;
            assert!(ended.is_err_and(|error| error.is_panic()));
        }
    }
}
