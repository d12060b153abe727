//! Every table and figure of the papers, with the experiment here that answers the same question.

mod cuckoo_filter;
mod facebook;
mod fawn;
mod hopscotch;
mod memc3;
mod mercury;
mod silt;
mod entry;

pub(crate) use entry::Entry;

/// By paper, in the papers' order.
pub(crate) const CONTENTS: &[&[Entry]] = &[
    memc3::ENTRIES,
    hopscotch::ENTRIES,
    mercury::ENTRIES,
    cuckoo_filter::ENTRIES,
    facebook::ENTRIES,
    fawn::ENTRIES,
    silt::ENTRIES,
];
