//! The experiments of MemC3.

mod t3;

use crate::experiment::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[t3::EXPERIMENT];
