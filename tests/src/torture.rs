//! The consistency checker: many connections, values that know who they are, bounds on each answer.
//!
//! A cache may forget and may never lie. Every value carries its key, its place in its writer's order and
//! bytes that follow from both; a ledger knows, for each key, what was acknowledged before a read was sent
//! and what was issued when its answer came. An answer outside of that is a violation.
//!
//! ```text
//! value.rs    values that can be checked by themselves
//! ledger.rs   what each answer may say: registers, counters, lists, cells
//! batch.rs    one pipeline of requests, as bytes and as what their answers are checked against
//! wire.rs     replies read in step
//! worker.rs   one connection: sends pipelines, judges answers
//! mutant.rs   a small server with one planted fault, to prove that the checker sees it
//! ```
//!
//! # Invariants
//! 1. No rule depends on time passing at some speed: bounds are taken before sending and after receiving.
//! 2. A dropped connection's keys are never used again, for the outcome of its last requests is unknown.
//! 3. Misses are always allowed, but what was missed and not written again may not come back.
//!
//! Not seen: lost `noreply` stores (they may fail in silence), anything about the order of evictions.

mod batch;
mod ledger;
pub mod mutant;
pub(crate) mod random;
mod value;
mod wire;
mod worker;

use crate::server::Address;
use ledger::Ledger;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What a run does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections, each on a thread of its own.
    pub connections: usize,
    /// How long to run, unless a violation ends it.
    pub time: Duration,
    /// Registers that each connection writes.
    pub registers: usize,
    /// Counters, lists and cells that each connection owns.
    pub shared: usize,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
    /// The most requests in one pipeline.
    pub depth: usize,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 8,
            time: Duration::from_secs(5),
            registers: 2_000,
            shared: 8,
            value_bytes_max: 30_000,
            depth: 32,
            seed: 1,
        }
    }
}

/// What a run saw.
#[derive(Debug, Default)]
pub struct Report {
    /// Requests answered.
    pub requests: u64,
    /// Reads that found something.
    pub hits: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Stores refused for want of memory.
    pub refusals: u64,
    /// Connections dropped in the middle of a pipeline, on purpose.
    pub drops: u64,
    /// All that may not be.
    pub violations: Vec<Violation>,
}

/// An answer that no correct cache gives.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Its kind.
    pub kind: Kind,
    /// Key, answer and bounds.
    pub detail: String,
}

/// Kinds of wrong answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes that no writer wrote.
    Torn,
    /// Another key's value.
    WrongKey,
    /// Older than what was acknowledged or seen before.
    Stale,
    /// Newer than what was sent.
    Future,
    /// Came back after a definite miss.
    Resurrected,
    /// Seen after its time.
    Expired,
    /// Two increments with one answer, or one below what was acknowledged.
    LostIncrement,
    /// Two compare-and-swaps of one state both stored.
    LostCas,
    /// An acknowledged append is missing.
    LostAppend,
    /// An append is there twice.
    DoubleAppend,
    /// Replies out of step: one missing, one too many, or of another request.
    OutOfStep,
    /// The server closed, or said nothing for long.
    Silent,
}

/// State that all connections share.
struct Shared {
    options: Options,
    ledger: Ledger,
    stop: AtomicBool,
    started: Instant,
    violations: Mutex<Vec<Violation>>,
}

impl Shared {
    /// Milliseconds since the run began.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.started.elapsed() >= self.options.time
    }

    fn violation(&self, kind: Kind, detail: String) {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < 20 {
            all.push(Violation { kind, detail });
        }
    }
}

/// Runs the checker against a server that is empty.
///
/// # Panics
/// If the server doesn't accept at the start.
#[must_use]
pub fn run(address: &Address, options: Options) -> Report {
    let shared = Shared {
        ledger: Ledger::new(&options),
        options,
        stop: AtomicBool::new(false),
        started: now(),
        violations: Mutex::default(),
    };
    let mut report = Report::default();
    thread::scope(|scope| {
        let shared = &shared;
        let workers: Vec<_> = (0..shared.options.connections)
            .map(|me| scope.spawn(move || worker::run(shared, address, me)))
            .collect();
        for worker in workers {
            let part = worker.join().expect("a worker doesn't panic");
            report.requests += part.requests;
            report.hits += part.hits;
            report.misses += part.misses;
            report.refusals += part.refusals;
            report.drops += part.drops;
        }
    });
    report.violations = shared.violations.into_inner().unwrap_or_else(PoisonError::into_inner);
    report
}

#[expect(
    clippy::disallowed_methods,
    reason = "the checker measures real time, it isn't below a loop"
)]
fn now() -> Instant {
    Instant::now()
}
