//! Short forms for the parts of plots, tables and checks.

use crate::data::Line;
use crate::{Axis, Bound, Check, Series, Table};

pub(crate) fn axis(label: &str) -> Axis {
    Axis { label: label.into(), is_log: false, categories: Vec::new() }
}

pub(crate) fn categories(label: &str, names: &[&str]) -> Axis {
    let categories = names.iter().map(|&name| name.to_owned()).collect();
    Axis { label: label.into(), is_log: false, categories }
}

/// Draws a measured line by its medians.
pub(crate) fn drawn(line: &Line) -> Series {
    series(&line.name, line.medians())
}

/// A series that was measured here.
pub(crate) fn series(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series { name: name.into(), points: points.into_iter().collect(), is_papers: false }
}

/// A series of the paper's own figures.
pub(crate) fn papers(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series { is_papers: true, ..series(name, points) }
}

pub(crate) fn table(title: &str, header: &[&str], rows: Vec<Vec<String>>) -> Table {
    let header = header.iter().map(|&cell| cell.to_owned()).collect();
    Table { title: title.into(), header, rows }
}

/// Creates a check of ours; [`Check::paper`] adds what the paper says about the same figure.
pub(crate) fn check(
    claim: impl Into<String>,
    measured: f64,
    bound: Bound,
    reason: &'static str,
) -> Check {
    Check { claim: claim.into(), measured, bound, reason, paper: None, not_judged: None }
}

/// Returns the largest of some figures. NaN counts as the largest, so that no check passes because of it.
pub(crate) fn most(figures: impl IntoIterator<Item = f64>) -> f64 {
    figures.into_iter().fold(f64::NEG_INFINITY, |a, b| if a >= b { a } else { worse(a, b) })
}

/// Returns the smallest of some figures. NaN counts as the smallest.
pub(crate) fn least(figures: impl IntoIterator<Item = f64>) -> f64 {
    figures.into_iter().fold(f64::INFINITY, |a, b| if a <= b { a } else { worse(a, b) })
}

/// Returns the one that is NaN, otherwise the second.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() { a } else { b }
}
