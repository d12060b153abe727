//! Servers: the connections to them, the marks of those that fail, and the deletes that they get when they return.

mod fleet;
mod returning;
mod leaf;
mod directory;
mod cluster;
mod pool_stats;
mod link;
mod skills;
mod tko;
mod permits;
pub(crate) mod names;
mod histogram;

pub(crate) use cluster::{Cluster, ClusterPlace, ClusterWatch, register};
pub(crate) use directory::{Servers, ServersOptions, Speak};
pub(crate) use fleet::Fleet;
pub(crate) use histogram::Shape as Latencies;
pub(crate) use leaf::Leaf;
pub(crate) use leaf::{Asking, AskingKeys};
pub(crate) use link::Link;
pub(crate) use permits::{PermitLimits, Permits};
pub(crate) use pool_stats::{FirstPool, PoolStats, meanings as pool_meanings};
pub(crate) use tko::TkoOptions;
