//! A configuration that was read from its source and can be built.
//!
//! # Invariants
//! 1. Each thread builds its tree from the same [`Loaded`]: files are read once.
//! 2. A configuration that can't be built is a [`Refusal`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use guira_client::{Reply, Request};
use tokio::time::Instant;

use super::check;
use super::files::{self, digest};
use super::kept::Kept;
use super::options::Options;
use super::source::From;
use crate::config::{RouteConfig, Sources};
use crate::context::Context;
use crate::outcome::default_reply;
use crate::server::{LeafSpec, Server};
use crate::servers::names::{self, DnsServers, Members};
use crate::tree::{BoxFuture, Leaves, Route, Tree};
use guira_config::{ConfigError, ConfigFindings};

/// A configuration that was read and can be built.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) text: String,
    pub(crate) config: RouteConfig,
    /// Its mistakes and warnings, including fields that nothing reads.
    pub(crate) findings: ConfigFindings,
    /// The files that it was read from, with digests of their contents.
    pub(crate) files: BTreeMap<PathBuf, String>,
    /// The texts of those files that are imported.
    pub(super) texts: BTreeMap<PathBuf, String>,
    /// The digest of its text.
    pub(crate) digest: String,
    /// The servers that DNS returned for pool entries, and how long they are valid.
    pub(super) members: Members,
    pub(super) holds_until: Option<Instant>,
}

/// Why there is no configuration.
#[derive(Debug)]
pub(crate) struct Refusal {
    why: Why,
    /// The files that were tried, with digests of their contents. `None`: the file couldn't be read.
    pub(super) tried: BTreeMap<PathBuf, Option<String>>,
}

#[derive(Debug)]
enum Why {
    /// A file, a store or DNS gave no answer; it may later.
    Unread(String),
    /// The configuration can't be built. The other mistakes in it are listed, because they are often the cause.
    Bad(ConfigError, Vec<ConfigError>),
    /// The configuration can be built, but has mistakes, and strictness was asked for.
    Odd(Vec<ConfigError>),
}

impl Refusal {
    /// A refusal because the source gave no answer, with the reason.
    pub(super) fn unread(words: String) -> Self {
        Self { why: Why::Unread(words), tried: BTreeMap::new() }
    }

    /// Whether the same configuration may be good later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.why, Why::Unread(_))
    }

    /// Whether it is the file at `path` that can't be read.
    pub(crate) fn lacks(&self, path: &Path) -> bool {
        self.tried.get(path) == Some(&None)
    }

    /// Whether an earlier configuration may be used instead. Not if mistakes are refused.
    pub(crate) fn allows_kept(&self) -> bool {
        !matches!(self.why, Why::Odd(_))
    }

    /// A sentence per mistake.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let said = |mistakes: &[ConfigError]| mistakes.iter().map(ToString::to_string).collect();
        match &self.why {
            Why::Unread(words) => vec![format!("Can not read config: {words}")],
            Why::Bad(error, mistakes) => {
                // Tools that search for mcrouter's message expect the line number at its end.
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
        let read = RouteConfig::read(&text, &options.settings, files);
        let source = options.config.from.name();
        // If other files are imported, a value's line may be in one of them.
        let named = |error: ConfigError, files: &Files| match &source {
            Some(source) if files.texts.is_empty() => error.in_file(source),
            _ => error,
        };
        let config = read.map_err(|error| match files.is_unanswered {
            true => Why::Unread(error.to_string()),
            false => Why::Bad(named(error, files), Vec::new()),
        })?;
        let mut findings = check::look(&config);
        if let Some(source) = source.as_ref().filter(|_| files.texts.is_empty()) {
            findings.name_file(source);
        }
        let mistakes = &findings.mistakes;
        let built = Tree::build(&config, &options.settings, &Nowhere);
        built.map_err(|error| Why::Bad(named(error, files), mistakes.clone()))?;
        if options.config.is_strict && !mistakes.is_empty() {
            return Err(Why::Odd(mistakes.clone()));
        }
        let digest = digest(text.as_bytes());
        let Files { digests: files, texts, members, holds_until, .. } = std::mem::take(files);
        Ok(Self { text, config, findings, files, texts, digest, members, holds_until })
    }

    /// The last good configuration, if it is young enough, with a description of it.
    pub(crate) fn kept(options: &Options) -> Option<(Self, String)> {
        let shelf = options.config.kept.as_ref()?;
        let (text, age) = shelf.text(options.config.kept_age_max)?;
        let kept = Kept::read(shelf, &digest(text.as_bytes()));
        let loaded = Self::of_text(text, options, &mut Files { kept, ..Files::new(options) });
        let words = format!("that of {}, kept {} seconds ago", shelf.source, age.as_secs());
        Some((loaded.ok()?, words))
    }

    /// The name and digest of each source, as a JSON object.
    pub(crate) fn sources(&self) -> serde_json::Value {
        let named = self.files.iter().filter(|(_, digest)| **digest != self.digest);
        let mut sources: serde_json::Map<_, _> = named
            .map(|(path, digest)| (path.display().to_string(), digest.clone().into()))
            .collect();
        sources.insert(MAIN_NAME.to_owned(), self.digest.clone().into());
        sources.into()
    }
}

/// Reads files, and records what was read.
#[derive(Debug, Default)]
pub(crate) struct Files {
    digests: BTreeMap<PathBuf, String>,
    /// Files that couldn't be read.
    missing: Vec<PathBuf>,
    /// Whether DNS failed to resolve an entry.
    is_unanswered: bool,
    texts: BTreeMap<PathBuf, String>,
    /// Used instead of files and DNS, for the entries that it has.
    kept: Kept,
    /// The directory of paths without `file:`.
    base: PathBuf,
    members: Members,
    holds_until: Option<Instant>,
    dns_servers: DnsServers,
}

impl Files {
    /// Creates an empty record. Plain paths are relative to the configuration's file, as in mcrouter.
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

/// Leaves that send nothing, for a configuration that is only tried.
#[derive(Debug)]
pub(crate) struct Nowhere;

/// A leaf of [`Nowhere`].
#[derive(Debug)]
struct Silent(Server, u32);

impl Leaves for Nowhere {
    fn leaf(&self, wanted: &LeafSpec) -> Rc<dyn Route> {
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

/// The name of the main text among the sources, as in mcrouter.
const MAIN_NAME: &str = "mcrouter_config";
