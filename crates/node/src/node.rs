//! The store as clients see it: requests carried out, each key's in order.
//!
//! ```text
//! get            changes under way ─▶ engine, memory ─▶ engine, device (a reader)
//! set            turn of the key ─▶ submitted ─▶ landed: answered
//! incr, add …    turn of the key ─▶ get ─▶ decide ─▶ submitted ─▶ landed: answered
//! ```
//! # Invariants
//! 1. What was submitted is visible. What is answered is as durable as `--durability` says.
//! 2. No event loop waits for a device.
//! 3. Values that are read or written for a client are charged to its purse, long ones, while they are held.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use guira_client::{CHARGED_BYTES_MIN, NO_ROOM, Op, Outcome, Purse, Reply, Request, charged};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::counts::{Count, Counts};
use crate::damage::Damage;
use crate::decide::{Current, Effect, Gone, Order, Said, brought, decide, failed, plain, say};
use crate::engine::{Begun, Delay, Engine, EngineError, Record};
use crate::horizon::{self, Flush, Horizon};
use crate::readers::Readers;
use crate::stripes::{Stripes, Turn, Write};
use crate::terms::Terms;

/// See the module's head.
pub(crate) struct Node<E> {
    pub(crate) engine: E,
    pub(crate) stripes: Arc<Stripes>,
    pub(crate) readers: Readers,
    pub(crate) horizon: Arc<Horizon>,
    pub(crate) damage: Damage,
    /// The longest value.
    pub(crate) value_max: usize,
}

/// What one client's requests have in common.
pub(crate) struct Customer {
    pub(crate) purse: Arc<dyn Purse>,
    pub(crate) counts: Arc<Counts>,
}

/// A get that waits for the device.
pub(crate) type Fetching = oneshot::Receiver<Result<Option<Record>, Reply>>;

/// What a get of a key is at once.
pub(crate) enum Fetched {
    Known(Result<Option<Record>, Reply>),
    Coming(Fetching),
}

impl<E: Engine> Node<E> {
    /// Over a store that is open; reads what a `flush_all` left there.
    ///
    /// # Errors
    /// The store can't be read, or there is no thread.
    pub(crate) fn new(
        engine: E,
        horizon: Arc<Horizon>,
        (threads, value_max): (usize, usize),
    ) -> io::Result<Self> {
        let found = match engine.begin(&horizon::key()) {
            Begun::Known(found) => found,
            Begun::Unknown(lookup) => engine.finish(lookup),
        };
        let found = found.map_err(|failure| io::Error::other(failure.to_string()))?;
        found.iter().for_each(|record| horizon.take(record));
        let readers = Readers::start(threads)?;
        let (stripes, damage) = (Stripes::new(), Damage::default());
        Ok(Self { engine, stripes, readers, horizon, damage, value_max })
    }

    /// Gets a key, as far as memory knows.
    pub(crate) fn fetch(self: &Arc<Self>, key: &Bytes, purse: &Arc<dyn Purse>) -> Fetched {
        if let Some(record) = self.stripes.look(key) {
            return Fetched::Known(self.paid(Ok(record), purse));
        }
        match self.engine.begin(key) {
            Begun::Known(found) => Fetched::Known(self.paid(found, purse)),
            Begun::Unknown(lookup) => {
                let (this, purse) = (Arc::clone(self), Arc::clone(purse));
                let read = move || this.paid(this.engine.finish(lookup), &purse);
                Fetched::Coming(self.readers.run(read))
            }
        }
    }

    /// Charges a long value that was found to whoever asked for it.
    fn paid(
        &self,
        found: Result<Option<Record>, EngineError>,
        purse: &Arc<dyn Purse>,
    ) -> Result<Option<Record>, Reply> {
        let found = found.map_err(|failure| {
            self.damage.note(&failure);
            failed(&failure)
        });
        let Some(record) = found? else { return Ok(None) };
        Ok(Some(Record { value: charge(record.value, purse)?, ..record }))
    }

    async fn fetch_all(
        self: &Arc<Self>,
        key: &Bytes,
        purse: &Arc<dyn Purse>,
    ) -> Result<Option<Record>, Reply> {
        match self.fetch(key, purse) {
            Fetched::Known(found) => found,
            Fetched::Coming(coming) => coming.await.unwrap_or_else(|_| Err(lost())),
        }
    }

    /// What a plain get answers, given what it found; `None`: it has to write, and to be carried out as a change.
    pub(crate) fn found(
        &self,
        (request, terms): (&Request, &Terms),
        found: Result<Option<Record>, Reply>,
        customer: &Customer,
    ) -> Option<Reply> {
        let now = now();
        let current = match found {
            Err(reply) => return Some(self.ended(reply, request, terms, customer)),
            Ok(record) => Current::of(record.as_ref(), &self.horizon, now),
        };
        note_gone(current.as_ref().err(), customer);
        let order = Order { request, terms, now, value_max: self.value_max };
        let said = if terms.is_meta {
            match decide(order, current.as_ref().ok()) {
                (Effect::Nothing, said) => said,
                _ => return None,
            }
        } else {
            plain(current.as_ref().ok())
        };
        Some(self.ended(say(order, said, None), request, terms, customer))
    }

    /// Begins a change that needs no look at what is there, if nothing keeps it from beginning now.
    pub(crate) fn begin_blind(
        &self,
        request: &Request,
        terms: &Terms,
        customer: &Customer,
    ) -> Option<Result<(Arc<Write>, Reply), Reply>> {
        if self.engine.delay().is_some() {
            return None;
        }
        let turn = self.stripes.try_turn(&request.key)?;
        Some(self.put_blind(&turn, request, terms, customer))
    }

    fn put_blind(
        &self,
        turn: &Turn,
        request: &Request,
        terms: &Terms,
        customer: &Customer,
    ) -> Result<(Arc<Write>, Reply), Reply> {
        let order = Order { request, terms, now: now(), value_max: self.value_max };
        let (effect, said) = if request.op.is_update() {
            let bytes = request.value.len();
            (Effect::Put(brought(order)), Said::Store(Outcome::Stored, bytes))
        } else {
            customer.counts.add(Count::DeleteBlind, 1);
            (Effect::Delete, Said::Plain(Outcome::Deleted))
        };
        let (seq, write) = self
            .submit(turn, &request.key, effect, customer)
            .map_err(|reply| self.ended(reply, request, terms, customer))?;
        Ok((write, say(order, said, Some(seq))))
    }

    /// Carries out a change, or a get that may write, to its end.
    pub(crate) async fn change(
        self: Arc<Self>,
        request: Request,
        is_blind: bool,
        customer: Arc<Customer>,
    ) -> Reply {
        let terms = Terms::of(&request);
        let turn = self.stripes.turn(&request.key).await;
        self.give_way(&customer).await;
        if is_blind {
            return match self.put_blind(&turn, &request, &terms, &customer) {
                Ok((write, reply)) => {
                    drop(turn);
                    self.landed(write.wait().await, reply, (&request, &terms), &customer)
                }
                Err(reply) => reply,
            };
        }
        let current = match self.fetch_all(&request.key, &customer.purse).await {
            Ok(record) => Current::of(record.as_ref(), &self.horizon, now()),
            Err(reply) => return self.ended(reply, &request, &terms, &customer),
        };
        if request.op.is_get() {
            note_gone(current.as_ref().err(), &customer);
        }
        let order =
            Order { request: &request, terms: &terms, now: now(), value_max: self.value_max };
        let (effect, said) = decide(order, current.as_ref().ok());
        if effect == Effect::Nothing {
            return self.ended(say(order, said, None), &request, &terms, &customer);
        }
        let (seq, write) = match self.submit(&turn, &request.key, effect, &customer) {
            Ok(submitted) => submitted,
            Err(reply) => return self.ended(reply, &request, &terms, &customer),
        };
        drop(turn);
        let reply = say(order, said, Some(seq));
        self.landed(write.wait().await, reply, (&request, &terms), &customer)
    }

    /// Waits as long as merges have fallen behind, and not for ever: then the engine refuses what it can't take.
    pub(crate) async fn give_way(&self, customer: &Customer) {
        let begun = Instant::now();
        let mut has_waited = false;
        while let Some(delay) = self.engine.delay() {
            let is_first = !std::mem::replace(&mut has_waited, true);
            customer.counts.add(Count::Delayed, is_first.into());
            tokio::time::sleep(delay.time()).await;
            if matches!(delay, Delay::Once(_)) || begun.elapsed() >= GIVE_WAY_MAX {
                return;
            }
        }
    }

    fn submit(
        &self,
        turn: &Turn,
        key: &Bytes,
        effect: Effect,
        customer: &Customer,
    ) -> Result<(u64, Arc<Write>), Reply> {
        let value = match effect {
            Effect::Put(item) => Some(charge(item.encode(), &customer.purse)?),
            Effect::Delete | Effect::Nothing => None,
        };
        // What a client sends stays in a buffer with much else.
        let change = (Bytes::copy_from_slice(key), value);
        let submit = |key, value, write: Arc<Write>| self.engine.submit(key, value, false, write);
        self.stripes
            .submit(Some(turn), change, submit)
            .map_err(|failure| refused(&failure, customer))
    }

    /// The reply to a change that has landed.
    pub(crate) fn landed(
        &self,
        result: Result<(), EngineError>,
        reply: Reply,
        (request, terms): (&Request, &Terms),
        customer: &Customer,
    ) -> Reply {
        let reply = match result {
            Ok(()) => reply,
            Err(failure) => refused(&failure, customer),
        };
        self.ended(reply, request, terms, customer)
    }

    fn ended(&self, reply: Reply, request: &Request, terms: &Terms, customer: &Customer) -> Reply {
        let is_touching = terms.ttl.is_some() || matches!(request.op, Op::Gat | Op::Gats);
        customer.counts.ended(request.op, is_touching, reply.outcome);
        customer.counts.add(Count::CmdMeta, terms.is_meta.into());
        reply
    }

    /// Flushes all at once, or plans it for a second.
    ///
    /// # Errors
    /// It can't be written down.
    pub(crate) async fn flush(&self, at: u32) -> Result<(), EngineError> {
        self.begin_flush(at)?.wait().await
    }

    /// The same, until it is submitted: what it hides is hidden, and may come back with the power.
    ///
    /// # Errors
    /// It can't be written down.
    pub(crate) fn begin_flush(&self, at: u32) -> Result<Arc<Write>, EngineError> {
        let key = horizon::key();
        let _order = self.horizon.order();
        let value = self.horizon.record(at);
        let submit = |key, record, write: Arc<Write>| {
            Flush::submit(&self.horizon, (value.clone(), write), |landing| {
                self.engine.submit(key, record, true, landing)
            })
        };
        let submitted = self.stripes.submit(None, (key, Some(value.clone())), submit);
        submitted.map(|(_, write)| write)
    }
}

fn charge(value: Bytes, purse: &Arc<dyn Purse>) -> Result<Bytes, Reply> {
    if value.len() < CHARGED_BYTES_MIN {
        return Ok(value);
    }
    charged(value, purse).ok_or_else(|| Reply::failure(Outcome::LocalError, NO_ROOM))
}

fn refused(failure: &EngineError, customer: &Customer) -> Reply {
    let is_full = *failure == EngineError::OutOfDisk;
    customer.counts.add(Count::OutOfDisk, is_full.into());
    failed(failure)
}

fn note_gone(gone: Option<&Gone>, customer: &Customer) {
    match gone {
        Some(Gone::Expired) => customer.counts.add(Count::GetExpired, 1),
        Some(Gone::Flushed) => customer.counts.add(Count::GetFlushed, 1),
        Some(Gone::Absent) | None => {}
    }
}

/// Where a reader panicked.
pub(crate) fn lost() -> Reply {
    failed(&"the look-up was lost: see the log")
}

/// The Unix second.
pub(crate) fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u32::try_from(since.as_secs()).unwrap_or(u32::MAX))
}

/// The longest that a change waits for merges.
const GIVE_WAY_MAX: Duration = Duration::from_secs(10);
