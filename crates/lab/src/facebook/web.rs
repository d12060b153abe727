//! Web servers that look aside, as real clients of a real router: they ask the cache, on a miss the database, and fill;
//! a client that changes a value deletes its key.
//!
//! Keys are asked by zipf's law. Each belongs to one worker, which does one thing after the other: no fill races with a
//! change, and whatever is read and older than the database is the fleet's fault. A get that fails is a miss that doesn't
//! fill.

use crate::live::{Answer, Client, pause, pause_until};
use crate::measure::now;
use anyhow::Result;
use guira_bench::{Rng, Zipf};
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

/// What they do.
pub(super) struct Web {
    /// The router's port.
    pub(super) port: u16,
    pub(super) keys: u64,
    /// Operations a second, of all together.
    pub(super) rate: f64,
    /// Of the operations, those that change a value.
    pub(super) changes: f64,
    /// After a delete nothing is added for so long. Seconds.
    pub(super) hold_off_s: u32,
    /// Another cache of the same values gets its deletes so much later: its port.
    pub(super) lagging: Option<(u16, Duration)>,
    /// Queries a second that the database answers.
    pub(super) database: f64,
    pub(super) seed: u64,
}

/// What happened in a while.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) gets: u64,
    pub(super) hits: u64,
    /// To the database.
    pub(super) queries: u64,
    /// Of gets, sets and deletes.
    pub(super) errors: u64,
    /// Hits older than the database.
    pub(super) stale: u64,
}

impl Counts {
    pub(super) fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.gets as f64
    }

    /// Of the gets, those that asked the database.
    pub(super) fn query_rate(&self) -> f64 {
        self.queries as f64 / self.gets as f64
    }

    pub(super) fn of<'c>(some: impl IntoIterator<Item = &'c Self>) -> Self {
        some.into_iter().fold(Self::default(), |sum, it| Self {
            gets: sum.gets + it.gets,
            hits: sum.hits + it.hits,
            queries: sum.queries + it.queries,
            errors: sum.errors + it.errors,
            stale: sum.stale + it.stale,
        })
    }
}

#[derive(Default)]
struct Totals {
    gets: AtomicU64,
    hits: AtomicU64,
    queries: AtomicU64,
    errors: AtomicU64,
    stale: AtomicU64,
}

impl Totals {
    fn take(&self) -> Counts {
        let [gets, hits, queries, errors, stale] =
            [&self.gets, &self.hits, &self.queries, &self.errors, &self.stale]
                .map(|n| n.swap(0, Relaxed));
        Counts { gets, hits, queries, errors, stale }
    }
}

/// What the workers share.
struct Shared<'w> {
    web: &'w Web,
    totals: Totals,
    /// When the database has answered what it was asked.
    database_free_at: Mutex<Instant>,
    stop: AtomicBool,
}

impl Web {
    /// Lets them ask for so many ticks; `at` is called before each. Returns what happened in each tick.
    pub(super) fn run(
        &self,
        ticks: usize,
        mut at: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Counts>> {
        let shared = &Shared {
            web: self,
            totals: Totals::default(),
            database_free_at: Mutex::new(now()),
            stop: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            let workers: Vec<_> =
                (0..WORKERS).map(|n| scope.spawn(move || Worker::new(shared, n)?.work())).collect();
            let begun = now();
            let mut seen = Vec::new();
            for tick in 0..ticks {
                let done = at(tick);
                if done.is_err() {
                    shared.stop.store(true, Relaxed);
                    done?;
                }
                pause_until(begun + TICK * u32::try_from(tick + 1).unwrap_or(u32::MAX));
                seen.push(shared.totals.take());
            }
            shared.stop.store(true, Relaxed);
            for worker in workers {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok(seen)
        })
    }

    /// A key's name.
    pub(super) fn key(number: u64) -> String {
        format!("key-{number:08}")
    }
}

/// Owns the keys that leave its number when they are divided by the number of workers.
struct Worker<'w> {
    shared: &'w Shared<'w>,
    number: u64,
    cache: Client,
    lagging: Option<Client>,
    /// Deletes that are due there.
    due: VecDeque<(Instant, u64)>,
    /// Of keys that were changed; others have 1.
    versions: HashMap<u64, u64>,
    rng: Rng,
}

impl<'w> Worker<'w> {
    fn new(shared: &'w Shared<'w>, number: u64) -> Result<Self> {
        let web = shared.web;
        let lagging = web.lagging.map(|(port, _)| Client::connect(port)).transpose()?;
        Ok(Self {
            shared,
            number,
            cache: Client::connect(web.port)?,
            lagging,
            due: VecDeque::new(),
            versions: HashMap::new(),
            rng: Rng::new(web.seed * WORKERS + number),
        })
    }

    fn work(mut self) -> Result<()> {
        let web = self.shared.web;
        let zipf = Zipf::new(web.keys, SKEW);
        let mut next = now();
        while !self.shared.stop.load(Relaxed) {
            // Draws that belong to others are theirs to ask: each worker goes through the draws of all.
            let draws = Duration::from_secs_f64(1.0 / web.rate);
            let key = loop {
                next += draws;
                let key = zipf.rank(&mut self.rng);
                if key % WORKERS == self.number {
                    break key;
                }
            };
            // A worker that was held up doesn't catch up: a web server has so many requests at once.
            next = next.max(now().checked_sub(draws * BEHIND_MAX).unwrap_or(next));
            while now() < next && !self.shared.stop.load(Relaxed) {
                pause(next.saturating_duration_since(now()).min(STOP_LOOK));
            }
            self.send_due()?;
            if self.rng.unit() < web.changes { self.change(key)? } else { self.read(key)? }
        }
        Ok(())
    }

    fn read(&mut self, key: u64) -> Result<()> {
        let totals = &self.shared.totals;
        let version = self.version(key);
        totals.gets.fetch_add(1, Relaxed);
        let answer = self.cache.get(&Web::key(key))?;
        if let Answer::Value(found) = answer {
            totals.hits.fetch_add(1, Relaxed);
            totals.stale.fetch_add(u64::from(found < version), Relaxed);
            return Ok(());
        }
        totals.queries.fetch_add(1, Relaxed);
        self.query();
        if answer == Answer::Error || !self.cache.set(&Web::key(key), version)? {
            totals.errors.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn version(&self, key: u64) -> u64 {
        self.versions.get(&key).copied().unwrap_or(1)
    }

    /// Waits for the database, which answers one query after the other.
    fn query(&self) {
        let takes = Duration::from_secs_f64(1.0 / self.shared.web.database);
        let done = {
            let mut free_at = self.shared.database_free_at.lock().expect("nobody panics with it");
            *free_at = (*free_at).max(now()) + takes;
            *free_at
        };
        pause_until(done);
    }

    fn change(&mut self, key: u64) -> Result<()> {
        let version = self.version(key) + 1;
        self.versions.insert(key, version);
        if !self.cache.delete(&Web::key(key), self.shared.web.hold_off_s)? {
            self.shared.totals.errors.fetch_add(1, Relaxed);
        }
        if let Some((_, lag)) = self.shared.web.lagging {
            self.due.push_back((now() + lag, key));
        }
        Ok(())
    }

    fn send_due(&mut self) -> Result<()> {
        let Some(lagging) = &mut self.lagging else { return Ok(()) };
        while let Some((_, key)) = self.due.pop_front_if(|(at, _)| *at <= now()) {
            lagging.delete(&Web::key(key), 0)?;
        }
        Ok(())
    }
}

/// How often is counted.
pub(super) const TICK: Duration = Duration::from_millis(500);
const WORKERS: u64 = 24;
const SKEW: f64 = 0.99;
/// So many operations of all behind, and the rest is left out.
const BEHIND_MAX: u32 = 200;
/// How long a worker may not look whether it is to stop.
const STOP_LOOK: Duration = Duration::from_millis(100);
