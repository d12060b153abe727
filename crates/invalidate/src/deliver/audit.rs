//! The delete audit (§7.3 of the paper): checks whether what was cached before a delete is still there some time after
//! it.
//!
//! ```text
//! courier: gets K ─▶ router     just before the delete: the value's unique number
//! auditor: gets K ─▶ router     after each delay: nothing there · another number: refilled · the same one: it survived
//! ```
//! # Invariants
//! 1. The hash of a key decides whether it is sampled, in the same way in every process ([`guira_front::sample`]).
//! 2. At most [`KEYS_MAX`] keys are followed at a time, each from one delete on. They are forgotten when the process
//!    ends.
//! 3. A router that doesn't answer delays a batch by [`SILENCE`], by twice that if it was connected, and at most once
//!    per [`AWAY`]. A missing answer is counted as such.
//! 4. Nothing is changed: a `gets` wins no right to refill, as an `mg` of a stale item would.
//!
//! # Bad at
//! Pools of replicas, because the router asks only one of them. A restarted server may give an old number to a new
//! value. Deletes that leave a stale item (`stale:30s`) aren't audited.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::link::{Parcel, RouterLink, Seen};
use crate::config::{AuditConfig, DestinationConfig};
use crate::counts::{AuditCounts, Found, Judged};
use crate::key::Key;
use crate::line::{Line, Seat};
use crate::rule::How;
use crate::term::now;

/// The audit of a courier's deletes.
pub(crate) struct Audit {
    config: AuditConfig,
    destination: DestinationConfig,
    number: usize,
    line: Arc<Line>,
    seat: Arc<Seat>,
    followed: Mutex<Followed>,
}

#[derive(Default)]
struct Followed {
    keys: HashSet<Key>,
    /// The cases, sorted by the time of their next check.
    due: BTreeMap<(Instant, Key), Case>,
}

#[derive(Clone, Copy)]
struct Case {
    /// The unique number of the value before the delete.
    unique: u64,
    sent: Instant,
    /// The number of delays that have passed.
    passed: usize,
}

impl Audit {
    pub(crate) fn new(
        config: AuditConfig,
        destination: DestinationConfig,
        number: usize,
        line: Arc<Line>,
    ) -> Self {
        let seat = line.seat(number);
        Self { config, destination, number, line, seat, followed: Mutex::default() }
    }

    fn counts(&self) -> &AuditCounts {
        &self.seat.counts.audit
    }

    fn is_sampled(&self, parcel: &Parcel) -> bool {
        !matches!(parcel.how, How::Stale(_)) && self.config.sample.has(parcel.key.bytes())
    }

    /// Whether a key may be followed from now on.
    fn has_room(&self, key: &Key) -> bool {
        let followed = self.followed.lock();
        followed.keys.len() < KEYS_MAX && !followed.keys.contains(key)
    }

    fn follow(&self, key: Key, unique: u64, sent: Instant) {
        let mut followed = self.followed.lock();
        if followed.keys.insert(key.clone()) {
            let case = Case { unique, sent, passed: 0 };
            followed.due.insert((sent + self.config.at[0], key), case);
            self.counts().followed.set(followed.keys.len() as u64);
        }
    }

    /// Takes the cases that are due, or a part of them if they are many.
    fn take_due(&self, now: Instant) -> Vec<(Key, Case)> {
        let mut followed = self.followed.lock();
        let mut taken = Vec::new();
        while taken.len() < AT_ONCE
            && let Some(first) = followed.due.first_entry()
            && first.key().0 <= now
        {
            let ((_, key), case) = first.remove_entry();
            taken.push((key, case));
        }
        taken
    }

    /// Counts what is cached for a key now. `None`: no router answered.
    fn judge(&self, key: Key, case: Case, seen: Option<Seen>) {
        let judged = match seen {
            None | Some(Seen::Refused) => Judged::Unanswered,
            Some(Seen::Nothing) => Judged::Gone,
            Some(Seen::Value(unique)) if unique == case.unique => Judged::Survived,
            Some(Seen::Value(_)) => Judged::Refilled,
        };
        self.counts().judged(case.passed, judged).add(1);
        let after = self.config.at[case.passed];
        if judged == Judged::Survived {
            tracing::error!(
                "destination {}: {after:?} after the delete of '{key}' a value is still cached (audit)",
                self.destination.name
            );
        }
        let mut followed = self.followed.lock();
        match self.config.at.get(case.passed + 1) {
            Some(after) => {
                let case = Case { passed: case.passed + 1, ..case };
                followed.due.insert((case.sent + *after, key), case);
            }
            None => drop(followed.keys.remove(&key)),
        }
        self.counts().followed.set(followed.keys.len() as u64);
    }

    /// Checks the cases that are due. Returns `false` if none are.
    fn look(&self, asker: &mut Asker, now: Instant) -> bool {
        let due = self.take_due(now);
        if due.is_empty() {
            return false;
        }
        let keys: Vec<Key> = due.iter().map(|(key, _)| key.clone()).collect();
        let seen = asker.ask(&keys);
        for (at, (key, case)) in due.into_iter().enumerate() {
            self.judge(key, case, seen.as_ref().and_then(|seen| seen.get(at).copied()));
        }
        true
    }

    /// Checks cases when they are due, until the line ends.
    pub(crate) fn run(&self) {
        let mut asker = Asker::new(self.destination.clone());
        let is_over = || {
            let reach = self.line.reach(self.number);
            reach.is_ended || reach.is_left
        };
        while !is_over() {
            if !self.look(&mut asker, now()) {
                thread::sleep(PAUSE);
            }
        }
    }
}

/// A courier's look at sampled keys before it deletes them.
pub(crate) struct Scout {
    audit: Arc<Audit>,
    asker: Asker,
}

impl Scout {
    pub(crate) fn new(audit: Arc<Audit>) -> Self {
        let asker = Asker::new(audit.destination.clone());
        Self { audit, asker }
    }

    /// Records what is cached for the sampled keys, which are about to be deleted.
    pub(super) fn look(&mut self, parcels: &[Parcel]) {
        let sampled = parcels.iter().filter(|parcel| self.audit.is_sampled(parcel));
        let keys: Vec<Key> = sampled.map(|parcel| parcel.key.clone()).collect();
        if keys.is_empty() {
            return;
        }
        let (keys, left): (Vec<Key>, Vec<Key>) =
            keys.into_iter().partition(|key| self.audit.has_room(key));
        let counts = self.audit.counts();
        counts.found(Found::LeftOut).add(left.len() as u64);
        let Some(seen) = self.asker.ask(&keys) else {
            counts.found(Found::Unanswered).add(keys.len() as u64);
            return;
        };
        let sent = now();
        for (key, seen) in keys.into_iter().zip(seen) {
            let found = match seen {
                Seen::Refused => Found::Unanswered,
                Seen::Nothing => Found::Nothing,
                Seen::Value(unique) => {
                    self.audit.follow(key, unique, sent);
                    Found::Value
                }
            };
            counts.found(found).add(1);
        }
    }
}

/// A separate connection to the destination's routers.
struct Asker {
    destination: DestinationConfig,
    link: Option<RouterLink>,
    router: usize,
    away_since: Option<Instant>,
}

impl Asker {
    fn new(destination: DestinationConfig) -> Self {
        Self { destination, link: None, router: 0, away_since: None }
    }

    /// Returns what is cached for each key. `None`: no router answers, and none is asked for a while.
    fn ask(&mut self, keys: &[Key]) -> Option<Vec<Seen>> {
        if self.away_since.is_some_and(|since| since.elapsed() < AWAY) {
            return None;
        }
        self.away_since = None;
        // The connection may have been closed since its last use. That shows nothing about the router.
        let is_old = self.link.is_some();
        let asked = self.try_ask(keys).or_else(|error| match is_old {
            true => self.try_ask(keys),
            false => Err(error),
        });
        if asked.is_err() {
            self.router += 1;
            self.away_since = Some(now());
        }
        asked.ok()
    }

    fn try_ask(&mut self, keys: &[Key]) -> io::Result<Vec<Seen>> {
        let routers = &self.destination.routers;
        let address = &routers[self.router % routers.len()];
        let mut link = match self.link.take() {
            Some(link) => link,
            None => RouterLink::connect_within(address, SILENCE)?,
        };
        let mut seen = Vec::with_capacity(keys.len());
        // A few keys at a time: their answers can't make the router stop reading.
        for some in keys.chunks(KEYS_A_WRITE) {
            seen.extend(link.uniques(some, &self.destination.prefix)?);
        }
        self.link = Some(link);
        Ok(seen)
    }
}

/// The most keys that a courier follows. With one key in a million and 50,000 deletes per second, an hour has 180.
const KEYS_MAX: usize = 10_000;
/// The most keys of one check.
const AT_ONCE: usize = 256;
const KEYS_A_WRITE: usize = 16;
const SILENCE: Duration = Duration::from_secs(1);
const AWAY: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
