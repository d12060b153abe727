//! The replies to `stats`: numbers of the process, summed over its threads, and a line for each server.
//!
//! Each line is declared once, with its meaning. The reference has the same tables.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use guira_client::Outcome;
use guira_front::vitals::Vitals;
use guira_proto::reply;

use super::rates::{self, Rows};
use super::view::View;
use crate::configure::{Standing, seconds_now};
use crate::counters::Counter;
use crate::ops::VERSION;
use crate::outcome;
use crate::process::Process;
use crate::servers::{Link, Permits, pool_meanings};

/// Answers `stats GROUP`, including the `END`.
pub(crate) fn answer(view: &View, group: &str) -> Vec<u8> {
    let process = &view.process;
    let rows = match group {
        "" => {
            let look = Look::new(process);
            [look.rows(PROCESS), look.rows(SERVERS), counts(process)].concat()
        }
        "all" | "detailed" | "ods" => all(view),
        "count" | "cmd-error" => counts(process),
        "servers" => servers(process),
        "suspect_servers" => suspects(process),
        "version" => vec![("mcrouter-version".to_owned(), VERSION.to_owned())],
        "external" => Vec::new(),
        _ => return b"CLIENT_ERROR bad stats command\r\n".to_vec(),
    };
    let mut out = Vec::new();
    for (name, value) in rows {
        reply::stat(&mut out, &name, value.as_bytes());
    }
    out.extend_from_slice(b"END\r\n");
    out
}

/// A line: its name, its meaning, and the function that reads its value.
struct Row {
    name: &'static str,
    meaning: &'static str,
    value: Read,
}

type Read = fn(&Look<'_>) -> String;

/// A table of lines, in the order of display: `name, "meaning", |view| value;`.
macro_rules! rows {
    ($($name:ident, $meaning:literal, |$view:tt| $value:expr;)*) => {
        &[$(Row {
            name: stringify!($name),
            meaning: $meaning,
            value: |$view| ToString::to_string(&$value),
        }),*]
    };
}

const PROCESS: &[Row] = rows! {
    version, "the memcached spoken, and Guira's own version", |_| VERSION;
    commandargs, "the command line", |_| std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    pid, "process id", |_| std::process::id();
    parent_pid, "the parent's process id", |_| std::os::unix::process::parent_id();
    time, "Unix time", |_| seconds_now();
    uptime, "seconds since the start", |v| v.process.started.elapsed().as_secs();
    num_proxies, "threads that serve clients", |v| v.process.options.proxies;
    num_client_connections, "connections of clients", |v| v.process.clients.connected();
    client_memory_bytes, "bytes of requests and replies that are held for clients", |v| v.process.clients.bank.held();
    client_memory_limit_bytes, "--client-memory: bytes that may be held for all clients together", |v| v.process.clients.limits.memory.all;
    client_memory_each_limit_bytes, "--client-memory-each: bytes that may be held for one client", |v| v.process.clients.limits.memory.each;
    client_memory_refusals, "requests and values that were refused because too much was held", |v| v.process.clients.bank.refused();
    num_authorization_failures, "clients that weren't let in, such as those without a login or a good certificate", |v| v.process.clients.refusals.entrances();
    login_failures, "logins with a wrong user or password", |v| v.process.login_failures();
    clients_refused, "clients that were closed because there were --max-conns already", |v| v.process.clients.refusals.crowded();
    deletes_waiting, "deletes in the spool that their servers don't have yet", |v| v.process.servers.debts.waiting();
    deletes_unwritten, "deletes that failed and could not be written down: clients saw the error", |v| v.process.servers.debts.unwritten();
    log_dropped, "log lines dropped because nobody read them, or that could not be written", |v| v.process.log.dropped();
    log_suppressed, "log lines not made because their event had 100 in the second", |v| v.process.log.suppressed();
    rusage_user, "CPU seconds in user mode", |v| v.usage.user;
    rusage_system, "CPU seconds in the kernel", |v| v.usage.system;
    ps_rss, "bytes of resident memory", |v| v.usage.rss_bytes;
    ps_vsize, "bytes of address space", |v| v.usage.virtual_bytes;
    ps_user_time_sec, "as rusage_user", |v| v.usage.user;
    ps_system_time_sec, "as rusage_system", |v| v.usage.system;
    ps_num_minor_faults, "page faults that read nothing from disk", |v| v.usage.minor_faults;
    ps_num_major_faults, "page faults that read from disk", |v| v.usage.major_faults;
};

const SERVERS: &[Row] = rows! {
    num_servers, "servers, counted once per thread, and once per pool where pools connect differently", |v| v.links.len();
    num_servers_new, "of these, servers that no connection was opened to yet", |v| v.fresh();
    num_servers_up, "servers with a connection", |v| v.up();
    num_servers_down, "servers that are marked TKO: they failed, and get no requests until a probe succeeds", |v| v.sum(|link| link.tko.is_marked().into());
    num_servers_closed, "servers whose connection was closed or lost", |v| (v.links.len() as u64).saturating_sub(v.up() + v.fresh());
    num_suspect_servers, "servers that failed when they were last asked, marked or not", |v| v.process.servers.suspects().len();
    num_soft_tko_count, "servers, each counted once, that are marked TKO because replies took too long", |v| v.process.servers.totals.soft.load(Relaxed);
    num_hard_tko_count, "the same, because a connection failed or was lost, or deletes are owed to them", |v| v.process.servers.totals.hard.load(Relaxed);
    num_fail_open_state_entered, "times that a pool's tko_tracker stopped the marking of servers", |v| v.process.servers.totals.opened.load(Relaxed);
    num_fail_open_state_exited, "times that it allowed the marking again", |v| v.process.servers.totals.closed.load(Relaxed);
    num_connections_opened, "connections opened to servers", |v| v.sum(|link| link.stats.opened.load(Relaxed));
    num_connections_closed, "connections to servers that were closed or lost", |v| v.sum(|link| link.stats.closed.load(Relaxed));
    destination_pending_reqs, "requests that wait to be sent to servers", |v| v.sum(|link| link.load().0 as u64);
    destination_inflight_reqs, "requests that were sent to servers and have no reply yet", |v| v.sum(|link| link.load().1 as u64);
    proxy_reqs_processing, "clients' requests under way; 0 without --proxy-max-inflight-requests", |v| v.process.routed.iter().map(Permits::under_way).sum::<usize>();
    proxy_reqs_waiting, "clients' requests that wait because of --proxy-max-inflight-requests", |v| v.process.routed.iter().map(Permits::waiting).sum::<usize>();
    probes_sent, "probes sent to servers that are marked TKO", |v| v.sum(|link| link.stats.probes.load(Relaxed));
};

const CONFIGURATION: &[Row] = rows! {
    config_age, "seconds since the configuration was read", |v| seconds_now().saturating_sub(v.standing.last_success);
    config_last_attempt, "Unix time of the last attempt to read the configuration", |v| v.standing.last_attempt;
    config_last_success, "Unix time of the last attempt that succeeded", |v| v.standing.last_success;
    config_failures, "changes of the configuration that were refused", |v| v.standing.failures;
    configs_from_disk, "1 while the last good configuration stands in for one that can't be used", |v| u8::from(v.standing.is_from_disk);
};

/// The name and meaning of each line, in tables with headings.
#[must_use]
pub fn stat_tables() -> Vec<(&'static str, Vec<(String, String)>)> {
    let declared = |table: &[Row]| {
        table.iter().map(|row| (row.name.to_owned(), row.meaning.to_owned())).collect()
    };
    let counted = Counter::ALL
        .iter()
        .map(|counter| (counter.name().to_owned(), counter.meaning().trim().to_owned()));
    vec![
        ("`stats`, `stats all`: the process", declared(PROCESS)),
        ("`stats`, `stats all`: servers", declared(SERVERS)),
        ("`stats`, `stats all`, `stats count`: counts since the start", counted.collect()),
        ("`stats all`: rates of the last four minutes", rates::meanings().collect()),
        ("`stats all`: the configuration", declared(CONFIGURATION)),
        ("`stats all`: each POOL that --pool-stats-config-file names", pool_meanings().collect()),
    ]
}

/// All statistics, as the stats files have them.
pub(crate) fn all(view: &View) -> Rows {
    let process = &view.process;
    let look = Look::new(process);
    let pools = process.servers.pool_stats.rows();
    [
        look.rows(PROCESS),
        look.rows(SERVERS),
        counts(process),
        view.rates.now(process),
        look.rows(CONFIGURATION),
        pools,
    ]
    .concat()
}

/// The source of all lines: a snapshot of values that change meanwhile.
struct Look<'s> {
    process: &'s Process,
    usage: Usage,
    links: Vec<Arc<Link>>,
    standing: Standing,
}

impl<'s> Look<'s> {
    fn new(process: &'s Process) -> Self {
        let standing = process.standing.lock().clone();
        Self { process, usage: usage(&process.vitals), links: process.servers.links(), standing }
    }

    fn rows(&self, table: &[Row]) -> Rows {
        table.iter().map(|row| (row.name.to_owned(), (row.value)(self))).collect()
    }

    fn sum(&self, what: impl Fn(&Link) -> u64) -> u64 {
        self.links.iter().map(|link| what(link)).sum()
    }

    fn up(&self) -> u64 {
        self.sum(|link| link.stats.is_up.load(Relaxed).into())
    }

    fn fresh(&self) -> u64 {
        self.sum(|link| (link.stats.opened.load(Relaxed) == 0).into())
    }
}

/// The resources that the process has used.
struct Usage {
    /// CPU seconds in user mode, and in the kernel.
    user: f64,
    system: f64,
    rss_bytes: u64,
    virtual_bytes: u64,
    minor_faults: u64,
    major_faults: u64,
}

/// Reads the figures of the kernel.
fn usage(vitals: &Vitals) -> Usage {
    let stat = vitals.stat();
    let field = |at: usize| stat.get(at).copied().unwrap_or(0);
    let seconds = |ticks: u32| f64::from(ticks) / TICKS_A_SECOND;
    let ticks = |at| u32::try_from(field(at)).unwrap_or(u32::MAX);
    Usage {
        user: seconds(ticks(11)),
        system: seconds(ticks(12)),
        rss_bytes: field(21) * rustix::param::page_size() as u64,
        virtual_bytes: field(20),
        minor_faults: field(7),
        major_faults: field(9),
    }
}

/// The unit of the kernel's times, independent of the kernel's own clock rate.
const TICKS_A_SECOND: f64 = 100.0;

fn counts(process: &Process) -> Rows {
    let sum = |counter| process.counters.iter().map(|thread| thread.get(counter)).sum::<u64>();
    let row = |&counter: &Counter| (counter.name().to_owned(), sum(counter).to_string());
    Counter::ALL.iter().map(row).collect()
}

/// The line of a server, over all threads.
#[derive(Default)]
struct ServerLine {
    timed: u64,
    took_us: u64,
    pending: usize,
    in_flight: usize,
    is_marked: bool,
    is_hard: bool,
    up: usize,
    fresh: usize,
    closed: usize,
    results: [u64; Outcome::ALL.len()],
}

impl ServerLine {
    fn add(&mut self, link: &Link) {
        let stats = &link.stats;
        let (pending, in_flight) = link.load();
        self.pending += pending;
        self.in_flight += in_flight;
        self.timed += stats.timed.load(Relaxed);
        self.took_us += stats.took_us.load(Relaxed);
        (self.is_marked, self.is_hard) = (link.tko.is_marked(), link.tko.is_hard());
        match (stats.is_up.load(Relaxed), stats.opened.load(Relaxed)) {
            (true, _) => self.up += 1,
            (false, 0) => self.fresh += 1,
            (false, _) => self.closed += 1,
        }
        for (sum, count) in self.results.iter_mut().zip(&stats.results) {
            *sum += count.load(Relaxed);
        }
    }

    fn show(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "an average for people")]
        let average = self.took_us as f64 / self.timed.max(1) as f64;
        let mut text = format!(
            "avg_latency_us:{average:.3} pending_reqs:{} inflight_reqs:{}",
            self.pending, self.in_flight
        );
        if self.is_marked {
            text.push_str(if self.is_hard { " hard_tko;" } else { " soft_tko;" });
        }
        for (name, n) in [("new", self.fresh), ("up", self.up), ("closed", self.closed)] {
            if n > 0 {
                // Writing to a string doesn't fail.
                let _ = write!(text, " {name}:{n};");
            }
        }
        for (&outcome, &n) in Outcome::ALL.iter().zip(&self.results) {
            if n > 0 {
                let _ = write!(text, " {}:{n};", outcome::name(outcome));
            }
        }
        text.trim_end_matches(';').to_owned()
    }
}

fn servers(process: &Process) -> Rows {
    let mut lines: BTreeMap<String, ServerLine> = BTreeMap::new();
    for link in process.servers.links() {
        lines.entry(link.name.clone()).or_default().add(&link);
    }
    lines.into_iter().map(|(name, line)| (name, line.show())).collect()
}

fn suspects(process: &Process) -> Rows {
    let suspects = process.servers.suspects().into_iter().map(|tko| {
        let status = if tko.is_marked() { "tko" } else { "down" };
        (tko.name.clone(), format!("status:{status} num_failures:{}", tko.failures()))
    });
    suspects.collect()
}
