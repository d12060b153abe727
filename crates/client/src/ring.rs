//! Which server a key belongs to: other clients' and routers' answers, each in a file of its own.
//!
//! | ring | made for | a server leaves |
//! |---|---|---|
//! | [`Ketama`] | libmemcached's, twemproxy's and most clients' fleets | its keys move, others stay |
//! | [`Rendezvous`] | few servers; whom to ask next | its keys move, others stay |
//! | [`ch3`], [`weighted_ch3`] | mcrouter's fleets | only the last may, or by weight 0 |
//! | [`jump`] | numbered shards | only the last may |
//! | [`crc32`], [`modula`] | what old clients stored | nearly all keys move |
//!
//! Each is tested against choices computed by the other programs themselves.

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
pub use jump::jump;
pub use ketama::{Ketama, server_name};
pub use modula::{KeyHash, modula};
pub use murmur::murmur64a;
pub use rendezvous::Rendezvous;
pub use spooky::{spooky32, spooky64};
pub use weighted_ch3::{TRIES as WEIGHTED_CH3_TRIES, weighted_ch3};

/// How a client chooses a server.
#[derive(Clone, Debug)]
pub enum Ring {
    /// [`Ketama`]: servers by name and weight. What a new fleet wants.
    Ketama(Ketama),
    /// [`Rendezvous`]: servers by tag.
    Rendezvous(Rendezvous),
    /// [`ch3`] among so many.
    Ch3(usize),
    /// [`weighted_ch3`] among those with these weights.
    WeightedCh3(Vec<f64>),
    /// [`jump`] by [`murmur64a`] with seed 0, among so many.
    Jump(usize),
    /// [`crc32`] among so many.
    Crc32(usize),
    /// [`modula`] among so many.
    Modula(KeyHash, usize),
}

impl Ring {
    /// The server of `key`, by number.
    #[must_use]
    pub fn choose(&self, key: &[u8]) -> usize {
        match self {
            Ring::Ketama(ketama) => ketama.choose(key),
            Ring::Rendezvous(rendezvous) => rendezvous.choose(key),
            Ring::Ch3(servers) => ch3(key, *servers),
            Ring::WeightedCh3(weights) => weighted_ch3(key, weights, WEIGHTED_CH3_TRIES),
            Ring::Jump(servers) => jump(murmur64a(key, 0), *servers),
            Ring::Crc32(servers) => crc32(key, *servers),
            Ring::Modula(hash, servers) => modula(*hash, key, *servers),
        }
    }
}

#[cfg(test)]
mod tests;
