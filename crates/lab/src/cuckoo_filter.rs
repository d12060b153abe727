//! The experiments of the cuckoo filter: chapter 4 of Fan's thesis, and the paper of `CoNEXT` 2014.
//!
//! Items are numbers. Filters get their hashes, which are computed beforehand, so that no measured time is that of
//! hashing. The filters with other names are those of [`baseline::filter`](crate::baseline::filter); the cuckoo filters
//! are the product's (`guira_filter`). `crates/filter/rivals` compares them with the crates that people use.

mod f2;
mod f3;
mod f4;
mod f5;
mod f6;
mod kb;
mod occupancy;
mod t3;
mod contest;
mod items;

use crate::experiment::Experiment;

/// In the order of the thesis.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    f2::EXPERIMENT,
    f3::EXPERIMENT,
    f4::EXPERIMENT,
    t3::EXPERIMENT,
    f5::EXPERIMENT,
    f6::EXPERIMENT,
    occupancy::LOOKUPS,
    occupancy::INSERTS,
    occupancy::REMOVALS,
    kb::EXPERIMENT,
];
