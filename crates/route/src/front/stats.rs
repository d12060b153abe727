//! What `stats` answers: numbers of the process, summed over its threads, and a line for each server.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

use guira_client::Outcome;
use guira_proto::reply;

use super::configuration::seconds_now;
use super::link::Link;
use super::rates;
use super::session::VERSION;
use super::shared::Shared;
use super::turns::Turns;
use crate::{Counter, outcome};

/// Answers `stats GROUP`, with its `END`.
pub(crate) fn answer(shared: &Shared, group: &str) -> Vec<u8> {
    let rows = match group {
        "" => [process(shared), servers_by_state(shared), counts(shared)].concat(),
        "all" | "detailed" | "ods" => all(shared),
        "count" | "cmd-error" => counts(shared),
        "servers" => servers(shared),
        "suspect_servers" => suspects(shared),
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

/// Names and values.
pub(crate) type Rows = Vec<(String, String)>;

fn row<T: Display>(name: &str, value: T) -> (String, String) {
    (name.to_owned(), format!("{value}"))
}

/// The numbers that stats files hold.
pub(crate) fn all(shared: &Shared) -> Rows {
    let pools = shared.pool_stats.rows();
    let (rates, configuration) = (rates::rows(shared), configuration(shared));
    [process(shared), servers_by_state(shared), counts(shared), rates, configuration, pools]
        .concat()
}

fn process(shared: &Shared) -> Rows {
    let Usage { user, system, rss_bytes, virtual_bytes, minor_faults, major_faults } = usage();
    let limits = shared.bank.limits();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    vec![
        row("version", VERSION),
        row("commandargs", arguments.join(" ")),
        row("pid", std::process::id()),
        row("parent_pid", std::os::unix::process::parent_id()),
        row("time", seconds_now()),
        row("uptime", shared.started.elapsed().as_secs()),
        row("num_proxies", shared.options.proxies),
        row("num_client_connections", shared.clients.load(Relaxed)),
        row("client_memory_bytes", shared.bank.held()),
        row("client_memory_limit_bytes", limits.all),
        row("client_memory_each_limit_bytes", limits.each),
        row("client_memory_refusals", shared.bank.refused()),
        row("num_authorization_failures", shared.refusals.total()),
        row("log_dropped", shared.log.dropped()),
        row("log_suppressed", shared.log.suppressed()),
        row("rusage_user", user),
        row("rusage_system", system),
        row("ps_rss", rss_bytes),
        row("ps_vsize", virtual_bytes),
        row("ps_user_time_sec", user),
        row("ps_system_time_sec", system),
        row("ps_num_minor_faults", minor_faults),
        row("ps_num_major_faults", major_faults),
    ]
}

/// What the process has used.
struct Usage {
    /// Seconds of processor time, in user mode and in the kernel.
    user: f64,
    system: f64,
    rss_bytes: u64,
    virtual_bytes: u64,
    minor_faults: u64,
    major_faults: u64,
}

/// As the kernel tells.
fn usage() -> Usage {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may hold blanks.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|text| text.parse().ok()).unwrap_or(0);
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

/// Of the kernel's times, whatever the kernel's own clock does.
const TICKS_A_SECOND: f64 = 100.0;

fn configuration(shared: &Shared) -> Rows {
    let standing = shared.standing.lock();
    vec![
        row("config_age", seconds_now().saturating_sub(standing.last_success)),
        row("config_last_attempt", standing.last_attempt),
        row("config_last_success", standing.last_success),
        row("config_failures", standing.failures),
        row("configs_from_disk", u8::from(standing.is_from_disk)),
    ]
}

fn servers_by_state(shared: &Shared) -> Rows {
    let links = shared.links();
    let sum = |what: &dyn Fn(&Link) -> u64| links.iter().map(|link| what(link)).sum::<u64>();
    let (hard, soft) = (shared.totals.hard.load(Relaxed), shared.totals.soft.load(Relaxed));
    let up = sum(&|link| link.stats.is_up.load(Relaxed).into());
    let fresh = sum(&|link| (link.stats.opened.load(Relaxed) == 0).into());
    let total = links.len() as u64;
    vec![
        row("num_servers", total),
        row("num_servers_new", fresh),
        row("num_servers_up", up),
        row("num_servers_down", sum(&|link| link.tko.is_marked().into())),
        row("num_servers_closed", total.saturating_sub(up + fresh)),
        row("num_suspect_servers", shared.suspects().len()),
        row("num_soft_tko_count", soft),
        row("num_hard_tko_count", hard),
        row("num_fail_open_state_entered", shared.totals.opened.load(Relaxed)),
        row("num_fail_open_state_exited", shared.totals.closed.load(Relaxed)),
        row("num_connections_opened", sum(&|link| link.stats.opened.load(Relaxed))),
        row("num_connections_closed", sum(&|link| link.stats.closed.load(Relaxed))),
        row("destination_pending_reqs", sum(&|link| link.load().0 as u64)),
        row("destination_inflight_reqs", sum(&|link| link.load().1 as u64)),
        row("proxy_reqs_processing", shared.routed.iter().map(Turns::under_way).sum::<usize>()),
        row("proxy_reqs_waiting", shared.routed.iter().map(Turns::waiting).sum::<usize>()),
        row("probes_sent", sum(&|link| link.stats.probes.load(Relaxed))),
    ]
}

fn counts(shared: &Shared) -> Rows {
    let sum = |counter| shared.counters.iter().map(|thread| thread.get(counter)).sum::<u64>();
    Counter::ALL.iter().map(|&counter| row(counter.name(), sum(counter))).collect()
}

/// A server's line, over all threads.
#[derive(Default)]
struct ServerLine {
    answered: u64,
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
        self.answered += stats.answered.load(Relaxed);
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
        let average = self.took_us as f64 / self.answered.max(1) as f64;
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

fn servers(shared: &Shared) -> Rows {
    let mut lines: BTreeMap<String, ServerLine> = BTreeMap::new();
    for link in shared.links() {
        lines.entry(link.name.clone()).or_default().add(&link);
    }
    lines.into_iter().map(|(name, line)| (name, line.show())).collect()
}

fn suspects(shared: &Shared) -> Rows {
    let suspects = shared.suspects().into_iter().map(|tko| {
        let status = if tko.is_marked() { "tko" } else { "down" };
        (tko.name.clone(), format!("status:{status} num_failures:{}", tko.failures()))
    });
    suspects.collect()
}
