//! The store as clients see it: requests are carried out, those of each key in order.
//!
//! ```text
//! get            changes under way ─▶ engine, memory ─▶ engine, device (a reader)
//! set            turn of the key ─▶ submitted ─▶ landed: answered
//! incr, add …    turn of the key ─▶ get ─▶ decide ─▶ submitted ─▶ landed: answered
//! append to a long value: the same, from the get on within the bytes that are written again at once
//! ```
//! # Invariants
//! 1. A submitted change is visible. An answered change is as durable as `--durability` says.
//! 2. No event loop waits for a device.
//! 3. A client's get of a key sees the client's own earlier changes of it, answered or not.
//! 4. Long values that are read or written for a client are charged to its purse while they are held.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use guira_client::{CHARGED_BYTES_MIN, NO_ROOM, Op, Outcome, Purse, Reply, Request, charged};
use guira_front::rewrites::{self, Rewrite, Rewrites};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::counts::Count;
use crate::customer::{Changing, Customer};
use crate::damage::Damage;
use crate::decide::{Current, Effect, Gone, Order, Said, brought, decide, failed, plain, say};
use crate::engine::{Begun, Delay, Engine, EngineError, Record};
use crate::horizon::{self, Flush, Horizon};
use crate::own_reads;
use crate::readers::{Readers, Share};
use crate::stripes::{Coming, Stripes, Turn, Write};
use crate::terms::Terms;

/// See the module's head.
pub(crate) struct Node<E> {
    pub(crate) engine: E,
    pub(crate) stripes: Arc<Stripes>,
    rewrites: Rewrites,
    pub(crate) readers: Readers,
    pub(crate) horizon: Arc<Horizon>,
    pub(crate) damage: Damage,
    /// The longest value.
    pub(crate) value_max: usize,
}

/// A get that waits for the device.
pub(crate) type Fetching = oneshot::Receiver<Result<Option<Record>, Reply>>;

/// Who pays for a value that is read, and what part of the device it has.
type Whose = (Arc<dyn Purse>, Arc<Share>);

/// The first result of a get: known at once, or coming from a reader.
pub(crate) enum Fetched {
    Known(Result<Option<Record>, Reply>),
    Coming(Fetching),
}

impl<E: Engine> Node<E> {
    /// Creates a node over a store that is open, and reads the mark that a `flush_all` left there.
    ///
    /// # Errors
    /// The store can't be read, or a thread can't be started.
    pub(crate) fn new(
        engine: E,
        horizon: Arc<Horizon>,
        (threads, value_max): (usize, usize),
    ) -> io::Result<Self> {
        let found = match engine.begin(&horizon::key()) {
            Begun::Known(found) => found,
            Begun::Unknown(lookup) => engine.finish(lookup, &|_| true),
        };
        let found = found.map_err(|failure| {
            io::Error::other(format!(
                "{failure}. The mark of the last flush_all would be there, without which what was flushed comes back: \
                 restore a copy"
            ))
        })?;
        found.iter().for_each(|record| horizon.take(record));
        let readers = Readers::start(threads)?;
        let (stripes, rewrites) = (Stripes::new(), Rewrites::default());
        let damage = Damage::default();
        Ok(Self { engine, stripes, rewrites, readers, horizon, damage, value_max })
    }

    /// Gets a key: at once if memory knows it, otherwise by a reader.
    pub(crate) fn fetch(self: &Arc<Self>, key: &Bytes, customer: &Customer) -> Fetched {
        match self.known(key) {
            Begun::Known(found) => Fetched::Known(self.paid(found, &customer.purse)),
            Begun::Unknown(lookup) => Fetched::Coming(self.read(lookup, customer)),
        }
    }

    fn known(&self, key: &Bytes) -> Begun<E::Lookup> {
        match self.stripes.look(key) {
            Some(record) => Begun::Known(Ok(record)),
            None => self.engine.begin(key),
        }
    }

    /// Has the device read: by this thread's event loop, if it has room, or by a reader.
    fn read(self: &Arc<Self>, lookup: E::Lookup, customer: &Customer) -> Fetching {
        let (tell, coming) = oneshot::channel();
        let (purse, reads) = (Arc::clone(&customer.purse), Arc::clone(&customer.reads));
        self.read_on(lookup, (purse, reads), tell);
        coming
    }

    fn read_on(
        self: &Arc<Self>,
        lookup: E::Lookup,
        whose: Whose,
        tell: oneshot::Sender<Result<Option<Record>, Reply>>,
    ) {
        let this = Arc::clone(self);
        let next = self.engine.next_read(&lookup);
        if let Some((next, place)) = next.and_then(|it| Some((it, own_reads::place()?))) {
            place.begin(next, move |read| match this.engine.fed(lookup, read) {
                Begun::Known(found) => this.tell(found, &whose, tell),
                Begun::Unknown(lookup) => this.read_on(lookup, whose, tell),
            });
            return;
        }
        let share = Arc::clone(&whose.1);
        self.readers.run(&share, move || {
            let found = this.engine.finish(lookup, &|bytes| whose.0.has_room(bytes));
            this.tell(found, &whose, tell);
        });
    }

    /// Tells what a read found to who waits for it. If the client has gone, that is lost.
    fn tell(
        &self,
        found: Result<Option<Record>, EngineError>,
        (purse, reads): &Whose,
        tell: oneshot::Sender<Result<Option<Record>, Reply>>,
    ) {
        if let Ok(Some(record)) = &found {
            reads.learn(record.value.len());
        }
        let _ = tell.send(self.paid(found, purse));
    }

    /// Charges a long value that was found to the client that asked for it.
    fn paid(
        &self,
        found: Result<Option<Record>, EngineError>,
        purse: &Arc<dyn Purse>,
    ) -> Result<Option<Record>, Reply> {
        let found = found.map_err(|failure| match failure {
            EngineError::NoRoom => no_room(),
            failure => {
                self.damage.note(&failure);
                failed(&failure)
            }
        });
        let Some(record) = found? else { return Ok(None) };
        Ok(Some(Record { value: charge(record.value, purse)?, ..record }))
    }

    async fn fetch_all(
        self: &Arc<Self>,
        key: &Bytes,
        customer: &Customer,
    ) -> Result<Option<Record>, Reply> {
        match self.known(key) {
            Begun::Known(found) => self.paid(found, &customer.purse),
            Begun::Unknown(lookup) => {
                // A client's changes hold few values at once, however many it sends.
                let _place = customer.looks.acquire().await;
                self.read(lookup, customer).await.unwrap_or_else(|_| Err(lost()))
            }
        }
    }

    /// Reads the record that is to be changed. If its value is long, waits until there is room to write it again, and
    /// returns the permit for that too.
    async fn look(
        self: &Arc<Self>,
        request: &Request,
        customer: &Customer,
    ) -> Result<(Option<Record>, Option<Rewrite>), Reply> {
        let found = self.fetch_all(&request.key, customer).await?;
        let bytes = found.as_ref().map_or(0, |record| record.value.len());
        if bytes < rewrites::LONG_BYTES {
            return Ok((found, None));
        }
        let bytes = bytes + request.value.len();
        customer.spend(bytes);
        if let Some(rewrite) = self.rewrites.try_begin(bytes) {
            return Ok((found, Some(rewrite)));
        }
        // The value is read again later, so it takes no memory meanwhile. No other change has the turn of the key.
        drop(found);
        let rewrite = self.rewrites.begin(bytes, &customer.rewrites).await;
        Ok((self.fetch_all(&request.key, customer).await?, rewrite))
    }

    /// The reply to a get, given what it found; `None`: the get has to write, and must be carried out as a change.
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

    /// Begins a change that doesn't depend on the current item, if nothing keeps it from beginning now.
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

    /// Takes a client's place in the line for the turn of a key. Its later gets of the key line up behind it.
    pub(crate) fn line_up(&self, key: &Bytes, customer: &Arc<Customer>) -> (Coming, Changing) {
        (self.stripes.line_up(key), customer.begin_change(key))
    }

    /// Carries out a change, or a get in the turn of its key, to its end. It has a place in the line for that turn.
    pub(crate) async fn change(
        self: Arc<Self>,
        (coming, changing): (Coming, Changing),
        (request, is_blind): (Request, bool),
        customer: Arc<Customer>,
    ) -> Reply {
        let terms = Terms::of(&request);
        let Some(turn) = coming.turn().await else { return lost() };
        self.give_way(&customer).await;
        if is_blind {
            return match self.put_blind(&turn, &request, &terms, &customer) {
                Ok((write, reply)) => {
                    drop((turn, changing));
                    self.landed(write.wait().await, reply, (&request, &terms), &customer)
                }
                Err(reply) => reply,
            };
        }
        let (current, rewrite) = match self.look(&request, &customer).await {
            Ok((record, rewrite)) => (Current::of(record.as_ref(), &self.horizon, now()), rewrite),
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
        // A change that writes no value makes room for others.
        let rewrite = rewrite.filter(|_| matches!(effect, Effect::Put(_)));
        let (seq, write) = match self.submit(&turn, &request.key, effect, &customer) {
            Ok(submitted) => submitted,
            Err(reply) => return self.ended(reply, &request, &terms, &customer),
        };
        drop((turn, changing));
        let reply = say(order, said, Some(seq));
        // A long value has another copy on its way to the engine.
        drop(current);
        let landed = write.wait().await;
        drop(rewrite);
        self.landed(landed, reply, (&request, &terms), &customer)
    }

    /// Waits while merges have fallen behind, at most [`GIVE_WAY_MAX`]. After that the engine refuses what it can't take.
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
        // The key is copied: what a client sends stays in a buffer with much else.
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

    /// Flushes all items at once if `at` is 0, or plans that for this second.
    ///
    /// # Errors
    /// The record of the flush can't be written.
    pub(crate) async fn flush(&self, at: u32) -> Result<(), EngineError> {
        self.begin_flush(at)?.wait().await
    }

    /// Like [`flush`](Self::flush), but returns once the flush is submitted. The items are hidden then, but may come back
    /// after a loss of power.
    ///
    /// # Errors
    /// The record of the flush can't be written.
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

pub(crate) fn charge(value: Bytes, purse: &Arc<dyn Purse>) -> Result<Bytes, Reply> {
    if value.len() < CHARGED_BYTES_MIN {
        return Ok(value);
    }
    charged(value, purse).ok_or_else(no_room)
}

pub(crate) fn no_room() -> Reply {
    Reply::failure(Outcome::LocalError, NO_ROOM)
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

/// The reply if a reader panicked.
pub(crate) fn lost() -> Reply {
    failed(&"the look-up was lost: see the log")
}

/// The current Unix second.
pub(crate) fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u32::try_from(since.as_secs()).unwrap_or(u32::MAX))
}

/// The longest that a change waits for merges.
const GIVE_WAY_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
