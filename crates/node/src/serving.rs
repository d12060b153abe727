//! The server's process: its threads, its clients, its end.
//!
//! ```text
//! main thread   accepts clients, waits for signals, carries out what flush_all planned
//!    │ clients in turn
//!    ▼
//! store 0 … n   sessions with clients, a desk each         one event loop each
//!    │ reads                 │ changes
//!    ▼                       ▼
//! readers                 the engine's own threads
//! ```

use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use guira_front::sessions::{
    self, Arrival, Dealer, Listening, Sessions, drain, reserve_http, serve, start_http,
};
use guira_log::Log;
use sd_notify::NotifyState;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use crate::desk::Desk;
use crate::engine::{Engine, KeepRule};
use crate::horizon::Horizon;
use crate::node::{Node, now};
use crate::options::{Opening, Options};
use crate::process::Process;
use crate::watch::Watch;

/// Serves a store that `open` opens, until the process is told to end.
///
/// # Errors
/// In a sentence: why it can't.
pub(crate) fn run<E: Engine>(
    options: Options,
    log: &Log,
    open: impl FnOnce(&Opening, KeepRule) -> Result<E, String>,
) -> Result<(), String> {
    raise_descriptor_limit();
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("no event queue: {e}"))?;
    let tls_ports = options.tls_ports();
    // No client can connect before the store is open, and yet a port that somebody has is told at once.
    let places =
        sessions::reserve(&options.listen, &tls_ports).map_err(|words| own_flags(&words))?;
    let http = options.http.as_deref().map(reserve_http).transpose()?;
    let horizon = Arc::new(Horizon::default());
    let engine = open(&options.opening, horizon.keep_rule(now))?;
    let (read_threads, value_max) = (options.read_threads, options.clients.memory.value);
    let node = Node::new(engine, horizon, (read_threads, value_max));
    let node = node.map_err(|error| format!("{}: {error}", options.opening.directory.display()))?;
    // The clock of tokio is read in its runtime.
    let entered = runtime.enter();
    let process = Arc::new(Process::new(options, node, log.clone())?);
    drop(entered);
    let sockets = places.listen().map_err(|words| own_flags(&words))?;
    let http = http.map(|place| place.listen(&sockets)).transpose()?;
    let threads: Result<Vec<Thread>, _> =
        (0..process.options.threads).map(|number| start(&process, number)).collect();
    let threads = threads.map_err(|e| format!("no thread: {e}"))?;
    let served = runtime.block_on(until_told(&process, (sockets, http), &threads));
    process.lifecycle.note_stopping();
    tell_systemd(NotifyState::Stopping);
    // The sockets and their tasks go first, and with them the last senders of clients: then the threads answer what they
    // have read, and end.
    runtime.shutdown_background();
    let handles: Vec<_> = threads.into_iter().map(|thread| thread.handle).collect();
    for handle in handles {
        // A thread that panicked has said so.
        let _ = handle.join();
    }
    if let Err(failure) = process.node.engine.settle() {
        tracing::error!("the last changes may not be durable: {failure}");
    }
    if let Some(path) = &process.options.listen.unix {
        let _ = std::fs::remove_file(path);
    }
    tracing::info!("stopped by {}", served?);
    Ok(())
}

/// The flags have other names in the router.
fn own_flags(words: &str) -> String {
    words.replace("--ssl-port", "-p").replace("--unix-domain-sock", "-s")
}

/// As many descriptors as the system lets this process have.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If not, there are fewer connections.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Tells who started this process, if that is systemd by a unit with `Type=notify`, or anybody who asked like it.
fn tell_systemd(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("NOTIFY_SOCKET can't be told: {error}");
    }
}

/// A thread that was started. When the sender is dropped, the thread ends.
struct Thread {
    arrivals: UnboundedSender<Arrival>,
    handle: JoinHandle<()>,
}

fn start<E: Engine>(process: &Arc<Process<E>>, number: usize) -> io::Result<Thread> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (arrivals, received) = unbounded_channel();
    let process = Arc::clone(process);
    let run = move || {
        let tasks = LocalSet::new();
        let sessions = tasks.block_on(&runtime, welcome(process, number, received));
        runtime.block_on(drain(&sessions, tasks, || {}));
        runtime.shutdown_background();
    };
    let handle = thread::Builder::new().name(format!("store-{number}")).spawn(run)?;
    Ok(Thread { arrivals, handle })
}

/// Serves the clients that come, until none can come any more.
async fn welcome<E: Engine>(
    process: Arc<Process<E>>,
    number: usize,
    mut received: UnboundedReceiver<Arrival>,
) -> Rc<Sessions<Desk<E>>> {
    let clients = Arc::clone(&process.clients);
    let sessions = Sessions::new(Rc::new(Desk::new(process, number)), clients);
    while let Some(arrival) = received.recv().await {
        tokio::task::spawn_local(serve(Rc::clone(&sessions), arrival));
    }
    sessions
}

/// Serves until a signal or a client says that it's enough.
async fn until_told<E: Engine>(
    process: &Arc<Process<E>>,
    (sockets, http): (Vec<Listening>, Option<TcpListener>),
    threads: &[Thread],
) -> Result<&'static str, String> {
    let heard =
        |kind| -> Result<Signal, String> { signal(kind).map_err(|e| format!("signals: {e}")) };
    let mut interrupt = heard(SignalKind::interrupt())?;
    let mut terminate = heard(SignalKind::terminate())?;
    let mut user = heard(SignalKind::user_defined1())?;
    let mut hang_up = heard(SignalKind::hangup())?;
    let mut second_user = heard(SignalKind::user_defined2())?;
    // What was planned while nobody served comes before anybody is served.
    flush_if_due(process).await;
    let mut watch = Watch::default();
    watch.look(&process.node.engine);
    if let Some(listener) = http {
        start_http(listener, Arc::clone(process)).map_err(|e| format!("no thread: {e}"))?;
    }
    let listening: Vec<_> = sockets.iter().map(Listening::place).collect();
    accept_all(process, sockets, threads);
    process.lifecycle.note_ready();
    tell_systemd(NotifyState::Ready);
    let is_guarded = process.clients.logins.is_some();
    sessions::tell(&listening, is_guarded);
    sessions::tell_ready(&listening, threads.len());
    let planned = Arc::clone(process);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            flush_if_due(&planned).await;
        }
    });
    let watched = Arc::clone(process);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            watch.look(&watched.node.engine);
        }
    });
    let warned = Arc::clone(process);
    tokio::spawn(async move {
        loop {
            if let Some(warning) = warned.expiry.warning() {
                tracing::warn!("{warning} (--ssl-chain-cert)");
            }
            tokio::time::sleep(WARN_EVERY).await;
        }
    });
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok("SIGINT"),
            _ = terminate.recv() => return Ok("SIGTERM"),
            _ = user.recv() => return Ok("SIGUSR1"),
            why = process.lifecycle.stopped() => return Ok(why),
            _ = hang_up.recv() => process.refresh_credentials(),
            _ = second_user.recv() => {}
        }
    }
}

fn accept_all<E: Engine>(process: &Arc<Process<E>>, sockets: Vec<Listening>, threads: &[Thread]) {
    let arrivals = threads.iter().map(|thread| thread.arrivals.clone()).collect();
    let keepalive = process.options.listen.keepalive.clone();
    let dealer = Arc::new(Dealer::new(Arc::clone(&process.clients), keepalive, arrivals));
    for socket in sockets {
        let (dealer, process) = (Arc::clone(&dealer), Arc::clone(process));
        tokio::spawn(async move {
            if let Err(error) = sessions::accept(socket, dealer).await {
                tracing::error!("a socket can't be listened on: {error}");
                process.lifecycle.stop_for("a socket that fails");
            }
        });
    }
}

/// Flushes, if that was planned for a second that has come.
async fn flush_if_due<E: Engine>(process: &Process<E>) {
    let at = process.node.horizon.planned_at();
    if at == 0 || now() < at {
        return;
    }
    match process.node.flush(0).await {
        Ok(()) => tracing::info!("flushed, as flush_all had planned"),
        Err(failure) => tracing::warn!("what flush_all planned isn't done yet: {failure}"),
    }
}

/// Each signal and what the server does, for the documentation.
pub const SIGNALS: [(&str, &str); 3] = [
    (
        "SIGTERM, SIGINT, SIGUSR1",
        "ends gracefully: no new connections, requests under way are answered, the store is made durable",
    ),
    (
        "SIGHUP",
        "reads the users of `--auth-file` and the certificates again; a bad file changes nothing",
    ),
    ("SIGUSR2", "ignored"),
];

/// How often a planned flush is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the store's state is looked at for the log.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How often the certificate's end is looked at.
const WARN_EVERY: Duration = Duration::from_secs(60);
