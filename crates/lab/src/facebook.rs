//! The experiments of Facebook's memcache.
//!
//! ```text
//! lease      one hot key, many clients          herd       clients, a database, time: the simulation of both
//! stale_set  fills that updates overtake        transient  memory of a short-lived key family
//! gets       the whole server: hits, misses, one key and ten, TCP and UDP
//! slab       value sizes that shift             restart    the hit rate across an upgrade
//! ```
//! The caches are the real ones. But for `gets` the clients' and the database's time is simulated, so that a run repeats
//! itself.

mod gets;
mod herd;
mod lease;
mod restart;
mod slab;
mod stale_set;
mod transient;

use crate::experiment::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    lease::EXPERIMENT,
    stale_set::EXPERIMENT,
    slab::EXPERIMENT,
    transient::EXPERIMENT,
    gets::HITS_AND_MISSES,
    gets::TCP_AND_UDP,
    restart::EXPERIMENT,
];
