//! The tables and figures of chapter 2 of Fan's thesis.

use super::entry::{Entry, has, lacks};
use crate::experiment::Paper::Fawn;

/// In the order of the thesis.
pub(super) const ENTRIES: &[Entry] = &[
    lacks(Fawn, "figures 2.1–2.3", "how it works", UNSEEN),
    has(Fawn, "figure 2.4", "load of the fullest server against the keys asked", "fawn-f2.4"),
    has(
        Fawn,
        "figure 2.5",
        "bound on the fullest server's load against the cache's size",
        "fawn-f2.5",
    ),
    has(Fawn, "figure 2.6", "throughput against the number of servers", "fawn-f2.6"),
    has(Fawn, "figure 2.7", "each server's share without a cache", "fawn-f2.7"),
    has(Fawn, "figure 2.8", "throughput without a cache against the keys asked", "fawn-f2.8"),
    has(Fawn, "figure 2.9", "throughput behind a cache against the keys asked", "fawn-f2.9"),
    has(Fawn, "figure 2.10", "worst throughput against the cache's size", "fawn-f2.10"),
];

const UNSEEN: &str = "none is known to be a measurement; not checked against the thesis";
