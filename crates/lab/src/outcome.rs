//! What a run yields: plots, tables, checks, and a sentence.

/// What a run of an experiment found.
#[derive(Clone, Debug, Default)]
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
    /// What it must be.
    pub bound: Bound,
    /// Why the bound is where it is.
    pub reason: &'static str,
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
}

/// Where a measured figure must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Not below.
    AtLeast(f64),
    /// Not above.
    AtMost(f64),
    /// Neither below nor above.
    Between(f64, f64),
}
