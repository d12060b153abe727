//! Removes the tokens of writes that can be read here from their markers. It replaces the courier of a destination that
//! has markers.
//!
//! ```text
//! gets r:K1 … ─▶ router          the tokens of the markers
//! cas r:K1 …  ─▶ router          what is left of them; if nothing is left, it expires at once
//! EXISTS ◀─ router               a writer changed the marker meanwhile: try again
//! ```
//! # Invariants
//! 1. A token goes only after the database has shown its write, however long the barrier is away. A reader that finds
//!    no marker reads this database.
//! 2. The cursor moves past an entry after each of its tokens is gone, or its lifetime is over.
//! 3. A token that is gone already does no harm. It is counted, because it may have been evicted.
//! 4. Flushes aren't sent: without their markers, keys would be read here before their writes are there.
//!
//! # Bad at
//! Many marks per second: each takes two requests, one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use guira_client::{MarkToken, MarkerTokens, marker_key};

use super::link::{Cached, Exchanged, RouterLink};
use super::pace::{IDLE, PARKED_MAX, PAUSE_LEAST, PAUSE_MOST, RETRY, note_ack};
use super::supply::Supply;
use super::uplink::Uplink;
use crate::config::DestinationConfig;
use crate::counts::{CourierCounts, Unmarked};
use crate::entry::unix_seconds;
use crate::key::Key;
use crate::line::{Line, Reach, Seat};
use crate::mark::Unmark;
use crate::term::now;

/// Removes the tokens of one source's writes from the markers at one destination.
pub(crate) struct Unmarker {
    config: DestinationConfig,
    /// The number of its seat at the line.
    number: usize,
    line: Arc<Line>,
    seat: Arc<Seat>,
    uplink: Uplink,
    supply: Supply,
    waiting: VecDeque<Waiting>,
    refused: Instant,
}

/// A token to remove, and its entry.
struct Waiting {
    unmark: Unmark,
    entry: u64,
    is_refused: bool,
}

/// The tokens to remove, by the keys of their markers.
type ByKey = BTreeMap<Key, Vec<MarkToken>>;

impl Unmarker {
    pub(crate) fn new(config: DestinationConfig, number: usize, line: Arc<Line>) -> Self {
        let supply = Supply::new(line.cursor(number).cursor);
        let (seat, waiting) = (line.seat(number), VecDeque::new());
        let uplink = Uplink::default();
        Self { config, number, line, seat, uplink, supply, waiting, refused: now() }
    }

    /// Removes tokens until the line has ended and nothing is left.
    pub(crate) fn run(mut self) {
        let mut pause = PAUSE_LEAST;
        loop {
            let reach = self.line.reach(self.number);
            if reach.is_left || (reach.is_tainted && reach.is_ended) {
                return;
            }
            if reach.is_tainted {
                thread::sleep(PAUSE_MOST);
                continue;
            }
            match self.turn(&reach) {
                Ok(true) => pause = PAUSE_LEAST,
                Ok(false) if reach.is_ended => return,
                Ok(false) => {
                    self.line.work(self.supply.next(), 1, IDLE);
                    if self.supply.next() < reach.released {
                        // The entries aren't proven, or too many tokens wait.
                        thread::sleep(IDLE);
                    }
                }
                // The term is over: another daemon does the rest.
                Err(_) if self.line.is_over() => return,
                Err(error) => {
                    self.uplink.lose(&self.config, &self.seat.counts, &error);
                    thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MOST);
                }
            }
        }
    }

    fn counts(&self) -> &CourierCounts {
        &self.seat.counts
    }

    /// Does what can be done now. Returns `false` if that is nothing.
    fn turn(&mut self, reach: &Reach) -> io::Result<bool> {
        let mut taken = None;
        while self.waiting.len() < PARKED_MAX
            && let Some(unmarks) = self.supply.take_unmarks(&self.line, reach.proven)?
        {
            taken = taken.max(Some(unmarks.at_s));
            let waiting =
                |(entry, unmark): (u64, Unmark)| Waiting { unmark, entry, is_refused: false };
            self.waiting.extend(unmarks.numbered.into_iter().map(waiting));
        }
        self.forget_late();
        if self.refused.elapsed() > RETRY {
            self.waiting.iter_mut().for_each(|it| it.is_refused = false);
        }
        let is_open = self.waiting.iter().any(|it| !it.is_refused);
        if is_open {
            self.clear()?;
        }
        self.note_cursor();
        if let Some(at_s) = taken {
            note_ack(self.counts(), at_s);
        }
        Ok(taken.is_some() || is_open)
    }

    /// Drops tokens whose lifetime is over. They need no request.
    fn forget_late(&mut self) {
        let now_s = unix_seconds();
        let is_late = |it: &Waiting| {
            let deadline_s = it.unmark.token.deadline_s();
            // None of our writers sets such a late deadline: it is no reason to ask forever.
            deadline_s < now_s || deadline_s - now_s > LIFE_MOST_S
        };
        let before = self.waiting.len();
        self.waiting.retain(|it| !is_late(it));
        self.counts().unmarked(Unmarked::Late).add((before - self.waiting.len()) as u64);
    }

    fn note_cursor(&self) {
        let refused = self.waiting.iter().filter(|it| it.is_refused).count();
        self.counts().parked.set(refused as u64);
        let oldest = self.waiting.iter().map(|it| it.entry).min();
        self.line.note_cursor(self.number, oldest.unwrap_or(u64::MAX).min(self.supply.next()));
    }

    /// Reads the markers of some waiting tokens, and removes the tokens.
    fn clear(&mut self) -> io::Result<()> {
        let mut by_key = ByKey::new();
        for waiting in self.waiting.iter().filter(|it| !it.is_refused).take(AT_ONCE) {
            let Unmark { key, token } = &waiting.unmark;
            by_key.entry(key.clone()).or_default().push(*token);
        }
        if self.line.is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let link = self.uplink.connect(&self.config, &self.seat.counts)?;
        let done = exchange(link, &self.config.prefix, &by_key, &self.seat.counts)?;
        let counts = &self.seat.counts;
        counts.batches.add(1);
        let mut refusal = None;
        for (key, end) in done {
            match end {
                End::Gone => self.waiting.retain(|it| !is_of(it, &key, &by_key)),
                End::Changed => {}
                End::Refused(words) => {
                    let of_key = self.waiting.iter_mut().filter(|it| is_of(it, &key, &by_key));
                    of_key.for_each(|it| it.is_refused = true);
                    refusal = Some(words);
                }
            }
        }
        if let Some(words) = refusal {
            counts.failed.add(1);
            self.refused = now();
            tracing::warn!(
                "destination {}: a marker is refused with '{words}', and tried again until its life is over",
                self.config.name
            );
        }
        Ok(())
    }
}

/// Whether this token of this key was asked for.
fn is_of(waiting: &Waiting, key: &Key, asked: &ByKey) -> bool {
    let Unmark { key: own, token } = &waiting.unmark;
    own == key && asked.get(key).is_some_and(|tokens| tokens.contains(token))
}

/// What happened to the tokens of a marker.
enum End {
    Gone,
    /// A writer changed the marker meanwhile.
    Changed,
    Refused(String),
}

/// Removes tokens from their markers, unless a writer changes a marker meanwhile.
fn exchange(
    link: &mut RouterLink,
    prefix: &str,
    by_key: &ByKey,
    counts: &CourierCounts,
) -> io::Result<Vec<(Key, End)>> {
    let names: Vec<Vec<u8>> = by_key.keys().map(|key| marker_key(key.bytes())).collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let stored = link.stored(&names, prefix)?;
    let (mut ends, mut changes) = (Vec::new(), Vec::new());
    for (((key, tokens), name), stored) in by_key.iter().zip(names).zip(stored) {
        let (value, unique) = match stored {
            Cached::Value(value, unique) => (value, unique),
            Cached::Nothing => (Vec::new(), 0),
            Cached::Refused(words) => {
                ends.push((key.clone(), End::Refused(words)));
                continue;
            }
        };
        // A value that is no marker has none of our tokens.
        let mut all = MarkerTokens::parse(&value).unwrap_or_default();
        let found = tokens.iter().map(|token| match (all.remove(*token), all.marks(*token)) {
            (true, _) => Unmarked::Cleared,
            (false, true) => Unmarked::Crowded,
            (false, false) => Unmarked::Missing,
        });
        let found: Vec<Unmarked> = found.collect();
        if found.contains(&Unmarked::Cleared) {
            changes.push((key, name, found, all, unique));
        } else {
            found.into_iter().for_each(|how| counts.unmarked(how).add(1));
            ends.push((key.clone(), End::Gone));
        }
    }
    let now_s = unix_seconds();
    for (_, name, _, all, unique) in &changes {
        // Until the last token expires; at once if there is none.
        let expiry = match i64::from(all.until_s()) - i64::from(now_s) {
            left @ 0.. => left + 1,
            _ => -1,
        };
        link.exchange((*name, all.encode().as_bytes()), prefix, expiry, *unique)?;
    }
    for (key, _, found, ..) in changes {
        let end = match link.exchanged()? {
            Exchanged::Stored => {
                found.into_iter().for_each(|how| counts.unmarked(how).add(1));
                End::Gone
            }
            // The marker may have been evicted or have expired: the next try finds it missing.
            Exchanged::Changed => End::Changed,
            Exchanged::Refused(words) => End::Refused(words),
        };
        ends.push((key.clone(), end));
    }
    Ok(ends)
}

/// The most markers per request: their answers can't make the router stop reading.
const AT_ONCE: usize = 64;
/// The longest lifetime that `guira_client` gives a mark.
const LIFE_MOST_S: u32 = 90_000;

#[cfg(test)]
mod tests;
