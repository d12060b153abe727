//! A client of etcd through its JSON gateway: range, put, transactions with conditions, leases, watch.
//!
//! ```text
//! place    etcd:HOST:PORT,…/PATH, as a command line names it
//! client   one request to one endpoint, or to the next one that answers
//! watch    what happens to keys after a revision
//! access   TLS and the login, from files; connections that stay open
//! names    where endpoints are
//! wire     requests and answers, as JSON
//! ```
//! etcd's own protocol is gRPC; the gateway in each etcd since 3.4 takes the same calls as JSON over HTTP/1.1. So neither
//! HTTP/2 nor code from protobuf is needed. Calls block their thread.
//!
//! # Invariants
//! 1. A call ends: each endpoint has a limited time, and an answer a limited size.
//! 2. An answer is believed only if it has the form of one, and its keys are among those that were asked for.
//! 3. No message contains a login's password or token.
//!
//! # Costs
//! Calls use a connection again. A watch, and each call while others are under way, needs one of its own. With a login, the
//! first call needs one more.
//!
//! # Weaknesses
//! A write whose answer is lost is sent again, to the next endpoint. So a transaction may have been done although its
//! condition fails: read the keys to find out.
//!
//! # Example
//! ```no_run
//! use guira_etcd::{EtcdAccess, EtcdCompare, Etcd, EtcdKeys, EtcdOp, EtcdPlace};
//!
//! let place = EtcdPlace::parse("etcd:127.0.0.1:2379/locks/a").ok_or("write etcd:HOST:PORT/KEY")?;
//! let etcd = Etcd::new(&place, EtcdAccess::default());
//! let lease = etcd.grant(10)?.id;
//! let absent = EtcdCompare::CreateRevision { key: place.path.clone().into(), revision: 0 };
//! let put = EtcdOp::Put { key: place.path.clone().into(), value: "me".into(), lease: Some(lease) };
//! if etcd.txn(&[absent], &[put])?.is_done {
//!     println!("the lock is ours until the lease ends");
//! }
//! let found = etcd.range(&EtcdKeys::one(&place.path))?;
//! println!("{} at revision {}", found.pairs.len(), found.revision);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a watch ends with its time, and names are looked up again"
)]

mod client;
mod watch;
mod access;
mod names;
mod wire;
mod error;
mod place;

#[cfg(test)]
mod tests;

pub use access::{EtcdAccess, EtcdFlags, Files};
pub use client::{Etcd, EtcdLease, EtcdMember};
pub use error::Error;
pub use place::EtcdPlace;
pub use watch::Watch;
pub use wire::{EtcdCompare, EtcdEvent, EtcdKeys, EtcdOp, Events, KeyValue, Range, Txn};
