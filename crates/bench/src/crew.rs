//! The threads of a run, and the thread that watches them.
//!
//! Threads connect, prepare their requests, report that they are ready, and work. The watcher then waits
//! for the warm-up to pass, reads the counters and the server's CPU time, waits, and reads them again.
//! The measurement is exactly the difference, and no thread is started or stopped during it.
//!
//! # Orderings
//! Counters and marks are relaxed: each is a single number, and results are returned by joining the threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::clock::Clock;
use crate::cpu::{CpuTime, pin};
use crate::error::BenchError;
use crate::latency::Latency;
use crate::plan::Plan;
use crate::verify::Counts;

/// The results of one thread.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The counts of the measured part.
    pub(crate) counts: Counts,
    /// The counts of the warm-up.
    pub(crate) warmup: Counts,
    pub(crate) latency: Latency,
    /// Requests of the measured part that were due and not sent.
    pub(crate) unsent: u64,
}

/// The state that threads and watcher share.
pub(crate) struct Watch {
    pub(crate) clock: Clock,
    /// The time at which the measured part began; `u64::MAX` before.
    measured_from_ns: AtomicU64,
    over: AtomicBool,
    ready: AtomicUsize,
    ended: AtomicUsize,
    done: Box<[Lane]>,
}

/// A thread's count of finished operations, on its own pair of cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Lane(AtomicU64);

impl Watch {
    fn new(plan: &Plan) -> Self {
        // A run that is limited by requests is measured from the first request on, which is sent before anybody observes.
        let measured_from_ns = if plan.requests_max.is_some() { 0 } else { u64::MAX };
        let threads = plan.threads;
        Self {
            clock: Clock::start(),
            measured_from_ns: AtomicU64::new(measured_from_ns),
            over: AtomicBool::new(false),
            ready: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            done: (0..threads).map(|_| Lane::default()).collect(),
        }
    }

    /// Whether a request due at `at_ns` belongs to the measured part.
    pub(crate) fn counts(&self, at_ns: u64) -> bool {
        at_ns >= self.measured_from_ns.load(Relaxed)
    }

    /// Whether threads must end.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Reports that thread `thread` has finished `operations`, measured ones and former ones.
    pub(crate) fn report(&self, thread: usize, operations: u64) {
        self.done[thread].0.store(operations, Relaxed);
    }

    /// Reports that the calling thread is about to send its first request.
    pub(crate) fn ready(&self) {
        self.ready.fetch_add(1, Relaxed);
    }

    fn operations(&self) -> u64 {
        self.done.iter().map(|lane| lane.0.load(Relaxed)).sum()
    }
}

/// The measured part of a run.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// Keys read and items written.
    pub(crate) operations: u64,
    pub(crate) cpu: Option<CpuTime>,
    pub(crate) tally: Tally,
}

/// The surroundings of a run: the process whose CPU time is measured, the progress bar, and the user's interrupt.
#[derive(Clone)]
pub(crate) struct Around<'a> {
    pub(crate) pid: Option<u32>,
    pub(crate) bar: &'a ProgressBar,
    pub(crate) interrupted: Arc<AtomicBool>,
}

impl Around<'_> {
    /// Whether the user has interrupted the run.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }
}

/// Runs `work` on each of the plan's threads and measures.
pub(crate) fn measure<F>(plan: &Plan, around: &Around<'_>, work: F) -> Result<Measured, BenchError>
where
    F: Fn(usize, &Watch) -> Result<Tally, BenchError> + Sync,
{
    let watch = Watch::new(plan);
    let watcher = thread::current();
    let body = |thread: usize| {
        let pinned = match plan.pins.is_empty() {
            true => Ok(()),
            false => pin(plan.pins[thread % plan.pins.len()]),
        };
        let result = pinned.and_then(|()| work(thread, &watch));
        watch.ended.fetch_add(1, Relaxed);
        watcher.unpark();
        result
    };
    let body = &body;
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..plan.threads).map(|thread| scope.spawn(move || body(thread))).collect();
        let between = observe(plan, around, &watch);
        watch.over.store(true, Relaxed);
        let mut tally = Tally::default();
        for thread in threads {
            let part = thread.join().expect("threads return errors instead of panicking")?;
            tally.counts.add(&part.counts);
            tally.warmup.add(&part.warmup);
            tally.latency.add(&part.latency);
            tally.unsent += part.unsent;
        }
        let (seconds, operations, cpu) = between?;
        Ok(Measured { seconds, operations, cpu, tally })
    })
}

/// Waits through the warm-up and the measured part. Returns the latter's seconds, operations and CPU time.
fn observe(
    plan: &Plan,
    around: &Around<'_>,
    watch: &Watch,
) -> Result<(f64, u64, Option<CpuTime>), BenchError> {
    let ended = || watch.ended.load(Relaxed) == plan.threads;
    let stop = || ended() || around.is_interrupted();
    let wait = || thread::park_timeout(Duration::from_millis(2));
    let cpu_at_start = around.pid.map(CpuTime::of).transpose()?;
    while watch.ready.load(Relaxed) < plan.threads && watch.ended.load(Relaxed) == 0 {
        wait();
    }
    let started_ns = watch.clock.now_ns();
    let warm_ns = started_ns + nanoseconds(plan.warmup_s);
    while watch.clock.now_ns() < warm_ns && !stop() {
        wait();
    }
    let (from, operations, cpu) = if plan.requests_max.is_some() {
        (started_ns, 0, cpu_at_start)
    } else {
        let cpu = around.pid.map(CpuTime::of).transpose()?;
        let now = watch.clock.now_ns();
        watch.measured_from_ns.store(now, Relaxed);
        (now, watch.operations(), cpu)
    };
    let until = from + nanoseconds(plan.seconds);
    while !stop() {
        let now = watch.clock.now_ns();
        if now >= until {
            break;
        }
        show(plan, around.bar, watch.operations() - operations, (now - from, until - from));
        wait();
    }
    let cpu_after = around.pid.map(CpuTime::of).transpose()?;
    let operations = watch.operations() - operations;
    let seconds = (watch.clock.now_ns() - from) as f64 / 1e9;
    Ok((seconds, operations, cpu_after.zip(cpu).map(|(after, before)| after.since(before))))
}

fn show(plan: &Plan, bar: &ProgressBar, operations: u64, (passed, all): (u64, u64)) {
    match plan.requests_max {
        Some(max) => bar.set_length(max.saturating_mul(plan.workload.batch as u64).max(1)),
        None => bar.set_length(all / 1_000_000),
    }
    bar.set_position(if plan.requests_max.is_some() { operations } else { passed / 1_000_000 });
    if passed > 0 {
        let rate = operations as f64 * 1e3 / passed as f64;
        bar.set_message(format!("{rate:.3} M operations/s"));
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the plan's times are between 0 and a day"
)]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
