//! Web servers that use a look-aside cache, as real clients of a real router. They ask the cache, on a miss the
//! database, and fill the cache. A client that changes a value deletes its key.
//!
//! Keys are drawn from a zipf distribution. Each key belongs to one worker, which does one thing after the other. So no
//! fill races with a change, and any stale read is the fleet's fault. A get that fails is a miss that doesn't fill.

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

/// The parameters of the web servers.
pub(super) struct Web {
    /// The router's port.
    pub(super) port: u16,
    pub(super) keys: u64,
    /// Operations per second, of all workers together.
    pub(super) rate: f64,
    /// The share of operations that change a value.
    pub(super) changes: f64,
    /// The seconds after a delete in which the key can't be added.
    pub(super) hold_off_s: u32,
    /// The port of another cache of the same values, and the delay after which it gets the deletes.
    pub(super) lagging: Option<(u16, Duration)>,
    /// The queries per second that the database answers.
    pub(super) database: f64,
    pub(super) seed: u64,
}

/// The events in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) gets: u64,
    pub(super) hits: u64,
    /// Queries to the database.
    pub(super) queries: u64,
    /// Errors of gets, sets and deletes.
    pub(super) errors: u64,
    /// Hits older than the database.
    pub(super) stale: u64,
}

impl Counts {
    pub(super) fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.gets as f64
    }

    /// The share of gets that asked the database.
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

/// The state that the workers share.
struct Shared<'w> {
    web: &'w Web,
    totals: Totals,
    /// When the database will have answered all queries so far.
    database_free_at: Mutex<Instant>,
    stop: AtomicBool,
}

impl Web {
    /// Runs the workers for `ticks` ticks; `at` is called before each. Returns what happened in each tick.
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

    /// Returns the name of a key.
    pub(super) fn key(number: u64) -> String {
        format!("key-{number:08}")
    }
}

/// A worker. It owns the keys whose number, modulo the number of workers, is its own.
struct Worker<'w> {
    shared: &'w Shared<'w>,
    number: u64,
    cache: Client,
    lagging: Option<Client>,
    /// Deletes that are due at the lagging cache.
    due: VecDeque<(Instant, u64)>,
    /// The versions of keys that were changed; other keys have version 1.
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
            // Each worker goes through the draws of all workers, and skips the keys of the others.
            let draws = Duration::from_secs_f64(1.0 / web.rate);
            let key = loop {
                next += draws;
                let key = zipf.rank(&mut self.rng);
                if key % WORKERS == self.number {
                    break key;
                }
            };
            // A worker that was delayed catches up only so far: a web server has a limited number of requests at once.
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

/// The length of a counting period.
pub(super) const TICK: Duration = Duration::from_millis(500);
const WORKERS: u64 = 24;
const SKEW: f64 = 0.99;
/// The number of operations, of all workers, that a delayed worker catches up on; more are skipped.
const BEHIND_MAX: u32 = 200;
/// The longest time that a worker waits without checking whether it must stop.
const STOP_LOOK: Duration = Duration::from_millis(100);
