//! Prometheus's text format 0.0.4: families, each with its help, its type and its samples.
//!
//! Written by hand because libraries follow stricter rules than the exporters whose names Guira keeps: a counter may be
//! called `memcached_uptime_seconds`.

use indexmap::IndexMap;
use std::borrow::Cow;
use std::fmt::{Display, Write};

/// A scrape under construction: its families in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    families: IndexMap<Cow<'static, str>, Family>,
}

#[derive(Clone, Debug)]
struct Family {
    kind: &'static str,
    help: &'static str,
    samples: String,
}

/// The samples of one family. Writing to a string doesn't fail.
#[derive(Debug)]
pub struct Samples<'e> {
    name: &'e str,
    text: &'e mut String,
}

impl Exposition {
    /// Returns the family with this name, which is added if it doesn't exist.
    pub fn family(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        kind: &'static str,
        help: &'static str,
    ) -> Samples<'_> {
        let entry = self.families.entry(name.into());
        let at = entry.index();
        entry.or_insert_with(|| Family { kind, help, samples: String::new() });
        let (name, family) = self.families.get_index_mut(at).expect("it was just added");
        Samples { name, text: &mut family.samples }
    }

    /// Sorts the families by name.
    pub fn sort(&mut self) {
        self.families.sort_unstable_keys();
    }

    /// The text of all families.
    #[must_use]
    pub fn into_text(self) -> String {
        let mut text = String::new();
        for (name, Family { kind, help, samples }) in self.families {
            // The tables of the documentation share this text. Its Markdown would reach monitors unchanged.
            let help = help.replace('`', "");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        }
        text
    }
}

impl Samples<'_> {
    /// Adds a sample.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Adds one series of a histogram: the upper bound of each step with the number of values at or below it, then the sum
    /// and the number of all values.
    ///
    /// A bound is written in its shortest form: pass a quotient (3072 / 1e9 is `0.000003072`), because a product often has
    /// eighteen digits.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        steps: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
    ) {
        for (bound, below) in steps {
            self.line("_bucket", labels, Some(&bound.to_string()), below);
        }
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        bound: Option<&str>,
        value: impl Display,
    ) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        let mut before = '{';
        for (label, text) in labels.iter().copied().chain(bound.map(|bound| ("le", bound))) {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{before}{label}=\"{text}\"");
            before = ',';
        }
        let _ = writeln!(self.text, "{} {value}", if before == '{' { "" } else { "}" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_stand_together_and_labels_are_escaped() {
        let mut all = Exposition::default();
        all.family("z_total", "counter", "Those `z`.").add(&[("slab", "3"), ("of", "a\"\\\n")], 7);
        all.family("a", "gauge", "An a.").add(&[], "0.5");
        all.family("z_total", "counter", "Those `z`.").add(&[("slab", "4")], 8);
        let z = "# HELP z_total Those z.\n# TYPE z_total counter\n\
                 z_total{slab=\"3\",of=\"a\\\"\\\\\\n\"} 7\nz_total{slab=\"4\"} 8\n";
        let a = "# HELP a An a.\n# TYPE a gauge\na 0.5\n";
        let mut sorted = all.clone();
        assert_eq!(all.into_text(), format!("{z}{a}"));
        sorted.sort();
        assert_eq!(sorted.into_text(), format!("{a}{z}"));
    }

    #[test]
    fn a_histogram_has_short_bounds_a_sum_and_a_count() {
        let mut all = Exposition::default();
        let mut family = all.family("t_seconds", "histogram", "T.");
        family.histogram(&[("of", "get")], [(3072.0 / 1e9, 1), (0.5, 2)], 2.25, 3);
        family.histogram(&[], [], 0.0, 0);
        let text = "# HELP t_seconds T.\n# TYPE t_seconds histogram\n\
                    t_seconds_bucket{of=\"get\",le=\"0.000003072\"} 1\n\
                    t_seconds_bucket{of=\"get\",le=\"0.5\"} 2\n\
                    t_seconds_bucket{of=\"get\",le=\"+Inf\"} 3\n\
                    t_seconds_sum{of=\"get\"} 2.25\nt_seconds_count{of=\"get\"} 3\n\
                    t_seconds_bucket{le=\"+Inf\"} 0\nt_seconds_sum 0\nt_seconds_count 0\n";
        assert_eq!(all.into_text(), text);
    }
}
