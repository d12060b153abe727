//! The experiments of Facebook's memcache.
//!
//! ```text
//! lease      one hot key, many clients          herd       clients, a database, time: the simulation of both
//! stale_set  fills that updates overtake        transient  memory of a short-lived key family
//! gets       the whole server: hits, misses, one key and ten, TCP and UDP
//! slab       value sizes that shift             restart    the hit rate across an upgrade
//! gutter     a server is lost                   warm_up    a cold cluster; both with `web`, clients that look aside
//! udp        gets past the router               window     how much a client asks for at once
//! ```
//! The caches are real. In `lease`, `stale_set` and `window` the time of clients and database is simulated, so that a
//! run is repeatable. `gutter`, `warm_up` and `udp` are live, with real routers and servers.

mod gets;
mod gutter;
mod lease;
mod restart;
mod slab;
mod stale_set;
mod herd;
mod transient;
mod udp;
mod warm_up;
mod web;
mod window;

use crate::experiment::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    udp::EXPERIMENT,
    window::EXPERIMENT,
    stale_set::EXPERIMENT,
    lease::EXPERIMENT,
    gutter::EXPERIMENT,
    warm_up::EXPERIMENT,
    gets::HITS_AND_MISSES,
    gets::TCP_AND_UDP,
    slab::EXPERIMENT,
    transient::EXPERIMENT,
    restart::EXPERIMENT,
];
