//! The threads of proxies: each serves the clients that it was dealt, from their first byte to their last.
//!
//! # Invariants
//! 1. A client stays on its thread.
//! 2. A thread that is to end answers what was read from clients first, and carries out what nobody waits for. What still
//!    waits for servers after [`GRACE`] fails then: a delete is written down.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout};

use crate::configure::Loaded;
use crate::front::entering::Entering;
use crate::front::entrance;
use crate::front::session::{Lanes, Session};
use crate::front::stream::Arrival;
use crate::json::budget::STACK_BYTES;
use crate::operate::View;
use crate::process::{Process, refuse};
use crate::proxy::{Phase, Proxy, ProxyMessage};

/// A thread that was started. When the sender is dropped, the thread ends.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) orders: UnboundedSender<ProxyMessage>,
    pub(crate) handle: JoinHandle<()>,
}

/// Starts a thread that routes by `loaded`.
///
/// It tells `is_ready` once clients may be served.
pub(crate) fn start(
    view: &Arc<View>,
    number: usize,
    loaded: &Arc<Loaded>,
    is_ready: &Sender<()>,
) -> io::Result<Thread> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (orders, received) = unbounded_channel();
    let (view, loaded, is_ready) = (Arc::clone(view), Arc::clone(loaded), is_ready.clone());
    let run = move || {
        let tasks = LocalSet::new();
        let proxy = tasks.block_on(&runtime, run(view, number, loaded, received, is_ready));
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
    view: Arc<View>,
    number: usize,
    loaded: Arc<Loaded>,
    mut orders: UnboundedReceiver<ProxyMessage>,
    is_ready: Sender<()>,
) -> Option<Rc<Proxy>> {
    let proxy = match Proxy::new(view, number, &loaded) {
        Ok(proxy) => Rc::new(proxy),
        Err(error) => {
            tracing::error!("proxy {number} has no routes: {error}");
            return None;
        }
    };
    let idle = Some(proxy.process.options.servers.tko.idle_max).filter(|idle| !idle.is_zero());
    let idle = idle.map(|idle| tokio::task::spawn_local(Rc::clone(&proxy.fleet).close_idle(idle)));
    // Deletes that are left from before go out first.
    let recovering = proxy.fleet.take_recovering();
    tokio::spawn(async move {
        join_all(recovering).await;
        // Whoever waits for this may have had enough of it.
        let _ = is_ready.send(());
    });
    let (entering, lanes) = (Rc::new(Entering::default()), Lanes::new());
    while let Some(order) = orders.recv().await {
        match order {
            ProxyMessage::Client(arrival) => {
                let (proxy, lanes) = (Rc::clone(&proxy), Rc::clone(&lanes));
                tokio::task::spawn_local(serve(proxy, lanes, Rc::clone(&entering), arrival));
            }
            ProxyMessage::Configuration(loaded) => proxy.reconfigure(&loaded),
        }
    }
    if let Some(idle) = idle {
        idle.abort();
    }
    Some(proxy)
}

/// Lets a client in and serves it until it goes.
async fn serve(proxy: Rc<Proxy>, lanes: Rc<Lanes>, entering: Rc<Entering>, arrival: Arrival) {
    let place = Place(Arc::clone(&proxy.process));
    place.during(enter_and_serve(proxy, lanes, entering, arrival)).await;
}

async fn enter_and_serve(
    proxy: Rc<Proxy>,
    lanes: Rc<Lanes>,
    entering: Rc<Entering>,
    arrival: Arrival,
) {
    let from = arrival.to_string();
    tracing::trace!("a client comes from {from}");
    let entered = tokio::select! {
        entered = entrance::enter(arrival, &proxy.process, &entering) => Some(entered),
        () = proxy.is_ending.notified() => None,
    };
    match entered {
        Some(Ok((stream, input))) => {
            Session::new(Rc::clone(&proxy), lanes, stream, input).serve(&from).await;
        }
        Some(Err(error)) => refuse(&proxy.process.refusals, &from, &error),
        None => {}
    }
}

/// A client's place among those that may be, free when it is dropped, by a panic too.
struct Place(Arc<Process>);

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
        let process = Process::idle(&["--max-conns", "1"]);
        for _ in 0..3 {
            assert!(process.admit(), "the place is free");
            assert!(!process.admit(), "there is one place");
            let place = Place(Arc::clone(&process));
            let session = async { panic!("as it should") };
            let tasks = LocalSet::new();
            let ended = tasks.spawn_local(place.during(session));
            let ended = tasks.run_until(ended).await;
            assert!(ended.is_err_and(|error| error.is_panic()));
        }
    }
}
