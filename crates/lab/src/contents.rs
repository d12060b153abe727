//! Every table and figure of the papers, and the experiment that asks the same question here.

mod cuckoo_filter;
mod facebook;
mod fawn;
mod hopscotch;
mod memc3;
mod mercury;

use crate::experiment::Paper;

/// A table, figure or stated result of a paper.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Of which paper.
    pub(crate) paper: Paper,
    /// "table 2", "figure 5a", "§3.2.1".
    pub(crate) place: &'static str,
    /// What it shows.
    pub(crate) what: &'static str,
    /// The id of the experiment that has it; several entries may share one.
    pub(crate) experiment: Option<&'static str>,
    /// Why no experiment has it.
    pub(crate) missing: &'static str,
}

/// By paper, in the papers' order.
pub(crate) const CONTENTS: &[&[Entry]] = &[
    memc3::ENTRIES,
    hopscotch::ENTRIES,
    mercury::ENTRIES,
    cuckoo_filter::ENTRIES,
    facebook::ENTRIES,
    fawn::ENTRIES,
];

/// An entry with an experiment.
const fn has(paper: Paper, place: &'static str, what: &'static str, id: &'static str) -> Entry {
    Entry { paper, place, what, experiment: Some(id), missing: "" }
}

/// An entry without one.
const fn lacks(
    paper: Paper,
    place: &'static str,
    what: &'static str,
    missing: &'static str,
) -> Entry {
    Entry { paper, place, what, experiment: None, missing }
}
