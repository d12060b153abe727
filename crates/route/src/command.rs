//! The process of a router: its command line, threads and signals.
//!
//! ```text
//! main thread   accepts clients, watches the configuration, waits for signals
//!    │ clients in turn, configurations to all
//!    ▼
//! proxy 0 … n   per thread: a tree of routes, sessions with clients, links to servers      one event loop each
//!    │ failed deletes                                         ▲ TKO marks, counters
//!    ▼                                                        ▼
//! deletes       logged, owed to their servers              Process
//! ```
//! Proxy threads share no tree and no connection. Serving an ordinary request takes no lock that they share.

mod convert;
mod explain;
mod replay;
mod threads;
mod exit;

use std::fs::OpenOptions;
use std::io;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use clap::{ArgMatches, Command};
use guira_client::Taps;
use guira_front::sessions::{self, Accepting, Dealer, Listening, open_http, start_http};
use guira_front::systemd::{self, NotifyState};
use guira_log::Log;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::configure::flags::{self, Typed, Validate};
use crate::configure::options::LogOptions;
use crate::configure::{self, Loaded, Options, adopt, etcd, schema, tls, variables};
use crate::deletes::debts::Debts;
use crate::deletes::spool::{Spool, SpoolNames};
use crate::operate::fifo::{Fifos, With};
use crate::operate::{View, statfiles};
use crate::ops::SPOKEN;
use crate::process::Process;
use crate::proxy::ProxyMessage;
pub use exit::{CONVERT_EXIT_CODES, EXIT_CODES};
use exit::{
    UNRECOVERABLE, code_of, raise_descriptor_limit, refuse, tell_end, tell_of_owed_strangers,
};
pub use replay::{EXIT_CODES as REPLAY_EXIT_CODES, command as replay_command, run as replay};
use threads::Thread;

/// The command line: `guira route`, or mcrouter's own if `name` is `mcrouter`.
#[must_use]
pub fn command(name: &'static str) -> Command {
    let command = Command::new(name)
        .version(SPOKEN)
        .about("Run a router in front of many servers: mcrouter's flags and configurations");
    if name == "mcrouter" {
        return command.defer(|command| {
            // Behave as mcrouter does, for users who depend on it.
            let is_on = |arg: clap::Arg| arg.default_value("true");
            let command = flags::augment(command);
            command.mut_arg("enable_shutdown", is_on).mut_arg("trust_reply_order", is_on)
        });
    }
    command.defer(|command| {
        flags::augment(command).subcommand(explain::command()).subcommand(convert::command())
    })
}

/// Runs a command line, until the process is told to end. `name` is the command's, as in [`command`].
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
        let findings = &loaded.findings;
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

/// Reads the configuration. If it is bad, returns the last good one, with a message for the log.
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
    let code = code_of(&refusal);
    let is_missing = options.config.file().is_some_and(|path| refusal.lacks(path));
    let next = if is_missing { "; name a file that can be read (-f, --config)" } else { "" };
    for sentence in refusal.sentences() {
        refuse(options.log.format, &format!("{sentence}{next}"), code);
    }
    if options.listen.inherited.is_some() && options.validates != Some(Validate::Exit) {
        // The socket outlives this process, and clients wait in its queue. Its owner may start the next router at once,
        // which would fail too: limit that to twice per second.
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

/// The main thread's runtime and signals.
struct Main {
    runtime: runtime::Runtime,
    heard: Heard,
}

/// Signals that are handled from the start, because by default they end the process.
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

/// What is opened before the threads start.
struct Opened {
    sockets: Vec<Listening>,
    http: Option<TcpListener>,
    /// The contents of the file of runtime variables.
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
    let sockets = sessions::open(&options.listen, &options.tls.ports)?;
    let http = options.http.as_deref().map(|text| open_http(text, &sockets)).transpose()?;
    let debts = debts(&options)?;
    let variables = variables::begin(&options);
    let opened = Opened { sockets, http, variables };
    let fifos = Fifos::open(&options).map(Arc::new);
    let taps = fifos.clone().map(|fifos| -> Taps {
        Arc::new(move |peer, local| Box::new(fifos.tap(With::Servers, peer, local)))
    });
    let process = Arc::new(Process::new(options, log.clone(), debts, taps)?);
    let view = Arc::new(View::new(Arc::clone(&process), fifos));
    let loaded = Arc::new(loaded);
    let (is_ready, ready) = channel();
    let start = |n| threads::start(&view, n, &loaded, &is_ready);
    let threads: Result<Vec<Thread>, _> = (0..process.options.proxies).map(start).collect();
    let threads = threads.map_err(|e| format!("no thread: {e}"))?;
    tracing::info!("configured with {}", loaded.digest);
    adopt(&process.options.config, &process.standing, loaded, stand_in.is_some());
    let Main { runtime, heard } = main;
    let served = runtime.block_on(until_told(&view, opened, &threads, ready, heard));
    process.note_stopping();
    systemd::tell(&[NotifyState::Stopping]);
    // Drop the sockets and their tasks first, and with them the last senders of messages to threads. Then all threads
    // answer what they have read, in parallel, and end. A configuration being read isn't waited for.
    runtime.shutdown_background();
    let handles: Vec<_> = threads.into_iter().map(|thread| thread.handle).collect();
    for handle in handles {
        // A panic was already reported.
        let _ = handle.join();
    }
    process.servers.debts.end();
    if let Some(path) = &process.options.listen.unix {
        let _ = std::fs::remove_file(path);
    }
    if let Some(fifos) = &view.fifos {
        fifos.remove();
    }
    tell_end(served?, &process.servers.debts);
    Ok(())
}

/// Creates the debts to servers, and the spool where they are logged.
fn debts(options: &Options) -> Result<Debts, String> {
    let (held, settings) = (Arc::default(), &options.settings);
    let names = SpoolNames {
        service: settings.service_name.clone(),
        router: settings.router_name.clone(),
        region: settings.region_and_cluster().0.to_owned(),
        is_version_2: options.is_spool_version_2,
    };
    let spool = options.spool.clone().map(|place| Spool::start(place, names, &held));
    let spool = spool.transpose().map_err(|e| format!("no thread: {e}"))?;
    Ok(Debts::new(spool, held))
}

/// Starts the background tasks. A message on the result causes the configuration to be read at once.
fn keep_up(
    view: &Arc<View>,
    threads: Vec<UnboundedSender<ProxyMessage>>,
    variables: variables::Known,
) -> Result<Arc<Notify>, String> {
    let (process, reload) = (&view.process, Arc::new(Notify::new()));
    let options = &process.options;
    if let Some(place) = options.config.watched_place() {
        let text = process.standing.lock().loaded.as_ref().map(|loaded| loaded.text.clone());
        let watching = etcd::watch(place, text.unwrap_or_default(), Arc::clone(&reload));
        watching.map_err(|e| format!("no thread: {e}"))?;
    }
    let tell_all = move |loaded: &Arc<Loaded>| {
        for thread in &threads {
            // A thread that has ended needs no configuration.
            let _ = thread.send(ProxyMessage::Configuration(Arc::clone(loaded)));
        }
    };
    let (standing, now) = (Arc::clone(&process.standing), Arc::clone(&reload));
    tokio::spawn(configure::watch(Arc::clone(options), standing, tell_all, now));
    let counted = Arc::clone(view);
    tokio::spawn(async move { counted.rates.watch(&counted.process).await });
    tokio::spawn(statfiles::write_forever(Arc::clone(view)));
    if let Some(fifos) = view.fifos.clone() {
        tokio::spawn(async move { fifos.open_forever().await });
    }
    tokio::spawn(variables::watch(Arc::clone(options), variables));
    tokio::spawn(tls::watch(Arc::clone(&process.tls), Arc::clone(&process.clients)));
    Ok(reload)
}

/// Serves until a signal or a client ends the process.
async fn until_told(
    view: &Arc<View>,
    Opened { sockets, http, variables }: Opened,
    threads: &[Thread],
    ready: Receiver<()>,
    Heard { mut hang_up, mut second_user }: Heard,
) -> Result<&'static str, String> {
    let process = &view.process;
    let heard = |kind| signal(kind).map_err(|e| format!("signals: {e}"));
    let mut interrupt = heard(SignalKind::interrupt())?;
    let mut terminate = heard(SignalKind::terminate())?;
    let mut user = heard(SignalKind::user_defined1())?;
    let dns = Arc::clone(&process.options.dns_servers);
    tokio::spawn(Arc::clone(&process.names).look_up_forever(dns));
    if let Some(listener) = http {
        start_http(listener, Arc::clone(process)).map_err(|e| format!("no thread: {e}"))?;
    }
    // Deletes from an earlier process are sent first. Servers that are too slow get theirs before they are asked.
    let (proxies, until) = (threads.len(), Instant::now() + START_WAIT);
    let all_ready = move || {
        let is_ready = |_| {
            let left = until.saturating_duration_since(Instant::now());
            ready.recv_timeout(left).is_ok()
        };
        (0..proxies).all(is_ready)
    };
    let _ = tokio::task::spawn_blocking(all_ready).await;
    tell_of_owed_strangers(&process.servers);
    let orders: Vec<_> = threads.iter().map(|thread| thread.orders.clone()).collect();
    let listening: Vec<_> = sockets.iter().map(Listening::place).collect();
    let accepting = accept_all(process, sockets, orders.clone());
    let _accepting = accepting.map_err(|e| format!("no thread: {e}"))?;
    process.lifecycle.note_ready();
    systemd::tell(&[NotifyState::Ready]);
    sessions::tell(&listening, process.clients.logins.is_some());
    if process.options.log.says_ready {
        sessions::tell_ready(&listening, threads.len());
    }
    let reload = keep_up(view, orders, variables)?;
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok("SIGINT"),
            _ = terminate.recv() => return Ok("SIGTERM"),
            _ = user.recv() => return Ok("SIGUSR1"),
            why = process.lifecycle.stopped() => return Ok(why),
            _ = hang_up.recv() => {
                tracing::info!("SIGHUP: the configuration is being read again");
                process.refresh_credentials();
                reload.notify_one();
            }
            _ = second_user.recv() => tracing::info!("SIGUSR2 is ignored"),
        }
    }
}

/// Accepts clients at all sockets, and distributes them over the threads.
fn accept_all(
    process: &Arc<Process>,
    sockets: Vec<Listening>,
    orders: Vec<UnboundedSender<ProxyMessage>>,
) -> io::Result<Accepting> {
    let dealer = Dealer::new(Arc::clone(&process.clients), orders);
    let process = Arc::clone(process);
    sessions::accept_apart(sockets, dealer, move |error| {
        tracing::error!("a socket can't be listened on: {error}");
        process.lifecycle.stop_for("a socket that fails");
    })
}

/// Each signal and its effect, for the documentation.
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

/// The longest time that clients wait for deletes of an earlier process.
const START_WAIT: Duration = Duration::from_secs(5);
/// How long a process that can't serve keeps an inherited socket.
const REFUSAL_PAUSE: Duration = Duration::from_millis(500);
