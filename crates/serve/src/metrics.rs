//! `/metrics`: the statistics in Prometheus's text format 0.0.4.
//!
//! Names, labels and types are those of `memcached_exporter` where it has the metric, so that its
//! dashboards and alerts work without the exporter. Guira's own names begin with `guira_`. Most metrics
//! are declared in the rows of `stats`; this module has the few without such a row, and builds the reply
//! to a scrape or a probe.
//!
//! # Costs
//! A scrape reads what `stats`, `stats items`, `stats slabs` and `stats settings` read, on the thread of
//! the HTTP port: the workers do nothing for it.

use crate::process::Process;
use crate::process::measure::Measures;
use crate::stats::row::{Row, Value, View, number, rows};
use crate::stats::{EVENTS, ITEMS, OWN, SETTINGS, SLABS, SLABS_ALL, STATS};
use crate::version::{GUIRA_VERSION, VERSION};
use guira_cache::{ClassCounter, Counter, Distribution};
use guira_front::exposition::Exposition;
use guira_front::http::Probed;
use std::borrow::Cow;
use std::collections::BTreeMap;

impl Probed for Process {
    fn metrics(&self) -> String {
        let mut view = View::new(self, self.time.now());
        let mut all = Exposition::default();
        let settings = SETTINGS.iter().map(|(rows, _)| *rows);
        for rows in [STATS, OWN, EVENTS].into_iter().chain(settings).chain([SLABS_ALL, ALONE]) {
            table(&mut all, rows, &view, None);
        }
        view.each_class(|class, view| {
            let slab = (class + 1).to_string();
            if view.class_count(ClassCounter::Items) > 0 {
                table(&mut all, ITEMS, view, Some(&slab));
            }
            if view.shows_slab() {
                table(&mut all, SLABS, view, Some(&slab));
                table(&mut all, SLABS_ALONE, view, Some(&slab));
            }
        });
        histograms(self, &mut all);
        all.sort();
        all.into_text()
    }

    fn unready(&self) -> Option<Cow<'static, str>> {
        if self.stop.has_rung() {
            return Some(Cow::Borrowed("stopping"));
        }
        (!self.gauges.is_accepting()).then_some(Cow::Borrowed("out of descriptors"))
    }
}

/// Returns each metric family of a scrape with its type and meaning, for the documentation.
pub fn metric_meanings() -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let settings = SETTINGS.iter().map(|(rows, _)| *rows);
    let tables = [STATS, OWN, EVENTS, SLABS_ALL, ALONE, ITEMS, SLABS, SLABS_ALONE].into_iter();
    let mut families = BTreeMap::new();
    for row in tables.chain(settings).flatten() {
        if let Some(metric) = &row.metric {
            let help = help(metric.name, row.meaning);
            families.entry(metric.name).or_insert((metric.kind.name(), help));
        }
    }
    families.extend([LATENCY, VALUES, EVICTED].map(|(name, help)| (name, ("histogram", help))));
    families
}

/// Adds the rows of a table that have a metric; `slab` is the slab class that they describe.
fn table(all: &mut Exposition, rows: &[Row], view: &View<'_>, slab: Option<&str>) {
    for row in rows.iter().filter(|row| view.shows(row)) {
        let Some(metric) = &row.metric else { continue };
        let slab = slab.map(|slab| ("slab", slab));
        let labels: Vec<_> = slab.into_iter().chain(metric.labels.iter().copied()).collect();
        let mut family =
            all.family(metric.name, metric.kind.name(), help(metric.name, row.meaning));
        family.add(&labels, (row.value)(view).as_metric());
    }
}

/// Returns a family's help: the row's meaning, unless several rows share the family.
fn help(name: &str, meaning: &'static str) -> &'static str {
    SHARED.iter().find(|(family, _)| *family == name).map_or(meaning, |(_, help)| help)
}

fn histograms(process: &Process, all: &mut Exposition) {
    Measures::latencies(&process.measures, |command, status, took_ns| {
        // A kind of request that was never sent has no series, except gets, on which dashboards depend.
        if took_ns.count > 0 || command == "get" {
            histogram(all, LATENCY, &[("command", command), ("status", status)], 1e9, &took_ns);
        }
    });
    if let Some(bytes) = Measures::values(&process.measures) {
        histogram(all, VALUES, &[], 1.0, &bytes);
    }
    if let Some(idle_s) = process.cache.evicted_idle_s() {
        histogram(all, EVICTED, &[], 1.0, &idle_s);
    }
}

fn histogram(
    all: &mut Exposition,
    (name, help): (&'static str, &'static str),
    labels: &[(&str, &str)],
    per_unit: f64,
    of: &Distribution,
) {
    let steps = of.steps.iter().scan(0, |below, &(bound, more)| {
        *below += more;
        Some((bound as f64 / per_unit, *below))
    });
    let mut family = all.family(name, "histogram", help);
    family.histogram(labels, steps, of.sum as f64 / per_unit, of.count);
}

const SHARED: &[(&str, &str)] = &[
    ("memcached_commands_total", "requests by command and outcome"),
    ("memcached_slab_commands_total", "requests by slab class, command and outcome"),
    ("memcached_slab_lru_hits_total", "keys found, by slab class and queue"),
];
const LATENCY: (&str, &str) = (
    "guira_command_duration_seconds",
    "from waking up to replies sent, for one batch a connection in a sixteenth of the turns",
);
const VALUES: (&str, &str) =
    ("guira_value_size_bytes", "values stored in a sixteenth of the turns");
const EVICTED: (&str, &str) =
    ("guira_eviction_age_seconds", "how long evicted items had not been used");

/// Metrics that have no line in `stats`.
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

/// Metrics of a slab class that have no line in `stats`.
const SLABS_ALONE: &[Row] = rows! {
    sets, "storage requests but cas", |v| number(class_sets(v)) => counter memcached_slab_commands_total(command = "set", status = "hit");
};

/// Counts the storage requests other than cas; `cmd_set` counts every cas too.
fn sets(v: &View<'_>) -> u64 {
    let all = |counter| v.totals.all(counter);
    let cas = all(ClassCounter::CasHits) + all(ClassCounter::CasBadval);
    all(ClassCounter::CmdSet).saturating_sub(cas + v.totals.get(Counter::CasMisses))
}

fn class_sets(v: &View<'_>) -> u64 {
    let of = |counter| v.class_count(counter);
    of(ClassCounter::CmdSet).saturating_sub(of(ClassCounter::CasHits) + of(ClassCounter::CasBadval))
}
