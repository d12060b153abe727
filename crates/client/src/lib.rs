//! An async client for memcached-protocol servers.
//!
//! [`Client`] is one cache out of many servers. Under it are pieces that stand by themselves: a pipelined
//! [`Connection`], the [`ring`]s, the [`Window`]; and [`Request`] and [`Reply`], the two things that travel, on which
//! whoever asks and whoever answers (a connection, a ring of servers, a tree of routes) agree. [`Udp`] gets without
//! connections; [`Markers`] say which database to read where writes go to another region.
//!
//! # Look-aside
//! Readers ask the cache first and fill it from the database; writers change the database, then delete. With leases one
//! of many readers who miss goes to the database, and nobody stores what was read before a delete.
//!
//! ```no_run
//! use std::time::Duration;
//! use guira_client::{Client, Failure, Item};
//!
//! async fn name_of(cache: &Client, user: u64, database: &Database) -> Result<Item, DatabaseError> {
//!     let expiry = Duration::from_secs(3600);
//!     cache.get_or_load(format!("name:{user}"), expiry, async || database.read(user).await).await
//! }
//!
//! async fn rename(cache: &Client, user: u64, name: &str, database: &Database) -> Result<(), Failure> {
//!     database.write(user, name).await;
//!     // If this fails, the old name may stay until it expires: try again, or have the router's delete log do it.
//!     cache.delete(format!("name:{user}")).await.map(drop)
//! }
//! # struct Database;
//! # struct DatabaseError;
//! # impl Database {
//! #     async fn read(&self, _: u64) -> Result<Item, DatabaseError> { Err(DatabaseError) }
//! #     async fn write(&self, _: u64, _: &str) {}
//! # }
//! ```
//! Without leases (stock memcached, unless it is asked by [`Protocol::Meta`]) `get_or_load` fills by `add`, and
//! [`Builder::on_no_leases`] is told. By hand: a [`Got::Miss`] may be filled, a [`Got::Failed`] must not be. `examples/lookaside` is a program of this
//! kind over a real database.
//!
//! # Which outcome means what
//! After [`Outcome::ConnectError`] and [`Outcome::ConnectTimeout`] the server never saw the request; after
//! [`Outcome::Timeout`] and [`Outcome::RemoteError`] it may have carried it out.

#![forbid(unsafe_code)]

pub mod marker;
pub mod client;
pub mod connection;
mod login;
pub mod ring;
mod address;
mod tls;
pub mod udp;
mod item;
mod window;
mod wire;
pub mod message;

pub use address::{Address, BadAddress};
pub use client::{BuildError, Builder, Client, Keys, Lease, LeaseToken, RingKind, Stat};
pub use connection::{
    Ask, AskKeys, CHARGED_BYTES_MIN, Caller, Connection, ConnectionOptions, Event, Known, NO_ROOM,
    Observer, Output, Protocol, Purse, Tap, Taps, Whereabouts, charged,
};
pub use item::{Cas, Expiry, Failure, Got, Item};
pub use login::Credentials;
pub use marker::{BadMarkers, Markers, RemoteMark, Source};
pub use message::{Op, Outcome, Reply, Request};
pub use tls::{Tls, TlsError};
pub use udp::Udp;
pub use window::{Permit, Window};
