//! What is concluded from what was measured: plots, tables, checks, and a sentence.

use std::fmt;

/// What an experiment found: made by its `judge` from the [`Data`](crate::Data), whenever a page needs it.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Plots, with the paper's axes.
    pub plots: Vec<Plot>,
    /// Tables, the paper's figures next to ours.
    pub tables: Vec<Table>,
    /// What must hold.
    pub checks: Vec<Check>,
    /// What it shows, in an honest sentence or two, with this run's figures.
    pub reading: String,
}

/// Lines or bars over an axis.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct Axis {
    /// What is along it, with its unit.
    pub label: String,
    /// Whether equal steps are equal ratios.
    pub is_log: bool,
    /// Names of the places 0, 1, 2, …, where the axis is one of categories: then series are drawn as bars.
    pub categories: Vec<String>,
}

/// A line, or the bars of one kind.
#[derive(Clone, Debug)]
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// Places on the axes.
    pub points: Vec<(f64, f64)>,
    /// Whether these are the paper's own figures: drawn dashed.
    pub is_papers: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub header: Vec<String>,
    /// Rows, as many cells as heads.
    pub rows: Vec<Vec<String>>,
}

/// Something that must hold of what was measured.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is compared, as a claim: "lookups at the last slot cost at most 1.1 of those at half load".
    pub claim: String,
    /// What was measured: a ratio, a share, a number of things; never a time.
    pub measured: f64,
    /// Where it must lie, or the run has failed.
    pub bound: Bound,
    /// Why the bound is where it is; and if it is weaker than the paper's or than the design's, that it is, and why.
    pub reason: &'static str,
    /// What the paper says of the same figure.
    pub paper: Option<Said>,
    /// Why the figure can't be judged in this run, if it can't.
    pub not_judged: Option<String>,
}

/// A paper's word on a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The paper's own figure, as printed.
    pub figure: String,
    /// Where a measurement lies that says the same.
    pub bound: Bound,
    /// The figure at which the effect is absent: 1 for a ratio, 0 for a difference. Between it and the bound a measurement
    /// shows the effect, but weaker; from it on it contradicts the paper. `None` if there is no weaker form of the claim.
    pub absent_at: Option<f64>,
}

impl Check {
    /// What the paper says of it: its figure as printed, and the bound that says the same; without the effect the figure
    /// would be 1.
    #[must_use]
    pub fn paper(self, figure: &str, bound: Bound) -> Self {
        self.said(figure, bound, Some(1.0))
    }

    /// As [`paper`](Self::paper), where the figure would be `absent` without the effect.
    #[must_use]
    pub fn paper_or(self, figure: &str, bound: Bound, absent: f64) -> Self {
        self.said(figure, bound, Some(absent))
    }

    /// As [`paper`](Self::paper), where whatever lies outside contradicts.
    #[must_use]
    pub fn paper_exactly(self, figure: &str, bound: Bound) -> Self {
        self.said(figure, bound, None)
    }

    fn said(self, figure: &str, bound: Bound, absent_at: Option<f64>) -> Self {
        Self { paper: Some(Said { figure: figure.into(), bound, absent_at }), ..self }
    }

    /// Judged only if the control says that it can be: `why` names what was missing, with its figure. Of several
    /// controls the first that failed is named.
    #[must_use]
    pub fn judged_if(self, is_fair: bool, why: impl FnOnce() -> String) -> Self {
        let not_judged = self.not_judged.or_else(|| (!is_fair).then(why));
        Self { not_judged, ..self }
    }

    /// Whether what was measured lies where it must. What is no number doesn't.
    #[must_use]
    pub fn standing(&self) -> CheckStanding {
        match () {
            () if self.not_judged.is_some() => CheckStanding::NotJudged,
            () if self.bound.holds(self.measured) => CheckStanding::Holds,
            () => CheckStanding::Fails,
        }
    }

    /// By how much what was measured lies beyond its bound: 0 if it holds, NaN if it is none.
    #[must_use]
    pub fn missed_by(&self) -> f64 {
        let (least, most) = self.bound.ends();
        if self.measured.is_nan() {
            return f64::NAN;
        }
        (least - self.measured).max(self.measured - most).max(0.0)
    }
}

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStanding {
    /// The figure lies within the bound.
    Holds,
    /// It doesn't.
    Fails,
    /// This run can't tell.
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

/// Where a figure must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
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
    pub fn holds(self, figure: f64) -> bool {
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
