//! Tables and figures of Mercury.

use super::entry::{Entry, has, lacks};
use crate::experiment::Paper::Mercury;

pub(super) const ENTRIES: &[Entry] = &[
    lacks(Mercury, "figures 1–2", "how it works", UNSEEN),
    has(Mercury, "figure 3", "cache misses per get", "merc-f3"),
    has(Mercury, "figure 4", "throughput against threads, by the bucket's lock", "merc-f4"),
    has(Mercury, "figure 5", "throughput against the share of puts", "merc-f5"),
    has(Mercury, "section 3", "what expansion costs", "merc-expand"),
];

const UNSEEN: &str = "neither is known to be a measurement; not checked against the paper";
