//! What `stats` answers: memcached's lines where they mean something here, the store's own, and the settings.

use std::borrow::Cow;

use guira_front::vitals::Vitals;
use guira_proto::{fixed, reply};

use crate::counts::Count;
use crate::engine::Engine;
use crate::figures::{FIGURES, Figures};
use crate::node::now;
use crate::own_reads;
use crate::process::Process;
use crate::replica::{REPLICA_FIGURES, ReplicaRow, Who};

/// Answers `stats GROUP`, with its end.
pub(crate) fn answer<E: Engine>(process: &Process<E>, group: &str) -> Vec<u8> {
    let rows = match group {
        "" => general(process),
        "store" => store(process),
        "cluster" => cluster(process),
        "settings" => settings(process),
        "reset" => {
            process.counts.iter().for_each(|counts| counts.reset());
            return fixed::RESET.to_vec();
        }
        _ => return fixed::ERROR.to_vec(),
    };
    let mut out = Vec::new();
    for (name, value) in rows {
        reply::stat(&mut out, &name, value.as_bytes());
    }
    out.extend_from_slice(fixed::END);
    out
}

type Rows = Vec<(Cow<'static, str>, String)>;

/// A line: its name, what it means, how it is read.
struct StatRow(&'static str, &'static str, fn(&Look) -> String);

/// The values that the general lines are read from.
pub(crate) struct Look {
    uptime_s: u64,
    connections: usize,
    connections_max: usize,
    refused: u64,
    login_failures: u64,
    threads: usize,
    under_way: usize,
    reads_waiting: usize,
    client_memory: usize,
    client_memory_refusals: u64,
    log_dropped: u64,
    resident_bytes: u64,
    /// Seconds in user mode, and in the kernel.
    cpu: [String; 2],
    figures: Figures,
}

impl Look {
    pub(crate) fn new<E: Engine>(process: &Process<E>) -> Self {
        let clients = &process.clients;
        let vitals = &process.vitals;
        Self {
            uptime_s: process.started.elapsed().as_secs(),
            connections: clients.connected(),
            connections_max: clients.limits.connections_max,
            refused: clients.refusals.crowded(),
            login_failures: clients.logins.as_ref().map_or(0, |logins| logins.failures()),
            threads: process.options.threads,
            under_way: process.node.stripes.under_way(),
            reads_waiting: process.node.readers.waiting(),
            client_memory: clients.bank.held(),
            client_memory_refusals: clients.bank.refused(),
            log_dropped: process.log.dropped(),
            resident_bytes: vitals.resident_bytes(),
            cpu: [11, 12].map(|field| cpu(vitals, field)),
            figures: process.node.engine.figures(),
        }
    }

    pub(crate) fn uptime_s(&self) -> u64 {
        self.uptime_s
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections as u64
    }

    pub(crate) fn connections_max(&self) -> u64 {
        self.connections_max as u64
    }

    pub(crate) fn client_memory(&self) -> u64 {
        self.client_memory as u64
    }

    pub(crate) fn client_memory_refusals(&self) -> u64 {
        self.client_memory_refusals
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.under_way as u64
    }

    pub(crate) fn reads_waiting(&self) -> u64 {
        self.reads_waiting as u64
    }

    pub(crate) fn store(&self) -> &Figures {
        &self.figures
    }
}

const GENERAL: &[StatRow] = &[
    StatRow("pid", "process id", |_| std::process::id().to_string()),
    StatRow("uptime", "seconds since the start", |look| look.uptime_s.to_string()),
    StatRow("time", "Unix time", |_| now().to_string()),
    StatRow("version", "the memcached spoken, and Guira's own version", |_| VERSION.to_owned()),
    StatRow("pointer_size", "bits of a pointer", |_| usize::BITS.to_string()),
    StatRow("rusage_user", "CPU seconds in user mode", |look| look.cpu[0].clone()),
    StatRow("rusage_system", "CPU seconds in the kernel", |look| look.cpu[1].clone()),
    StatRow("resident_bytes", "bytes of the process in memory", |look| {
        look.resident_bytes.to_string()
    }),
    StatRow("max_connections", "clients at once (-c)", |look| look.connections_max.to_string()),
    StatRow("curr_connections", "clients now", |look| look.connections.to_string()),
    StatRow(
        "rejected_connections",
        "clients that were closed because there were too many",
        |look| look.refused.to_string(),
    ),
    StatRow("auth_errors", "logins with a wrong user or password", |look| {
        look.login_failures.to_string()
    }),
    StatRow("threads", "threads that serve clients (-t)", |look| look.threads.to_string()),
    StatRow(
        "curr_items",
        "keys in the store, and what merges have not dropped yet: as entries of stats store",
        |look| look.figures.entries.to_string(),
    ),
    StatRow("bytes", "bytes of the store's files: as disk_bytes of stats store", |look| {
        look.figures.disk_bytes.to_string()
    }),
    StatRow("limit_maxbytes", "bytes that the store's files may take (--disk-max)", |look| {
        look.figures.disk_limit_bytes.to_string()
    }),
    StatRow("changes_under_way", "changes that aren't durable yet, and not answered", |look| {
        look.under_way.to_string()
    }),
    StatRow("reads_waiting", "reads that wait for a thread (--read-threads)", |look| {
        look.reads_waiting.to_string()
    }),
    StatRow("client_memory_bytes", "bytes that are held for clients (--client-memory)", |look| {
        look.client_memory.to_string()
    }),
    StatRow(
        "client_memory_refusals",
        "requests and values that were refused, and clients that were closed, because too much was held",
        |look| look.client_memory_refusals.to_string(),
    ),
    StatRow("log_dropped", "log lines that could not be written", |look| {
        look.log_dropped.to_string()
    }),
];

fn general<E: Engine>(process: &Process<E>) -> Rows {
    let look = Look::new(process);
    let rows = GENERAL.iter().map(|StatRow(name, _, read)| (Cow::from(*name), read(&look)));
    let counts = Count::ALL
        .iter()
        .map(|(count, name, _)| ((*name).into(), process.count(*count).to_string()));
    rows.chain(counts).collect()
}

fn store<E: Engine>(process: &Process<E>) -> Rows {
    let figures = process.node.engine.figures();
    FIGURES.iter().map(|row| (row.name.into(), (row.read)(&figures).to_string())).collect()
}

/// Whose node answers: a line, what it means, how it is read.
struct WhoRow(&'static str, &'static str, fn(&Who) -> String);

const WHO: &[WhoRow] = &[
    WhoRow("cluster_name", "the cluster's name", |who| who.cluster.clone()),
    WhoRow(
        "cluster_id",
        "what tells clusters of one name apart; each `guira cluster init` makes another",
        |who| who.id.clone(),
    ),
    WhoRow("cluster_node", "the node's number", |who| who.node.to_string()),
    WhoRow("cluster_node_name", "its name (--name)", |who| who.name.clone()),
    WhoRow("cluster_run", "the process's run, as its log and the view have it", |who| {
        who.run.clone()
    }),
];

/// Nothing, if the store isn't a node's.
fn cluster<E: Engine>(process: &Process<E>) -> Rows {
    let Some(replica) = &process.replica else { return Vec::new() };
    let figures = replica.board.read();
    let row = |row: &ReplicaRow| (row.line().into(), (row.read)(&figures).to_string());
    let who = WHO.iter().map(|WhoRow(name, _, read)| ((*name).into(), read(&replica.who)));
    who.chain(REPLICA_FIGURES.iter().map(row)).collect()
}

fn settings<E: Engine>(process: &Process<E>) -> Rows {
    let (options, yes) = (&process.options, |is: bool| if is { "yes" } else { "no" }.to_owned());
    let opening = &options.opening;
    let rows = vec![
        ("directory", opening.directory.display().to_string()),
        ("durability", opening.syncing.to_string()),
        ("item_size_max", options.clients.memory.value.to_string()),
        ("disk_max", opening.disk_max.unwrap_or(0).to_string()),
        ("merge_bytes_per_second", opening.merge_bytes_s.unwrap_or(0).to_string()),
        ("index", format!("{:?}", opening.index).to_lowercase()),
        ("last_level_filter", opening.last_level_filter.to_string()),
        ("read_threads", options.read_threads.to_string()),
        ("reads_by", if own_reads::are_allowed() { "ring" } else { "threads" }.to_owned()),
        ("num_threads", options.threads.to_string()),
        ("maxconns", options.clients.connections_max.to_string()),
        ("reqs_per_event", options.clients.outstanding_max.to_string()),
        ("client_memory", options.clients.memory.all.to_string()),
        ("client_memory_each", options.clients.memory.each.to_string()),
        ("tcpport", options.port.to_string()),
        ("inter", options.listen.addresses.join(",")),
        (
            "domain_socket",
            options.listen.unix.as_ref().map_or("NULL".into(), |p| p.display().to_string()),
        ),
        ("verbosity", process.log.verbosity().to_string()),
        ("flush_enabled", yes(options.is_flush_enabled)),
        ("auth_enabled_ascii", yes(options.auth_file.is_some())),
        ("ssl_enabled", yes(options.tls.is_some())),
    ];
    rows.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// Each line's name and meaning, by command.
#[must_use]
pub fn stat_tables() -> Vec<(&'static str, Vec<(String, String)>)> {
    let own = |name: &str, meaning: &str| (name.to_owned(), meaning.trim().to_owned());
    let general = GENERAL.iter().map(|StatRow(name, meaning, _)| own(name, meaning));
    let counts = Count::ALL.iter().map(|(_, name, meaning)| own(name, meaning));
    let store = FIGURES.iter().map(|row| own(row.name, row.meaning));
    let who = WHO.iter().map(|WhoRow(name, meaning, _)| own(name, meaning));
    let figures = REPLICA_FIGURES.iter().map(|row| own(&row.line(), row.meaning));
    vec![
        ("`stats`", general.chain(counts).collect()),
        ("`stats store`: the store since it was opened", store.collect()),
        (
            "`stats cluster`: the node's part in a cluster, a second ago at most",
            who.chain(figures).collect(),
        ),
    ]
}

/// Seconds of processor time, from a field of /proc/self/stat.
fn cpu(vitals: &Vitals, field: usize) -> String {
    let ticks = vitals.stat().get(field).copied().unwrap_or(0);
    format!("{}.{:06}", ticks / TICKS_A_SECOND, ticks % TICKS_A_SECOND * 10_000)
}

/// The unit of the kernel's times in /proc, whatever the kernel's own clock does.
const TICKS_A_SECOND: u64 = 100;

/// What `version` answers after `VERSION`: first the memcached version that is spoken, because clients read it there.
pub(crate) const VERSION: &str = concat!("1.6.45-guira-", env!("CARGO_PKG_VERSION"));
/// What `--version` prints.
pub(crate) const SPOKEN: &str = concat!("1.6.45 (guira ", env!("CARGO_PKG_VERSION"), ")");
