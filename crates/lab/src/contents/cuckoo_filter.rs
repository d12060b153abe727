//! The cuckoo filter's tables and figures: chapter 4 of Fan's thesis. Entries without an experiment are listed by their
//! subject, because their numbers couldn't be checked.

use super::entry::{Entry, has, lacks};
use crate::experiment::Paper::CuckooFilter;

/// In the order of the thesis.
pub(super) const ENTRIES: &[Entry] = &[
    lacks(CuckooFilter, "a table", "properties of Bloom filters and their variants", CITED),
    lacks(CuckooFilter, "a figure", "how an item is inserted by cuckoo hashing", DRAWING),
    has(CuckooFilter, "figure 4.2", "load factor against fingerprint bits", "cf-f4.2"),
    has(CuckooFilter, "figure 4.3", "bits an item against the rate, by bucket size", "cf-f4.3"),
    has(CuckooFilter, "a table", "bits an item, by formula", "cf-f4.4"),
    has(CuckooFilter, "figure 4.4", "bits an item against the rate, by formula", "cf-f4.4"),
    has(CuckooFilter, "§4.5", "load factor with more than two buckets an item", "cf-kb"),
    has(
        CuckooFilter,
        "table 4.3",
        "items, bits, false positives and building, in 192 MB",
        "cf-t4.3",
    ),
    has(CuckooFilter, "figure 4.5", "lookups against the share of present items", "cf-f4.5"),
    has(CuckooFilter, "figure 4.6", "distribution of the time of a lookup", "cf-f4.6"),
    has(CuckooFilter, "figure 4.7", "lookups by occupancy", "cf-f4.7"),
    has(CuckooFilter, "figure 4.8", "inserts by occupancy", "cf-f4.8"),
    has(CuckooFilter, "figure 4.9", "removals by occupancy", "cf-f4.9"),
];

const CITED: &str = "a survey of other papers";
const DRAWING: &str = "a drawing: nothing is measured";
