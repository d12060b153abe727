//! Leases: one of all clients that miss a key fills it, and the others wait a little (Scaling Memcache at Facebook,
//! §3.2.1).
//!
//! # Invariants
//! 1. A value is stored under a lease only if the key hasn't changed since the lease was given. The server checks this.
//! 2. A client that waited in vain may read the database, but stores nothing.
//! 3. Stock memcached gives no leases over the text protocol, but does with [`Protocol::Meta`](crate::Protocol::Meta).
//!    Without leases, [`Client::get_or_load`] gets, and fills a miss by `add`. Then many clients that miss load at
//!    once, and a value read before a delete may be stored after it. So
//!    [`Builder::on_no_leases`](super::Builder::on_no_leases) is called.
//!
//! # Costs
//! A hit costs as much as a get. After a hot miss, the client waits ten times: 2 ms, then twice as long each time, but
//! at most half a second. That is 1.5 s in total.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Client, Server, done, keyed};
use crate::{Expiry, Failure, Got, Item, Op, Outcome, Request};

/// The result of a lease-get.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Lease {
    /// The item.
    Hit(Item),
    /// There is no item, and the caller should fill it by [`Client::lease_set`]. The item is the deleted value, if that
    /// still exists.
    Fill(LeaseToken, Option<Item>),
    /// Another client fills the item: ask again soon, or use the deleted value.
    Wait(Option<Item>),
    /// The result is unknown, or the server gives no leases: read the database and store nothing.
    Failed(Failure),
}

/// The right to fill one miss, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseToken(u64);

impl Client {
    /// Gets the item of `key`, or a lease to fill it, or learns that another client has the lease.
    pub async fn lease_get(&self, key: impl AsRef<[u8]>) -> Lease {
        let reply = self.ask(keyed(Op::LeaseGet, key)).await;
        let token = reply.token;
        let stale = |item: Item| (!item.value.is_empty()).then_some(item);
        match reply.outcome {
            Outcome::Found => Lease::Hit(Item::of(reply)),
            Outcome::NotFound if token > 1 => {
                Lease::Fill(LeaseToken(token), stale(Item { cas: 0, ..Item::of(reply) }))
            }
            Outcome::NotFoundHot => Lease::Wait(None),
            Outcome::FoundStale => Lease::Wait(stale(Item { cas: 0, ..Item::of(reply) })),
            _ => Lease::Failed(Failure::of(&reply)),
        }
    }

    /// Like [`lease_get`](Self::lease_get), but asks again while another client has the lease.
    async fn lease_wait(&self, key: impl AsRef<[u8]>) -> Lease {
        let mut pause = PAUSE_MIN;
        for _ in 0..WAITS {
            match self.lease_get(&key).await {
                Lease::Wait(_) => {}
                other => return other,
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
        self.lease_get(key).await
    }

    /// Fills a miss. Returns false if the key has changed since, and the value was not stored.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn lease_set(
        &self,
        key: impl AsRef<[u8]>,
        token: LeaseToken,
        item: impl Into<Item>,
        expiry: impl Into<Expiry>,
    ) -> Result<bool, Failure> {
        let (Item { value, flags, .. }, exptime) = (item.into(), expiry.into().wire());
        let token = token.0;
        let request = Request { value, flags, exptime, token, ..keyed(Op::LeaseSet, key) };
        let reply = self.ask(request).await;
        if reply.outcome == Outcome::StaleStored {
            return Ok(false);
        }
        done(&reply, Outcome::Stored)
    }

    /// Look-aside in one call: gets the item of `key`, or else calls `load` and stores the result, under a lease if the
    /// server gives leases.
    ///
    /// A failure to store is no error: the next client that misses fills the item. Without leases, all clients that
    /// miss at once call `load`. An item that was read just before it was changed and deleted may then be stored, and
    /// stay until it expires. [`Builder::on_no_leases`](super::Builder::on_no_leases) reports such servers.
    ///
    /// # Errors
    /// The error of `load`.
    pub async fn get_or_load<E>(
        &self,
        key: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
        load: impl AsyncFnOnce() -> Result<Item, E>,
    ) -> Result<Item, E> {
        let server = self.server(key.as_ref());
        if server.is_leaseless() {
            return self.get_or_add(key, expiry.into(), load).await;
        }
        match self.lease_wait(&key).await {
            Lease::Hit(item) => Ok(item),
            Lease::Failed(Failure { outcome: Outcome::BadCommand, .. }) => {
                if server.found_leaseless()
                    && let Some(observer) = &self.inner.on_no_leases.0
                {
                    observer(self.server_of(key.as_ref()));
                }
                self.get_or_add(key, expiry.into(), load).await
            }
            Lease::Fill(token, _) => {
                let item = load().await?;
                let _ = self.lease_set(key, token, item.clone(), expiry).await;
                Ok(item)
            }
            Lease::Wait(_) | Lease::Failed(_) => load().await,
        }
    }

    /// [`Client::get_or_load`] without a lease.
    async fn get_or_add<E>(
        &self,
        key: impl AsRef<[u8]>,
        expiry: Expiry,
        load: impl AsyncFnOnce() -> Result<Item, E>,
    ) -> Result<Item, E> {
        match self.get(&key).await {
            Got::Hit(item) => Ok(item),
            Got::Miss => {
                let item = load().await?;
                let _ = self.add(key, item.clone(), expiry).await;
                Ok(item)
            }
            Got::Failed(_) => load().await,
        }
    }
}

impl Server {
    fn is_leaseless(&self) -> bool {
        self.leaseless_until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Records for a while that the server gives no leases. Returns false if that was already recorded.
    fn found_leaseless(&self) -> bool {
        let now = Instant::now();
        let until = self.leaseless_until.lock().replace(now + LEASELESS);
        until.is_none_or(|until| until <= now)
    }
}

/// How long a server is believed to give no leases. After that, another program may run at its address.
const LEASELESS: Duration = Duration::from_secs(60);

const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);
const WAITS: u32 = 10;
