//! The configuration file: which logs are read, by which rules, and where deletes go.
//!
//! The file is JSON with comments, and is read strictly. An unknown field, a repeated field and an unsupported feature
//! are errors, reported with their line. So an accepted file means what it says.

mod read;
mod rules;
mod sources;
mod audit;
mod etcd;
mod fields;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use guira_client::Address;
use guira_front::sample::KeySample;

pub(crate) use etcd::EtcdConfig;
pub(crate) use fields::duration;
#[cfg(any(test, fuzzing))]
pub(crate) use read::parse;
pub(crate) use read::read;

use crate::rule::{How, Rule, TableName};
use crate::text::CommentLimits;

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidateConfig {
    /// The name of this daemon, for people.
    pub(crate) name: String,
    /// The region whose marks are cleared.
    pub(crate) region: Option<String>,
    /// The folder of the journal and the positions.
    pub(crate) state: PathBuf,
    pub(crate) http: Option<String>,
    /// The most bytes of the journal that are kept in memory, for all sources together.
    pub(crate) memory: usize,
    pub(crate) journal: JournalLimits,
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) destinations: Vec<DestinationConfig>,
    pub(crate) audit: AuditConfig,
    /// The place of the positions and of the election, if there are several daemons.
    pub(crate) etcd: Option<EtcdConfig>,
}

impl InvalidateConfig {
    /// Returns the members that differ in another configuration, of those that need a restart.
    pub(crate) fn differs_from(&self, other: &Self) -> Vec<&'static str> {
        let same = [
            ("region", self.region == other.region),
            ("state", self.state == other.state),
            ("http", self.http == other.http),
            ("memory", self.memory == other.memory),
            ("journal", self.journal == other.journal),
            ("sources", self.sources == other.sources),
            ("audit", self.audit == other.audit),
            ("etcd", self.etcd == other.etcd),
        ];
        same.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect()
    }
}

/// Which deletes are checked later, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditConfig {
    /// The keys whose deletes are checked.
    pub(crate) sample: KeySample,
    /// How long after the delete, in ascending order: at least one time, at most [`AuditConfig::AT_MAX`].
    pub(crate) at: Vec<Duration>,
}

impl AuditConfig {
    /// The most delays. Each has its own counters.
    pub(crate) const AT_MAX: usize = 8;

    /// Returns the times in the form of a configuration.
    pub(crate) fn labels(&self) -> impl Iterator<Item = String> {
        self.at.iter().map(|after| match after.as_millis() {
            ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
            ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
            ms => format!("{ms}ms"),
        })
    }
}

/// The limits of a source's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalLimits {
    pub(crate) bytes: u64,
    /// How long an entry stays after all destinations have it.
    pub(crate) keep: Duration,
    pub(crate) when_full: WhenFull,
}

/// What happens when the journal is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The slowest destination is given up, with an error in the log.
    Taint,
    /// Nothing is read until there is room again.
    Hold,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceConfig {
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    /// The host that is asked. Without `tls` it is on this machine.
    pub(crate) host: Address,
    /// All hosts, in the order of preference.
    pub(crate) hosts: Arc<[Address]>,
    /// The role of a host that may be followed.
    pub(crate) tail: Tail,
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) user: String,
    pub(crate) password_file: Option<PathBuf>,
    /// Must differ from the id of each replica and of each other daemon.
    pub(crate) server_id: u32,
    pub(crate) on_gap: OnGap,
    /// Each row that is inserted into this table names a key.
    pub(crate) outbox: Option<TableName>,
    pub(crate) comments: CommentLimits,
    pub(crate) on_unknown: OnUnknown,
    /// The administrator accepts that rows change by foreign keys without being in the log.
    pub(crate) has_accepted_cascades: bool,
}

impl SourceConfig {
    /// Whether all hosts are on this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.hosts.iter().all(|host| match host {
            Address::Tcp { host, .. } => is_loopback(host),
            Address::Unix(_) => true,
        })
    }

    /// Returns the configuration with the host of this turn. Hosts come in their order, and then again from the first.
    pub(crate) fn at(&self, turn: usize) -> Self {
        let mut source = self.clone();
        if let Some(host) = self.hosts.get(turn % self.hosts.len().max(1)) {
            source.host.clone_from(host);
        }
        source
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// The role of a host that may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// A host that accepts changes.
    Primary,
    /// A host that accepts none.
    Replica,
    Any,
}

/// How a connection to a database is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    /// The authorities that sign the database's certificate, in PEM. The file is read at each connection.
    pub(crate) ca: PathBuf,
    /// The name in the certificate, if it isn't the host's.
    pub(crate) name: Option<String>,
}

/// The kind of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    MariaDb,
    MySql,
    Postgres(PostgresConfig),
}

/// The settings of PostgreSQL alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PostgresConfig {
    pub(crate) database: String,
    pub(crate) slot: String,
    pub(crate) publication: String,
    /// The prefix of messages that list keys.
    pub(crate) messages: Option<String>,
}

/// What happens when the database no longer has what comes after our position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnGap {
    Stop,
    /// The log is read on from the current time.
    Now,
    /// Like [`Self::Now`], and all destinations are flushed.
    Flush,
}

/// What happens when the keys of a change can't be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnUnknown {
    Count,
    Stop,
    /// All destinations are flushed.
    Flush,
}

/// A destination of deletes: the routers of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DestinationConfig {
    pub(crate) name: String,
    /// In the order of preference.
    pub(crate) routers: Vec<Address>,
    /// A routing prefix that precedes each key.
    pub(crate) prefix: String,
    /// How long after the first delete the second one is sent. Zero: there is none.
    pub(crate) again: Duration,
    pub(crate) how: How,
    /// How long after the change that calls for it a flush is sent.
    pub(crate) flush_after: Duration,
    /// The time over which its servers are flushed, one after the other. 0: all at once.
    pub(crate) flush_over: Duration,
    /// It has the region's markers: it gets the unmarks, and neither deletes nor flushes.
    pub(crate) has_markers: bool,
}
