//! A client that makes one cache of many servers. Each key belongs to one server, and all servers are asked at once.
//!
//! # Invariants
//! 1. A get that fails is not a miss: the caller must not fill a [`Got::Failed`].
//! 2. A request goes only to the server that the ring chooses. Failover is left to a router.
//!
//! # Costs
//! A request costs as much as its [`Connection`] takes, plus the choice of the ring. A multiget is one line for each
//! server that has some of the keys. All lines are on their way before the first reply is awaited.

mod builder;
mod gets;
mod lease;
mod stats;
mod lines;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::ring::Ring;
use crate::window::Permit;
use crate::{
    Address, Cas, Connection, Expiry, Failure, Got, Item, Op, Outcome, Reply, Request, Udp, Window,
};

pub use builder::{BuildError, Builder, RingKind};
pub use lease::{Lease, LeaseToken};
pub use stats::{Keys, Stat};

/// A client of a fleet of servers. Clones share its connections.
///
/// ```no_run
/// use guira_client::{Client, Expiry};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = Client::builder().server("cache-1:11211")?.server("cache-2:11211")?.build()?;
/// cache.set("greeting", "hello", Expiry::Never).await?;
/// let greeting = cache.get("greeting").await.hit().map(|item| item.value);
/// assert_eq!(greeting.as_deref(), Some(&b"hello"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    servers: Vec<Server>,
    ring: Ring,
    deadline: Duration,
    window: Option<Window>,
    on_no_leases: OnNoLeases,
}

#[derive(Debug)]
struct Server {
    connections: Vec<Connection>,
    turn: AtomicUsize,
    udp: Option<Udp>,
    /// Until when the server is believed to give no leases. Until then it isn't asked for any.
    leaseless_until: Mutex<Option<Instant>>,
}

/// A function that is called with a server's address.
type ServerObserver = Arc<dyn Fn(&Address) + Send + Sync>;

/// The function to call when a server gives no leases.
#[derive(Clone, Default)]
struct OnNoLeases(Option<ServerObserver>);

impl fmt::Debug for OnNoLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnNoLeases").field(&self.0.is_some()).finish()
    }
}

impl Server {
    fn connection(&self) -> &Connection {
        if let [only] = &self.connections[..] {
            return only;
        }
        &self.connections[self.turn.fetch_add(1, Ordering::Relaxed) % self.connections.len()]
    }
}

impl Client {
    /// Returns the address of the server that has `key`.
    #[must_use]
    pub fn server_of(&self, key: &[u8]) -> &Address {
        self.server(key).connections[0].address()
    }

    /// Sends any request to the server of its key. The other methods are built on this.
    pub async fn ask(&self, request: Request) -> Reply {
        let server = self.server(&request.key);
        self.ask_server(server, request).await
    }

    /// Gets the item of `key`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Got {
        let request = keyed(Op::Get, key);
        let server = self.server(&request.key);
        match &server.udp {
            Some(udp) => self.get_by_udp(udp, request.key).await,
            None => Got::of(self.ask_server(server, request).await),
        }
    }

    /// Gets the item of `key` with the unique that [`cas`](Self::cas) compares.
    pub async fn gets(&self, key: impl AsRef<[u8]>) -> Got {
        Got::of(self.ask(keyed(Op::Gets, key)).await)
    }

    /// Gets the item of `key`, and sets its expiry.
    pub async fn gat(&self, key: impl AsRef<[u8]>, expiry: impl Into<Expiry>) -> Got {
        let exptime = expiry.into().wire();
        Got::of(self.ask(Request { exptime, ..keyed(Op::Gat, key) }).await)
    }

    /// Stores an item, whether or not there is one.
    ///
    /// # Errors
    /// See [`Failure`], here and below.
    pub async fn set(
        &self,
        key: impl AsRef<[u8]>,
        item: impl Into<Item>,
        expiry: impl Into<Expiry>,
    ) -> Result<(), Failure> {
        self.store(Op::Set, key, item.into(), expiry.into()).await.map(drop)
    }

    /// Stores an item if there is none. Returns false if there is one.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn add(
        &self,
        key: impl AsRef<[u8]>,
        item: impl Into<Item>,
        expiry: impl Into<Expiry>,
    ) -> Result<bool, Failure> {
        self.store(Op::Add, key, item.into(), expiry.into()).await
    }

    /// Stores an item if there is one. Returns false if there is none.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn replace(
        &self,
        key: impl AsRef<[u8]>,
        item: impl Into<Item>,
        expiry: impl Into<Expiry>,
    ) -> Result<bool, Failure> {
        self.store(Op::Replace, key, item.into(), expiry.into()).await
    }

    /// Appends bytes to a value. Returns false if there is none.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn append(
        &self,
        key: impl AsRef<[u8]>,
        bytes: impl Into<Bytes>,
    ) -> Result<bool, Failure> {
        self.store(Op::Append, key, Item::from(bytes), Expiry::Never).await
    }

    /// Prepends bytes to a value. Returns false if there is none.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn prepend(
        &self,
        key: impl AsRef<[u8]>,
        bytes: impl Into<Bytes>,
    ) -> Result<bool, Failure> {
        self.store(Op::Prepend, key, Item::from(bytes), Expiry::Never).await
    }

    /// Stores an item if the key hasn't changed since [`gets`](Self::gets) returned `token`.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn cas(
        &self,
        key: impl AsRef<[u8]>,
        item: impl Into<Item>,
        expiry: impl Into<Expiry>,
        token: u64,
    ) -> Result<Cas, Failure> {
        let (Item { value, flags, .. }, exptime) = (item.into(), expiry.into().wire());
        let request = Request { value, flags, exptime, token, ..keyed(Op::Cas, key) };
        let reply = self.ask(request).await;
        match reply.outcome {
            Outcome::Stored => Ok(Cas::Stored),
            Outcome::Exists => Ok(Cas::Exists),
            Outcome::NotFound => Ok(Cas::NotFound),
            _ => Err(Failure::of(&reply)),
        }
    }

    /// Deletes an item. Returns false if there was none.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, Failure> {
        done(&self.ask(keyed(Op::Delete, key)).await, Outcome::Deleted)
    }

    /// Sets the expiry of an item. Returns false if there is none.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn touch(
        &self,
        key: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
    ) -> Result<bool, Failure> {
        let exptime = expiry.into().wire();
        done(&self.ask(Request { exptime, ..keyed(Op::Touch, key) }).await, Outcome::Touched)
    }

    /// Counts up, modulo 2^64. Returns the new number, or `None` if there is no item.
    ///
    /// # Errors
    /// See [`Failure`]. A value that is no number results in [`Outcome::ClientError`].
    pub async fn incr(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, Failure> {
        self.count(Op::Incr, key, delta).await
    }

    /// Counts down, but not below 0. Returns the new number, or `None` if there is no item.
    ///
    /// # Errors
    /// See [`Failure`]. A value that is no number results in [`Outcome::ClientError`].
    pub async fn decr(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, Failure> {
        self.count(Op::Decr, key, delta).await
    }

    /// Makes every server invalidate all its items.
    ///
    /// # Errors
    /// The failure of the first server that failed. All other servers were asked nevertheless.
    pub async fn flush_all(&self) -> Result<(), Failure> {
        let mut result = Ok(());
        for server in &self.inner.servers {
            let reply = self.ask_server(server, Request::new(Op::FlushAll, "")).await;
            result = result.and(done(&reply, Outcome::Ok).map(drop));
        }
        result
    }

    /// Returns the version of each server.
    pub async fn version(&self) -> Vec<(Address, Result<String, Failure>)> {
        let mut versions = Vec::new();
        for server in &self.inner.servers {
            let reply = self.ask_server(server, Request::new(Op::Version, "")).await;
            let version = match reply.outcome {
                Outcome::Ok => Ok(String::from_utf8_lossy(&reply.message).into_owned()),
                _ => Err(Failure::of(&reply)),
            };
            versions.push((server.connections[0].address().clone(), version));
        }
        versions
    }

    fn server(&self, key: &[u8]) -> &Server {
        &self.inner.servers[self.inner.ring.choose(key)]
    }

    async fn ask_server(&self, server: &Server, request: Request) -> Reply {
        let deadline = Instant::now() + self.inner.deadline;
        let Some(window) = &self.inner.window else {
            return server.connection().ask(request, deadline).await;
        };
        let Ok(permit) = timeout_at(deadline, window.enter()).await else {
            return too_late();
        };
        let reply = server.connection().ask(request, deadline).await;
        settle_permit(permit, reply.outcome);
        reply
    }

    async fn store(
        &self,
        op: Op,
        key: impl AsRef<[u8]>,
        item: Item,
        expiry: Expiry,
    ) -> Result<bool, Failure> {
        let Item { value, flags, .. } = item;
        let request = Request { value, flags, exptime: expiry.wire(), ..keyed(op, key) };
        done(&self.ask(request).await, Outcome::Stored)
    }

    async fn count(
        &self,
        op: Op,
        key: impl AsRef<[u8]>,
        delta: u64,
    ) -> Result<Option<u64>, Failure> {
        let reply = self.ask(Request { delta, ..keyed(op, key) }).await;
        match reply.outcome {
            Outcome::Found => Ok(Some(reply.number)),
            Outcome::NotFound => Ok(None),
            _ => Err(Failure::of(&reply)),
        }
    }
}

fn keyed(op: Op, key: impl AsRef<[u8]>) -> Request {
    Request::new(op, Bytes::copy_from_slice(key.as_ref()))
}

fn done(reply: &Reply, wanted: Outcome) -> Result<bool, Failure> {
    match reply.outcome {
        outcome if outcome == wanted => Ok(true),
        Outcome::NotStored | Outcome::NotFound | Outcome::Exists => Ok(false),
        _ => Err(Failure::of(reply)),
    }
}

fn too_late() -> Reply {
    Reply::failure(Outcome::DeadlineExceeded, &b"the window had no room"[..])
}

/// Settles a permit. A timeout or a remote error halves the window. The window stays if there was no connection, or if
/// the request was refused as busy. Any other reply lets it grow.
fn settle_permit(permit: Permit, outcome: Outcome) {
    match outcome {
        Outcome::Timeout | Outcome::RemoteError => drop(permit),
        Outcome::ConnectError | Outcome::ConnectTimeout | Outcome::Busy | Outcome::LocalError => {
            permit.unused();
        }
        _ => permit.answered(),
    }
}
