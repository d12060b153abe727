//! The numbers in Prometheus' text format: names begin with `guira_store_`.

use guira_front::exposition::Exposition;
use guira_front::vitals::{PROCESS_METRICS, Vitals};
use guira_store::OpenProgress;

use crate::counts::Count;
use crate::engine::Engine;
use crate::figures::FIGURES;
use crate::process::Process;
use crate::replica::REPLICA_FIGURES;
use crate::stats::Look;

/// Adds the metrics that exist before the store is open, and go on afterwards.
pub(crate) fn of_start(all: &mut Exposition, progress: &OpenProgress, vitals: &Vitals) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    all.family("guira_store_build_info", "gauge", BUILD).add(&version, 1);
    for (name, kind, help, read) in OF_START {
        all.family(format!("guira_store_{name}"), kind, help).add(&[], read(progress));
    }
    for ((name, kind, help), value) in PROCESS_METRICS.into_iter().zip(vitals.metrics()) {
        all.family(name, kind, help).add(&[], value);
    }
}

/// Adds the metrics of a store that is open.
pub(crate) fn of_process<E: Engine>(all: &mut Exposition, process: &Process<E>) {
    let look = Look::new(process);
    for (name, kind, help, read) in OF_PROCESS {
        all.family(format!("guira_store_{name}"), kind, help).add(&[], read(&look));
    }
    for (count, name, meaning) in Count::ALL {
        all.family(metric_of(name), "counter", meaning).add(&[], process.count(*count));
    }
    if let Some(replica) = &process.replica {
        let figures = replica.board.read();
        for row in REPLICA_FIGURES {
            all.family(row.metric(), row.kind, row.help())
                .add(row.label.as_slice(), (row.read)(&figures));
        }
    }
    for row in FIGURES {
        all.family(figure_metric(row.name, row.kind), row.kind, row.meaning)
            .add(&[], (row.read)(look.store()));
    }
}

type OfStart = (&'static str, &'static str, &'static str, fn(&OpenProgress) -> u64);

const OF_START: [OfStart; 4] = [
    ("opening_runs", "gauge", "Runs and partitions that the start opens.", OpenProgress::runs),
    ("opening_runs_open", "gauge", "Of these, how many are open.", OpenProgress::runs_open),
    (
        "opening_log_bytes",
        "gauge",
        "Bytes of logs that the start replays.",
        OpenProgress::log_bytes,
    ),
    (
        "opening_log_bytes_replayed",
        "gauge",
        "Of these, how many are replayed.",
        OpenProgress::log_bytes_replayed,
    ),
];

type OfProcess = (&'static str, &'static str, &'static str, fn(&Look) -> u64);

const BUILD: &str = "The version, as a label.";
const OF_PROCESS: [OfProcess; 7] = [
    ("uptime_seconds", "gauge", "Seconds since the start.", Look::uptime_s),
    ("client_connections", "gauge", "Clients.", Look::connections),
    ("client_connections_limit", "gauge", "Clients at once (`-c`).", Look::connections_max),
    (
        "client_memory_bytes",
        "gauge",
        "Bytes held for clients (`--client-memory`).",
        Look::client_memory,
    ),
    (
        "client_memory_refusals_total",
        "counter",
        "Requests and values that were refused, and clients that were closed, because too much was held.",
        Look::client_memory_refusals,
    ),
    (
        "changes_under_way",
        "gauge",
        "Changes that aren't durable yet, and not answered.",
        Look::under_way,
    ),
    (
        "reads_waiting",
        "gauge",
        "Reads that wait for a thread (`--read-threads`).",
        Look::reads_waiting,
    ),
];

fn metric_of(count: &str) -> String {
    format!("guira_store_{}_total", count.trim_start_matches("total_"))
}

fn figure_metric(name: &str, kind: &str) -> String {
    match kind {
        "counter" => format!("guira_store_{name}_total"),
        _ => format!("guira_store_{name}"),
    }
}

/// Each metric's name, type and meaning, in the order of a scrape.
pub fn metric_meanings() -> impl Iterator<Item = (String, &'static str, &'static str)> {
    let build = ("guira_store_build_info".to_owned(), "gauge", BUILD);
    let start =
        OF_START.iter().map(|(name, kind, help, _)| (format!("guira_store_{name}"), *kind, *help));
    let process = OF_PROCESS
        .iter()
        .map(|(name, kind, help, _)| (format!("guira_store_{name}"), *kind, *help));
    let counts = Count::ALL.iter().map(|(_, name, meaning)| (metric_of(name), "counter", *meaning));
    let figures =
        FIGURES.iter().map(|row| (figure_metric(row.name, row.kind), row.kind, row.meaning));
    let vitals =
        PROCESS_METRICS.into_iter().map(|(name, kind, help)| (name.to_owned(), kind, help));
    let mut replica: Vec<_> =
        REPLICA_FIGURES.iter().map(|row| (row.metric(), row.kind, row.help())).collect();
    // The rows of a metric stand together.
    replica.dedup();
    let start = std::iter::once(build).chain(start).chain(vitals);
    start.chain(process).chain(counts).chain(figures).chain(replica)
}
