//! The experiments of SILT: the paper of SOSP 2011, and chapter 5 of Fan's thesis.
//!
//! They are about the paper's own three stages (`guira_store::silt`), not about the product's store, which `guira
//! store` runs. Each result is shown next to the formula of the paper's analysis (`model.rs`), computed from measured
//! figures: keys, keys per merge, occupancy. The counts don't depend on the disk: bytes of indexes, and requests to the
//! disk (`counted.rs`) as the store makes them (`subject.rs`).

mod mem;
mod amp;
mod subject;
mod counted;
mod model;

use crate::experiment::Experiment;

/// In the order of the paper's analysis.
pub(crate) const EXPERIMENTS: &[Experiment] = &[mem::EXPERIMENT, amp::EXPERIMENT];
