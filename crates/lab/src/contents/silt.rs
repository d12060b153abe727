//! The results that the paper on SILT states about its stores, and chapter 5 of Fan's thesis.

use super::entry::{Entry, has, lacks};
use crate::experiment::Paper::Silt;

/// Listed by subject, because the numbers of the papers' tables and figures couldn't all be checked.
pub(super) const ENTRIES: &[Entry] = &[
    lacks(Silt, "thesis, tables 5.3 and 5.4", "rates of puts, conversions and gets", MISSING),
    has(Silt, "analysis", "memory per key of each stage and of the whole", "silt-mem"),
    has(Silt, "analysis", "reads per get, and bytes written per byte put", "silt-amp"),
    lacks(Silt, "evaluation", "rates of gets with and without puts, and merging", MISSING),
];

const MISSING: &str = "the lab has no experiment of it yet";
