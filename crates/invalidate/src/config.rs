//! The configuration file: what is read, by which rules, and where deletes go.
//!
//! JSON with comments, read strictly: an unknown field, a field that stands twice and a feature that isn't there yet are
//! errors with their line. A file that is taken means what it says.

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

pub(crate) use etcd::EtcdConfig;
pub(crate) use fields::duration;
#[cfg(any(test, fuzzing))]
pub(crate) use read::parse;
pub(crate) use read::read;

use crate::rule::{How, Rule, TableName};
use crate::text::CommentLimits;

/// A configuration that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidateConfig {
    /// Of this daemon, for people.
    pub(crate) name: String,
    /// Whose marks are cleared.
    pub(crate) region: Option<String>,
    /// The folder that it keeps its journal and positions in.
    pub(crate) state: PathBuf,
    pub(crate) http: Option<String>,
    /// Bytes of the journal that are kept in memory, of all sources.
    pub(crate) memory: usize,
    pub(crate) journal: JournalLimits,
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) destinations: Vec<DestinationConfig>,
    pub(crate) audit: AuditConfig,
    /// Where positions are and one of several daemons is elected, if it isn't alone.
    pub(crate) etcd: Option<EtcdConfig>,
}

impl InvalidateConfig {
    /// Which members another one has otherwise, of those that only a start takes.
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

/// Which deletes are looked at again, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditConfig {
    /// Keys whose hash is at most this are sampled; 0: none.
    pub(crate) most: u64,
    /// How long after the delete, from the shortest time on: at least one, at most [`AuditConfig::AT_MAX`].
    pub(crate) at: Vec<Duration>,
}

impl AuditConfig {
    /// There is a counter for each.
    pub(crate) const AT_MAX: usize = 8;

    /// The times as a configuration has them.
    pub(crate) fn labels(&self) -> impl Iterator<Item = String> {
        self.at.iter().map(|after| match after.as_millis() {
            ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
            ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
            ms => format!("{ms}ms"),
        })
    }
}

/// What the journal of a source may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalLimits {
    pub(crate) bytes: u64,
    /// How long what everybody has stays.
    pub(crate) keep: Duration,
    pub(crate) when_full: WhenFull,
}

/// What is done when the journal is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The slowest destination is given up, loudly.
    Taint,
    /// Nothing is read until there is room again.
    Hold,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceConfig {
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    /// The host that is asked: on this machine or a unix socket, unless there is `tls`.
    pub(crate) host: Address,
    /// All of them, in the order of preference.
    pub(crate) hosts: Arc<[Address]>,
    /// Which of them may be followed.
    pub(crate) tail: Tail,
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) user: String,
    pub(crate) password_file: Option<PathBuf>,
    /// Unlike those of all replicas and of all other daemons.
    pub(crate) server_id: u32,
    pub(crate) on_gap: OnGap,
    /// Rows that are inserted here name keys.
    pub(crate) outbox: Option<TableName>,
    pub(crate) comments: CommentLimits,
    pub(crate) on_unknown: OnUnknown,
    /// Somebody knows that rows change by foreign keys, which aren't in the log.
    pub(crate) has_accepted_cascades: bool,
}

impl SourceConfig {
    /// Whether all its hosts are on this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.hosts.iter().all(|host| match host {
            Address::Tcp { host, .. } => is_loopback(host),
            Address::Unix(_) => true,
        })
    }

    /// The same, of the host whose turn it is: the hosts come in their order, and again from the first.
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

/// Which host of a database may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// One that takes changes.
    Primary,
    /// One that takes none.
    Replica,
    Any,
}

/// How a connection to a database is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    /// Those who sign the database's certificate, in PEM: read at each connection.
    pub(crate) ca: PathBuf,
    /// In the certificate, if it isn't the host's.
    pub(crate) name: Option<String>,
}

/// Which database it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    MariaDb,
    MySql,
    Postgres(PostgresConfig),
}

/// What PostgreSQL alone has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PostgresConfig {
    pub(crate) database: String,
    pub(crate) slot: String,
    pub(crate) publication: String,
    /// The prefix of messages that list keys.
    pub(crate) messages: Option<String>,
}

/// What is done when the database no longer has what comes after our position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnGap {
    Stop,
    /// The log is read from now on.
    Now,
    /// The same, and all destinations are flushed.
    Flush,
}

/// What is done when a change's keys can't be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnUnknown {
    Count,
    Stop,
    /// All destinations are flushed.
    Flush,
}

/// Where deletes go: the routers of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DestinationConfig {
    pub(crate) name: String,
    /// In the order of preference.
    pub(crate) routers: Vec<Address>,
    /// A routing prefix before each key.
    pub(crate) prefix: String,
    /// How long after the first delete a second one goes; zero: none.
    pub(crate) again: Duration,
    pub(crate) how: How,
    /// How long after the change that calls for it a flush is sent.
    pub(crate) flush_after: Duration,
    /// It has the region's markers: it gets what they lose, and neither deletes nor flushes.
    pub(crate) has_markers: bool,
}
