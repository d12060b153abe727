//! The experiments of a small cache in front of many servers: chapter 2 of Fan's thesis (FAWN-KV), and the paper of
//! `SoCC` 2011.
//!
//! Keys that are asked equally often are assigned to servers like balls to bins, anew in each trial (`balls.rs`). Loads
//! are *normalised*: 1 is a server's share if all servers get the same share of all queries. A server takes 10,000
//! queries per second, as in the thesis, and the system as many as its fullest server allows. The bounds are those that
//! `guira plan` uses (`guira_route::plan`). Figure 2.6, however, is measured on real servers behind a real router
//! (`live.rs`), and all of them over a real cluster of replicated stores (`kv.rs`).

mod bounds;
mod live;
mod kv;
mod max_load;
mod nodes;
mod relay;
mod sizes;
mod sweep;
mod load;
mod balls;
mod cluster;

use crate::experiment::Experiment;

/// In the order of the thesis.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    max_load::EXPERIMENT,
    bounds::EXPERIMENT,
    live::EXPERIMENT,
    nodes::SNAPSHOT,
    nodes::THROUGHPUT,
    sweep::EXPERIMENT,
    sizes::EXPERIMENT,
    kv::STORES,
    kv::NODES,
    kv::SWEEP,
    kv::UNEQUAL,
    kv::JOIN,
    kv::FAILURE,
];
