//! Prometheus's text format: families in the order of their names, each with help, type and samples.
//!
//! Written by hand because some of `memcached_exporter`'s names (a counter called
//! `memcached_uptime_seconds`) can't be said by libraries, which follow stricter rules.

use crate::stats::row::{Row, View};
use guira_cache::Distribution;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A scrape in the making.
#[derive(Default)]
pub(super) struct Exposition {
    families: BTreeMap<&'static str, Family>,
}

struct Family {
    kind: &'static str,
    help: &'static str,
    samples: String,
}

impl Exposition {
    /// Adds the rows of a table that have a metric; `slab` is the class that they tell of.
    pub(super) fn table(&mut self, table: &[Row], view: &View<'_>, slab: Option<usize>) {
        for row in table.iter().filter(|row| view.shows(row)) {
            let Some(metric) = &row.metric else { continue };
            let value = (row.value)(view);
            let family =
                self.family(metric.name, metric.kind.name(), help(metric.name, row.meaning));
            let _ = writeln!(family.samples, "{} {}", metric.sample(slab), value.as_metric());
        }
    }

    /// Adds one series of a histogram. A step's bound is divided by `per_unit`: 0.000003072 is a quotient's shortest
    /// form, where a product has eighteen digits.
    pub(super) fn histogram(
        &mut self,
        (name, help): (&'static str, &'static str),
        labels: &[(&str, &str)],
        per_unit: f64,
        of: &Distribution,
    ) {
        let samples = &mut self.family(name, "histogram", help).samples;
        let labels: Vec<_> = labels.iter().map(|(name, is)| format!("{name}=\"{is}\"")).collect();
        let labels = labels.join(",");
        let (before, all) = match labels.is_empty() {
            true => (String::new(), String::new()),
            false => (format!("{labels},"), format!("{{{labels}}}")),
        };
        let mut count = 0;
        for (bound, more) in &of.steps {
            count += more;
            let le = *bound as f64 / per_unit;
            let _ = writeln!(samples, "{name}_bucket{{{before}le=\"{le}\"}} {count}");
        }
        let _ = writeln!(samples, "{name}_bucket{{{before}le=\"+Inf\"}} {}", of.count);
        let _ = writeln!(samples, "{name}_sum{all} {}", of.sum as f64 / per_unit);
        let _ = writeln!(samples, "{name}_count{all} {}", of.count);
    }

    /// The text of all families.
    pub(super) fn into_text(self) -> String {
        let mut text = String::new();
        for (name, Family { kind, help, samples }) in self.families {
            // It comes from the documents' tables, too, whose Markdown monitors would show as it is.
            let help = help.replace('`', "");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        }
        text
    }

    fn family(
        &mut self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
    ) -> &mut Family {
        self.families.entry(name).or_insert_with(|| Family { kind, help, samples: String::new() })
    }
}

/// A family's help: a row's meaning, unless several rows share the family.
pub(super) fn help(name: &str, meaning: &'static str) -> &'static str {
    SHARED.iter().find(|(family, _)| *family == name).map_or(meaning, |(_, help)| help)
}

const SHARED: &[(&str, &str)] = &[
    ("memcached_commands_total", "requests by command and outcome"),
    ("memcached_slab_commands_total", "requests by slab class, command and outcome"),
    ("memcached_slab_lru_hits_total", "keys found, by slab class and queue"),
];
