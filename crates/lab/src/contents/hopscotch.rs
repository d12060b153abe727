//! Tables and figures of the paper on hopscotch hashing in memcached.

use super::entry::{Entry, has, lacks};
use crate::experiment::Paper::Hopscotch;

pub(super) const ENTRIES: &[Entry] = &[
    lacks(Hopscotch, "figures 1–4", "how it works", UNSEEN),
    has(Hopscotch, "table 1", "items stored, by memory", "hop-t1"),
    has(Hopscotch, "table 2", "hit ratio, by memory", "hop-t2"),
    has(Hopscotch, "figure 5", "throughput against threads, 95 % gets", "hop-f5"),
    has(Hopscotch, "figure 6", "throughput against threads, gets only", "hop-f6"),
    has(Hopscotch, "text", "over 90 % full before it is resized; flat lookups", "hop-load"),
];

const UNSEEN: &str =
    "no figure of them is known to be a measurement; not checked against the paper";
