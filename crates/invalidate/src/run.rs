//! The daemon: its threads, and how it ends.
//!
//! ```text
//! main        waits for a signal, or for an error that ends the daemon; reads the configuration again
//! per source  source: reads the log · barrier: asks what can be read
//!             store: makes journal and position durable every second
//!             a courier per destination, with an auditor that checks some of its deletes later; or an unmarker
//! lease       with etcd: waits until this daemon is active, then renews its lease; nothing else begins before
//! http        metrics and probes
//! ```

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use guira_front::sessions::{open_http, start_http};
use guira_front::systemd::{self, NotifyState};
use rustix::fs::{FlockOperation, flock};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::config::{DestinationConfig, InvalidateConfig};
use crate::deliver::{Audit, Courier, Scout, Unmarker};
use crate::desk::{self, Desk, Opened};
use crate::line::Line;
use crate::metrics::Scraped;
use crate::office::{Active, Office};
use crate::reload::Reload;
use crate::rule::Rule;
use crate::source::{Follower, Halt, UNUSABLE, run as run_source, run_barrier, unsynced};
use crate::term::Term;

/// How the daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A signal ended it.
    Done,
    /// Another daemon may be active. The process must be started anew, and wait for its turn. What still runs can
    /// neither send nor store.
    Deposed,
}

/// Follows the logs until a signal comes, or an administrator is needed. The configuration at `path` is read again on
/// SIGHUP.
///
/// # Errors
/// Why the daemon can't go on.
pub(crate) fn run(path: &Path, mut config: InvalidateConfig) -> Result<Ended, Halt> {
    let _lock = lock(&config.state)?;
    let (tell, told) = channel();
    hear_signals(tell.clone())?;
    let office = config.etcd.as_ref().map(|etcd| Arc::new(Office::new(etcd, &config.name)));
    let term = office.as_ref().map_or_else(|| Arc::new(Term::endless()), |it| Arc::clone(&it.term));
    let scraped = Arc::new(Scraped::new(config.audit.clone(), Arc::clone(&term)));
    if let Some(text) = &config.http {
        let listener = open_http(text, &[]).map_err(|words| unusable(of_field(&words)))?;
        start_http(listener, Arc::clone(&scraped))
            .map_err(|error| unusable(format!("no thread: {error}")))?;
    }
    let mut active = None;
    if let Some(office) = &office {
        systemd::tell(&[NotifyState::Ready, NotifyState::Status("waits for its turn")]);
        let news = (&tell, &told);
        let waited = wait(office, Reload::new(path, config, Vec::new()), news, &scraped)?;
        let Some((elected, newest)) = waited else { return Ok(Ended::Done) };
        (active, config) = (Some((office, elected)), newest);
    }
    let mut opened = Vec::new();
    for source in &config.sources {
        let line = desk::open(&config, &source.name, &term, active).map_err(unusable)?;
        let Some(line) = line else { return Ok(Ended::Deposed) };
        opened.push(line);
    }
    let lines: Vec<Arc<Line>> = opened.iter().map(|it| Arc::clone(&it.line)).collect();
    scraped.begin(lines.clone());
    let couriers = begin(&config, &opened, &tell)?;
    systemd::tell(&[NotifyState::Ready, NotifyState::Status("follows the logs")]);
    let (news, reload) = (&told, Reload::new(path, config, lines.clone()));
    let (ended, couriers) = hear(news, reload, couriers, &scraped);
    if ended != Ok(Ended::Deposed) {
        systemd::tell(&[NotifyState::Stopping]);
    }
    if term.is_over() || ended == Ok(Ended::Deposed) {
        term.end();
        return Ok(Ended::Deposed);
    }
    end(&lines, &couriers);
    let stored = lines.iter().try_for_each(|line| line.store());
    let stored = stored.map_err(|error| unusable(format!("the position: {error}")));
    if let Some((office, active)) = active {
        for Opened { line, desk, .. } in &opened {
            desk.as_ref().map(|desk| desk.share(line));
        }
        office.resign(active);
    }
    ended.and_then(|ended| stored.map(|()| ended))
}

/// A message to the main thread.
enum News {
    /// SIGHUP.
    Reload,
    /// This daemon is active.
    Active(Active),
    /// This daemon is no longer active, for this reason.
    Deposed(String),
    End(Result<(), Halt>),
}

/// Waits until this daemon is active. Returns the configuration in use by then; `None` if a signal ends the daemon
/// before.
fn wait(
    office: &Arc<Office>,
    mut reload: Reload,
    (tell, told): (&Sender<News>, &Receiver<News>),
    scraped: &Scraped,
) -> Result<Option<(Active, InvalidateConfig)>, Halt> {
    let (office, tell) = (Arc::clone(office), tell.clone());
    spawn("lease", move || {
        let active = office.stand();
        let _ = tell.send(News::Active(active));
        let why = office.keep(active);
        // The receiver is gone if the daemon ends anyway.
        let _ = tell.send(News::Deposed(why));
    })?;
    loop {
        match told.recv() {
            Ok(News::Active(active)) => {
                tracing::info!("this daemon is active now, by its lease in etcd");
                return Ok(Some((active, reload.into_config())));
            }
            Ok(News::Reload) => {
                let done = reload.reload(start_courier);
                scraped.note_config(done.as_ref().is_ok_and(Option::is_none));
            }
            Ok(News::End(Err(halt))) => return Err(halt),
            Ok(News::End(Ok(())) | News::Deposed(_)) | Err(_) => return Ok(None),
        }
    }
}

/// Starts the threads of each source. Returns those of the couriers.
fn begin(
    config: &InvalidateConfig,
    opened: &[Opened],
    tell: &Sender<News>,
) -> Result<Vec<JoinHandle<()>>, Halt> {
    let rules: Arc<[Rule]> = config.rules.clone().into();
    let mut couriers = Vec::new();
    for (source, Opened { line, read, desk }) in config.sources.iter().zip(opened) {
        for (number, destination) in config.destinations.iter().enumerate() {
            couriers.push(start_courier(config, destination, number, line)?);
        }
        let (barrier, of_barrier) = (source.clone(), Arc::clone(line));
        spawn("barrier", move || run_barrier(&barrier, &of_barrier))?;
        let (rules, line, read) = (Arc::clone(&rules), Arc::clone(line), read.clone());
        start_store(Arc::clone(&line), desk.clone(), tell.clone())?;
        let (config, desk) = (source.clone(), desk.clone());
        let follower = Follower {
            config,
            rules,
            line,
            desk,
            read,
            turn: 0,
            has_gap: false,
            ended: Arc::default(),
        };
        let of_source = tell.clone();
        spawn("source", move || {
            if let Err(halt) = run_source(follower) {
                let _ = of_source.send(News::End(Err(halt)));
            }
        })?;
    }
    Ok(couriers)
}

/// Handles messages until one of them ends the daemon. Returns how it ended, and all couriers at that time.
fn hear(
    told: &Receiver<News>,
    mut reload: Reload,
    mut couriers: Vec<JoinHandle<()>>,
    scraped: &Scraped,
) -> (Result<Ended, Halt>, Vec<JoinHandle<()>>) {
    let ended = loop {
        match told.recv() {
            Ok(News::Reload) => {
                let done = reload.reload(start_courier);
                scraped.note_config(done.as_ref().is_ok_and(Option::is_none));
                match done {
                    Ok(more) => couriers.extend(more.into_iter().flatten()),
                    Err(halt) => break Err(halt),
                }
            }
            Ok(News::End(ended)) => break ended.map(|()| Ended::Done),
            Ok(News::Deposed(why)) => {
                tracing::error!(
                    "steps down: {why}. Another daemon may be active: this one sends and stores nothing any more, and waits for its turn"
                );
                break Ok(Ended::Deposed);
            }
            Ok(News::Active(_)) => {}
            // Senders live as long as their threads.
            Err(_) => break Ok(Ended::Done),
        }
    };
    (ended, couriers)
}

fn hear_signals(tell: Sender<News>) -> Result<(), Halt> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGUSR2])
        .map_err(|error| unusable(format!("signals: {error}")))?;
    let hear = move || {
        for signal in signals.forever() {
            let news = match signal {
                SIGHUP => News::Reload,
                SIGUSR2 => continue,
                _ => News::End(Ok(())),
            };
            // The receiver is gone if the daemon ends anyway.
            let _ = tell.send(news);
        }
    };
    spawn("signals", hear).map(drop)
}

/// Starts a courier with its auditor, or an unmarker.
fn start_courier(
    config: &InvalidateConfig,
    destination: &DestinationConfig,
    number: usize,
    line: &Arc<Line>,
) -> Result<JoinHandle<()>, Halt> {
    if destination.has_markers {
        let unmarker = Unmarker::new(destination.clone(), number, Arc::clone(line));
        return spawn("unmarker", move || unmarker.run());
    }
    let mut courier = Courier::new(destination.clone(), number, Arc::clone(line));
    if !config.audit.sample.is_empty() {
        let (audit, destination) = (config.audit.clone(), destination.clone());
        let audit = Arc::new(Audit::new(audit, destination, number, Arc::clone(line)));
        courier = courier.audited(Scout::new(Arc::clone(&audit)));
        spawn("audit", move || audit.run())?;
    }
    spawn("courier", move || courier.run())
}

/// Creates the state folder, and locks it for this process while the file is open.
pub(crate) fn lock(state: &Path) -> Result<File, Halt> {
    let words = |error: std::io::Error| unusable(format!("{}: {error}", state.display()));
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(state).map_err(words)?;
    let file = File::create(state.join("lock")).map_err(words)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        let by = format!("{}: another guira invalidate has it ({error})", state.display());
        unusable(by)
    })?;
    Ok(file)
}

fn start_store(line: Arc<Line>, desk: Option<Arc<Desk>>, tell: Sender<News>) -> Result<(), Halt> {
    let run = move || {
        while !line.is_ended() {
            if let Err(error) = line.store() {
                let halt = unsynced(&line).unwrap_or_else(|| {
                    unusable(format!("source {}: the position can't be stored: {error}", line.name))
                });
                let _ = tell.send(News::End(Err(halt)));
                return;
            }
            if desk.as_ref().is_some_and(|desk| !desk.share(&line)) {
                let _ =
                    tell.send(News::Deposed("the position in etcd is another daemon's".to_owned()));
                return;
            }
            thread::sleep(STORE_EVERY);
        }
    };
    spawn("store", run).map(drop)
}

/// Ends the lines, and waits a while for what may still be sent.
fn end(lines: &[Arc<Line>], couriers: &[JoinHandle<()>]) {
    lines.iter().for_each(|line| line.end());
    let mut left = DRAIN;
    while !left.is_zero() && couriers.iter().any(|courier| !courier.is_finished()) {
        thread::sleep(LOOK_EVERY);
        left = left.saturating_sub(LOOK_EVERY);
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Halt> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map_err(|error| unusable(format!("no thread: {error}")))
}

/// What the port says of its flag, said of the field of the configuration.
fn of_field(words: &str) -> String {
    let rest = words.strip_prefix("--http ");
    rest.map_or_else(|| words.to_owned(), |rest| format!("\"http\": {rest}"))
}

fn unusable(words: String) -> Halt {
    Halt { code: UNUSABLE, words }
}

const STORE_EVERY: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);
