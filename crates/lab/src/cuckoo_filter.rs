//! The experiments of the cuckoo filter: chapter 4 of Fan's thesis, the paper of `CoNEXT` 2014.
//!
//! Items are numbers; what filters get are their hashes, made beforehand, so that no time is that of hashing. Filters
//! by other names are those of [`baseline::filter`](crate::baseline::filter), the cuckoo filters the product's
//! (`guira_filter`). How they do next to the crates that people use is measured in `crates/filter/rivals`.

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
