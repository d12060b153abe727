//! The server's process: its threads, its clients, its end.
//!
//! ```text
//! main thread   accepts clients, waits for signals, carries out what flush_all planned
//! opening       opens the store, before all other threads begin except http
//!    │ clients in turn
//!    ▼
//! store 0 … n   sessions with clients, a desk each         one event loop each
//!    │ reads                 │ changes
//!    ▼                       ▼
//! readers                 the engine's own threads
//! ```

use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use guira_front::sessions::{
    self, Arrival, Dealer, Listening, Sessions, drain, open_http_beside, serve, start_http,
};
use guira_front::slices::ask_for_short_slices;
use guira_front::systemd::{self, NotifyState};
use guira_front::vitals::Vitals;
use guira_log::Log;
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use crate::counts::Count;
use crate::desk::Desk;
use crate::engine::{Engine, KeepRule};
use crate::horizon::Horizon;
use crate::node::{Node, now};
use crate::options::{Opening, Options};
use crate::own_reads;
use crate::peers::PeerTls;
use crate::process::Process;
use crate::replica;
use crate::starting::{Opened, Signals, Starting, opened};
use crate::watch::{Watch, tell_end};

/// Serves a store that `open` opens, until the process is told to end.
///
/// # Errors
/// Why it can't serve, or serves no more.
pub(crate) fn run<E: Engine>(
    options: Options,
    log: &Log,
    open: impl FnOnce(&Opening, KeepRule) -> Result<E, String> + Send + 'static,
) -> Result<(), End> {
    raise_descriptor_limit();
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("no event queue: {e}"))?;
    let tls_ports = options.tls_ports();
    let peer_tls = peer_tls(&options)?;
    // No client can connect before the store is open, but a port that another program has is reported at once.
    let places =
        sessions::reserve(&options.listen, &tls_ports).map_err(|words| own_flags(&words))?;
    // Signals and the clock of tokio need its runtime.
    let entered = runtime.enter();
    let mut signals = Signals::hear()?;
    let vitals = Arc::new(Vitals::open());
    let starting = Arc::new(Starting::new(Arc::clone(&options.opening.progress), vitals.clone()));
    if let Some(text) = &options.http {
        let listener = open_http_beside(text, &places)?;
        start_http(listener, Arc::clone(&starting)).map_err(|e| format!("no thread: {e}"))?;
    }
    let horizon = Arc::new(Horizon::default());
    let keep = match options.replica {
        None => horizon.keep_rule(now),
        Some(_) => replica::keep_rule(),
    };
    let opening = opened(&options.opening, keep, open, &mut signals);
    let engine = match runtime.block_on(opening)? {
        Opened::Store(engine) => engine,
        Opened::Stopped(signal) => {
            tracing::info!("stopped by {signal}, before the store was open");
            return Ok(());
        }
    };
    let (read_threads, value_max) = (options.read_threads, options.clients.memory.value);
    let node = Node::new(engine, horizon, (read_threads, value_max));
    let in_directory =
        |why: &dyn Display| format!("{}: {why}", options.opening.directory.display());
    let node = Arc::new(node.map_err(|error| in_directory(&error))?);
    let replica = match &options.replica {
        None => replica::refuse_replicated(&node.engine).map(|()| None),
        Some(flags) => replica::start((flags, &options.opening.directory), peer_tls, &node)
            .map(|it| Some(Arc::new(it))),
    };
    let replica = replica.map_err(|words| in_directory(&words))?;
    let process = Arc::new(Process::new(options, (node, replica), (log.clone(), vitals))?);
    starting.note_open(&process);
    drop(entered);
    let sockets = places.listen().map_err(|words| own_flags(&words))?;
    let threads: Result<Vec<Thread>, _> =
        (0..process.options.threads).map(|number| start(&process, number)).collect();
    let threads = threads.map_err(|e| format!("no thread: {e}"))?;
    let served = runtime.block_on(until_told(&process, sockets, &threads, &mut signals));
    process.lifecycle.note_stopping();
    systemd::tell(&[NotifyState::Stopping]);
    // The sockets and their tasks go first, and with them the last senders of clients. Then the threads answer what they
    // have read, and end.
    runtime.shutdown_background();
    let handles: Vec<_> = threads.into_iter().map(|thread| thread.handle).collect();
    for handle in handles {
        // A thread that panicked has logged that.
        let _ = handle.join();
    }
    if let Some(replica) = &process.replica {
        replica.stop();
    }
    if let Err(failure) = process.node.engine.settle() {
        tracing::error!("the last changes may not be durable: {failure}");
    }
    if let Some(path) = &process.options.listen.unix {
        let _ = std::fs::remove_file(path);
    }
    let served = served.map_err(|Left| End::Failed)?;
    tracing::info!("stopped by {served}");
    Ok(())
}

/// Why serving ended by itself, or didn't begin.
pub(crate) enum End {
    /// A sentence for the operator.
    Refused(String),
    /// The log says why.
    Failed,
}

impl From<String> for End {
    fn from(words: String) -> Self {
        Self::Refused(words)
    }
}

/// The process has left its cluster, and the log says why.
struct Left;

/// Reads the certificates for other nodes, if there are any.
fn peer_tls(options: &Options) -> Result<Option<Arc<PeerTls>>, String> {
    let files = options.replica.as_ref().and_then(|it| it.tls.clone());
    Ok(files.map(PeerTls::open).transpose()?.map(Arc::new))
}

/// Puts this program's names of flags in place of the router's.
fn own_flags(words: &str) -> String {
    let names = [("--ssl-port", "-p"), ("--unix-domain-sock", "-s"), ("--listen-addresses", "-l")];
    names.iter().fold(words.to_owned(), |words, (of_router, own)| words.replace(of_router, own))
}

/// Raises the limit of descriptors to what the system lets this process have.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // On failure there are only fewer connections.
    let _ = setrlimit(Resource::Nofile, limit);
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
        ask_for_short_slices();
        let tasks = LocalSet::new();
        // Each thread's part of the reads that the device is given at once.
        let depth = (process.options.read_threads / process.options.threads).max(1);
        let sessions = tasks.block_on(&runtime, async {
            if !own_reads::enter(depth) && number == 0 {
                tracing::info!("the kernel refuses io_uring, so threads do all reads");
            }
            welcome(process, number, received).await
        });
        runtime.block_on(async {
            drain(&sessions, tasks, || {}).await;
            own_reads::leave();
        });
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

/// Serves until a signal, a client or a failure ends the process.
async fn until_told<E: Engine>(
    process: &Arc<Process<E>>,
    sockets: Vec<Listening>,
    threads: &[Thread],
    signals: &mut Signals,
) -> Result<&'static str, Left> {
    // A flush that became due while the process was down comes before any client is served.
    flush_if_due(process).await;
    let mut watch = Watch::default();
    watch.look(&process.node.engine, process.count(Count::OutOfDisk));
    let listening: Vec<_> = sockets.iter().map(Listening::place).collect();
    accept_all(process, sockets, threads);
    process.lifecycle.note_ready();
    systemd::tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
    let is_guarded = process.clients.logins.is_some();
    sessions::tell(&listening, is_guarded);
    sessions::tell_ready(&listening, threads.len());
    // A node of a cluster takes no flush_all.
    if process.replica.is_none() {
        let planned = Arc::clone(process);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                flush_if_due(&planned).await;
            }
        });
    }
    let watched = Arc::clone(process);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            watch.look(&watched.node.engine, watched.count(Count::OutOfDisk));
        }
    });
    let warned = Arc::clone(process);
    tokio::spawn(async move {
        loop {
            if let Some(warning) = warned.expiry.warning() {
                tracing::warn!("{warning} (--ssl-chain-cert)");
            }
            let of_links = warned.replica.as_ref().and_then(|it| it.tls.as_ref());
            if let Some(warning) = of_links.and_then(|tls| tls.expiry.warning()) {
                tracing::warn!("{warning} (--peer-tls-cert)");
            }
            tokio::time::sleep(WARN_EVERY).await;
        }
    });
    tokio::select! {
        signal = signals.ended(|| process.refresh_credentials()) => Ok(signal),
        why = process.lifecycle.stopped() => Ok(why),
        left = failed(process) => Err(left),
    }
}

/// Waits until the process has left its cluster, and logs why. It waits forever if the store isn't replicated.
async fn failed<E: Engine>(process: &Process<E>) -> Left {
    let Some(replica) = &process.replica else { return std::future::pending().await };
    tell_end(&process.options.opening.directory, &replica.failed().await);
    Left
}

fn accept_all<E: Engine>(process: &Arc<Process<E>>, sockets: Vec<Listening>, threads: &[Thread]) {
    let arrivals = threads.iter().map(|thread| thread.arrivals.clone()).collect();
    let dealer = Dealer::new(Arc::clone(&process.clients), arrivals);
    let process = Arc::clone(process);
    sessions::accept_all(sockets, dealer, move |error| {
        tracing::error!("a socket can't be listened on: {error}");
        process.lifecycle.stop_for("a socket that fails");
    });
}

/// Flushes, if a planned flush is due.
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
        "ends gracefully: no new connections, requests under way are answered, the store is made durable; while the store is \
         being opened, ends that",
    ),
    (
        "SIGHUP",
        "reads the users of `--auth-file` and the certificates again; a bad file changes nothing",
    ),
    ("SIGUSR2", "ignored"),
];

/// How often planned flushes are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the store's state is checked for the log.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How often the certificate's end is checked.
const WARN_EVERY: Duration = Duration::from_secs(60);
