//! `/metrics`: the statistics in Prometheus's text format 0.0.4.
//!
//! Names, labels and types are `memcached_exporter`'s wherever it has one, so that its dashboards and
//! alerts work without it; Guira's own begin with `guira_`. The rows of `stats` carry them; here are
//! the few that no line of `stats` has, and how a scrape is put together.
//!
//! # Costs
//! A scrape reads what `stats`, `stats items`, `stats slabs` and `stats settings` read, on the thread of
//! the HTTP port: no worker does anything for it.

mod exposition;

use crate::process::Process;
use crate::process::measure::Measures;
use crate::stats::row::{Row, Value, View, number, rows};
use crate::stats::{ITEMS, OWN, SETTINGS, SLABS, SLABS_ALL, STATS};
use crate::version::{GUIRA_VERSION, VERSION};
use exposition::Exposition;
use guira_cache::{ClassCounter, Counter};
use std::collections::BTreeMap;

/// The body of a scrape.
pub(crate) fn expose(process: &Process) -> String {
    let mut view = View::new(process, process.time.now());
    let mut all = Exposition::default();
    let settings = SETTINGS.iter().map(|(rows, _)| *rows);
    for table in [STATS, OWN].into_iter().chain(settings).chain([SLABS_ALL, ALONE]) {
        all.table(table, &view, None);
    }
    view.each_class(|class, view| {
        let slab = Some(class + 1);
        if view.class_count(ClassCounter::Items) > 0 {
            all.table(ITEMS, view, slab);
        }
        if view.shows_slab() {
            all.table(SLABS, view, slab);
            all.table(SLABS_ALONE, view, slab);
        }
    });
    histograms(process, &mut all);
    all.into_text()
}

/// Each family of a scrape, its type, and what it means, for the documentation.
pub fn metric_meanings() -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let settings = SETTINGS.iter().map(|(rows, _)| *rows);
    let tables = [STATS, OWN, SLABS_ALL, ALONE, ITEMS, SLABS, SLABS_ALONE].into_iter();
    let mut families = BTreeMap::new();
    for row in tables.chain(settings).flatten() {
        if let Some(metric) = &row.metric {
            let help = exposition::help(metric.name, row.meaning);
            families.entry(metric.name).or_insert((metric.kind.name(), help));
        }
    }
    families.extend([LATENCY, VALUES, EVICTED].map(|(name, help)| (name, ("histogram", help))));
    families
}

fn histograms(process: &Process, all: &mut Exposition) {
    Measures::latencies(&process.measures, |command, status, took_ns| {
        // A kind of request that nobody sends has no series, but the gets that dashboards begin with.
        if took_ns.count > 0 || command == "get" {
            all.histogram(LATENCY, &[("command", command), ("status", status)], 1e9, &took_ns);
        }
    });
    if let Some(bytes) = Measures::values(&process.measures) {
        all.histogram(VALUES, &[], 1.0, &bytes);
    }
    if let Some(idle_s) = process.cache.evicted_idle_s() {
        all.histogram(EVICTED, &[], 1.0, &idle_s);
    }
}

const LATENCY: (&str, &str) = (
    "guira_command_duration_seconds",
    "from waking up to replies sent, for one batch a connection in a sixteenth of the turns",
);
const VALUES: (&str, &str) =
    ("guira_value_size_bytes", "values stored in a sixteenth of the turns");
const EVICTED: (&str, &str) =
    ("guira_eviction_age_seconds", "how long evicted items had not been used");

/// Metrics without a line in `stats`.
const ALONE: &[Row] = rows! {
    up, "1: the server answers", |_| number(1u8) => gauge memcached_up;
    version, "the memcached spoken, and Guira's own version", |_| number(1u8) => gauge memcached_version(version = VERSION);
    build, "this program", |_| number(1u8) => gauge guira_build_info(version = GUIRA_VERSION);
    sets, "storage requests but cas", |v| number(sets(v)) => counter memcached_commands_total(command = "set", status = "hit");
    resident, "bytes of the process in memory", |v| number(v.process.vitals.resident_bytes()) => gauge process_resident_memory_bytes;
    descriptors, "descriptors in use", |v| number(v.process.vitals.descriptors()) => gauge process_open_fds;
    descriptors_max, "the limit of open files", |v| number(v.process.vitals.descriptors_max()) => gauge process_max_fds;
    cpu, "CPU seconds", |v| Value::Seconds(v.cpu_us[0] + v.cpu_us[1]) => counter process_cpu_seconds_total;
    start, "Unix time of the start", |v| number(v.process.time.unix(v.process.cache.began_at_s())) => gauge process_start_time_seconds;
};

/// The same for a slab class.
const SLABS_ALONE: &[Row] = rows! {
    sets, "storage requests but cas", |v| number(class_sets(v)) => counter memcached_slab_commands_total(command = "set", status = "hit");
};

/// `cmd_set` counts every cas too.
fn sets(v: &View<'_>) -> u64 {
    let all = |counter| v.totals.all(counter);
    let cas = all(ClassCounter::CasHits) + all(ClassCounter::CasBadval);
    all(ClassCounter::CmdSet).saturating_sub(cas + v.totals.get(Counter::CasMisses))
}

fn class_sets(v: &View<'_>) -> u64 {
    let of = |counter| v.class_count(counter);
    of(ClassCounter::CmdSet).saturating_sub(of(ClassCounter::CasHits) + of(ClassCounter::CasBadval))
}
