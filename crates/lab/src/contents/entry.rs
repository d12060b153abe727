//! An entry of a paper's contents, with or without an experiment.

use crate::experiment::Paper;

/// A table, figure or stated result of a paper.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The paper.
    pub(crate) paper: Paper,
    /// "table 2", "figure 5a", "§3.2.1".
    pub(crate) place: &'static str,
    /// What it shows.
    pub(crate) what: &'static str,
    /// The id of the experiment that repeats it; several entries may share one.
    pub(crate) experiment: Option<&'static str>,
    /// Why there is no experiment for it.
    pub(crate) missing: &'static str,
}

/// An entry with an experiment.
pub(super) const fn has(
    paper: Paper,
    place: &'static str,
    what: &'static str,
    id: &'static str,
) -> Entry {
    Entry { paper, place, what, experiment: Some(id), missing: "" }
}

/// An entry without an experiment.
pub(super) const fn lacks(
    paper: Paper,
    place: &'static str,
    what: &'static str,
    missing: &'static str,
) -> Entry {
    Entry { paper, place, what, experiment: None, missing }
}
