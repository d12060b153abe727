//! The router's numbers in Prometheus' text format: names begin with `guira_route_`.
//!
//! Latencies are histograms by pool and server, as the router saw them: from a request's turn to its reply.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

use guira_log::Log;

use super::configuration::seconds_now;
use super::histogram::Shape;
use super::shared::Shared;
use crate::Counter;

/// Text under construction. Writing to a string doesn't fail.
#[derive(Default)]
struct Text(String);

impl Text {
    /// `help` may come from documentation, whose Markdown monitors would show as it is.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.trim().replace('`', "");
        let _ =
            writeln!(self.0, "# HELP guira_route_{name} {help}\n# TYPE guira_route_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "guira_route_{name}");
        for (at, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// All that there is to scrape.
pub(crate) fn exposition(shared: &Shared) -> String {
    let mut text = Text::default();
    text.family("build_info", "gauge", "The version, as a label.");
    text.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let uptime = shared.started.elapsed().as_secs();
    text.single("uptime_seconds", "gauge", "Seconds since the start.", uptime);
    let clients = shared.clients.load(Relaxed);
    text.single("client_connections", "gauge", "Connections of clients.", clients);
    memory(&mut text, shared);
    log(&mut text, &shared.log);
    configuration(&mut text, shared);
    counters(&mut text, shared);
    servers(&mut text, shared);
    latencies(&mut text, shared);
    text.0
}

fn memory(text: &mut Text, shared: &Shared) {
    let bank = &shared.bank;
    let help = "Bytes of requests and replies that are held for clients.";
    text.single("client_memory_bytes", "gauge", help, bank.held());
    let help = "Bytes that may be held for all clients together.";
    text.single("client_memory_limit_bytes", "gauge", help, bank.limits().all);
    let help = "Requests and values that were refused because too much was held.";
    text.single("client_memory_refusals_total", "counter", help, bank.refused());
}

fn log(text: &mut Text, log: &Log) {
    let help = "Log lines dropped because nobody read them, or that could not be written.";
    text.single("log_lines_dropped_total", "counter", help, log.dropped());
    let help = "Log lines not made because their event had 100 in the second.";
    text.single("log_lines_suppressed_total", "counter", help, log.suppressed());
}

fn configuration(text: &mut Text, shared: &Shared) {
    let standing = shared.standing.lock();
    let age = seconds_now().saturating_sub(standing.last_success);
    text.single("config_age_seconds", "gauge", "Seconds since the configuration was read.", age);
    let help = "1 while the last good configuration stands in for one that can't be used.";
    text.single("configs_from_disk", "gauge", help, u8::from(standing.is_from_disk));
    let failures = standing.failures;
    text.single(
        "config_failures_total",
        "counter",
        "Changes of the configuration that were refused.",
        failures,
    );
}

fn counters(text: &mut Text, shared: &Shared) {
    let sum = |counter| shared.counters.iter().map(|thread| thread.get(counter)).sum::<u64>();
    text.family("commands_total", "counter", "Keys that clients asked for, by command.");
    let commands = |counter: Counter| counter.name().strip_prefix("cmd_")?.strip_suffix("_count");
    for &counter in Counter::ALL {
        if let Some(command) = commands(counter) {
            text.sample("commands_total", &[("command", command)], sum(counter));
        }
    }
    for &counter in Counter::ALL.iter().filter(|&&counter| commands(counter).is_none()) {
        let name = counter.name();
        let name = format!("{}_total", name.strip_suffix("_count").unwrap_or(name));
        text.single(&name, "counter", counter.meaning(), sum(counter));
    }
}

/// One server, over all threads.
#[derive(Default)]
struct Server {
    is_marked: bool,
    connections: usize,
    outstanding: usize,
    opened: u64,
    closed: u64,
    probes: u64,
}

fn servers(text: &mut Text, shared: &Shared) {
    let mut servers: BTreeMap<String, Server> = BTreeMap::new();
    for link in shared.links() {
        let server = servers.entry(link.server.host_port()).or_default();
        server.is_marked = link.tko.is_marked();
        server.connections += usize::from(link.stats.is_up.load(Relaxed));
        server.outstanding += link.stats.outstanding.load(Relaxed);
        server.opened += link.stats.opened.load(Relaxed);
        server.closed += link.stats.closed.load(Relaxed);
        server.probes += link.stats.probes.load(Relaxed);
    }
    let mut family = |name, kind, help, value: &dyn Fn(&Server) -> u64| {
        text.family(name, kind, help);
        for (host_port, server) in &servers {
            text.sample(name, &[("server", host_port)], value(server));
        }
    };
    family(
        "server_tko",
        "gauge",
        "1 while nothing is sent to the server because it failed.",
        &|s| s.is_marked.into(),
    );
    family("server_connections", "gauge", "Connections to the server.", &|s| s.connections as u64);
    family("server_outstanding", "gauge", "Requests without a reply.", &|s| s.outstanding as u64);
    family("server_connections_opened_total", "counter", "Connections opened.", &|s| s.opened);
    family("server_connections_closed_total", "counter", "Connections closed or lost.", &|s| {
        s.closed
    });
    family("server_probes_total", "counter", "Probes sent to the failed server.", &|s| s.probes);
}

fn latencies(text: &mut Text, shared: &Shared) {
    let leaves = shared.leaves();
    let help = "Seconds from a request's turn to its reply.";
    text.family("request_duration_seconds", "histogram", help);
    for ((pool, server), threads) in &leaves {
        let mut shape = Shape::default();
        threads.iter().for_each(|stats| shape.add(&stats.took));
        let labels = [("pool", &pool[..]), ("server", &server[..])];
        for (bound, count) in shape.cumulative() {
            let bound = bound.to_string();
            let labels = [labels[0], labels[1], ("le", &bound)];
            text.sample("request_duration_seconds_bucket", &labels, count);
        }
        let count = shape.count();
        let last = [labels[0], labels[1], ("le", "+Inf")];
        text.sample("request_duration_seconds_bucket", &last, count);
        #[expect(clippy::cast_precision_loss, reason = "a sum for monitors")]
        let sum = shape.sum_us as f64 / 1e6;
        text.sample("request_duration_seconds_sum", &labels, sum);
        text.sample("request_duration_seconds_count", &labels, count);
    }
    text.family("request_errors_total", "counter", "Replies of servers that were errors.");
    for ((pool, server), threads) in &leaves {
        let errors: u64 = threads.iter().map(|stats| stats.errors.load(Relaxed)).sum();
        text.sample("request_errors_total", &[("pool", pool), ("server", server)], errors);
    }
}
