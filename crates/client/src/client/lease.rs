//! Leases: of all who miss a key, one fills it, and the others wait a little (Scaling Memcache at Facebook, §3.2.1).
//!
//! # Invariants
//! 1. A value is stored under a lease only if the key was not changed since the lease was given: the server checks.
//! 2. Who waited in vain may read the database, and stores nothing.
//! 3. Of a server without leases, stock memcached asked in text, [`Client::get_or_load`] gets, and fills a miss by `add`.
//!    There many who miss load at once, and what was read before a delete may be stored after it: so it tells
//!    [`Builder::on_no_leases`](super::Builder::on_no_leases). Such servers give leases by
//!    [`Protocol::Meta`](crate::Protocol::Meta).
//!
//! # Costs
//! A hit costs what a get costs. A hot miss waits 2 ms, then twice as long each time, half a second at most, ten times:
//! 2.5 s in all.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Client, Server, done, keyed};
use crate::{Expiry, Failure, Got, Item, Op, Outcome, Request};

/// What a lease-get found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Lease {
    /// The item.
    Hit(Item),
    /// There is none, and the caller is to fill it by [`Client::lease_set`]; a deleted value that is still around.
    Fill(LeaseToken, Option<Item>),
    /// Somebody else fills it: ask again soon, or take the deleted value.
    Wait(Option<Item>),
    /// Nobody knows, or the server gives no leases: read the database and store nothing.
    Failed(Failure),
}

/// The right to fill one miss, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseToken(u64);

impl Client {
    /// The item of `key`, or the right to fill it, or that another has it.
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

    /// As [`lease_get`](Self::lease_get), asked again while another has the lease.
    pub async fn lease_wait(&self, key: impl AsRef<[u8]>) -> Lease {
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

    /// Fills a miss; false if the key was changed since, and the value was not stored.
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

    /// Look-aside in one call: the item of `key`, or what `load` reads, stored under a lease if there is one to be had.
    ///
    /// That it could not be stored is no error: the next one who misses fills it. A server without leases is asked and
    /// filled without: then many who miss at once all load, and an item that was read just before it was changed and
    /// deleted may be stored and stay until it expires. [`Builder::on_no_leases`](super::Builder::on_no_leases) says so.
    ///
    /// # Errors
    /// What `load` fails with.
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

    /// Remembers it for a while; false if it is remembered already.
    fn found_leaseless(&self) -> bool {
        let now = Instant::now();
        let until = self.leaseless_until.lock().replace(now + LEASELESS);
        until.is_none_or(|until| until <= now)
    }
}

/// How long a server is believed to give no leases: another program may come to its address.
const LEASELESS: Duration = Duration::from_secs(60);

const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);
const WAITS: u32 = 10;
