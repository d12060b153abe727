//! The configuration in use: read, kept for a bad day, watched, replaced.
//!
//! ```text
//! files ─ read ─▶ Loaded ─ tried aside ─▶ sent to each proxy ─▶ kept on disk
//!   ▲                └─ bad: a line in the log, and the old one stays
//!   └── looked at each --file-observer-poll-period-ms
//! ```
//! # Invariants
//! 1. Each thread builds its tree from the same [`Loaded`]: files are read once.
//! 2. A configuration that can't be built never replaces one that could.

mod gone;
mod kept;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use guira_client::{Reply, Request};
use md5::{Digest, Md5};
use tokio::time::Instant;

use super::aside::{Aside, Lost};
use super::files;
use super::names::{self, DnsServers, Members};
use super::options::{From, Options, Source};
use super::proxy::Order;
use super::shared::Shared;
use super::{TRANSIENT, UNRECOVERABLE};
use crate::outcome::default_reply;
use crate::{
    BoxFuture, Config, ConfigError, Context, Destination, Destinations, Route, Server, Settings,
    Sources, Tree,
};
use gone::{Gone, Look};
pub(crate) use kept::Shelf;
use kept::{Kept, keep, keep_confirmed};

/// A configuration that was read and can be built.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) text: String,
    pub(crate) config: Config,
    /// The files that it was read from, with the digest of what they held.
    pub(crate) files: BTreeMap<PathBuf, String>,
    /// What those of them held that are imported.
    texts: BTreeMap<PathBuf, String>,
    /// The digest of its text.
    pub(crate) digest: String,
    /// What DNS said that entries of pools stand for, and until when that holds.
    members: Members,
    holds_until: Option<Instant>,
}

/// Why there is no configuration.
#[derive(Debug)]
pub(crate) struct Refusal {
    why: Why,
    /// Each file that was looked at, with the digest of what it held; none: it couldn't be read.
    tried: BTreeMap<PathBuf, Option<String>>,
}

#[derive(Debug)]
enum Why {
    /// A file, a store or DNS gave no answer: perhaps not yet.
    Unread(String),
    /// What it says can't be built; and what nobody reads in it, which is often why.
    Bad(ConfigError, Vec<ConfigError>),
    /// It could be built, but nobody reads all of it, and that was asked for.
    Odd(Vec<ConfigError>),
}

impl Refusal {
    /// Whether the same configuration may be good later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.why, Why::Unread(_))
    }

    /// The exit code of a program that can't do without it.
    pub(crate) fn code(&self) -> u8 {
        if self.is_passing() { TRANSIENT } else { UNRECOVERABLE }
    }

    /// Whether an earlier configuration may stand in: not where a start is to be strict.
    pub(crate) fn allows_kept(&self) -> bool {
        !matches!(self.why, Why::Odd(_))
    }

    /// In sentences, one a mistake.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let said = |mistakes: &[ConfigError]| mistakes.iter().map(ToString::to_string).collect();
        match &self.why {
            Why::Unread(words) => vec![format!("Can not read config: {words}")],
            Why::Bad(error, mistakes) => {
                // Whoever looks for mcrouter's words expects the line behind them, wherever else it stands.
                let line = error.file.as_ref().map(|_| format!(" line: {}", error.line));
                let line = line.unwrap_or_default();
                [vec![format!("Failed to configure: {error}{line}")], said(mistakes)].concat()
            }
            Why::Odd(mistakes) => said(mistakes),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentences().join("; "))
    }
}

/// What is in use since when, and what became of changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) loaded: Option<Arc<Loaded>>,
    /// Seconds since 1970.
    pub(crate) last_attempt: u64,
    pub(crate) last_success: u64,
    pub(crate) failures: u64,
    pub(crate) is_from_disk: bool,
}

impl Loaded {
    /// Reads the configuration and tries to build it.
    pub(crate) fn read(options: &Options) -> Result<Self, Refusal> {
        let mut files = Files::new(options);
        let text = match &options.config.from {
            From::Text(text) => Ok(text.clone()),
            From::File(path) => files.read_path(path),
            From::Etcd(place) => place.read().map(|(text, _)| text),
        };
        let loaded = text.map_err(Why::Unread);
        let loaded = loaded.and_then(|text| Self::of_text(text, options, &mut files));
        loaded.map_err(|why| {
            let read = files.digests.into_iter().map(|(path, digest)| (path, Some(digest)));
            let tried = read.chain(files.missing.into_iter().map(|path| (path, None))).collect();
            Refusal { why, tried }
        })
    }

    fn of_text(text: String, options: &Options, files: &mut Files) -> Result<Self, Why> {
        let read = Config::read(&text, &options.settings, files);
        let source = options.config.from.name();
        // Where others are imported, a value's line may be theirs.
        let named = |error: ConfigError, files: &Files| match &source {
            Some(source) if files.texts.is_empty() => error.in_file(source),
            _ => error,
        };
        let mut config = read.map_err(|error| match files.is_unanswered {
            true => Why::Unread(error.to_string()),
            false => Why::Bad(named(error, files), Vec::new()),
        })?;
        if let Some(source) = source.as_ref().filter(|_| files.texts.is_empty()) {
            config.name_file(source);
        }
        let mistakes = &config.findings().mistakes;
        let built = config.build(&options.settings, &Nowhere);
        built.map_err(|error| Why::Bad(named(error, files), mistakes.clone()))?;
        if options.config.is_strict && !mistakes.is_empty() {
            return Err(Why::Odd(mistakes.clone()));
        }
        let digest = digest(text.as_bytes());
        let Files { digests: files, texts, members, holds_until, .. } = std::mem::take(files);
        Ok(Self { text, config, files, texts, digest, members, holds_until })
    }

    /// The configuration that was last good, if it is young enough; and in words which one that is.
    pub(crate) fn kept(options: &Options) -> Option<(Self, String)> {
        let shelf = options.config.kept.as_ref()?;
        let (text, age) = shelf.text(options.config.kept_age_max)?;
        let kept = Kept::read(shelf, &digest(text.as_bytes()));
        let loaded = Self::of_text(text, options, &mut Files { kept, ..Files::new(options) });
        let words = format!("that of {}, kept {} seconds ago", shelf.source, age.as_secs());
        Some((loaded.ok()?, words))
    }

    /// Each source's name and digest, as a JSON object.
    pub(crate) fn sources(&self) -> serde_json::Value {
        let named = self.files.iter().filter(|(_, digest)| **digest != self.digest);
        let mut sources: serde_json::Map<_, _> = named
            .map(|(path, digest)| (path.display().to_string(), digest.clone().into()))
            .collect();
        sources.insert(MAIN_NAME.to_owned(), self.digest.clone().into());
        sources.into()
    }

    /// Builds a thread's tree.
    pub(crate) fn grow(
        &self,
        settings: &Settings,
        destinations: &dyn Destinations,
    ) -> Result<Tree, ConfigError> {
        self.config.build(settings, destinations)
    }
}

/// Notes that a configuration is in use.
pub(crate) fn adopt(shared: &Shared, loaded: Arc<Loaded>, is_from_disk: bool) {
    if !is_from_disk {
        keep(&shared.options.config, &loaded);
    }
    for mistake in &loaded.config.findings().mistakes {
        tracing::warn!("passed over in the configuration: {mistake}");
    }
    for warning in &loaded.config.findings().warnings {
        tracing::warn!("{warning}");
    }
    let now = seconds_now();
    let mut standing = shared.standing.lock();
    (standing.last_attempt, standing.last_success) = (now, now);
    (standing.loaded, standing.is_from_disk) = (Some(loaded), is_from_disk);
}

/// Looks after the files for ever, and sends what changes to the threads. A message on `now` is a look at once.
pub(crate) async fn watch(
    shared: Arc<Shared>,
    threads: Vec<tokio::sync::mpsc::UnboundedSender<Order>>,
    now: Arc<tokio::sync::Notify>,
) {
    let source = shared.options.config.clone();
    let (mut holds_until, aside, mut gone) = (None, Aside::new(), Gone::default());
    let mut keep_again = Instant::now() + source.keep_every();
    loop {
        let is_due = tokio::select! {
            () = now.notified() => true,
            () = tokio::time::sleep(source.poll), if source.is_watched => false,
            () = tokio::time::sleep_until(keep_again), if source.kept.is_some() => {
                keep_again = Instant::now() + source.keep_every();
                keep_confirmed(&shared, &aside).await;
                continue;
            }
        };
        let (current, is_from_disk) = {
            let standing = shared.standing.lock();
            (standing.loaded.clone(), standing.is_from_disk)
        };
        let Some(current) = current else { continue };
        let has_moved = has_moved(&current, &mut holds_until, &shared.options.dns_servers).await;
        if !is_due && !has_moved {
            let Some(look) = look(&aside, &current, &source, is_from_disk).await else { continue };
            gone.tell(&look.unread);
            if !look.has_changed {
                continue;
            }
            let jitter = source.jitter.mul_f64(fastrand::f64());
            tokio::time::sleep(source.delay + jitter).await;
        }
        match read_aside(&shared, &aside).await {
            Ok(loaded) => {
                let loaded = Arc::new(loaded);
                for thread in &threads {
                    // A thread that has ended routes nothing any more.
                    let _ = thread.send(Order::Configuration(Arc::clone(&loaded)));
                }
                tracing::info!("reconfigured with {}", loaded.digest);
                adopt(&shared, loaded, false);
            }
            Err(refusal) => {
                tracing::warn!("{refusal}; the configuration in use stays");
                note_failure(&shared);
                // Names, or a store, that gave no answer may give one soon, and no file tells.
                let is_passing = has_moved || refusal.is_passing();
                tokio::select! {
                    () = wait_for_change(&aside, &source, &refusal) => {}
                    () = now.notified() => now.notify_one(),
                    () = tokio::time::sleep(RETRY), if is_passing => now.notify_one(),
                }
            }
        }
    }
}

/// Reads and tries the configuration on another thread: etcd, DNS or a slow disk keep nobody waiting, and what takes too
/// long is given up.
async fn read_aside(shared: &Arc<Shared>, aside: &Aside) -> Result<Loaded, Refusal> {
    let reading = Arc::clone(shared);
    let read = aside.run(READ_MAX, move || Loaded::read(&reading.options)).await;
    read.unwrap_or_else(|lost| {
        let words = match lost {
            Lost::TooLong => format!("it took more than {} seconds", READ_MAX.as_secs()),
            Lost::Stuck => "earlier attempts still hang".to_owned(),
            Lost::Failed(words) => words,
        };
        Err(Refusal { why: Why::Unread(words), tried: BTreeMap::new() })
    })
}

fn note_failure(shared: &Shared) {
    let mut standing = shared.standing.lock();
    standing.last_attempt = seconds_now();
    standing.failures += 1;
}

/// After a bad text: waits until one of its files, those that it lacked among them, is other than it was when it was read.
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

/// Whether a file is other than it was, or gone; `None`: it can't be looked at in time.
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
    // The main text is among the files, unless it's one that was kept. Whoever watches etcd says what changes there.
    if let From::File(path) = &source.from
        && is_from_disk
    {
        // One that comes back as it was kept is news too.
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

/// Whether an entry of a pool stands for other servers than it did; DNS is asked when the last answer's time is over.
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
            // What can't be looked up just now stays as it is.
            Err(_) => next = next.min(Instant::now() + MEMBERS_HOLD_MIN),
        }
    }
    *holds_until = Some(next);
    false
}

fn file_digest(path: &Path) -> Option<String> {
    files::bytes(path).ok().map(|bytes| digest(&bytes))
}

/// Replaces a file at once: a reader finds the old text or the new.
fn replace(dir: &Path, name: &str, text: &str) -> std::io::Result<()> {
    // Routers that keep theirs in the same directory at the same time have a file each.
    let mut fresh = tempfile::NamedTempFile::new_in(dir)?;
    fresh.write_all(text.as_bytes())?;
    fresh.persist(dir.join(name))?;
    Ok(())
}

/// Reads files, and remembers them.
#[derive(Debug, Default)]
pub(crate) struct Files {
    digests: BTreeMap<PathBuf, String>,
    /// What couldn't be read.
    missing: Vec<PathBuf>,
    /// DNS didn't say what an entry stands for.
    is_unanswered: bool,
    texts: BTreeMap<PathBuf, String>,
    /// What is believed instead of files and DNS, as far as it goes.
    kept: Kept,
    /// Paths without `file:` begin here.
    base: PathBuf,
    members: Members,
    holds_until: Option<Instant>,
    dns_servers: DnsServers,
}

impl Files {
    /// Files whose bare paths begin where the configuration stands, as mcrouter has it.
    fn new(options: &Options) -> Self {
        let base = match &options.config.from {
            From::File(path) => path.parent().map(Path::to_owned),
            From::Text(_) | From::Etcd(_) => None,
        };
        let (base, dns_servers) = (base.unwrap_or_default(), Arc::clone(&options.dns_servers));
        Self { base, dns_servers, ..Self::default() }
    }

    fn read_path(&mut self, path: &Path) -> Result<String, String> {
        let text = files::read(path).inspect_err(|_| self.missing.push(path.to_owned()))?;
        self.digests.insert(path.to_owned(), digest(text.as_bytes()));
        Ok(text)
    }

    fn import(&mut self, path: &Path) -> Result<String, String> {
        let text = match self.kept.text(path) {
            Some(text) => {
                self.digests.insert(path.to_owned(), digest(text.as_bytes()));
                text
            }
            None => self.read_path(path)?,
        };
        self.texts.insert(path.to_owned(), text.clone());
        Ok(text)
    }
}

impl Sources for Files {
    fn read(&mut self, path: &str) -> Result<String, String> {
        match path.strip_prefix("file:") {
            Some(path) => self.import(Path::new(path)),
            None => self.import(&self.base.join(path)),
        }
    }

    fn members(&mut self, entry: &str) -> Result<Vec<String>, String> {
        if let Some(members) = self.members.get(entry) {
            return Ok(members.clone());
        }
        let (members, holds) = match self.kept.members(entry) {
            Some(members) => (members, Duration::ZERO),
            None => {
                let now = names::members_now(entry, &self.dns_servers);
                now.inspect_err(|_| self.is_unanswered = true)?
            }
        };
        let until = Instant::now() + holds;
        self.holds_until = Some(self.holds_until.map_or(until, |earlier| earlier.min(until)));
        self.members.insert(entry.to_owned(), members.clone());
        Ok(members)
    }
}

/// MD5, as mcrouter shows it: it tells configurations apart, and guards nothing.
fn digest(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string doesn't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Leaves that send nothing: for a configuration that is only to be tried.
#[derive(Debug)]
pub(crate) struct Nowhere;

/// Such a leaf.
#[derive(Debug)]
struct Silent(Server, u32);

impl Destinations for Nowhere {
    fn destination(&self, wanted: &Destination) -> Rc<dyn Route> {
        Rc::new(Silent(wanted.server.clone(), wanted.failure_domain))
    }
}

impl Route for Silent {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if let Some(record) = &context.record {
            record.borrow_mut().push(self.0.clone());
        }
        Box::pin(std::future::ready(default_reply(request)))
    }

    fn name(&self) -> std::borrow::Cow<'_, str> {
        self.0.to_string().into()
    }

    fn visit(&self, _request: &Request, _visitor: &mut dyn FnMut(&dyn Route, &Request)) {}

    fn server(&self) -> Option<&Server> {
        Some(&self.0)
    }

    fn failure_domain(&self) -> u32 {
        self.1
    }
}

/// Entries of pools are looked up again after so long at most, and at least.
const MEMBERS_HOLD_MAX: Duration = Duration::from_secs(300);
const MEMBERS_HOLD_MIN: Duration = Duration::from_secs(1);
/// The main text's name among the sources, which is mcrouter's.
const MAIN_NAME: &str = "mcrouter_config";

/// How long a reload may take.
const READ_MAX: Duration = Duration::from_secs(30);
/// Between attempts at a configuration that couldn't be read.
const RETRY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Two routers wrote to one temporary file: one's text became the other's, or was gone.
    #[test]
    fn routers_that_keep_their_configurations_in_one_directory_do_not_meet() {
        let dir = tempfile::tempdir().expect("a directory");
        let routers: Vec<_> = ["a", "b", "c", "d"]
            .into_iter()
            .map(|name| {
                let dir = dir.path().join("kept");
                fs::create_dir_all(&dir).expect("a directory");
                std::thread::spawn(move || {
                    for n in 0..200 {
                        let text = format!("{name}{n}").repeat(1000);
                        replace(&dir, name, &text).expect("it is kept");
                        assert!(fs::read_to_string(dir.join(name)).is_ok_and(|kept| kept == text));
                    }
                })
            })
            .collect();
        for router in routers {
            router.join().expect("each finds its own");
        }
        let left = fs::read_dir(dir.path().join("kept")).expect("it is there").count();
        assert_eq!(left, 4, "and nothing else");
    }
}
