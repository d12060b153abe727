//! The experiments of the paper on hopscotch hashing in memcached.

mod f5;
mod load;
mod t1;
mod t2;
mod published;

use crate::experiment::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] =
    &[t1::EXPERIMENT, t2::EXPERIMENT, f5::F5, f5::F6, load::EXPERIMENT];
