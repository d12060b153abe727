//! The conclusions from measurements: plots, tables, checks, and a sentence.

use std::fmt;

/// The findings of an experiment: its `judge` makes them from the [`Data`](crate::data::Data), whenever a page needs them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// Plots, with the paper's axes.
    pub plots: Vec<Plot>,
    /// Tables, the paper's figures next to ours.
    pub tables: Vec<Table>,
    /// Conditions that must hold.
    pub checks: Vec<Check>,
    /// A sentence or two that honestly sum up this run, with its figures.
    pub reading: String,
}

/// Lines or bars over an axis.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
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
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The quantity along the axis, with its unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub is_log: bool,
    /// The names of the positions 0, 1, 2, … of an axis of categories. Series are drawn as bars then.
    pub categories: Vec<String>,
}

/// A line, or the bars of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The name, as in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// Whether these are the paper's own figures, which are drawn dashed.
    pub is_papers: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub header: Vec<String>,
    /// Rows, as many cells as heads.
    pub rows: Vec<Vec<String>>,
}

/// A condition that measurements must meet.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    /// The claim: "lookups at the last slot cost at most 1.1 of those at half load".
    pub claim: String,
    /// The measured figure: a ratio, a share or a count; never a time.
    pub measured: f64,
    /// The range in which the figure must lie; otherwise the run fails.
    pub bound: Bound,
    /// Why the bound is where it is. If it is weaker than the paper's or the design's, this says so, and why.
    pub reason: &'static str,
    /// The paper's statement about the same figure.
    pub paper: Option<Said>,
    /// Why the figure can't be judged in this run, if it can't.
    pub not_judged: Option<String>,
}

/// A paper's statement about a figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    /// The paper's own figure, as printed.
    pub figure: String,
    /// The range in which a measurement agrees with the paper.
    pub bound: Bound,
    /// The figure without the effect: 1 for a ratio, 0 for a difference. Between it and the bound, a measurement shows
    /// the effect, but weaker; beyond it, it contradicts the paper. `None` if there is no weaker form of the claim.
    pub absent_at: Option<f64>,
}

impl Check {
    /// Adds the paper's statement: its figure as printed, and the bound that corresponds to it. Without the effect the
    /// figure would be 1.
    #[must_use]
    pub(crate) fn paper(self, figure: &str, bound: Bound) -> Self {
        self.said(figure, bound, Some(1.0))
    }

    /// Like [`paper`](Self::paper), if the figure would be `absent` without the effect.
    #[must_use]
    pub(crate) fn paper_or(self, figure: &str, bound: Bound, absent: f64) -> Self {
        self.said(figure, bound, Some(absent))
    }

    /// Like [`paper`](Self::paper), if every figure outside of the bound contradicts the paper.
    #[must_use]
    pub(crate) fn paper_exactly(self, figure: &str, bound: Bound) -> Self {
        self.said(figure, bound, None)
    }

    fn said(self, figure: &str, bound: Bound, absent_at: Option<f64>) -> Self {
        Self { paper: Some(Said { figure: figure.into(), bound, absent_at }), ..self }
    }

    /// Makes the check judged only if a control allows it. `why` says what was missing, with its figure. Of several
    /// failed controls the first one is reported.
    #[must_use]
    pub(crate) fn judged_if(self, is_fair: bool, why: impl FnOnce() -> String) -> Self {
        let not_judged = self.not_judged.or_else(|| (!is_fair).then(why));
        Self { not_judged, ..self }
    }

    /// Returns whether the figure lies in its range. NaN doesn't.
    #[must_use]
    pub(crate) fn standing(&self) -> CheckStanding {
        match () {
            () if self.not_judged.is_some() => CheckStanding::NotJudged,
            () if self.bound.holds(self.measured) => CheckStanding::Holds,
            () => CheckStanding::Fails,
        }
    }

    /// Returns by how much the figure lies beyond its bound: 0 if it holds, NaN if it is NaN.
    #[must_use]
    pub(crate) fn missed_by(&self) -> f64 {
        let (least, most) = self.bound.ends();
        if self.measured.is_nan() {
            return f64::NAN;
        }
        (least - self.measured).max(self.measured - most).max(0.0)
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckStanding {
    /// The figure lies within the bound.
    Holds,
    /// The figure doesn't lie within the bound.
    Fails,
    /// This run can't decide.
    NotJudged,
}

impl fmt::Display for CheckStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds => "holds",
            Self::Fails => "FAILS",
            Self::NotJudged => "not judged",
        })
    }
}

/// The range of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// Not below.
    AtLeast(f64),
    /// Not above.
    AtMost(f64),
    /// Neither below nor above.
    Between(f64, f64),
}

impl Bound {
    /// Whether `figure` lies there.
    #[must_use]
    pub(crate) fn holds(self, figure: f64) -> bool {
        let (least, most) = self.ends();
        figure >= least && figure <= most
    }

    pub(crate) fn ends(self) -> (f64, f64) {
        match self {
            Self::AtLeast(least) => (least, f64::INFINITY),
            Self::AtMost(most) => (f64::NEG_INFINITY, most),
            Self::Between(least, most) => (least, most),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::check;

    #[test]
    fn what_is_no_number_holds_no_bound() {
        let infinite = Bound::Between(f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(check("", f64::NAN, infinite, "").standing(), CheckStanding::Fails);
    }

    #[test]
    fn what_cannot_be_judged_neither_holds_nor_fails() {
        let check = check("", 3.0, Bound::AtLeast(1.0), "");
        assert_eq!(check.standing(), CheckStanding::Holds);
        let check = check.judged_if(false, || "no second processor".into());
        assert_eq!(check.standing(), CheckStanding::NotJudged);
    }
}
