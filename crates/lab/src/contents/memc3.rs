//! Tables and figures of MemC3.

use super::entry::{Entry, has, lacks};
use crate::experiment::Paper::MemC3;

pub(super) const ENTRIES: &[Entry] = &[
    lacks(MemC3, "table 1", "techniques of memcached and of MemC3", DRAWING),
    lacks(MemC3, "figure 1", "memcached's data structures", DRAWING),
    lacks(MemC3, "figure 2", "an optimistic cuckoo table and its tags", DRAWING),
    lacks(MemC3, "figure 3", "a path of displacements", DRAWING),
    has(MemC3, "table 2", "space, load and speed of building a table", "memc3-t2"),
    has(MemC3, "figure 4", "what an insert costs, by load and search paths", "memc3-f4"),
    has(MemC3, "figure 5a", "what each step contributes to a lookup, one thread", "memc3-f5a"),
    has(MemC3, "figure 5b", "what each step contributes to a lookup, six threads", "memc3-f5b"),
    has(MemC3, "figure 6", "rate against threads, 100 % and 90 % reads", "memc3-f6"),
    has(MemC3, "figure 7", "best rate against the share of writes", "memc3-f7"),
    has(MemC3, "table 3", "items that fit, and misses, by memory", "memc3-t3"),
    has(MemC3, "figure 8a", "a cache without misses, against threads", "memc3-f8a"),
    has(MemC3, "figure 8b", "a small cache with misses, against threads", "memc3-f8b"),
    has(MemC3, "figure 9", "the whole server over the network", "memc3-f9"),
    has(MemC3, "appendix", "that the protocol is correct", "memc3-appendix"),
];

const DRAWING: &str = "explains, and claims no figure";
