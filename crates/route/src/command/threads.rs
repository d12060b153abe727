//! The proxy threads: each serves the clients that it gets, from their first byte to their last.
//!
//! # Invariants
//! 1. A client stays on its thread.
//! 2. A thread that ends first answers what it has read from clients, and finishes background requests. Requests that
//!    wait for servers longer than the [grace](drain) fail; failed deletes are logged. Then it gives back the holds of its
//!    hot caches.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use futures_util::future::join_all;
use guira_front::sessions::{Sessions, drain, serve};
use guira_front::slices::ask_for_short_slices;
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use crate::configure::Loaded;
use crate::operate::View;
use crate::proxy::{Proxy, ProxyMessage};
use guira_config::budget::STACK_BYTES;

/// A thread that was started. It ends when the sender is dropped.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) orders: UnboundedSender<ProxyMessage>,
    pub(crate) handle: JoinHandle<()>,
}

/// Starts a thread with the routes of `loaded`. It notifies `is_ready` when clients may be served.
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
        ask_for_short_slices();
        let tasks = LocalSet::new();
        let sessions = tasks.block_on(&runtime, run(view, number, loaded, received, is_ready));
        if let Some(sessions) = sessions {
            runtime.block_on(end(sessions, tasks));
        }
        // A disk that hangs must not keep the process from ending.
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
) -> Option<Rc<Sessions<Proxy>>> {
    let proxy = match Proxy::new(view, number, &loaded) {
        Ok(proxy) => Rc::new(proxy),
        Err(error) => {
            tracing::error!("proxy {number} has no routes: {error}");
            return None;
        }
    };
    let idle = Some(proxy.process.options.servers.tko.idle_max).filter(|idle| !idle.is_zero());
    let idle = idle.map(|idle| tokio::task::spawn_local(Rc::clone(&proxy.fleet).close_idle(idle)));
    // Deletes from an earlier process are sent first.
    let recovering = proxy.fleet.take_recovering();
    tokio::spawn(async move {
        join_all(recovering).await;
        // The receiver may have stopped waiting.
        let _ = is_ready.send(());
    });
    let clients = Arc::clone(&proxy.process.clients);
    let sessions = Sessions::new(Rc::clone(&proxy), clients);
    while let Some(order) = orders.recv().await {
        match order {
            ProxyMessage::Client(arrival) => {
                tokio::task::spawn_local(serve(Rc::clone(&sessions), arrival));
            }
            ProxyMessage::Configuration(loaded) => proxy.reconfigure(&loaded),
        }
    }
    if let Some(idle) = idle {
        idle.abort();
    }
    Some(sessions)
}

/// Ends a thread's tasks.
async fn end(sessions: Rc<Sessions<Proxy>>, tasks: LocalSet) {
    let fleet = Rc::clone(&sessions.service.fleet);
    drain(&sessions, tasks, || fleet.links().iter().for_each(|link| link.abandon())).await;
    // Its caches end with the tree.
    drop(sessions);
    fleet.see_out().await;
}
