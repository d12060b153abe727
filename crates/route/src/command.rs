//! The router as a process: its command line, its threads, its clients, its servers.
//!
//! ```text
//! main thread   accepts clients, watches the configuration, waits for signals
//!    │ clients in turn, configurations to all
//!    ▼
//! proxy 0 … n   a tree of routes each, sessions with clients, links to servers      one event loop each
//!    │ deletes that failed                                    ▲ who is TKO, counters
//!    ▼                                                        ▼
//! deletes       written down, owed to their servers        Shared
//! ```
//! Proxies share no tree, no connection and no lock on the way of a request.

mod convert;
mod explain;
mod http;
mod listener;
mod metrics;
mod replay;
mod statfiles;
mod stats;
mod session;
mod admin;
mod meta;
mod answer;
mod proxy;
mod configuration;
mod aside;
mod fleet;
mod histogram;
mod returning;
mod variables;
mod files;
mod shared;
mod fifo;
mod line;
mod options;
mod etcd;
mod entrance;
mod entering;
mod memory;
mod names;
mod owner;
mod pools;
mod link;
mod deletes;
mod rates;
mod refusals;
mod stream;
mod tko;
mod tls;
mod flags;
mod turns;

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use clap::{ArgMatches, Command};
use guira_log::{Format, Log};
use sd_notify::NotifyState;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::Instant;

pub use metrics::metric_meanings;
pub use replay::{EXIT_CODES as REPLAY_EXIT_CODES, command as replay_command, run as replay};
pub use stats::stat_tables;

use crate::config::shape::schema;
use configuration::{Loaded, adopt};
use deletes::debts::Debts;
use deletes::spool::Spool;
use flags::{Typed, Validate};
use listener::{Dealer, Listening};
use options::{LogOptions, Options};
use proxy::Thread;
use shared::{READY, STOPPING, Shared};

/// The command line: `guira route`, or `mcrouter`'s own if that is the program's name.
#[must_use]
pub fn command(name: &'static str) -> Command {
    let command = Command::new(name)
        .version(session::SPOKEN)
        .about("Run a router in front of many servers: mcrouter's flags and configurations");
    if name == "mcrouter" {
        return command.defer(|command| {
            // It does what mcrouter does, for those who depend on it.
            let is_on = |arg: clap::Arg| arg.default_value("true");
            let command = flags::augment(command);
            command.mut_arg("enable_shutdown", is_on).mut_arg("trust_reply_order", is_on)
        });
    }
    command.defer(|command| {
        flags::augment(command).subcommand(explain::command()).subcommand(convert::command())
    })
}

/// Does what a command line asks, until the process is told to end. `name` is the command's, as in [`command`].
#[must_use]
pub fn run(name: &str, matches: &ArgMatches) -> ExitCode {
    if let Some(("explain", matches)) = matches.subcommand() {
        return explain::run(matches);
    }
    if let Some(("convert", matches)) = matches.subcommand() {
        return convert::run(matches);
    }
    if matches.get_flag("schema") {
        println!("{:#}", schema::schema());
        return ExitCode::SUCCESS;
    }
    let typed = Typed::new(matches.clone());
    let format = typed.log_format();
    let mut options = match Options::new(&typed) {
        Ok(options) => options,
        Err(words) => return refuse(format, &words, UNRECOVERABLE),
    };
    options.log.says_ready = name != "mcrouter";
    let main = match Main::new() {
        Ok(main) => main,
        Err(words) => return refuse(format, &words, UNRECOVERABLE),
    };
    let (loaded, stand_in) = match load(&options) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    if options.validates == Some(Validate::Exit) {
        for long in &options.without_effect {
            eprintln!("--{long} has no effect here");
        }
        let findings = loaded.config.findings();
        for finding in findings.without_effect.iter().chain(&findings.warnings) {
            eprintln!("{finding}");
        }
        println!("the configuration is good");
        return ExitCode::SUCCESS;
    }
    let log = match open_log(&options.log) {
        Ok(log) => log,
        Err(words) => return refuse(format, &words, UNRECOVERABLE),
    };
    log.install();
    let served = serve(main, options, &log, loaded, stand_in.as_deref());
    log.flush();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => refuse(format, &words, UNRECOVERABLE),
    }
}

fn refuse(format: Format, words: &str, code: u8) -> ExitCode {
    guira_log::refuse(format, &format!("guira route: {words}"));
    ExitCode::from(code)
}

/// The configuration; or the last good one if it is bad, and what the log is to say of that.
fn load(options: &Options) -> Result<(Loaded, Option<String>), ExitCode> {
    let refusal = match Loaded::read(options) {
        Ok(loaded) => return Ok((loaded, None)),
        Err(refusal) => refusal,
    };
    let may_be_kept = options.validates.is_none() && refusal.allows_kept();
    if let Some((kept, which)) = may_be_kept.then(|| Loaded::kept(options)).flatten() {
        let words = format!("{refusal}; the last good configuration is used instead: {which}");
        return Ok((kept, Some(words)));
    }
    let code = refusal.code();
    for sentence in refusal.sentences() {
        refuse(options.log.format, &sentence, code);
    }
    if options.listen.inherited.is_some() && options.validates != Some(Validate::Exit) {
        // The socket outlives us, and who connects meanwhile waits in its queue. Whoever holds it may start the next router
        // at once, which fares no better: so not more than twice a second.
        std::thread::sleep(REFUSAL_PAUSE);
    }
    Err(ExitCode::from(code))
}

fn open_log(options: &LogOptions) -> Result<Log, String> {
    let LogOptions { file, format, verbosity, .. } = options;
    let verbosity = u8::try_from(*verbosity.clamp(&0, &2)).unwrap_or_default();
    let format = *format;
    let Some(path) = file else { return Ok(Log::to_stderr(format, verbosity)) };
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| format!("--log-path {}: {error}", path.display()))?;
    Ok(Log::to_file(file, format, verbosity))
}

/// The main thread's own.
struct Main {
    runtime: runtime::Runtime,
    heard: Heard,
}

/// Signals that are heard from the beginning: they would end a process that doesn't listen yet.
struct Heard {
    hang_up: Signal,
    second_user: Signal,
}

impl Main {
    fn new() -> Result<Self, String> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("no event queue: {e}"))?;
        let entered = runtime.enter();
        let heard = |kind| signal(kind).map_err(|e| format!("signals: {e}"));
        let hang_up = heard(SignalKind::hangup())?;
        let second_user = heard(SignalKind::user_defined2())?;
        drop(entered);
        Ok(Self { runtime, heard: Heard { hang_up, second_user } })
    }
}

/// What is open before the threads start.
struct Opened {
    sockets: Vec<Listening>,
    http: Option<TcpListener>,
    /// The file of runtime variables, as it was read.
    variables: variables::Known,
}

fn serve(
    main: Main,
    options: Options,
    log: &Log,
    loaded: Loaded,
    stand_in: Option<&str>,
) -> Result<(), String> {
    if let Some(words) = stand_in {
        tracing::warn!("{words}");
    }
    raise_descriptor_limit();
    let sockets = listener::open(&options.listen, &options.tls.ports)?;
    let http = options.http.as_deref().map(|text| http::open(text, &sockets)).transpose()?;
    let held = Arc::default();
    let spool = options.spool.clone().map(|dir| Spool::start(dir, &options, &held));
    let spool = spool.transpose().map_err(|e| format!("no thread: {e}"))?;
    let debts = Debts::new(spool, held);
    let variables = variables::begin(&options);
    let opened = Opened { sockets, http, variables };
    let shared = Arc::new(Shared::new(options, log.clone(), debts)?);
    let loaded = Arc::new(loaded);
    let (is_ready, ready) = channel();
    let start = |n| proxy::start(&shared, n, &loaded, &is_ready);
    let threads: Result<Vec<Thread>, _> = (0..shared.options.proxies).map(start).collect();
    let threads = threads.map_err(|e| format!("no thread: {e}"))?;
    tracing::info!("configured with {}", loaded.digest);
    adopt(&shared, loaded, stand_in.is_some());
    let Main { runtime, heard } = main;
    let served = runtime.block_on(until_told(&shared, opened, &threads, ready, heard));
    shared.phase.store(STOPPING, Relaxed);
    tell_systemd(NotifyState::Stopping);
    // The sockets and their tasks go first, and with them the orders' last senders: then the threads answer what they have
    // read, and end. Who reads a configuration meanwhile isn't waited for.
    runtime.shutdown_background();
    for Thread { orders, handle } in threads {
        drop(orders);
        // A thread that panicked has said so.
        let _ = handle.join();
    }
    shared.debts.end();
    if let Some(path) = &shared.options.listen.unix {
        let _ = std::fs::remove_file(path);
    }
    if let Some(fifos) = &shared.fifos {
        fifos.remove();
    }
    served
}

/// Tells who started this process, if that is systemd by a unit with `Type=notify`, or anybody who asked like it.
fn tell_systemd(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("NOTIFY_SOCKET can't be told: {error}");
    }
}

/// Serves until a signal or a client says that it's enough.
async fn until_told(
    shared: &Arc<Shared>,
    Opened { sockets, http, variables }: Opened,
    threads: &[Thread],
    ready: Receiver<()>,
    Heard { mut hang_up, mut second_user }: Heard,
) -> Result<(), String> {
    let heard = |kind| signal(kind).map_err(|e| format!("signals: {e}"));
    let mut interrupt = heard(SignalKind::interrupt())?;
    let mut terminate = heard(SignalKind::terminate())?;
    let mut user = heard(SignalKind::user_defined1())?;
    let dns = Arc::clone(&shared.options.dns_servers);
    tokio::spawn(Arc::clone(&shared.names).look_up_forever(dns));
    if let Some(listener) = http {
        http::start(listener, Arc::clone(shared)).map_err(|e| format!("no thread: {e}"))?;
    }
    // Deletes that are left from before go out first. A server that takes too long gets them before it is asked.
    let (proxies, until) = (threads.len(), Instant::now() + START_WAIT);
    let all_ready = move || {
        let is_ready = |_| {
            let left = until.saturating_duration_since(Instant::now());
            ready.recv_timeout(left).is_ok()
        };
        (0..proxies).all(is_ready)
    };
    let _ = tokio::task::spawn_blocking(all_ready).await;
    let orders: Vec<_> = threads.iter().map(|thread| thread.orders.clone()).collect();
    let dealer = Arc::new(Dealer::new(Arc::clone(shared), orders.clone()));
    let listening: Vec<_> = sockets.iter().map(Listening::place).collect();
    for socket in sockets {
        let (dealer, shared) = (Arc::clone(&dealer), Arc::clone(shared));
        tokio::spawn(async move {
            if let Err(error) = listener::accept(socket, dealer).await {
                tracing::error!("a socket can't be listened on: {error}");
                shared.stop.notify_one();
            }
        });
    }
    shared.phase.store(READY, Relaxed);
    tell_systemd(NotifyState::Ready);
    listener::tell(&listening, shared.logins.is_some());
    if shared.options.log.says_ready {
        listener::tell_ready(&listening, threads.len());
    }
    let reload = Arc::new(Notify::new());
    if let Some(place) = shared.options.config.watched_place() {
        let text = shared.standing.lock().loaded.as_ref().map(|loaded| loaded.text.clone());
        let watching = etcd::watch(place, text.unwrap_or_default(), Arc::clone(&reload));
        watching.map_err(|e| format!("no thread: {e}"))?;
    }
    tokio::spawn(configuration::watch(Arc::clone(shared), orders, Arc::clone(&reload)));
    tokio::spawn(rates::watch(Arc::clone(shared)));
    tokio::spawn(statfiles::write_forever(Arc::clone(shared)));
    if let Some(fifos) = shared.fifos.clone() {
        tokio::spawn(async move { fifos.open_forever().await });
    }
    tokio::spawn(variables::watch(Arc::clone(shared), variables));
    tokio::spawn(tls::watch(Arc::clone(shared)));
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = user.recv() => return Ok(()),
            () = shared.stop.notified() => return Ok(()),
            _ = hang_up.recv() => {
                tracing::info!("SIGHUP: the configuration is being read again");
                shared.refresh_credentials();
                reload.notify_one();
            }
            _ = second_user.recv() => tracing::info!("SIGUSR2 is ignored"),
        }
    }
}

/// As many descriptors as the system lets this process have.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If not, there are fewer connections.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Each exit code of a router, and when, for the documentation.
pub const EXIT_CODES: [(u8, &str); 4] = [
    (
        0,
        "ended by a signal or by `shutdown`; the configuration is good (`--validate-config`, `explain`)",
    ),
    (1, "an unknown flag, or a value that can't be read, such as a number with letters"),
    (
        TRANSIENT,
        "the configuration can't be read, and no last good one of the same source is kept (`--validate-config` and \
         `explain` use none)",
    ),
    (
        UNRECOVERABLE,
        "the configuration is bad, and no last good one of the same source is kept; or something else that won't do \
         next time either: another flag's value, its file, a port that another program has",
    ),
];

/// Each exit code of `guira route convert`, and when.
pub const CONVERT_EXIT_CODES: [(u8, &str); 3] = [
    (0, "the configuration is printed"),
    (1, "no file is named"),
    (UNRECOVERABLE, "the file can't be read, or has what can't be kept"),
];

/// Each signal and what a router does, for the documentation.
pub const SIGNALS: [(&str, &str); 3] = [
    (
        "SIGTERM, SIGINT, SIGUSR1",
        "ends gracefully: no new connections, requests under way are answered",
    ),
    (
        "SIGHUP",
        "reads the configuration, the users of `--auth-file` and the certificates again; a bad file changes nothing",
    ),
    ("SIGUSR2", "ignored"),
];

/// How long clients wait at most for deletes that are left from before.
const START_WAIT: Duration = Duration::from_secs(5);
/// How long a process holds on to a socket that it inherited and can't serve.
const REFUSAL_PAUSE: Duration = Duration::from_millis(500);
/// The configuration couldn't be read.
const TRANSIENT: u8 = 2;
/// The same command line won't do next time either.
const UNRECOVERABLE: u8 = 3;
