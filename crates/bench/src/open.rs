//! The open loop: requests are due at given times, whether or not earlier ones are answered.
//!
//! Latency counts from the time at which a request was due, including the time it waited because its
//! connections' pipelines were full or the client was late. A stall of the server thus appears in every
//! request that it delayed (no coordinated omission). Requests that are unanswered or unsent when the run
//! ends count with the time they have waited so far, which is less than it would have become.
//!
//! # Costs
//! The thread sleeps between requests unless `--busy` is given. A wake-up is late by some 50 us, which is
//! included in the figures. With `--busy` it polls.

use std::time::Duration;

use crate::address::ServerAddress;
use crate::args::Arrivals;
use crate::connection::{Connection, Poller};
use crate::crew::{Tally, Watch};
use crate::error::BenchError;
use crate::plan::Plan;
use crate::requests::Request;
use crate::rng::Rng;

/// The parameters of the open loop.
#[derive(Clone, Copy)]
pub(crate) struct Pacing {
    /// Requests per second, over all threads.
    pub(crate) rate: f64,
    pub(crate) arrivals: Arrivals,
    pub(crate) spin: bool,
}

/// Does the work of thread `thread`.
pub(crate) fn run(
    (plan, pacing): (&Plan, Pacing),
    address: &ServerAddress,
    thread: usize,
    watch: &Watch,
) -> Result<Tally, BenchError> {
    let mut connections = plan
        .lanes_of(thread)
        .map(|lane| Connection::open(plan, address, lane))
        .collect::<Result<Vec<_>, _>>()?;
    let mut poller = Poller::new(&connections)?;
    let mut quota = plan.quota_of(thread);
    let mut tally = Tally::default();
    let mut operations = 0;
    watch.ready();
    let mut due = Due::new(plan, pacing, thread, watch.clock.now_ns());
    let mut turn = 0;
    while !watch.is_over() {
        let now = watch.clock.now_ns();
        send_due(&mut connections, &mut due, now, &mut turn, plan.workload.pipeline, &mut quota)?;
        let sleep = if pacing.spin { 0 } else { due.at_ns.saturating_sub(watch.clock.now_ns()) };
        // If a request is overdue, the thread waits for a reply instead of a time.
        let blocked = due.at_ns <= now;
        let sleep = if blocked && !pacing.spin { WAKE_NS } else { sleep.min(WAKE_NS) };
        for place in poller.wait(Duration::from_nanos(sleep))? {
            let connection = &mut connections[place];
            connection.flush()?;
            operations += connection.tally(watch, &mut tally)?;
        }
        watch.report(thread, operations);
        if quota == 0 && connections.iter().all(|it| it.asked.requests.is_empty()) {
            return Ok(tally);
        }
    }
    count_unanswered(&mut connections, &mut due, quota, watch, &mut tally);
    Ok(tally)
}

/// Sends the requests that are due at `now`, as far as connections have room for them.
fn send_due(
    connections: &mut [Connection],
    due: &mut Due,
    now: u64,
    turn: &mut usize,
    depth: usize,
    quota: &mut u64,
) -> Result<(), BenchError> {
    let lanes = connections.len();
    let mut full = 0;
    while due.at_ns <= now && *quota > 0 && full < lanes {
        let connection = &mut connections[*turn % lanes];
        *turn += 1;
        if connection.asked.requests.len() >= depth {
            full += 1;
            continue;
        }
        full = 0;
        connection.add(due.at_ns);
        *quota -= 1;
        due.next();
    }
    connections.iter_mut().try_for_each(Connection::flush)
}

/// Counts the requests that were sent and not answered, and those that were due and not sent. The latter
/// are drawn as those before them, so that each waits among the reads or the writes, where it belongs.
fn count_unanswered(
    connections: &mut [Connection],
    due: &mut Due,
    quota: u64,
    watch: &Watch,
    tally: &mut Tally,
) {
    let now = watch.clock.now_ns();
    let waiting = connections.iter().flat_map(|connection| &connection.asked.requests);
    for &request in waiting.filter(|request| watch.counts(request.at_ns)) {
        tally.latency.record(request, now);
    }
    let mut unsent = quota;
    while due.at_ns < now && unsent > 0 {
        if watch.counts(due.at_ns) {
            for &kind in connections[0].requests.next_kinds() {
                let request = Request { kind, keys: 1, at_ns: due.at_ns };
                tally.latency.record(request, now);
                tally.unsent += 1;
            }
        }
        unsent -= 1;
        due.next();
    }
}

/// The time at which the next request of a thread is due.
struct Due {
    at_ns: u64,
    /// The fraction of a nanosecond that `at_ns` omits, so that the mean rate is exact, at 3 requests per
    /// second as well as at 30 million.
    fraction: f64,
    gap_ns: f64,
    arrivals: Arrivals,
    rng: Rng,
}

impl Due {
    fn new(plan: &Plan, pacing: Pacing, thread: usize, now: u64) -> Self {
        let gap_ns = 1e9 * plan.threads as f64 / pacing.rate;
        let rng = Rng::new(plan.seed ^ (thread as u64 + 1).rotate_left(48));
        let mut due = Self { at_ns: now, fraction: 0.0, gap_ns, arrivals: pacing.arrivals, rng };
        due.next();
        due
    }

    fn next(&mut self) {
        let gap = self.fraction
            + match self.arrivals {
                Arrivals::Even => self.gap_ns,
                Arrivals::Poisson => -(1.0 - self.rng.unit()).ln() * self.gap_ns,
            };
        self.fraction = gap.fract();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a gap is positive and the cast saturates"
        )]
        let whole = gap as u64;
        self.at_ns = self.at_ns.saturating_add(whole);
    }
}

/// The longest sleep of a thread before it checks whether the run is over.
const WAKE_NS: u64 = 10_000_000;
