//! The list of all experiments.

use crate::experiment::Experiment;
use crate::{cuckoo_filter, facebook, fawn, hopscotch, memc3, mercury, silt};

/// Every experiment, in the order of the papers.
pub(crate) const EXPERIMENTS: &[&[Experiment]] = &[
    memc3::EXPERIMENTS,
    hopscotch::EXPERIMENTS,
    mercury::EXPERIMENTS,
    cuckoo_filter::EXPERIMENTS,
    facebook::EXPERIMENTS,
    fawn::EXPERIMENTS,
    silt::EXPERIMENTS,
];
