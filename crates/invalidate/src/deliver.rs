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
//! 4. What was sent unproven is sent again once it is proven, as if it hadn't been sent. So the second delete follows
//!    `again` after the new first one.
//! 5. Batches don't wait to become full: what arrives while the last one is in flight goes with the next.
//!
//! # Bad at
//! Routers that refuse a few keys for long. Each is sent alone, and there are at most `PARKED_MAX` of them.

mod audit;
mod resend;
mod unmark;
mod supply;
mod spread;
mod flush;
mod parked;
mod link;
mod pace;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use guira_client::Address;

use crate::config::DestinationConfig;
use crate::counts::CourierCounts;
use crate::key::Key;
use crate::line::{Line, Reach, Seat, Work};
use crate::rule::How;
use crate::term::now;
pub(crate) use audit::{Audit, Scout};
use flush::Flushes;
use link::{Parcel, RouterLink};
use pace::{IDLE, PAUSE_LEAST, PAUSE_MOST, note_ack};
use parked::Parked;
pub(crate) use resend::Resender;
use spread::Spread;
use supply::{Load, Supply};
pub(crate) use unmark::Unmarker;

/// Sends the deletes and flushes of one source to one destination.
pub(crate) struct Courier {
    config: DestinationConfig,
    /// The number of its seat at the line.
    number: usize,
    line: Arc<Line>,
    seat: Arc<Seat>,
    link: Option<RouterLink>,
    router: usize,
    in_flight: VecDeque<Batch>,
    first: Supply,
    again: Supply,
    /// Entries before this one are acknowledged; in `done_again` for the second time.
    done: u64,
    done_again: u64,
    /// When entries up to a number were acknowledged: their second delete follows `again` later.
    acked: VecDeque<(u64, Instant)>,
    again_until: u64,
    /// The entries that were sent unproven: the first, and the one after the last.
    unproven: Option<(u64, u64)>,
    parked: Parked,
    flushes: Flushes,
    /// Of the flush that is under way.
    spread: Option<Spread>,
    scout: Option<Scout>,
}

/// Deletes that are sent together.
struct Batch {
    parcels: Vec<Parcel>,
    begin: u64,
    /// All entries before this one are in this batch or in earlier ones.
    end: u64,
    is_again: bool,
    /// The time of its newest change, in Unix seconds.
    at_s: u32,
    is_failed: bool,
}

impl Batch {
    /// Creates the batch of a load. That of a flush has no deletes: it only moves the cursor. The flush itself, and its
    /// second one, are scheduled apart.
    fn new(load: Load, begin: u64, end: u64, is_again: bool) -> Self {
        let (parcels, at_s) = match load {
            Load::Deletes(parcels, at_s) => (parcels, at_s),
            Load::Flush(at_s) => (Vec::new(), at_s),
        };
        Self { parcels, begin, end, is_again, at_s, is_failed: false }
    }
}

impl Courier {
    pub(crate) fn new(config: DestinationConfig, number: usize, line: Arc<Line>) -> Self {
        let cursor = line.cursor(number).cursor;
        Self {
            config,
            number,
            seat: line.seat(number),
            line,
            link: None,
            router: 0,
            in_flight: VecDeque::new(),
            first: Supply::new(cursor),
            again: Supply::new(cursor),
            done: cursor,
            done_again: cursor,
            acked: VecDeque::new(),
            again_until: cursor,
            unproven: None,
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
                    if !matches!(self.line.work(self.first.next(), 1, IDLE), Work::Nothing) {
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
        self.note_due(reach);
        while self.in_flight.len() < IN_FLIGHT
            && !self.parked.is_full()
            && !self.is_flush_due()
            && !self.parked.is_retry_due()
            // Otherwise something would always be in flight, and what was proven would never be sent again.
            && !self.is_proven(reach)
        {
            let Some(batch) = self.next_batch(reach)? else { break };
            if let Some(scout) = self.scout.as_mut().filter(|_| !batch.is_again) {
                scout.look(&batch.parcels);
            }
            // The batch is queued before it is sent: if the connection breaks, it is sent again.
            self.in_flight.push_back(batch);
            self.connect()?;
            self.check_term()?;
            if let (Some(link), Some(batch)) = (&mut self.link, self.in_flight.back()) {
                link.send(&batch.parcels, &self.config.prefix)?;
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

    /// Releases second deletes that are due, and rewinds to entries that were proven after they were sent.
    fn note_due(&mut self, reach: &Reach) {
        while let Some((end, at)) = self.acked.front()
            && at.elapsed() >= self.config.again + TOGETHER
        {
            self.again_until = self.again_until.max(*end);
            self.acked.pop_front();
        }
        if let Some((from, _)) = self.unproven.filter(|_| self.is_proven(reach))
            && self.in_flight.is_empty()
        {
            self.unproven = None;
            self.first.rewind(from);
            self.done = self.done.min(from);
            self.again_until = self.again_until.min(from);
            let kept = self.acked.iter().take_while(|(end, _)| *end < from).count() + 1;
            self.acked.truncate(kept);
            if let Some((end, _)) = self.acked.back_mut() {
                *end = from.min(*end);
            }
            if self.again.after() > from {
                self.again.rewind(from);
                self.done_again = self.done_again.min(from);
            }
        }
    }

    /// Whether what was sent unproven has been proven.
    fn is_proven(&self, reach: &Reach) -> bool {
        self.unproven.is_some_and(|(_, until)| reach.proven >= until)
    }

    fn next_batch(&mut self, reach: &Reach) -> io::Result<Option<Batch>> {
        let begin = self.first.next();
        let own = (&*self.seat.name, self.config.how);
        if let Some(load) = self.first.take(&self.line, own, reach.released)? {
            let end = self.first.next();
            if let Load::Flush(at_s) = load {
                self.flushes.want(begin, self.flush_due(at_s));
                self.counts().is_flush_due.set(1);
            }
            if end > reach.proven {
                let (from, until) = self.unproven.unwrap_or((u64::MAX, 0));
                let unproven =
                    (from.min(begin.max(reach.proven)), until.max(end).max(self.first.after()));
                self.unproven = Some(unproven);
            }
            return Ok(Some(Batch::new(load, begin, end, false)));
        }
        if self.config.again.is_zero() {
            return Ok(None);
        }
        let begin = self.again.next();
        let taken = self.again.take(&self.line, own, self.again_until)?;
        Ok(taken.map(|load| Batch::new(load, begin, self.again.next(), true)))
    }

    /// Waits for the answer to the oldest batch. After an error, it waits for all other answers, too: only then can the
    /// connection be used for single keys. Batches are acknowledged in order.
    fn settle(&mut self) -> io::Result<()> {
        for at in 0..self.in_flight.len() {
            let link = self.link.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            match link.answer(&self.in_flight[at].parcels)? {
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
        let link = self.link.as_mut().ok_or(io::ErrorKind::NotConnected)?;
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
        self.connect()?;
        let link = self.link.as_mut().ok_or(io::ErrorKind::NotConnected)?;
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
        if batch.is_again {
            self.done_again = self.done_again.max(batch.end);
        } else {
            note_ack(counts, batch.at_s);
            self.done = self.done.max(batch.end);
            self.note_for_again(batch.end);
        }
        self.note_cursor();
    }

    /// Records an acknowledgement for the second delete. Those within a tenth of a second are combined, and delayed by
    /// as much. So there are few, however long `again` is.
    fn note_for_again(&mut self, end: u64) {
        if self.config.again.is_zero() {
            return;
        }
        match self.acked.back_mut() {
            Some((before, at)) if at.elapsed() < TOGETHER => *before = end,
            _ => self.acked.push_back((end, now())),
        }
    }

    fn note_cursor(&self) {
        let done =
            if self.config.again.is_zero() { self.done } else { self.done.min(self.done_again) };
        let unproven = self.unproven.map(|(from, _)| from);
        self.counts().is_flush_due.set(self.flushes.held().is_some().into());
        let holders = [unproven, self.parked.held(), self.flushes.held(), Some(done)];
        let cursor = holders.into_iter().flatten().min().unwrap_or(done);
        self.line.note_cursor(self.number, cursor);
    }

    fn connect(&mut self) -> io::Result<&mut RouterLink> {
        if self.link.is_none() {
            self.link = Some(RouterLink::connect(self.router())?);
            self.counts().connects.add(1);
            self.counts().is_connected.set(1);
        }
        self.link.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn router(&self) -> &Address {
        &self.config.routers[self.router % self.config.routers.len()]
    }

    /// Rewinds to what wasn't acknowledged, and selects the next router.
    fn lose(&mut self, error: &io::Error) {
        let router = self.router();
        tracing::warn!("destination {}: router {router}: {error}", self.config.name);
        self.link = None;
        self.counts().is_connected.set(0);
        self.router += 1;
        for batch in std::mem::take(&mut self.in_flight).into_iter().rev() {
            if batch.is_again {
                self.again.rewind(batch.begin);
            } else {
                self.first.rewind(batch.begin);
                self.flushes.forget_from(batch.begin);
            }
        }
    }
}

/// What a destination asks of its routers besides deletes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks {
    /// Flushes.
    pub(crate) is_flushed: bool,
    /// Flushes of one server at a time.
    pub(crate) is_spread: bool,
}

/// Checks that a router answers, knows the meta commands, deletes a key with the destination's prefix, and, if it
/// `is_flushed`, accepts flushes: for `guira invalidate check`.
///
/// # Errors
/// The router fails one of these checks.
pub(crate) fn check(router: &Address, prefix: &str, asks: Asks) -> io::Result<()> {
    let Asks { is_flushed, is_spread } = asks;
    let mut link = RouterLink::connect(router)?;
    let key = Key::new(CHECKED).map_err(|why| io::Error::other(why.to_string()))?;
    let parcels = [Parcel { key, how: How::Delete }];
    link.send(&parcels, prefix)?;
    if let Some(answer) = link.answer(&parcels)? {
        let key = CHECKED.escape_ascii();
        let route = match prefix {
            "" => String::new(),
            _ => format!(
                ". The router needs a route for this prefix: --route-prefix={prefix}, or \"aliases\": [\"{prefix}\"] at one of its \"routes\""
            ),
        };
        let words = format!("a delete of {prefix}{key} is answered '{answer}'{route}");
        return Err(io::Error::other(words));
    }
    if is_flushed && link.option("enable_flush_cmd")?.is_some_and(|it| it == "0") {
        let words = "it refuses flush_all, which on_gap, on_truncate or on_unknown needs: start it with --enable-flush-cmd";
        return Err(io::Error::other(words));
    }
    if is_flushed && is_spread && link.servers()?.is_none() {
        let words =
            "it doesn't tell its servers, which flush_over needs: it would flush all at once";
        return Err(io::Error::other(words));
    }
    Ok(())
}

enum Turn {
    Done,
    Idle,
}

/// A key that nothing is stored under.
const CHECKED: &[u8] = b"guira-invalidate-check";
/// The most batches in flight.
const IN_FLIGHT: usize = 4;
const TOGETHER: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
