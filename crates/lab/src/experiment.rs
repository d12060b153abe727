//! Experiments, and the papers.

use crate::data::Data;
use crate::{Findings, Scale};

/// An experiment, declared once.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// The name in `guira lab run ID`: the paper's short name and its table or figure.
    pub id: &'static str,
    /// The paper whose claim it tests.
    pub paper: Paper,
    /// What is measured, in a few words.
    pub title: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// What must be observed here: the conditions that the checks of its outcome test, in words.
    pub shape: &'static str,
    /// Why the figures differ from the paper's, if they do. Shown with a verdict that isn't "reproduced".
    pub why: &'static str,
    /// Whether it runs for every change: it takes seconds, and its checks are about counts, which a busy machine can't
    /// change.
    pub is_quick: bool,
    /// Measures, without conclusions.
    pub measure: fn(&Run<'_>) -> anyhow::Result<Data>,
    /// Draws the conclusions, only from what was measured.
    pub judge: fn(&Data) -> Findings,
}

/// The papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paper {
    /// Fan, Andersen, Kaminsky: MemC3, NSDI 2013.
    MemC3,
    /// Prasad, Dharmapuram: a memcached with hopscotch hashing, IJCA 186, 2025.
    Hopscotch,
    /// Mercury: a memcached with a lock in each bucket.
    Mercury,
    /// Fan, Andersen, Kaminsky, Mitzenmacher: Cuckoo Filter, `CoNEXT` 2014; chapter 4 of Fan's thesis.
    CuckooFilter,
    /// Nishtala et al.: Scaling Memcache at Facebook, NSDI 2013.
    Facebook,
    /// Fan, Lim, Andersen, Kaminsky: Small Cache, Big Effect, `SoCC` 2011; chapter 2 of Fan's thesis.
    Fawn,
    /// Lim, Fan, Andersen, Kaminsky: SILT, SOSP 2011; chapter 5 of Fan's thesis.
    Silt,
    /// Questions that none of the papers asked.
    Ours,
}

impl Paper {
    /// All papers, in the order of the lab.
    pub(crate) const ALL: [Self; 8] = [
        Self::MemC3,
        Self::Hopscotch,
        Self::Mercury,
        Self::CuckooFilter,
        Self::Facebook,
        Self::Fawn,
        Self::Silt,
        Self::Ours,
    ];

    /// The name in `guira lab run PAPER`.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MemC3 => "memc3",
            Self::Hopscotch => "hopscotch",
            Self::Mercury => "mercury",
            Self::CuckooFilter => "cf",
            Self::Facebook => "facebook",
            Self::Fawn => "fawn",
            Self::Silt => "silt",
            Self::Ours => "ours",
        }
    }

    /// The title, for a heading.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::MemC3 => "MemC3 (Fan, Andersen, Kaminsky, NSDI 2013)",
            Self::Hopscotch => "Hopscotch memcached (Prasad, Dharmapuram, IJCA 2025)",
            Self::Mercury => "Mercury",
            Self::CuckooFilter => "Cuckoo filter (Fan's thesis, chapter 4; CoNEXT 2014)",
            Self::Fawn => "A small cache before many servers (Fan's thesis, chapter 2; SoCC 2011)",
            Self::Silt => "SILT (Lim, Fan, Andersen, Kaminsky, SOSP 2011; Fan's thesis, chapter 5)",
            Self::Facebook => "Scaling Memcache at Facebook (Nishtala et al., NSDI 2013)",
            Self::Ours => "What none of the papers asked",
        }
    }
}

/// The parameters of a run of an experiment.
pub(crate) struct Run<'a> {
    /// The size of the experiment.
    pub scale: Scale,
    /// The seed of the random numbers; the same seed gives the same keys.
    pub seed: u64,
    /// Called with the share done, from 0 to 1, and what is being done.
    pub progress: &'a dyn Fn(f64, &str),
}
