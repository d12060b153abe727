//! Clients that read through a cache from a database that changes: a simulation in time, with a real cache.
//!
//! ```text
//! client    get ─ hit: done            lease-get ─ hit: done
//!               └ miss: query, set               ├ token: query, lease-set
//!                                                └ wait: take the stale value, or ask again later
//! database  a query reads within its time; a change is followed by a delete of its key
//! ```
//! Clients wait 2 ms at first, doubled up to 500 ms, until there is a value or a token: the paper only says that
//! clients retry. Clients that [give up](Clients::GivesUp) query the database after ten tries, 1.5 s, and store
//! nothing, as mcrouter's do by default. They form a herd again if a key has no token for longer than that.

use anyhow::{Result, anyhow};
use guira_bench::Rng;
use guira_cache::{Cache, CacheConfig, Handle, LeaseTerms, Leased, StoreTerms};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How clients read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clients {
    /// By get, with a set after a miss.
    Plain,
    /// By lease-get and lease-set; they wait.
    Lease,
    /// As `Lease`, but they don't wait long.
    GivesUp,
    /// By lease-get and lease-set; they take a stale value if there is one.
    Stale,
}

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Herd {
    pub(super) clients: Clients,
    pub(super) keys: usize,
    /// Reads per second of one key.
    pub(super) reads_per_s: u32,
    /// The range of times between two changes of one key, in milliseconds.
    pub(super) change_every_ms: (u64, u64),
    /// The range of durations of a query, in milliseconds; it reads at some instant within it.
    pub(super) query_ms: (u64, u64),
    pub(super) seconds: u64,
    /// The cache's interval between two tokens, in seconds.
    pub(super) interval_s: u32,
    pub(super) seed: u64,
}

/// The counts of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) reads: u64,
    pub(super) queries: u64,
    /// Hits that aren't marked as stale, on a value older than a change whose delete had completed.
    pub(super) stale_hits: u64,
    /// Values older than the last change that were found in the cache before the next change.
    pub(super) stale_left: u64,
    pub(super) changes: u64,
    /// Stale values that clients accepted.
    pub(super) stale_taken: u64,
    /// The time that reads waited before they had a value or a token, or gave up.
    pub(super) waited_ms: u64,
}

/// An event. Events are ordered by time, then by when they were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Read { key: usize, tries: u32, begun: u64 },
    Query { key: usize, token: Option<u64>, is_kept: bool, left_ms: u64 },
    Fill { key: usize, token: Option<u64>, is_kept: bool, version: u64 },
    Change { key: usize },
}

struct Simulation<'c> {
    herd: Herd,
    handle: Handle<'c>,
    random: Rng,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
    /// The version of each key in the database, which is also its value.
    versions: Vec<u64>,
    counts: Counts,
}

impl Herd {
    /// Runs the simulation.
    pub(super) fn run(self) -> Result<Counts> {
        let leases = LeaseTerms { interval_s: self.interval_s, ..LeaseTerms::default() };
        let config = CacheConfig {
            memory_bytes: 8 << 20,
            leases,
            hash_seed: Some(self.seed),
            ..CacheConfig::default()
        };
        let cache = Cache::new(&config)?;
        let mut simulation = Simulation {
            herd: self,
            handle: cache.handle(),
            random: Rng::new(self.seed),
            events: BinaryHeap::new(),
            planned: 0,
            versions: vec![0; self.keys],
            counts: Counts::default(),
        };
        for key in 0..self.keys {
            // No key changes before the token of its first fill has expired.
            let first =
                u64::from(self.interval_s) * 1000 + simulation.random.below(self.change_every_ms.1);
            simulation.plan(first, Event::Change { key });
            simulation.plan(0, Event::Read { key, tries: 0, begun: 0 });
        }
        while let Some(Reverse((now, _, event))) = simulation.events.pop() {
            if now < self.seconds * 1000 {
                simulation.step(now, event)?;
                simulation.handle.quiesce();
            }
        }
        Ok(simulation.counts)
    }
}

impl Simulation<'_> {
    fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at, self.planned, event)));
    }

    fn step(&mut self, now: u64, event: Event) -> Result<()> {
        match event {
            Event::Read { key, tries, begun } => {
                if tries == 0 {
                    self.counts.reads += 1;
                    let most = 2000 / u64::from(self.herd.reads_per_s);
                    let next = now + self.random.below(most + 1);
                    self.plan(next, Event::Read { key, tries: 0, begun: next });
                }
                if self.read(now, key, tries) {
                    self.counts.waited_ms += now - begun;
                } else {
                    let wait = (WAIT_MS << tries.min(TRIES_MAX)).min(WAIT_MS_MAX);
                    self.plan(now + wait, Event::Read { key, tries: tries + 1, begun });
                }
            }
            Event::Query { key, token, is_kept, left_ms } => {
                let version = self.versions[key];
                self.plan(now + left_ms, Event::Fill { key, token, is_kept, version });
            }
            Event::Fill { is_kept: false, .. } => {}
            Event::Fill { key, token, version, .. } => self.fill(now, key, token, version)?,
            Event::Change { key } => self.change(now, key),
        }
        Ok(())
    }

    /// Does one try of a read. Returns whether it was the last one.
    fn read(&mut self, now: u64, key: usize, tries: u32) -> bool {
        let name = name(key);
        let cached = self.handle.key(name.as_bytes());
        let second = second(now);
        if self.herd.clients == Clients::Plain {
            match self.handle.get(&cached, second).map(|item| number(item.value())) {
                Ok(version) => self.counts.stale_hits += u64::from(version < self.versions[key]),
                Err(_) => self.query(now, key, None, true),
            }
            return true;
        }
        let has_stale = match self.handle.lease_get(&cached, second) {
            Leased::Hit(item) => {
                let version = number(item.value());
                self.counts.stale_hits += u64::from(version < self.versions[key]);
                return true;
            }
            Leased::Granted { token, .. } => {
                self.query(now, key, Some(token), true);
                return true;
            }
            Leased::Wait { stale, .. } => stale.is_some(),
        };
        match self.herd.clients {
            Clients::Stale if has_stale => self.counts.stale_taken += 1,
            Clients::GivesUp if tries == TRIES_MAX => self.query(now, key, None, false),
            _ => return false,
        }
        true
    }

    fn query(&mut self, now: u64, key: usize, token: Option<u64>, is_kept: bool) {
        self.counts.queries += 1;
        let (least, most) = self.herd.query_ms;
        let whole = least + self.random.below(most - least + 1);
        let before = self.random.below(whole + 1);
        let left_ms = whole - before;
        self.plan(now + before, Event::Query { key, token, is_kept, left_ms });
    }

    fn fill(&mut self, now: u64, key: usize, token: Option<u64>, version: u64) -> Result<()> {
        let (name, value, how) = (name(key), version.to_string(), StoreTerms::default());
        let cached = self.handle.key(name.as_bytes());
        let (value, second) = (value.as_bytes(), second(now));
        let stored = match token {
            None => self.handle.store(&cached, value, &how, second),
            Some(token) => self.handle.lease_store(&cached, value, (&how, token), second),
        };
        stored.map(drop).map_err(|no_room| anyhow!("the cache refuses to store: {no_room:?}"))
    }

    /// Changes the database, and deletes the key as the client that changed it does.
    fn change(&mut self, now: u64, key: usize) {
        let name = name(key);
        let cached = self.handle.key(name.as_bytes());
        if let Ok(item) = self.handle.get(&cached, second(now)) {
            self.counts.stale_left += u64::from(number(item.value()) < self.versions[key]);
        }
        self.versions[key] += 1;
        self.counts.changes += 1;
        self.handle.delete(&cached, None, second(now));
        let (least, most) = self.herd.change_every_ms;
        let next = now + least + self.random.below(most - least + 1);
        self.plan(next, Event::Change { key });
    }
}

fn name(key: usize) -> String {
    format!("key{key}")
}

fn number(value: Option<&[u8]>) -> u64 {
    value.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0)
}

/// Converts a millisecond of the simulation to a second of the cache.
fn second(now: u64) -> u32 {
    guira_cache::START_S + u32::try_from(now / 1000).unwrap_or(u32::MAX - guira_cache::START_S)
}

const TRIES_MAX: u32 = 10;
const WAIT_MS: u64 = 2;
const WAIT_MS_MAX: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    /// If a key changes faster than tokens are given, its readers must not all end up in the database.
    #[test]
    fn leases_cost_no_queries_however_often_keys_change() {
        let queries = |clients| {
            let change_every_ms = (2000, 2000);
            let (keys, reads_per_s, query_ms, interval_s) = (1, 200, (100, 200), 10);
            let (seconds, seed) = (60, 1);
            let herd = Herd {
                clients,
                keys,
                reads_per_s,
                change_every_ms,
                query_ms,
                seconds,
                interval_s,
                seed,
            };
            herd.run().unwrap().queries
        };
        let plain = queries(Clients::Plain);
        assert!(plain > 100, "{plain}");
        for clients in [Clients::Lease, Clients::Stale] {
            assert!(queries(clients) <= 6, "{clients:?}: a token in ten seconds");
        }
        assert!(queries(Clients::GivesUp) > plain, "those that give up are a herd");
    }
}
