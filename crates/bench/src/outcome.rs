//! A run on one server, from connecting to the figures.

use serde::Serialize;

use crate::address::Target;
use crate::args::Counting;
use crate::crew::{Around, Measured, measure};
use crate::error::BenchError;
use crate::latency::Summary;
use crate::open::Pacing;
use crate::plan::{Mode, Plan};
use crate::verify::Counts;
use crate::{busy, closed, open};

/// The figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// The server, by name or address.
    pub server: String,
    /// `closed`, `open`, `busy, counted by bytes` or `busy, counted by replies`.
    pub mode: String,
    /// The measured time, in seconds.
    pub seconds: f64,
    /// Keys read and items written in that time.
    pub operations: u64,
    /// Operations per second.
    pub rate: f64,
    /// The server's CPU time per operation, if its process was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuCost>,
    /// Latency of reads; not measured in busy mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_latency: Option<Summary>,
    /// Latency of writes; not measured in busy mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_latency: Option<Summary>,
    /// Requests of an open loop that were due and not sent in that time; they are in the latencies.
    pub unsent: u64,
    /// The outcomes of the requests in that time; in busy mode, only of the reading passes.
    pub counts: Counts,
    /// The outcomes of the requests before that time.
    pub warmup: Counts,
}

/// CPU time per operation, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuCost {
    /// In the server's own code.
    pub user_us: f64,
    /// In the kernel, on the server's behalf.
    pub system_us: f64,
    /// The sum of both.
    pub total_us: f64,
}

impl RunResult {
    /// Values read at any time that no write stored.
    pub fn violations(&self) -> u64 {
        self.counts.violations() + self.warmup.violations()
    }
}

impl CpuCost {
    fn of(measured: &Measured) -> Option<Self> {
        let cpu = measured.cpu?;
        let operations = measured.operations.max(1) as f64;
        let (user_us, system_us) = (cpu.user_us / operations, cpu.system_us / operations);
        Some(Self { user_us, system_us, total_us: user_us + system_us })
    }
}

/// Runs `plan` on `target`.
pub(crate) fn run(
    plan: &Plan,
    target: &Target,
    around: &Around<'_>,
) -> Result<RunResult, BenchError> {
    let around = Around { pid: target.pid, ..around.clone() };
    let Mode::Busy(counting) = plan.mode else {
        let measured = measure_mode(plan, target, &around, false)?;
        let mode = if plan.mode == Mode::Closed { "closed" } else { "open" };
        let counts = measured.tally.counts.clone();
        return Ok(outcome(target, mode, &measured, counts));
    };
    let mut counts = Counts::default();
    let by_bytes = match counting {
        Counting::Bytes => true,
        Counting::Replies => false,
        Counting::Auto if !plan.workload.mix.reads() => true,
        Counting::Auto => {
            counts = reading_pass(plan, target, &around, TRIAL_REQUESTS)?;
            counts.misses == 0 && counts.violations() == 0
        }
    };
    let measured = measure_mode(plan, target, &around, by_bytes)?;
    if plan.verify {
        let requests = (plan.workload.keys / plan.workload.batch as u64).max(TRIAL_REQUESTS);
        counts.add(&reading_pass(plan, target, &around, requests)?);
    }
    let mode = if by_bytes { "busy, counted by bytes" } else { "busy, counted by replies" };
    Ok(outcome(target, mode, &measured, counts))
}

/// Reads `requests` times, or as often as the run permits, and verifies every value.
fn reading_pass(
    plan: &Plan,
    target: &Target,
    around: &Around<'_>,
    requests: u64,
) -> Result<Counts, BenchError> {
    let pass = plan.reading_pass(requests.min(plan.requests_max.unwrap_or(u64::MAX)));
    Ok(measure_mode(&pass, target, around, false)?.tally.counts)
}

fn measure_mode(
    plan: &Plan,
    target: &Target,
    around: &Around<'_>,
    by_bytes: bool,
) -> Result<Measured, BenchError> {
    let address = &target.address;
    measure(plan, around, |thread, watch| match plan.mode {
        Mode::Closed => closed::run(plan, address, thread, watch),
        Mode::Busy(_) => busy::run(plan, address, by_bytes, thread, watch),
        Mode::Open { rate, arrivals, spin } => {
            open::run((plan, Pacing { rate, arrivals, spin }), address, thread, watch)
        }
    })
}

fn outcome(target: &Target, mode: &str, measured: &Measured, counts: Counts) -> RunResult {
    let (read_latency, write_latency) = measured.tally.latency.summaries();
    RunResult {
        server: target.name.clone(),
        mode: mode.to_owned(),
        seconds: measured.seconds,
        operations: measured.operations,
        rate: measured.operations as f64 / measured.seconds.max(1e-9),
        cpu: CpuCost::of(measured),
        read_latency,
        write_latency,
        unsent: measured.tally.unsent,
        counts,
        warmup: measured.tally.warmup.clone(),
    }
}

/// Requests of the trial that decides how busy mode counts.
const TRIAL_REQUESTS: u64 = 20_000;
