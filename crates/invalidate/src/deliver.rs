//! Couriers: one per source and destination. A destination with markers has an [`Unmarker`] instead. A courier sends
//! deletes to one router of its cluster, and waits for their acknowledgement.
//!
//! ```text
//! md K1 q … md Kn q, mn ─▶ router        at most IN_FLIGHT batches
//! MN ◀─ router                            all before it are done: the cursor moves
//! any other line                          the batch is sent again in halves, until the bad key is alone, and is parked
//! connection lost                         what wasn't acknowledged is sent to the next router
//! flush_all, mn ─▶ router                 a flush, alone: all before it are acknowledged, nothing else is in flight
//! ```
//! # Invariants
//! 1. The cursor moves past an entry after each of its keys was acknowledged, twice if there is a second delete.
//! 2. A parked key (`parked.rs`) holds the cursor before its entry until a router accepts the key.
//! 3. A flush that fails, or that waits for `flush_after`, holds the cursor too. Deletes go on between its tries: a
//!    flush after them does no harm. During a try they wait for the router's answer, as for any other answer.
//! 4. What was sent unproven is sent again once it is proven, as if it hadn't been sent ([`Cursors`]).
//! 5. Batches don't wait to become full: what arrives while the last one is in flight goes with the next.
//!
//! # Bad at
//! Routers that refuse a few keys for long. Each is sent alone, and there are at most `PARKED_MAX` of them.

mod preflight;
mod audit;
mod resend;
mod unmark;
mod cursors;
mod supply;
mod spread;
mod flush;
mod parked;
mod uplink;
mod link;
mod pace;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::config::DestinationConfig;
use crate::counts::CourierCounts;
use crate::line::{Line, Reach, Seat, Work};
use crate::term::now;
pub(crate) use audit::{Audit, Scout};
use cursors::{Batch, Cursors};
use flush::Flushes;
use link::{Parcel, RouterLink};
use pace::{IDLE, PAUSE_LEAST, PAUSE_MOST, note_ack};
use parked::Parked;
pub(crate) use preflight::{Asks, check};
pub(crate) use resend::Resender;
use spread::Spread;
pub(crate) use unmark::Unmarker;
use uplink::Uplink;

/// Sends the deletes and flushes of one source to one destination.
pub(crate) struct Courier {
    config: DestinationConfig,
    /// The number of its seat at the line.
    number: usize,
    line: Arc<Line>,
    seat: Arc<Seat>,
    uplink: Uplink,
    in_flight: VecDeque<Batch>,
    cursors: Cursors,
    parked: Parked,
    flushes: Flushes,
    /// Of the flush that is under way.
    spread: Option<Spread>,
    scout: Option<Scout>,
}

impl Courier {
    pub(crate) fn new(config: DestinationConfig, number: usize, line: Arc<Line>) -> Self {
        let cursor = line.cursor(number).cursor;
        Self {
            cursors: Cursors::new(cursor, config.again),
            config,
            number,
            seat: line.seat(number),
            line,
            uplink: Uplink::default(),
            in_flight: VecDeque::new(),
            parked: Parked::new(),
            flushes: Flushes::default(),
            spread: None,
            scout: None,
        }
    }

    /// Adds a scout, which looks at sampled keys before they are deleted.
    pub(crate) fn audited(self, scout: Scout) -> Self {
        Self { scout: Some(scout), ..self }
    }

    /// Delivers until the line has ended and nothing is left.
    pub(crate) fn run(mut self) {
        let mut pause = PAUSE_LEAST;
        loop {
            let reach = self.line.reach(self.number);
            if reach.is_left {
                return;
            }
            if reach.is_tainted {
                if reach.is_ended {
                    return;
                }
                thread::sleep(PAUSE_MOST);
                continue;
            }
            match self.turn(&reach) {
                Ok(Turn::Idle) if reach.is_ended => return,
                Ok(Turn::Idle) => {
                    if !matches!(self.line.work(self.cursors.next(), 1, IDLE), Work::Nothing) {
                        // There are entries. Only parked keys can keep them back.
                        thread::sleep(if self.parked.is_full() { IDLE } else { Duration::ZERO });
                    }
                }
                Ok(Turn::Done) => pause = PAUSE_LEAST,
                // The term is over: another daemon sends the rest.
                Err(_) if self.line.is_over() => return,
                Err(error) => {
                    self.lose(&error);
                    thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MOST);
                }
            }
        }
    }

    fn counts(&self) -> &CourierCounts {
        &self.seat.counts
    }

    /// Sends what may be sent, then waits for the oldest answer.
    fn turn(&mut self, reach: &Reach) -> io::Result<Turn> {
        self.cursors.release_due();
        if self.in_flight.is_empty() {
            self.cursors.rewind_proven(reach);
        }
        while self.in_flight.len() < IN_FLIGHT
            && !self.parked.is_full()
            && !self.is_flush_due()
            && !self.parked.is_retry_due()
            // Otherwise something would always be in flight, and what was proven would never be sent again.
            && !self.cursors.is_proven(reach)
        {
            let Some(batch) = self.next_batch(reach)? else { break };
            if let Some(scout) = self.scout.as_mut().filter(|_| !batch.is_again) {
                scout.look(&batch.parcels);
            }
            // The batch is queued before it is sent: if the connection breaks, it is sent again.
            self.in_flight.push_back(batch);
            self.connect()?;
            self.check_term()?;
            if let Some(batch) = self.in_flight.back() {
                self.uplink.open()?.send(&batch.parcels, &self.config.prefix)?;
            }
        }
        if !self.in_flight.is_empty() {
            self.settle()?;
            return Ok(Turn::Done);
        }
        if self.is_flush_due() {
            match self.config.flush_over.is_zero() {
                true => self.flush()?,
                false => self.flush_next()?,
            }
            return Ok(Turn::Done);
        }
        if self.parked.is_retry_due() {
            self.retry()?;
            return Ok(Turn::Done);
        }
        Ok(Turn::Idle)
    }

    /// Checks that this daemon may send.
    ///
    /// # Errors
    /// Another daemon may be active: nothing may be sent any more.
    fn check_term(&self) -> io::Result<()> {
        if self.line.is_over() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    /// Flushes all servers. Call it only while nothing is in flight.
    fn flush(&mut self) -> io::Result<()> {
        self.check_term()?;
        let sent = now();
        let flushed = self.connect().and_then(RouterLink::flush);
        let name = &self.config.name;
        match flushed {
            Ok(None) => {
                self.flushes.note_done(sent, self.config.again);
                self.counts().flushes.add(1);
                self.counts().flushes_failing.set(0);
                tracing::warn!("destination {name}: all its servers are flushed");
            }
            Ok(Some(words)) => {
                self.counts().flushes_failing.set(1);
                if self.flushes.note_failed(now()) {
                    tracing::error!(
                        "destination {name}: a flush is answered '{words}', and tried again until it isn't (a router needs --enable-flush-cmd)"
                    );
                }
            }
            Err(error) => {
                self.counts().flushes_failing.set(1);
                self.flushes.note_failed(now());
                return Err(error);
            }
        }
        self.note_cursor();
        Ok(())
    }

    /// Whether a flush is to be sent, or the next server of one that is under way.
    fn is_flush_due(&self) -> bool {
        match &self.spread {
            Some(spread) => spread.is_due(now()),
            None => self.flushes.is_due(now()),
        }
    }

    /// Flushes the server whose turn it is, while nothing is on its way.
    fn flush_next(&mut self) -> io::Result<()> {
        self.check_term()?;
        let Some(mut spread) = self.spread.take() else { return self.begin_spread() };
        let flushed = self.connect().and_then(|link| spread.flush(link));
        match &flushed {
            Ok(None) => spread.note_done(),
            Ok(Some(words)) => {
                let server = spread.next().unwrap_or_default().to_owned();
                if spread.note_failed(now()) {
                    tracing::error!(
                        "destination {}: a flush of {server} is answered '{words}', and tried again until it isn't (a router needs --enable-flush-cmd)",
                        self.config.name
                    );
                }
            }
            Err(_) => drop(spread.note_failed(now())),
        }
        self.counts().flushes_left.set(spread.left() as u64);
        self.counts().flushes_failing.set(spread.failing() as u64);
        if spread.left() == 0 {
            self.flushes.note_over();
            self.counts().flushes.add(1);
            tracing::warn!("destination {}: all its servers are flushed", self.config.name);
        } else {
            self.spread = Some(spread);
        }
        flushed?;
        self.note_cursor();
        Ok(())
    }

    /// A router that doesn't tell its servers is asked to flush all at once.
    fn begin_spread(&mut self) -> io::Result<()> {
        let servers = self.connect().and_then(RouterLink::servers);
        self.counts().flushes_failing.set(servers.is_err().into());
        if servers.is_err() {
            self.flushes.note_failed(now());
        }
        let Some(servers) = servers? else { return self.flush() };
        let (name, over) = (&self.config.name, self.config.flush_over);
        tracing::warn!(
            "destination {name}: {} servers are flushed, one after the other over {over:?}",
            servers.len()
        );
        self.counts().flushes_left.set(servers.len() as u64);
        self.spread = Some(Spread::new(servers, now(), over));
        self.flushes.begin();
        Ok(())
    }

    /// Returns when to send a flush that a change of this time calls for.
    fn flush_due(&self, at_s: u32) -> Instant {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let age = since.unwrap_or_default().saturating_sub(Duration::from_secs(at_s.into()));
        // Spread over servers there is no second one: what is stored late is there before the first one begins.
        let again =
            if self.config.flush_over.is_zero() { Duration::ZERO } else { self.config.again };
        now() + self.config.flush_after.saturating_sub(age) + again
    }

    fn next_batch(&mut self, reach: &Reach) -> io::Result<Option<Batch>> {
        let own = (&*self.seat.name, self.config.how);
        let batch = self.cursors.take(&self.line, own, reach)?;
        if let Some(batch) = batch.as_ref().filter(|batch| batch.is_flush && !batch.is_again) {
            self.flushes.want(batch.begin, self.flush_due(batch.at_s));
            self.counts().is_flush_due.set(1);
        }
        Ok(batch)
    }

    /// Waits for the answer to the oldest batch. After an error, it waits for all other answers, too: only then can the
    /// connection be used for single keys. Batches are acknowledged in order.
    fn settle(&mut self) -> io::Result<()> {
        for at in 0..self.in_flight.len() {
            match self.uplink.open()?.answer(&self.in_flight[at].parcels)? {
                None if at == 0 => {
                    if let Some(batch) = self.in_flight.pop_front() {
                        self.note_acked(&batch);
                    }
                    return Ok(());
                }
                None => {}
                Some(words) => {
                    self.counts().failed.add(1);
                    tracing::warn!(
                        "destination {}: a batch was answered '{words}'",
                        self.config.name
                    );
                    self.in_flight[at].is_failed = true;
                }
            }
        }
        while let Some(batch) = self.in_flight.front() {
            if batch.is_failed {
                let (parcels, entry) = (batch.parcels.clone(), batch.begin);
                self.deliver_carefully(&parcels, entry)?;
            }
            if let Some(batch) = self.in_flight.pop_front() {
                self.note_acked(&batch);
            }
        }
        Ok(())
    }

    /// Sends halves, and halves of them, until the bad keys stand alone, and parks those.
    fn deliver_carefully(&mut self, parcels: &[Parcel], entry: u64) -> io::Result<()> {
        self.check_term()?;
        let link = self.uplink.open()?;
        link.send(parcels, &self.config.prefix)?;
        match (link.answer(parcels)?, parcels) {
            (None, _) => Ok(()),
            (Some(words), [parcel]) => {
                tracing::warn!(
                    "destination {}: the key '{}' is refused with '{words}', and tried again until it isn't",
                    self.config.name,
                    parcel.key
                );
                self.parked.add(parcel, entry);
                self.counts().parked.set(self.parked.count());
                Ok(())
            }
            (Some(_), _) => {
                let (left, right) = parcels.split_at(parcels.len() / 2);
                self.deliver_carefully(left, entry)?;
                self.deliver_carefully(right, entry)
            }
        }
    }

    /// Sends the parked keys again, each alone.
    fn retry(&mut self) -> io::Result<()> {
        self.parked.note_retry();
        self.check_term()?;
        let link = self.uplink.connect(&self.config, &self.seat.counts)?;
        self.parked.retry(link, &self.config.prefix)?;
        self.counts().parked.set(self.parked.count());
        self.note_cursor();
        Ok(())
    }

    fn note_acked(&mut self, batch: &Batch) {
        let counts = self.counts();
        counts.batches.add(1);
        let sent = if batch.is_again { &counts.again } else { &counts.deletes };
        sent.add(batch.parcels.len() as u64);
        if !batch.is_again {
            note_ack(counts, batch.at_s);
        }
        self.cursors.note_acked(batch);
        self.note_cursor();
    }

    fn note_cursor(&self) {
        self.counts().is_flush_due.set(self.flushes.held().is_some().into());
        let holders = [self.parked.held(), self.flushes.held()];
        let cursor = holders.into_iter().flatten().fold(self.cursors.done(), u64::min);
        self.line.note_cursor(self.number, cursor);
    }

    fn connect(&mut self) -> io::Result<&mut RouterLink> {
        self.uplink.connect(&self.config, &self.seat.counts)
    }

    /// Rewinds to what wasn't acknowledged, and selects the next router.
    fn lose(&mut self, error: &io::Error) {
        self.uplink.lose(&self.config, &self.seat.counts, error);
        for batch in std::mem::take(&mut self.in_flight).into_iter().rev() {
            self.cursors.rewind(&batch);
            if !batch.is_again {
                self.flushes.forget_from(batch.begin);
                if batch.is_flush {
                    self.counts().flushes_failing.set(1);
                }
            }
        }
    }
}

enum Turn {
    Done,
    Idle,
}

/// The most batches in flight.
const IN_FLIGHT: usize = 4;

#[cfg(test)]
mod tests;
