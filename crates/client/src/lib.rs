//! An async client for memcached-protocol servers.
//!
//! [`Client`] is one cache out of many servers. Under it are pieces that stand by themselves: a pipelined
//! [`Connection`], the [`ring`]s, the [`Window`]; and [`Request`] and [`Reply`], the two things that travel, on which
//! whoever asks and whoever answers (a connection, a ring of servers, a tree of routes) agree.

#![forbid(unsafe_code)]

mod address;
pub mod client;
pub mod connection;
mod item;
mod login;
pub mod message;
pub mod ring;
mod tls;
pub mod udp;
mod window;
mod wire;

pub use address::{Address, BadAddress};
pub use client::{BuildError, Builder, Client, Lease, LeaseToken, RingKind, Stat};
pub use connection::{Ask, Connection, ConnectionOptions, Event, Observer, Protocol};
pub use item::{Cas, Expiry, Failure, Got, Item};
pub use login::Login;
pub use message::{Op, Outcome, Reply, Request};
pub use tls::{Tls, TlsError};
pub use udp::Udp;
pub use window::{Permit, Window};
