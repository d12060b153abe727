//! Start, signals and stop of the server. [`SIGNALS`] describes what each signal does; SIGPIPE is
//! ignored. A graceful stop waits at most [`GRACE`] for requests under way.

mod daemon;
mod standby;
mod handover;
mod sweep;
mod storage;
mod crawl;
mod warm;
mod ready;

use crate::auth::Auth;
use crate::options::remedy;
use crate::privileges;
use crate::process::roster::{Doing, Peer};
use crate::process::{Opened, Process};
use crate::settings::{EXIT_SYSTEM, Flags, Refusal, ServerSettings};
use crate::sockets::{self, Inherited, Sockets};
use crate::time::monotonic_ms;
use crate::tls::Tls;
use crate::transport::datagrams::Datagrams;
use crate::transport::listener;
use crate::transport::worker::Worker;
use guira_front::systemd::{self, NotifyState};
use guira_log::Log;
use handover::Successor;
use rustix::fd::{AsFd, AsRawFd};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Each signal with its effect, for the documentation.
pub const SIGNALS: [(&str, &str); 4] = [
    ("SIGTERM, SIGINT", "ends at once, exit code 0; with `-e` as SIGUSR1"),
    ("SIGUSR1", "ends gracefully: no new connections, requests under way are answered"),
    (
        "SIGHUP",
        "reads the users of `-Y` and the certificates again, and says which; a corrupt file changes nothing",
    ),
    ("SIGUSR2", "ignored (memcached ends)"),
];

/// Serves as `flags` say until a signal ends it. `name` becomes the name of the process: the name by
/// which it was started, since health checks look for `memcached`.
///
/// Returns the exit code: 0 after a signal, or the code of the child that went into the background.
///
/// # Errors
/// The flags can't be used, or the server can't be started. The refusal has the reason, and memcached's exit code for it.
pub fn run(flags: &Flags, name: &str) -> Result<u8, Refusal> {
    let settings = ServerSettings::new(flags)?;
    if settings.daemon && !daemon::is_child() {
        return daemon::spawn();
    }
    if settings.daemon {
        daemon::detach();
    }
    rename_process(name);
    // Taken before the directory may change.
    let home = std::env::current_dir().ok();
    let resumed = match standby::wait()? {
        standby::Outcome::NotOne => None,
        standby::Outcome::Served => return Ok(0),
        standby::Outcome::Gone(sockets) => Some(sockets),
    };
    // Opened before root is given up, because only root may be able to read the key.
    let tls = Tls::open(&settings)?;
    let mut notes = Vec::new();
    if resumed.is_some() {
        notes.push("the successor is gone without serving: this server starts again".to_owned());
    }
    let lock_memory = privileges::apply(&settings, &mut notes)?;
    // The logger's thread is started after root is given up: a thread keeps the privileges of the one that starts it.
    let log = Log::to_stderr(settings.log_format, settings.verbosity);
    log.install();
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    let opened = Opened { tls, log: log.clone(), lock_memory };
    let served = serve(name, settings, opened, (home, resumed));
    log.flush();
    served
}

/// Serves with what was opened. `home` is the directory in which a standby would start; `resumed` has the
/// sockets of a standby that starts again.
fn serve(
    name: &str,
    settings: ServerSettings,
    opened: Opened,
    (home, resumed): (Option<PathBuf>, Option<Inherited>),
) -> Result<u8, Refusal> {
    say_what_is_missing(&settings);
    if let Some(warning) = opened.tls.as_ref().and_then(Tls::warn_of_refresh) {
        tracing::warn!("{warning}");
    }
    // Before the first thread starts, so that all threads leave the signals to this handler.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGUSR2])
        .map_err(|e| Refusal::system("signals", &e))?;
    let auth = Auth::open(&settings)?;
    if let Some(warning) = auth.warn_of_no_users() {
        tracing::warn!("{warning}");
    }
    let (mut inherited, mut predecessor) = match resumed {
        Some(sockets) => (sockets, None),
        None => handover::take_over(&settings)?,
    };
    let sockets = sockets::open(&settings, &mut inherited)?;
    if let Some(predecessor) = &mut predecessor {
        predecessor.wait(&inherited, &settings)?;
    }
    drop(inherited);
    let began_ms = monotonic_ms();
    let process = Arc::new(Process::new(settings, auth, opened)?);
    warm::tell(&process, monotonic_ms() - began_ms);
    if let Some(tls) = &process.tls {
        tls.begin(process.time.now());
    }
    enter_own_sockets(&process, &sockets);
    say_what_is_open(&process, &sockets);
    let ready = ready::lines(name, &process.settings, &sockets);
    let threads_left = start_threads(&process, sockets)?;
    privileges::keep_reserve(&process.settings);
    let pidfile = Pidfile::write(process.settings.pidfile.as_deref())?;
    if process.settings.daemon {
        let keep_stderr = process.settings.verbosity > 0;
        daemon::ready(keep_stderr).map_err(|e| Refusal::system("detaching", &e))?;
    }
    if let Some(predecessor) = predecessor {
        predecessor.release();
    }
    systemd::tell(&[NotifyState::Ready]);
    ready.iter().flatten().for_each(|line| tracing::info!("{line}"));
    let signal = wait_for_the_end(&process, &mut signals);
    stop(&process, signal, &threads_left);
    if let Some((successor, sockets)) = process.heir.lock().take() {
        drop(pidfile);
        process.log.flush();
        let error = standby::become_one(successor, sockets, home.as_deref());
        tracing::warn!("no standby while the successor starts: {error}");
        return Ok(0);
    }
    handover::close_door(&process.settings);
    drop(pidfile);
    // The threads end with the process: nothing of theirs has to be cleaned up.
    Ok(0)
}

/// Serves until a signal ends the server. Returns that signal.
fn wait_for_the_end(process: &Process, signals: &mut Signals) -> i32 {
    for signal in signals.forever() {
        match signal {
            SIGHUP => reload(process),
            SIGUSR2 => tracing::info!("SIGUSR2 is ignored"),
            end => return end,
        }
    }
    SIGTERM
}

/// Stops the server as `signal` demands, and logs what becomes of the items.
fn stop(process: &Process, signal: i32, threads_left: &AtomicUsize) {
    let began_ms = monotonic_ms();
    if signal == SIGUSR1 || process.settings.memory_file.is_some() {
        tracing::info!("Gracefully stopping");
        stop_gracefully(process, threads_left);
    }
    systemd::tell(&[NotifyState::Stopping]);
    let items = warm::end(process);
    let by = process.stopped_by.get().copied().or_else(|| signal_name(signal));
    let by = by.unwrap_or("a signal");
    tracing::info!("stopped by {by}, in {} ms: {items}", monotonic_ms() - began_ms);
}

/// Starts the workers, the sweeper, the crawler, the listener and the optional threads. Returns the
/// counter of workers, sweeper and storage threads that are still running.
fn start_threads(process: &Arc<Process>, sockets: Sockets) -> Result<Arc<AtomicUsize>, Refusal> {
    let storing = if process.storage.is_some() { storage::LIVES.len() } else { 0 };
    let left = Arc::new(AtomicUsize::new(process.settings.threads + 1 + storing));
    let log = process.log.clone();
    let successor = Successor::expect(&process.settings, &sockets);
    let Sockets { listening: sockets, datagram: mut datagrams, http } = sockets;
    for number in 0..process.settings.threads {
        let (process, left) = (Arc::clone(process), Arc::clone(&left));
        let own = datagrams.iter_mut().filter_map(|d| d.sockets.pop()).map(Datagrams::new);
        let own: Vec<_> = own.collect();
        start(&log, &format!("worker-{number}"), move || {
            Worker::new(&process, number, own)?.run()?;
            left.fetch_sub(1, Ordering::Release);
            Ok(())
        })?;
    }
    let (sweeping, sweeping_left) = (Arc::clone(process), Arc::clone(&left));
    start(&log, "sweeper", move || {
        sweep::sweep(&sweeping);
        sweeping_left.fetch_sub(1, Ordering::Release);
        Ok(())
    })?;
    if process.storage.is_some() {
        for (name, life) in storage::LIVES {
            let (process, left) = (Arc::clone(process), Arc::clone(&left));
            start(&log, name, move || {
                life(&process);
                left.fetch_sub(1, Ordering::Release);
                Ok(())
            })?;
        }
    }
    let crawling = Arc::clone(process);
    start(&log, "crawler", move || crawl::crawl(&crawling))?;
    if !http.is_empty() {
        let telling = Arc::clone(process);
        start(&log, "http", move || {
            let sockets: Vec<_> = http.iter().map(|listening| listening.socket.as_fd()).collect();
            guira_front::http::serve(&sockets, &*telling)
        })?;
    }
    if let Some(successor) = successor {
        let handing = Arc::clone(process);
        start(&log, "handover", move || successor.serve(&handing))?;
    }
    let listening = Arc::clone(process);
    start(&log, "listener", move || {
        listener::listen(&sockets, &listening)?;
        listening.is_listener_gone.store(true, Ordering::Release);
        Ok(())
    })?;
    Ok(left)
}

/// Starts a thread whose failure ends the process: a restart is better than half a server.
fn start(
    log: &Log,
    name: &str,
    life: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<(), Refusal> {
    let told = name.to_owned();
    let log = log.clone();
    let body = move || {
        let _end = EndsWithThread;
        if let Err(error) = life() {
            tracing::error!("thread {told} failed: {error}");
            log.flush();
            std::process::exit(EXIT_SYSTEM.into());
        }
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn(body);
    started.map(drop).map_err(|error| Refusal::system("a thread", &error))
}

/// Ends the process if its thread panics, because threads that wait for that thread would never wake.
struct EndsWithThread;

impl Drop for EndsWithThread {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// Reads users and certificates again and logs the result; what can't be read stays as it was.
fn reload(process: &Process) {
    let auth = process.auth.reload().map(|(path, result)| match (path.display(), result) {
        (path, Ok(())) => Ok(format!("the users of {path} were read again")),
        (path, Err(error)) => Err(format!("users stay as they were: {path}: {error}")),
    });
    let tls = process.tls.as_ref().map(|tls| match tls.refresh(process.time.now()) {
        Ok(()) => Ok("certificate and key were read again".to_owned()),
        Err(error) => Err(format!("certificates stay as they were: {error}")),
    });
    if auth.is_none() && tls.is_none() {
        tracing::info!("SIGHUP: there is nothing to read again, without -Y and -Z");
    }
    for result in auth.into_iter().chain(tls) {
        match result {
            Ok(words) => tracing::info!("SIGHUP: {words}"),
            Err(words) => tracing::warn!("SIGHUP: {words}"),
        }
    }
}

fn stop_gracefully(process: &Process, threads_left: &AtomicUsize) {
    process.is_stopping.store(true, Ordering::Relaxed);
    process.stop.ring();
    let mut waited = Duration::ZERO;
    while threads_left.load(Ordering::Acquire) > 0 && waited < GRACE {
        thread::sleep(GRACE_STEP);
        waited += GRACE_STEP;
    }
}

/// Sets the name that `ps`, `pgrep` and Debian's health checks see.
fn rename_process(name: &str) {
    if let Ok(name) = CString::new(name) {
        // Longer names are cut to 15 bytes; the call can't fail otherwise.
        let _ = rustix::thread::set_name(&name);
    }
}

fn say_what_is_missing(settings: &ServerSettings) {
    let storage_given = settings.extended.storage_given;
    if let Some(name) = storage_given.filter(|_| settings.extended.storage.files.is_empty()) {
        tracing::warn!("-o {name} has no effect without ext_path, which names storage's file");
    }
    if settings.threads > THREADS_SENSIBLE {
        tracing::warn!(
            "Setting a high number of worker threads is not recommended: more than the \
             machine has processors ({} asked) makes nothing faster.",
            settings.threads
        );
    }
}

/// Warns of sockets that demand no login and can be reached from other machines, and of a server without
/// any socket for clients.
fn say_what_is_open(process: &Process, sockets: &Sockets) {
    if sockets.listening.is_empty() && sockets.datagram.is_empty() {
        tracing::warn!("no client can reach this server: -p 0 turns TCP off, and -U gives no port");
    }
    if process.auth.is_on() {
        return;
    }
    let wants_certificate =
        |asked| process.tls.as_ref().is_some_and(|t| t.demands_certificate(asked));
    let tcp = sockets.listening.iter().filter(|l| !l.tls.is_some_and(wants_certificate));
    let tcp = tcp.filter_map(|l| Some((&l.name, l.address?)));
    let udp = sockets.datagram.iter().map(|d| (&d.name, d.address));
    for (name, _) in tcp.chain(udp).filter(|(_, address)| !address.ip().is_loopback()) {
        tracing::warn!(
            "{name} is open to whoever reaches this machine: -Y and -S demand a login, \
             -l 127.0.0.1 keeps strangers out."
        );
    }
}

fn enter_own_sockets(process: &Process, sockets: &Sockets) {
    let now = process.time.now();
    let enter = |fd, name: &str, doing| {
        process.roster.enter(fd, Peer::Own(name.into()), doing, now);
    };
    for listening in &sockets.listening {
        tracing::debug!("server listening ({})", listening.name);
        enter(listening.socket.as_raw_fd(), &listening.name, Doing::Listening);
    }
    for http in &sockets.http {
        if let Some(address) = http.address {
            tracing::info!("metrics at http://{address}/metrics");
        }
        enter(http.socket.as_raw_fd(), &http.name, Doing::Listening);
    }
    for datagram in &sockets.datagram {
        for socket in &datagram.sockets {
            enter(socket.as_raw_fd(), &datagram.name, Doing::Reading);
        }
    }
    if let Err(error) = sockets::write_port_file(sockets) {
        tracing::warn!("MEMCACHED_PORT_FILENAME can't be written: {error}");
    }
}

/// The file with the process id, which is removed when the server ends.
struct Pidfile(Option<PathBuf>);

impl Pidfile {
    fn write(path: Option<&Path>) -> Result<Pidfile, Refusal> {
        let Some(path) = path else { return Ok(Pidfile(None)) };
        let failed = |error: io::Error| {
            let next = remedy(error.kind()).map(|words| format!(": {words}"));
            let (path, next) = (path.display(), next.unwrap_or_default());
            let words = format!("failed to set up the pid file {path} (-P): {error}{next}");
            Refusal::new(EXIT_SYSTEM, words)
        };
        // The path is made absolute, because the server may change its directory later.
        let path = std::path::absolute(path).map_err(failed)?;
        let mut draft = path.clone().into_os_string();
        draft.push(".tmp");
        std::fs::write(&draft, format!("{}\n", std::process::id())).map_err(failed)?;
        std::fs::rename(&draft, &path).map_err(failed)?;
        Ok(Pidfile(Some(path)))
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The server may no longer be allowed to write to the directory.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// How long a graceful stop waits for clients.
const GRACE: Duration = Duration::from_millis(4500);
const GRACE_STEP: Duration = Duration::from_millis(10);
const THREADS_SENSIBLE: usize = 64;
