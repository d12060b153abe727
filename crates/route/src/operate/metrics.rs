//! The router's metrics in Prometheus' text format. Their names begin with `guira_route_`.
//!
//! Latencies are histograms by pool and server, as the router measures them: from a request's turn to its reply. Each
//! family is declared once, with its help. The reference prints the same tables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::Ordering::Relaxed;

use guira_front::exposition::{Exposition, Samples};
use guira_front::http::Probed;
use guira_front::vitals::PROCESS_METRICS;
use tokio::time::Instant;

use crate::configure::seconds_now;
use crate::counters::Counter;
use crate::process::Process;
use crate::servers::{ClusterWatch, Latencies};

/// The metrics of one name, which differ in their labels.
struct Family {
    name: Cow<'static, str>,
    kind: &'static str,
    help: &'static str,
}

impl Family {
    const fn new(kind: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), kind, help }
    }
}

/// A family with one value per `S`.
struct Figure<S>(Family, fn(&S) -> u64);

impl<S> Figure<S> {
    const fn gauge(name: &'static str, help: &'static str, value: fn(&S) -> u64) -> Self {
        Self(Family::new("gauge", name, help), value)
    }

    const fn counter(name: &'static str, help: &'static str, value: fn(&S) -> u64) -> Self {
        Self(Family::new("counter", name, help), value)
    }
}

const BUILD: Family = Family::new("gauge", "build_info", "The version, as a label.");

const OF_PROCESS: [Figure<Process>; 18] = [
    Figure::gauge("uptime_seconds", "Seconds since the start.", |process| {
        process.started.elapsed().as_secs()
    }),
    Figure::gauge("client_connections", "Connections of clients.", |process| {
        process.clients.connected() as u64
    }),
    Figure::gauge(
        "client_connections_limit",
        "Connections that clients may have (`--max-conns`); 0: as many as there are descriptors.",
        |process| match process.options.clients.connections_max {
            usize::MAX => 0,
            most => most as u64,
        },
    ),
    Figure::counter(
        "clients_refused_total",
        "Clients that were closed because there were `--max-conns` already.",
        |process| process.clients.refusals.crowded(),
    ),
    Figure::counter(
        "authorization_failures_total",
        "Clients that went or were closed before they had shaken hands (TLS) and logged in.",
        |process| process.clients.refusals.entrances(),
    ),
    Figure::counter(
        "login_failures_total",
        "Logins with a wrong user or password.",
        Process::login_failures,
    ),
    Figure::gauge(
        "deletes_waiting",
        "Deletes in the spool that their servers don't have yet.",
        |process| process.servers.debts.waiting(),
    ),
    Figure::gauge(
        "servers_owed_deletes",
        "Servers that deletes wait for, in the configuration or not.",
        |process| process.servers.debts.owed().len() as u64,
    ),
    Figure::counter(
        "deletes_unwritten_total",
        "Deletes that failed and could not be written down: clients saw the error.",
        |process| process.servers.debts.unwritten(),
    ),
    Figure::gauge(
        "tls_certificate_end_timestamp_seconds",
        "Unix time at which the certificate that clients see ends; 0: there is none.",
        |process| u64::try_from(process.tls.expiry.ends_s()).unwrap_or(0),
    ),
    Figure::gauge(
        "client_memory_bytes",
        "Bytes of requests and replies that are held for clients.",
        |process| process.clients.bank.held() as u64,
    ),
    Figure::gauge(
        "client_memory_limit_bytes",
        "Bytes that may be held for all clients together.",
        |process| process.clients.limits.memory.all as u64,
    ),
    Figure::counter(
        "client_memory_refusals_total",
        "Requests and values that were refused because too much was held.",
        |process| process.clients.bank.refused(),
    ),
    Figure::counter(
        "log_lines_dropped_total",
        "Log lines dropped because nobody read them, or that could not be written.",
        |process| process.log.dropped(),
    ),
    Figure::counter(
        "log_lines_suppressed_total",
        "Log lines not made because their event had 100 in the second.",
        |process| process.log.suppressed(),
    ),
    Figure::gauge("config_age_seconds", "Seconds since the configuration was read.", |process| {
        seconds_now().saturating_sub(process.standing.lock().last_success)
    }),
    Figure::gauge(
        "configs_from_disk",
        "1 while the last good configuration stands in for one that can't be used.",
        |process| process.standing.lock().is_from_disk.into(),
    ),
    Figure::counter(
        "config_failures_total",
        "Changes of the configuration that were refused.",
        |process| process.standing.lock().failures,
    ),
];

const COMMANDS: Family =
    Family::new("counter", "commands_total", "Keys that clients asked for, by command.");

const OF_SERVER: [Figure<Server>; 6] = [
    Figure::gauge("server_tko", "1 while nothing is sent to the server because it failed.", |s| {
        s.is_marked.into()
    }),
    Figure::gauge("server_connections", "Connections to the server.", |s| s.connections as u64),
    Figure::gauge("server_outstanding", "Requests without a reply.", |s| s.outstanding as u64),
    Figure::counter("server_connections_opened_total", "Connections opened.", |s| s.opened),
    Figure::counter("server_connections_closed_total", "Connections closed or lost.", |s| s.closed),
    Figure::counter("server_probes_total", "Probes sent to the failed server.", |s| s.probes),
];

const OF_CLUSTER: [Figure<ClusterWatch>; 2] = [
    Figure::gauge(
        "cluster_view_epoch",
        "Epoch of the view by which a `ClusterRoute` asks nodes; 0: there is none.",
        ClusterWatch::epoch,
    ),
    Figure::gauge(
        "cluster_view_followed",
        "1 while etcd says which view is the newest; 0: the last one stays in use.",
        |watch| watch.is_followed().into(),
    ),
];

const OF_FAMILY: [Family; 5] = [
    Family::new(
        "gauge",
        "family_working_set_bytes",
        "Bytes of items of a key family, keys included, that clients asked for in the last whole day or week, or so far in the first one, with each item's least, mean or greatest size: an estimate (`--sample-families`).",
    ),
    Family::new("gauge", "family_items", "How many items these are: an estimate."),
    Family::new(
        "gauge",
        "family_gets_per_second",
        "Gets of these items, on average over the day or week: an estimate.",
    ),
    Family::new(
        "gauge",
        "family_clients",
        "Clients' addresses that asked for such an item, the median; at most 32.",
    ),
    Family::new(
        "counter",
        "family_uses_left_out_total",
        "Requests for sampled items that aren't followed because there are 10,000 already.",
    ),
];

const DURATION: Family = Family::new(
    "histogram",
    "request_duration_seconds",
    "Seconds from a request's turn to its reply.",
);

const ERRORS: Family =
    Family::new("counter", "request_errors_total", "Replies of servers that were errors.");

/// The command whose keys `counter` counts, if there is one.
fn command(counter: Counter) -> Option<&'static str> {
    counter.name().strip_prefix("cmd_")?.strip_suffix("_count")
}

/// All other counters, each with a family of its own.
fn others() -> impl Iterator<Item = (Counter, Family)> {
    Counter::ALL.iter().filter(|&&counter| command(counter).is_none()).map(|&counter| {
        let name = counter.name();
        let name = format!("{}_total", name.strip_suffix("_count").unwrap_or(name));
        (counter, Family { name: name.into(), kind: "counter", help: counter.meaning().trim() })
    })
}

/// The name, type and meaning of each metric, in the order of a scrape.
pub fn metric_meanings() -> impl Iterator<Item = (String, &'static str, &'static str)> {
    let all = [BUILD]
        .into_iter()
        .chain(OF_PROCESS.map(|Figure(family, _)| family))
        .chain([COMMANDS])
        .chain(others().map(|(_, family)| family))
        .chain(OF_SERVER.map(|Figure(family, _)| family))
        .chain(OF_CLUSTER.map(|Figure(family, _)| family))
        .chain(OF_FAMILY)
        .chain([DURATION, ERRORS])
        .map(|Family { name, kind, help }| (format!("{PREFIX}{name}"), kind, help));
    all.chain(PROCESS_METRICS.map(|(name, kind, help)| (name.to_owned(), kind, help)))
}

const PREFIX: &str = "guira_route_";

impl Family {
    fn of<'e>(&self, all: &'e mut Exposition) -> Samples<'e> {
        all.family(format!("{PREFIX}{}", self.name), self.kind, self.help)
    }

    fn single(&self, all: &mut Exposition, value: impl Display) {
        self.of(all).add(&[], value);
    }
}

impl Probed for Process {
    fn metrics(&self) -> String {
        let mut all = Exposition::default();
        BUILD.of(&mut all).add(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        for Figure(family, value) in &OF_PROCESS {
            family.single(&mut all, value(self));
        }
        counters(&mut all, self);
        servers(&mut all, self);
        clusters(&mut all, self);
        families(&mut all, self);
        latencies(&mut all, self);
        for ((name, kind, help), value) in PROCESS_METRICS.into_iter().zip(self.vitals.metrics()) {
            all.family(name, kind, help).add(&[], value);
        }
        all.into_text()
    }

    /// Failed servers don't make a router unready: otherwise all routers in front of them would be taken out of service
    /// at once. A router of clusters alone is unready until it has had a view of each.
    fn unready(&self) -> Option<Cow<'static, str>> {
        let of_process = self.lifecycle.unready(&self.clients, None).map(Cow::Borrowed);
        of_process.or_else(|| {
            let lack = self.servers.clusters.lack_of_start()?;
            // Other servers can be asked all the same.
            self.servers.leaves().is_empty().then_some(Cow::Owned(lack))
        })
    }
}

fn counters(all: &mut Exposition, process: &Process) {
    let sum = |counter| process.counters.iter().map(|thread| thread.get(counter)).sum::<u64>();
    let mut commands = COMMANDS.of(all);
    for &counter in Counter::ALL {
        if let Some(command) = command(counter) {
            commands.add(&[("command", command)], sum(counter));
        }
    }
    for (counter, family) in others() {
        family.single(all, sum(counter));
    }
}

/// The metrics of one server, over all threads.
#[derive(Default)]
struct Server {
    is_marked: bool,
    connections: usize,
    outstanding: usize,
    opened: u64,
    closed: u64,
    probes: u64,
}

fn servers(all: &mut Exposition, process: &Process) {
    let mut servers: BTreeMap<String, Server> = BTreeMap::new();
    for link in process.servers.links() {
        let server = servers.entry(link.server.host_port()).or_default();
        server.is_marked = link.tko.is_marked();
        server.connections += usize::from(link.stats.is_up.load(Relaxed));
        server.outstanding += link.stats.outstanding.load(Relaxed);
        server.opened += link.stats.opened.load(Relaxed);
        server.closed += link.stats.closed.load(Relaxed);
        server.probes += link.stats.probes.load(Relaxed);
    }
    for Figure(family, value) in &OF_SERVER {
        let mut samples = family.of(all);
        for (host_port, server) in &servers {
            samples.add(&[("server", host_port)], value(server));
        }
    }
}

fn clusters(all: &mut Exposition, process: &Process) {
    let clusters = process.servers.clusters.all();
    for Figure(family, value) in &OF_CLUSTER {
        let mut samples = family.of(all);
        for (place, watch) in &clusters {
            samples.add(&[("cluster", place)], value(watch));
        }
    }
}

fn families(all: &mut Exposition, process: &Process) {
    let [sets, items, gets, clients, left_out] = &OF_FAMILY;
    for family in &OF_FAMILY {
        let _ = family.of(all);
    }
    let Some(sample) = &process.families else { return };
    for window in ["day", "week"] {
        let sampled = sample.sampled(window, Instant::now()).unwrap_or_default();
        let mut largest: Vec<_> = sampled.families().into_iter().collect();
        largest.sort_by(|(_, one), (_, other)| other.bytes[1].total_cmp(&one.bytes[1]));
        for (family, sums) in largest.iter().take(FAMILIES_SHOWN) {
            let labels = [("family", &family[..]), ("window", window)];
            for (size, bytes) in ["least", "mean", "greatest"].into_iter().zip(sums.bytes) {
                let labels = [labels[0], labels[1], ("size", size)];
                sets.of(all).add(&labels, bytes.round());
            }
            items.of(all).add(&labels, sums.items.round());
            gets.of(all).add(&labels, sums.gets_per_second);
            clients.of(all).add(&labels, sums.clients);
        }
    }
    left_out.single(all, sample.left_out());
}

/// The largest ones: who names a million families gets no million of series.
const FAMILIES_SHOWN: usize = 100;

fn latencies(all: &mut Exposition, process: &Process) {
    let leaves = process.servers.leaves();
    let mut durations = DURATION.of(all);
    for ((pool, server), threads) in &leaves {
        let mut shape = Latencies::default();
        threads.iter().for_each(|stats| shape.add(&stats.took));
        #[expect(clippy::cast_precision_loss, reason = "a sum for monitors")]
        let sum = shape.sum_us as f64 / 1e6;
        let labels = [("pool", &pool[..]), ("server", &server[..])];
        durations.histogram(&labels, shape.cumulative(), sum, shape.count());
    }
    let mut errors = ERRORS.of(all);
    for ((pool, server), threads) in &leaves {
        let failed: u64 = threads.iter().map(|stats| stats.errors.load(Relaxed)).sum();
        errors.add(&[("pool", pool), ("server", server)], failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_what_a_scrape_declares_in_its_order() {
        let text = Probed::metrics(&*Process::idle(&[]));
        let helps = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let declared: Vec<_> = helps.zip(types).collect();
        let known: Vec<_> = metric_meanings()
            .map(|(name, kind, help)| {
                (format!("{name} {}", help.replace('`', "")), format!("{name} {kind}"))
            })
            .collect();
        assert_eq!(
            declared,
            known.iter().map(|(help, kind)| (&help[..], &kind[..])).collect::<Vec<_>>()
        );
        assert!(declared.len() > 60, "{text}");
    }

    #[test]
    fn a_line_of_help_is_one_line() {
        for (name, _, help) in metric_meanings() {
            assert!(!help.contains('\n') && help.trim() == help && help.ends_with('.'), "{name}");
        }
        let text = Probed::metrics(&*Process::idle(&[]));
        let begin = format!(
            "# HELP guira_route_build_info The version, as a label.\n\
             # TYPE guira_route_build_info gauge\n\
             guira_route_build_info{{version=\"{}\"}} 1\n\
             # HELP guira_route_uptime_seconds Seconds since the start.\n\
             # TYPE guira_route_uptime_seconds gauge\n\
             guira_route_uptime_seconds ",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.starts_with(&begin), "{text}");
    }
}
