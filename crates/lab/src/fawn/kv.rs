//! The figures of the thesis over a real cluster: nodes of `guira store`, a register in a real etcd, and `guira route`.
//!
//! In the figures of load, each node is behind a link of a fixed rate ([`placed`]). These nodes get their view from a
//! file, in which the slots are dealt evenly. A controller would get there as well, but it moves one share at a time, for
//! minutes with many copies. In the figures of joins and failures there are no links, and the nodes have a controller
//! ([`joined`]).
//!
//! # Controls
//! The router and the processors must not be what limits the throughput. So the time is measured for which they were
//! busy, and nothing is judged if that is too much.

mod stores;
mod nodes;
mod sweep;
mod unequal;
mod failure;
mod join;
mod timeline;
mod joined;
mod asked;
mod placed;
mod verdicts;

pub(super) use failure::EXPERIMENT as FAILURE;
pub(super) use join::EXPERIMENT as JOIN;
pub(super) use nodes::EXPERIMENT as NODES;
pub(super) use stores::EXPERIMENT as STORES;
pub(super) use sweep::EXPERIMENT as SWEEP;
pub(super) use unequal::EXPERIMENT as UNEQUAL;
