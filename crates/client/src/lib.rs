//! An async client for memcached-protocol servers.
//!
//! [`Client`] makes one cache of many servers. Its parts can be used alone: a pipelined [`Connection`], the [`ring`]s
//! and the [`Window`]. [`Request`] and [`Reply`] are the common language of all that ask and all that answer:
//! connections, rings of servers, trees of routes. [`Udp`] gets without connections. [`Markers`] tell which database to
//! read where writes go to another region.
//!
//! # Look-aside
//! Readers ask the cache first, and fill it from the database. Writers change the database, then delete. With leases,
//! only one of many readers that miss reads the database. No reader stores what it read before a delete.
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
//!     // If this fails, the old name may stay until it expires: retry, or rely on the router's delete log.
//!     cache.delete(format!("name:{user}")).await.map(drop)
//! }
//! # struct Database;
//! # struct DatabaseError;
//! # impl Database {
//! #     async fn read(&self, _: u64) -> Result<Item, DatabaseError> { Err(DatabaseError) }
//! #     async fn write(&self, _: u64, _: &str) {}
//! # }
//! ```
//! Without leases (stock memcached, unless [`Protocol::Meta`] is used), `get_or_load` fills by `add`, and the function
//! given to [`Builder::on_no_leases`] is called. Without `get_or_load`: a caller may fill a [`Got::Miss`], but must not
//! fill a [`Got::Failed`]. `examples/lookaside` is a program of this kind with a real database.
//!
//! # Outcomes
//! After [`Outcome::ConnectError`] and [`Outcome::ConnectTimeout`], the server never saw the request. After
//! [`Outcome::Timeout`] and [`Outcome::RemoteError`], it may have carried it out.

#![forbid(unsafe_code)]

mod marker;
mod client;
mod connection;
mod login;
pub mod ring;
mod address;
mod tls;
mod udp;
mod item;
mod window;
mod wire;
mod message;

pub use address::{Address, BadAddress};
pub use client::{BuildError, Builder, Client, Keys, Lease, LeaseToken, RingKind, Stat};
pub use connection::{
    Ask, AskKeys, CHARGED_BYTES_MIN, Caller, Connection, ConnectionOptions, Event, Known, NO_ROOM,
    Output, Protocol, Purse, Tap, Taps, Whereabouts, charged,
};
pub use item::{Cas, Expiry, Failure, Got, Item};
pub use login::Credentials;
pub use marker::{
    BadMarkers, MarkToken, MarkerTokens, Markers, NoMarkToken, RemoteMark, Source, marker_key,
};
pub use message::{Op, Outcome, Reply, Request};
pub use tls::{Tls, TlsError};
pub use udp::Udp;
pub use window::{Permit, Window};
