//! The configuration in use: how it is watched, replaced, and kept on disk for a start without its source.
//!
//! ```text
//! source ─ read ─▶ Loaded ─ tried on a thread ─▶ sent to each proxy ─▶ kept on disk
//!   ▲                └─ bad: a line in the log, and the old one stays
//!   └── checked every --file-observer-poll-period-ms
//! ```
//! # Invariants
//! 1. A configuration that can't be built never replaces the one in use.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::aside::{Aside, Lost};
use super::files::{self, digest, file_digest};
use super::kept::Kept;
use super::loaded::{Loaded, Refusal};
use super::options::Options;
use super::source::{From, Source};
use crate::servers::names::{self, DnsServers};

/// The configuration in use, its age, and the results of changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) loaded: Option<Arc<Loaded>>,
    /// Seconds since 1970.
    pub(crate) last_attempt: u64,
    pub(crate) last_success: u64,
    pub(crate) failures: u64,
    pub(crate) is_from_disk: bool,
}

/// Records a configuration as the one in use.
pub(crate) fn adopt(
    source: &Source,
    standing: &Mutex<Standing>,
    loaded: Arc<Loaded>,
    is_from_disk: bool,
) {
    if !is_from_disk {
        keep(source, &loaded);
    }
    for mistake in &loaded.findings.mistakes {
        tracing::warn!("passed over in the configuration: {mistake}");
    }
    for warning in &loaded.findings.warnings {
        tracing::warn!("{warning}");
    }
    let now = seconds_now();
    let mut standing = standing.lock();
    (standing.last_attempt, standing.last_success) = (now, now);
    (standing.loaded, standing.is_from_disk) = (Some(loaded), is_from_disk);
}

/// Watches the source forever, and passes new configurations to `adopted`. A message on `now` causes a reload at once.
pub(crate) async fn watch(
    options: Arc<Options>,
    standing: Arc<Mutex<Standing>>,
    adopted: impl Fn(&Arc<Loaded>),
    now: Arc<Notify>,
) {
    let source = &options.config;
    let (mut holds_until, aside, mut gone) = (None, Aside::new(), Gone::default());
    let mut keep_again = Instant::now() + source.keep_every();
    loop {
        let is_due = tokio::select! {
            () = now.notified() => true,
            () = tokio::time::sleep(source.poll), if source.is_watched => false,
            () = tokio::time::sleep_until(keep_again), if source.kept.is_some() => {
                keep_again = Instant::now() + source.keep_every();
                keep_confirmed(source, &standing, &aside).await;
                continue;
            }
        };
        let (current, is_from_disk) = {
            let standing = standing.lock();
            (standing.loaded.clone(), standing.is_from_disk)
        };
        let Some(current) = current else { continue };
        let has_moved = has_moved(&current, &mut holds_until, &options.dns_servers).await;
        if !is_due && !has_moved {
            let Some(look) = look(&aside, &current, source, is_from_disk).await else { continue };
            gone.tell(&look.unread);
            if !look.has_changed {
                continue;
            }
            let jitter = source.jitter.mul_f64(fastrand::f64());
            tokio::time::sleep(source.delay + jitter).await;
        }
        match read_aside(&options, &aside).await {
            Ok(loaded) => {
                let loaded = Arc::new(loaded);
                adopted(&loaded);
                tracing::info!("reconfigured with {}", loaded.digest);
                adopt(source, &standing, loaded, false);
            }
            Err(refusal) => {
                tracing::warn!("{refusal}; the configuration in use stays");
                note_failure(&standing);
                // DNS or a store may answer soon, and no file shows that.
                let is_passing = has_moved || refusal.is_passing();
                tokio::select! {
                    () = wait_for_change(&aside, source, &refusal) => {}
                    () = now.notified() => now.notify_one(),
                    () = tokio::time::sleep(RETRY), if is_passing => now.notify_one(),
                }
            }
        }
    }
}

/// Reads and tries the configuration on another thread: clients don't wait for etcd, DNS or a slow disk. If it takes
/// too long, it is given up.
async fn read_aside(options: &Arc<Options>, aside: &Aside) -> Result<Loaded, Refusal> {
    let options = Arc::clone(options);
    let read = aside.run(READ_MAX, move || Loaded::read(&options)).await;
    read.unwrap_or_else(|lost| {
        let words = match lost {
            Lost::TooLong => format!("it took more than {} seconds", READ_MAX.as_secs()),
            Lost::Stuck => "earlier attempts still hang".to_owned(),
            Lost::Failed(words) => words,
        };
        Err(Refusal::unread(words))
    })
}

fn note_failure(standing: &Mutex<Standing>) {
    let mut standing = standing.lock();
    standing.last_attempt = seconds_now();
    standing.failures += 1;
}

/// After a bad text: waits until one of its files, including missing ones, differs from what was read.
async fn wait_for_change(aside: &Aside, source: &Source, refusal: &Refusal) {
    let tried = Arc::new(refusal.tried.clone());
    loop {
        let looked = Arc::clone(&tried);
        let is_same = move || looked.iter().all(|(path, digest)| file_digest(path) == *digest);
        if matches!(aside.run(READ_MAX, is_same).await, Ok(false)) {
            return;
        }
        tokio::time::sleep(source.poll).await;
    }
}

/// Checks whether a file has changed, or can't be read. `None`: the check took too long.
async fn look(
    aside: &Aside,
    current: &Arc<Loaded>,
    source: &Source,
    is_from_disk: bool,
) -> Option<Look> {
    let (current, source) = (Arc::clone(current), source.clone());
    aside.run(READ_MAX, move || look_now(&current, &source, is_from_disk)).await.ok()
}

fn look_now(current: &Loaded, source: &Source, is_from_disk: bool) -> Look {
    let mut look = Look::default();
    // The main text is among the files, unless the kept one is in use. Changes in etcd are reported by its watch.
    if let From::File(path) = &source.from
        && is_from_disk
    {
        // If the file is back, that is a change, even with the same text.
        look.has_changed = file_digest(path).is_some();
    }
    for (path, was) in &current.files {
        match files::bytes(path) {
            Ok(bytes) => look.has_changed |= digest(&bytes) != *was,
            Err(words) => look.unread.push((path.clone(), words)),
        }
    }
    look
}

/// Whether a pool entry stands for other servers than before. DNS is asked when its last answer has expired.
async fn has_moved(
    current: &Loaded,
    holds_until: &mut Option<Instant>,
    servers: &DnsServers,
) -> bool {
    let Some(until) = (*holds_until).max(current.holds_until) else { return false };
    if Instant::now() < until {
        return false;
    }
    let mut next = Instant::now() + MEMBERS_HOLD_MAX;
    for (entry, members) in &current.members {
        match names::members(entry, servers).await {
            Ok((now, _)) if now != *members => {
                *holds_until = None;
                return true;
            }
            Ok((_, holds)) => next = next.min(Instant::now() + holds),
            // An entry that can't be resolved now stays unchanged.
            Err(_) => next = next.min(Instant::now() + MEMBERS_HOLD_MIN),
        }
    }
    *holds_until = Some(next);
    false
}

/// Keeps a configuration for a start without its source.
fn keep(source: &Source, loaded: &Loaded) {
    if let Some(Err(error)) = source.kept.as_ref().map(|shelf| {
        let Loaded { digest, text, texts, members, .. } = loaded;
        shelf.keep(text, Kept::new(digest, texts, members).to_json().as_deref())
    }) {
        tracing::warn!("the configuration can't be kept for later: {error}");
    }
}

/// Keeps the configuration in use anew, if its source still has it.
async fn keep_confirmed(source: &Source, standing: &Mutex<Standing>, aside: &Aside) {
    let current = {
        let standing = standing.lock();
        standing.loaded.clone().filter(|_| !standing.is_from_disk)
    };
    let (Some(current), source) = (current, source.clone()) else { return };
    let keep_it = move || {
        if is_confirmed(&current, &source) {
            keep(&source, &current);
        }
    };
    // A disk or etcd that doesn't answer confirms nothing.
    let _ = aside.run(READ_MAX, keep_it).await;
}

/// Whether the source can be read and is unchanged.
fn is_confirmed(current: &Loaded, source: &Source) -> bool {
    let is_same = |(path, digest): (&PathBuf, &String)| file_digest(path).as_ref() == Some(digest);
    let are_files_same = current.files.iter().all(is_same);
    are_files_same
        && match &source.from {
            From::File(_) | From::Text(_) => true,
            From::Etcd(place) => place.read().is_ok_and(|(text, _)| text == current.text),
        }
}

/// The result of a check of the configuration's files.
#[derive(Debug, Default)]
struct Look {
    /// Whether the contents of one have changed.
    has_changed: bool,
    /// Files that can't be read, with the reasons.
    unread: Vec<(PathBuf, String)>,
}

/// The missing files that were logged.
#[derive(Debug, Default)]
struct Gone(BTreeSet<PathBuf>);

impl Gone {
    /// Logs files that are newly missing, or back.
    fn tell(&mut self, unread: &[(PathBuf, String)]) {
        for (path, words) in unread {
            if self.0.insert(path.clone()) {
                tracing::warn!(
                    "the configuration's file can't be read: {words}; the configuration in use stays"
                );
            }
        }
        self.0.retain(|path| {
            let is_gone = unread.iter().any(|(unread, _)| unread == path);
            if !is_gone {
                tracing::info!("the configuration's file {} can be read again", path.display());
            }
            is_gone
        });
    }
}

pub(crate) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// The maximum and minimum time between lookups of pool entries.
const MEMBERS_HOLD_MAX: Duration = Duration::from_secs(300);
const MEMBERS_HOLD_MIN: Duration = Duration::from_secs(1);
/// The longest time of a reload.
const READ_MAX: Duration = Duration::from_secs(30);
/// The time between attempts if a configuration can't be read.
const RETRY: Duration = Duration::from_secs(5);
