//! The tables, figures and stated results of Scaling Memcache at Facebook.

use super::entry::{Entry, has, lacks};
use crate::experiment::Paper::Facebook;

/// In the order of the paper.
pub(super) const ENTRIES: &[Entry] = &[
    lacks(Facebook, "figure 1", "memcache as a look-aside cache", DRAWING),
    lacks(Facebook, "figure 2", "the architecture", DRAWING),
    has(Facebook, "figure 3", "latency of gets over UDP and over TCP through mcrouter", "fb-udp"),
    lacks(Facebook, "§3.1", "0.25 % of gets are discarded at peak load", PRODUCTION),
    has(Facebook, "figure 4", "waiting time against the size of the window", "fb-window"),
    has(Facebook, "§3.2.1", "stale sets, with and without leases", "fb-stale-set"),
    has(Facebook, "§3.2.1", "peak rate of database queries, 17 K to 1.3 K, by leases", "fb-lease"),
    lacks(
        Facebook,
        "figure 5",
        "working sets of two families of keys, by day and week",
        PRODUCTION,
    ),
    has(Facebook, "§3.3", "a gutter: 99 % fewer failures, hit rate over 35 %", "fb-gutter"),
    lacks(Facebook, "figure 6", "the pipeline of invalidations", DRAWING),
    lacks(
        Facebook,
        "§4.1",
        "18 times as many deletes a packet by batching",
        "the lab has no experiment of it yet",
    ),
    lacks(
        Facebook,
        "table 1",
        "what decides between replication by cluster and by region",
        PRODUCTION,
    ),
    has(Facebook, "§4.3", "a cold cluster is filled from a warm one", "fb-warmup"),
    has(Facebook, "figure 7", "hits and misses of gets of ten keys, by locking", "fb-f7"),
    has(Facebook, "figure 8", "gets of one key and of ten, over TCP and UDP", "fb-f8"),
    has(Facebook, "§6.2", "the adaptive slab allocator", "fb-slab"),
    has(Facebook, "§6.3", "the transient item cache: 6 % to 0.3 % of the memory", "fb-transient"),
    has(Facebook, "§6.4", "software upgrades without a cold cache", "fb-restart"),
    lacks(Facebook, "figure 9", "servers that a page asks", PRODUCTION),
    lacks(Facebook, "figure 10", "sizes of the values fetched", PRODUCTION),
    lacks(Facebook, "table 2", "traffic of a server, by pool", PRODUCTION),
    lacks(Facebook, "table 3", "sizes of items, by pool", PRODUCTION),
    lacks(
        Facebook,
        "figure 11",
        "latency of the pipeline of deletes",
        "the lab has no experiment of it yet",
    ),
];

const DRAWING: &str = "a drawing: nothing is measured";
const PRODUCTION: &str = "a figure of production traffic, which nobody else has";
