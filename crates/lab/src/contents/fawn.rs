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
    has(
        Fawn,
        "figure 2.6",
        "throughput against the number of servers, over a cluster",
        "fawn-kv-f2.6",
    ),
    has(
        Fawn,
        "figures 2.7, 2.8",
        "each server's share, and throughput without a cache, over a cluster",
        "fawn-kv-f2.7",
    ),
    has(Fawn, "figures 2.9, 2.10", "throughput behind a cache, over a cluster", "fawn-kv-f2.9"),
    has(Fawn, "equations 2.15–2.18", "servers of unequal speed, over a cluster", "fawn-kv-unequal"),
    has(Fawn, "FAWN (SOSP 2009)", "queries while a node joins", "fawn-kv-join"),
    has(Fawn, "FAWN (SOSP 2009)", "queries while a node fails", "fawn-kv-failure"),
];

const UNSEEN: &str = "none is known to be a measurement; not checked against the thesis";
