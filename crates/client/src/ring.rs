//! Rings: they map each key to a server, in the same way as other clients and routers. Each has its own file.
//!
//! | ring | made for | if a server is removed |
//! |---|---|---|
//! | [`Ketama`] | fleets of libmemcached, twemproxy and most clients | its keys move, others stay |
//! | [`Rendezvous`] | few servers; a ranking for failover | its keys move, others stay |
//! | [`ch3`], [`weighted_ch3`] | fleets of mcrouter | only the last can be; any other by weight 0 |
//! | `jump` | numbered shards | only the last can be |
//! | [`crc32`], [`modula`] | items that old clients stored | nearly all keys move |
//!
//! Each ring is tested against choices that the other programs computed themselves.

mod crc32;
mod jump;
mod ketama;
mod modula;
mod rendezvous;
mod weighted_ch3;
mod ch3;
mod murmur;
mod spooky;

pub use ch3::{SERVERS_MAX, ch3};
pub use crc32::crc32;
pub use ketama::Ketama;
pub(crate) use ketama::server_name;
pub use modula::{KeyHash, modula};
pub use rendezvous::Rendezvous;
pub use spooky::{spooky32, spooky64};
pub use weighted_ch3::{TRIES as WEIGHTED_CH3_TRIES, weighted_ch3};

use jump::jump;
use murmur::murmur64a;

/// The rule by which a client chooses a server.
#[derive(Clone, Debug)]
pub(crate) enum Ring {
    /// [`Ketama`]: servers by name and weight. The best choice for a new fleet.
    Ketama(Ketama),
    /// [`Rendezvous`]: servers by tag.
    Rendezvous(Rendezvous),
    /// [`ch3`] among this number of servers.
    Ch3(usize),
    /// `jump` by `murmur64a` with seed 0, among this number of servers.
    Jump(usize),
    /// [`crc32`] among this number of servers.
    Crc32(usize),
    /// [`modula`] among this number of servers.
    Modula(KeyHash, usize),
}

impl Ring {
    /// Returns the number of the server that has `key`.
    #[must_use]
    pub(crate) fn choose(&self, key: &[u8]) -> usize {
        match self {
            Ring::Ketama(ketama) => ketama.choose(key),
            Ring::Rendezvous(rendezvous) => rendezvous.choose(key),
            Ring::Ch3(servers) => ch3(key, *servers),
            Ring::Jump(servers) => jump(murmur64a(key, 0), *servers),
            Ring::Crc32(servers) => crc32(key, *servers),
            Ring::Modula(hash, servers) => modula(*hash, key, *servers),
        }
    }
}

#[cfg(test)]
mod tests;
