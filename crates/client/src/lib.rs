//! An async client for memcached-protocol servers.
//!
//! What there is: [`Request`] and [`Reply`], the two things that travel, and a pipelined [`Connection`] that they
//! travel over. Whoever asks and whoever answers (a connection, a ring of servers, a tree of routes) agree on the two
//! and on nothing else.

#![forbid(unsafe_code)]

mod address;
pub mod connection;
pub mod message;
pub mod ring;
mod wire;

pub use address::{Address, BadAddress};
pub use connection::{Ask, Connection, ConnectionOptions, Event, Observer};
pub use message::{Op, Outcome, Reply, Request};
