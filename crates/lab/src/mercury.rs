//! The experiments of Mercury.

mod expand;
mod f3;
mod f4;
mod f5;
mod lock;

use crate::experiment::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] =
    &[f3::EXPERIMENT, f4::EXPERIMENT, f5::EXPERIMENT, expand::EXPERIMENT];
