//! What a run yields: plots, tables, checks, and a sentence.
//!
//! All of it can be written as JSON and read back, NaN and infinities included (as `null`, read as NaN): the pages of
//! the report are made from what was stored.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// What a run of an experiment found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Plots, with the paper's axes.
    pub plots: Vec<Plot>,
    /// Tables, the paper's figures beside ours.
    pub tables: Vec<Table>,
    /// What must hold.
    pub checks: Vec<Check>,
    /// What it shows, in an honest sentence or two, with this run's figures.
    pub reading: String,
}

/// Lines or bars over an axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// What is along it, with its unit.
    pub label: String,
    /// Whether equal steps are equal ratios.
    pub is_log: bool,
    /// Names of the places 0, 1, 2, …, where the axis is one of categories: then series are drawn as bars.
    pub categories: Vec<String>,
}

/// A line, or the bars of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// Places on the axes.
    #[serde(deserialize_with = "read_points")]
    pub points: Vec<(f64, f64)>,
    /// Whether these are the paper's own figures: drawn dashed.
    pub is_papers: bool,
}

/// A table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub header: Vec<String>,
    /// Rows, as many cells as heads.
    pub rows: Vec<Vec<String>>,
}

/// Something that must hold of what was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Check {
    /// What is compared, as a claim: "lookups at the last slot cost at most 1.1 of those at half load".
    pub claim: String,
    /// What was measured: a ratio, a share, a number of things; never a time.
    #[serde(deserialize_with = "read_figure")]
    pub measured: f64,
    /// Where it must lie.
    pub bound: Bound,
    /// Why the bound is where it is.
    #[serde(deserialize_with = "read_reason")]
    pub reason: Reason,
}

impl Check {
    /// Whether it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.measured >= least,
            Bound::AtMost(most) => self.measured <= most,
            Bound::Between(least, most) => (least..=most).contains(&self.measured),
        }
    }

    /// By how much what was measured lies beyond its bound: 0 if it holds, NaN if it is none.
    #[must_use]
    pub fn missed_by(&self) -> f64 {
        let (least, most) = match self.bound {
            Bound::AtLeast(least) => (least, f64::INFINITY),
            Bound::AtMost(most) => (f64::NEG_INFINITY, most),
            Bound::Between(least, most) => (least, most),
        };
        if self.measured.is_nan() {
            return f64::NAN;
        }
        (least - self.measured).max(self.measured - most).max(0.0)
    }
}

/// Written where the check is, as a constant.
type Reason = &'static str;

/// Where a measured figure must lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Not below.
    AtLeast(f64),
    /// Not above.
    AtMost(f64),
    /// Neither below nor above.
    Between(f64, f64),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::Between(least, most) => write!(f, "{least} … {most}"),
        }
    }
}

fn read_figure<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn read_points<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let points: Vec<(Option<f64>, Option<f64>)> = Vec::deserialize(from)?;
    Ok(points.into_iter().map(|(x, y)| (x.unwrap_or(f64::NAN), y.unwrap_or(f64::NAN))).collect())
}

/// Checks are declared with constants, so one that is read back lives as long as the program: a few hundred bytes a
/// page, read once.
fn read_reason<'de, D: Deserializer<'de>>(from: D) -> Result<Reason, D::Error> {
    Ok(String::deserialize(from)?.leak())
}
