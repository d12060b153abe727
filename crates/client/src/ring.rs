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

mod ch3;
mod crc32;
mod jump;
mod ketama;
mod modula;
mod murmur;
mod rendezvous;
mod spooky;
mod weighted_ch3;

pub use ch3::{SERVERS_MAX, ch3};
pub use crc32::crc32;
pub use jump::jump;
pub use ketama::{Ketama, server_name};
pub use modula::{KeyHash, modula};
pub use murmur::murmur64a;
pub use rendezvous::Rendezvous;
pub use spooky::spooky32;
pub use weighted_ch3::{TRIES as WEIGHTED_CH3_TRIES, weighted_ch3};

#[cfg(test)]
mod tests;
