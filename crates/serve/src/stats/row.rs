//! The declaration of a statistic: its line in `stats`, its metric, its meaning, and how it is read.
//!
//! A table is a list of rows in the order of the lines:
//!
//! ```text
//! #[When] name, "what it means", |view| value => counter|gauge metric_name(label = "of", ..);
//! ```
//! The condition, and everything from `=>` on, may be left out: then the line is always shown, or has no
//! metric. Rows with the same metric name form one family, distinguished by their labels.

use crate::process::Process;
use crate::process::storage::{Storage, StorageFigures};
use crate::settings::ServerSettings;
use guira_cache::{ClassCounter, ClassStats, Moves, Totals};
use guira_front::vitals::Vitals;
use guira_proto::reply;
use rustix::time::{ClockId, clock_gettime};
use std::cell::OnceCell;
use std::fmt::{self, Display};

/// One statistic.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The condition under which the line is shown.
    pub(crate) when: When,
    /// The meaning, for the documentation and the metric's help.
    pub(crate) meaning: &'static str,
    pub(crate) value: fn(&View<'_>) -> Value,
    pub(crate) metric: Option<Metric>,
}

/// How a statistic is exported to Prometheus.
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) labels: &'static [(&'static str, &'static str)],
}

/// Whether a metric only rises. The names are Prometheus's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "rows spell them so")]
pub(crate) enum Kind {
    counter,
    gauge,
}

impl Kind {
    /// The name in the exposition format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::counter => "counter",
            Self::gauge => "gauge",
        }
    }
}

/// The condition of a line: memcached shows some lines only under some settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    MaxconnsFast,
    IdleTimeout,
    Reassign,
    Crawler,
    Maintainer,
    Segmented,
    Tls,
    TlsSessions,
    Storage,
}

/// The figures that values are computed from, all read at one time.
pub(crate) struct View<'s> {
    pub(crate) process: &'s Process,
    pub(crate) totals: Totals,
    pub(super) moves: Moves,
    pub(crate) now: u32,
    /// Microseconds in user and system mode.
    pub(crate) cpu_us: [u64; 2],
    /// The current slab class with its figures, while a table by class is shown.
    class: Option<(usize, ClassStats)>,
    storage: OnceCell<StorageFigures>,
}

/// The value of a statistic.
pub(crate) enum Value {
    Number(u64),
    /// A value that isn't a number; NaN as a metric.
    Text(String),
    /// `yes` or `no`; 1 or 0 as a metric.
    Flag(bool),
    /// Microseconds, shown as seconds with six decimal places.
    Seconds(u64),
    /// A fraction, and the number of decimal places shown.
    Fraction(f64, usize),
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(text) => f.write_str(text),
            Self::Flag(is) => f.write_str(if *is { "yes" } else { "no" }),
            Self::Seconds(us) => write!(f, "{}.{:06}", us / 1_000_000, us % 1_000_000),
            Self::Fraction(x, digits) => write!(f, "{x:.digits$}"),
        }
    }
}

impl Metric {
    /// The metric's name with its labels, for the documentation.
    pub(crate) fn series(&self) -> String {
        let labels: Vec<_> =
            self.labels.iter().map(|(label, of)| format!("{label}=\"{of}\"")).collect();
        match labels.is_empty() {
            true => self.name.to_owned(),
            false => format!("{}{{{}}}", self.name, labels.join(",")),
        }
    }
}

impl Value {
    /// The number that the exposition format shows.
    pub(crate) fn as_metric(&self) -> String {
        match self {
            Self::Flag(is) => u8::from(*is).to_string(),
            Self::Text(_) => "NaN".to_owned(),
            _ => self.to_string(),
        }
    }
}

impl<'s> View<'s> {
    pub(crate) fn new(process: &'s Process, now: u32) -> View<'s> {
        View {
            process,
            totals: process.cache.totals(),
            moves: process.cache.moves(),
            now,
            cpu_us: cpu_us(&process.vitals),
            class: None,
            storage: OnceCell::new(),
        }
    }

    /// The snapshot of storage, read once; all 0 without storage.
    pub(crate) fn storage(&self) -> &StorageFigures {
        self.storage.get_or_init(|| match &self.process.storage {
            Some(storage) => storage.figures(),
            None => StorageFigures::default(),
        })
    }

    /// Returns a figure of storage; 0 without storage.
    pub(crate) fn of_storage<T: Default>(&self, read: impl FnOnce(&Storage) -> T) -> T {
        self.process.storage.as_deref().map(read).unwrap_or_default()
    }

    /// Calls `tell` for each slab class in ascending order from 0, with the view set to that class.
    pub(crate) fn each_class(&mut self, mut tell: impl FnMut(usize, &View<'s>)) {
        for class in 0..self.process.cache.classes() {
            self.class = Some((class, self.process.cache.class_stats(class)));
            tell(class, self);
        }
        self.class = None;
    }

    /// Whether the row's condition holds, so that its line is shown.
    pub(crate) fn shows(&self, row: &Row) -> bool {
        let extended = &self.settings().extended;
        match row.when {
            When::Always => true,
            When::MaxconnsFast => extended.maxconns_fast,
            When::IdleTimeout => extended.idle_timeout_s > 0,
            When::Reassign => extended.slab_reassign,
            When::Crawler => self.process.crawler.is_enabled(),
            When::Maintainer => extended.lru_maintainer,
            When::Segmented => self.process.queues.lock().is_segmented,
            When::Tls => self.settings().tls_enabled,
            When::Storage => self.process.storage.is_some(),
            When::TlsSessions => self.settings().tls_enabled && extended.tls.session_cache,
        }
    }

    pub(crate) fn settings(&self) -> &'s ServerSettings {
        &self.process.settings
    }

    /// The figures of the current class.
    pub(crate) fn of_class(&self) -> &ClassStats {
        &self.class.as_ref().expect("a row of a table by class").1
    }

    /// A counter of the current class.
    pub(crate) fn class_count(&self, counter: ClassCounter) -> u64 {
        self.class.as_ref().map_or(0, |(class, _)| self.totals.class(counter, *class))
    }

    /// Whether the current class has pages, or has had some and may have counted something. memcached
    /// leaves a class its last page; Guira gives that one to other classes too.
    pub(crate) fn shows_slab(&self) -> bool {
        self.of_class().pages > 0 || self.class_count(ClassCounter::CmdSet) > 0
    }
}

/// Appends the lines of a table, with `prefix` before each name.
pub(super) fn lines(table: &[Row], view: &View<'_>, prefix: &str, out: &mut Vec<u8>) {
    for row in table.iter().filter(|row| view.shows(row)) {
        line(out, &format!("{prefix}{}", row.name), (row.value)(view));
    }
}

/// Appends one line.
pub(super) fn line(out: &mut Vec<u8>, name: &str, value: impl Display) {
    reply::stat(out, name, value.to_string().as_bytes());
}

/// Returns the CPU time of the process in user and in system mode. The kernel counts both in ticks, and
/// their sum in nanoseconds. As getrusage does, this divides the exact sum in proportion to the ticks.
fn cpu_us(vitals: &Vitals) -> [u64; 2] {
    let sum = clock_gettime(ClockId::ProcessCPUTime);
    let sum_us = u64::try_from(sum.tv_sec * 1_000_000 + sum.tv_nsec / 1_000).unwrap_or(0);
    let stat = vitals.stat();
    let ticks = |at| stat.get(at).copied().unwrap_or(0);
    let (user, system) = (ticks(11), ticks(12));
    let user_us = (sum_us * user).checked_div(user + system).unwrap_or(sum_us);
    [user_us, sum_us - user_us]
}

/// Returns an integer of any type as a [`Value`].
pub(crate) fn number(n: impl TryInto<u64>) -> Value {
    Value::Number(n.try_into().unwrap_or(0))
}

/// Returns the displayed text of `what` as a [`Value`].
pub(super) fn text(what: impl Display) -> Value {
    Value::Text(what.to_string())
}

/// The value of a statistic for a part that Guira doesn't have.
pub(super) fn zero(_: &View<'_>) -> Value {
    Value::Number(0)
}

/// Builds a table of rows.
macro_rules! rows {
    ($($(#[$when:ident])? $name:ident, $meaning:literal, $value:expr
        $(=> $kind:ident $metric:ident $(($($label:ident = $of:expr),+))?)?;)*) => {
        &[$($crate::stats::row::Row {
            name: stringify!($name),
            when: $crate::stats::row::rows!(@when $($when)?),
            meaning: $meaning,
            value: $value,
            metric: $crate::stats::row::rows!(@metric $($kind $metric $($($label = $of),+)?)?),
        }),*]
    };
    (@when) => { $crate::stats::row::When::Always };
    (@when $when:ident) => { $crate::stats::row::When::$when };
    (@metric) => { None };
    (@metric $kind:ident $metric:ident $($label:ident = $of:expr),*) => {
        Some($crate::stats::row::Metric {
            name: stringify!($metric),
            kind: $crate::stats::row::Kind::$kind,
            labels: &[$((stringify!($label), $of)),*],
        })
    };
}

/// The value of a counter of the whole cache.
macro_rules! counter {
    ($counter:ident) => {
        |v| $crate::stats::row::number(v.totals.get(guira_cache::Counter::$counter))
    };
}

/// The value of a class counter, summed over all classes.
macro_rules! class_counter {
    ($counter:ident) => {
        |v| $crate::stats::row::number(v.totals.all(guira_cache::ClassCounter::$counter))
    };
}

/// The value of a figure that no worker owns.
macro_rules! gauge {
    ($gauge:ident) => {
        |v| $crate::stats::row::number(v.process.gauges.get($crate::process::gauges::Gauge::$gauge))
    };
}

pub(crate) use rows;
pub(super) use {class_counter, counter, gauge};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_seconds_have_six_digits_behind_the_point() {
        assert_eq!(Value::Seconds(12_000_034).to_string(), "12.000034");
    }

    #[test]
    fn a_row_has_a_condition_and_a_metric_only_if_it_says_so() {
        let table: &[Row] = rows! {
            plain, "p", zero;
            #[Crawler] full, "f", zero => counter family_total(command = "get", status = "hit");
        };
        assert!(table[0].metric.is_none() && table[0].when == When::Always);
        let metric = table[1].metric.as_ref().unwrap();
        assert_eq!(table[1].when, When::Crawler);
        assert_eq!(metric.kind, Kind::counter);
        assert_eq!(metric.series(), r#"family_total{command="get",status="hit"}"#);
    }
}
