//! The plan of a run: the checked arguments, with every default filled in.

use std::num::NonZeroU32;

use crate::value::fits;
use crate::workload::{Distribution, Mix, Workload};
use crate::{args, error::BenchError};

/// How requests are paced and replies received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// Each connection sends its pipeline when the last one is answered; latency is measured.
    Closed,
    /// Like [`Mode::Closed`], with requests built beforehand, and without sleeping or parsing replies.
    Busy(args::Counting),
    /// A number of requests per second over all connections, whether or not replies arrive.
    Open { rate: f64, arrivals: args::Arrivals, spin: bool },
}

/// Everything that determines a run on a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    pub(crate) mode: Mode,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) pins: Vec<usize>,
    /// The measured time; a run limited by operations ends earlier.
    pub(crate) seconds: f64,
    pub(crate) warmup_s: f64,
    /// The limit of requests over all connections.
    pub(crate) requests_max: Option<u64>,
    pub(crate) verify: bool,
    pub(crate) seed: u64,
    /// Memory for prebuilt requests, over all connections.
    pub(crate) stream_bytes: usize,
}

impl Plan {
    /// Creates the plan that the arguments describe.
    pub(crate) fn new(
        load: &args::Load,
        pace: &args::Pace,
        preset: Option<args::Preset>,
        busy_by_default: bool,
    ) -> Result<Self, BenchError> {
        let (base, connections) = preset.map_or_else(plain, args::Preset::workload);
        let busy = pace.busy || busy_by_default || preset.is_some();
        let mode = match (pace.rate, busy) {
            (Some(rate), _) => Mode::Open { rate, arrivals: pace.arrivals, spin: pace.busy },
            (None, true) => Mode::Busy(pace.count),
            (None, false) => Mode::Closed,
        };
        let workload = Workload {
            mix: load.workload.unwrap_or(base.mix),
            distribution: distribution(load, base.distribution),
            theta: load.theta.unwrap_or(base.theta),
            keys: load.keys.unwrap_or(base.keys),
            key_bytes: load.key_bytes.unwrap_or(base.key_bytes),
            value: load.value_bytes.unwrap_or(base.value),
            batch: load.batch.unwrap_or(base.batch),
            pipeline: load.pipeline.map_or(base.pipeline, GetUsize::get_usize),
            protocol: load.protocol.unwrap_or(base.protocol),
            sizes_by_write: load.verify && !matches!(mode, Mode::Busy(_)),
        };
        let connections = load.connections.map_or(connections, GetUsize::get_usize);
        let plan = Self {
            workload,
            mode,
            connections,
            threads: pace.threads.map_or(1, GetUsize::get_usize).min(connections),
            pins: pace.pin.clone(),
            seconds: pace.seconds,
            warmup_s: if pace.ops.is_some() { 0.0 } else { pace.warmup },
            requests_max: pace.ops,
            verify: load.verify,
            seed: load.seed,
            stream_bytes: pace.stream_bytes,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), BenchError> {
        let Workload { keys, key_bytes, theta, batch, .. } = self.workload;
        let wrong = |why: String| Err(BenchError::Usage(why));
        // Inserted items have numbers above the preloaded ones: two more digits leave room for them.
        let numbers = if self.workload.mix == Mix::D { keys.saturating_mul(100) } else { keys };
        if keys == 0 || batch == 0 || batch > BATCH_MAX {
            return wrong(format!("--keys is 1 or more, --batch 1 to {BATCH_MAX}"));
        }
        if !fits(numbers, key_bytes) {
            return wrong(format!(
                "--key-bytes {key_bytes}: keys are 2 to 250 bytes, with room for a letter and \
                 {numbers} in digits"
            ));
        }
        if !(0.0..=10.0).contains(&theta) {
            return wrong(format!("--theta {theta}: an exponent from 0 (uniform) to 10"));
        }
        if !(self.seconds > 0.0 && self.seconds <= SECONDS_MAX) {
            return wrong(format!("--seconds is above 0, at most {SECONDS_MAX}"));
        }
        if !(0.0..=SECONDS_MAX).contains(&self.warmup_s) {
            return wrong(format!("--warmup is from 0 to {SECONDS_MAX} seconds"));
        }
        match self.mode {
            Mode::Open { rate, .. } if !(rate > 0.0 && rate <= 1e8) => {
                wrong("--rate is above 0, at most 100m requests a second".into())
            }
            _ => Ok(()),
        }
    }

    /// The connections of thread `thread`, as a range of their numbers.
    pub(crate) fn lanes_of(&self, thread: usize) -> std::ops::Range<usize> {
        let bound = |thread| thread * self.connections / self.threads;
        bound(thread)..bound(thread + 1)
    }

    /// How many requests thread `thread` may send.
    pub(crate) fn quota_of(&self, thread: usize) -> u64 {
        let Some(all) = self.requests_max else { return u64::MAX };
        let threads = self.threads as u64;
        all / threads + u64::from((thread as u64) < all % threads)
    }

    /// Returns the plan of a short closed-loop run of reads that verifies every value, which busy mode doesn't.
    pub(crate) fn reading_pass(&self, requests: u64) -> Self {
        let workload = Workload { mix: Mix::C, sizes_by_write: false, ..self.workload };
        Self {
            workload,
            mode: Mode::Closed,
            requests_max: Some(requests),
            seconds: SECONDS_MAX,
            warmup_s: 0.0,
            verify: true,
            ..self.clone()
        }
    }
}

/// The popularity of keys: as asked for, or as the mix implies (D reads the latest).
fn distribution(load: &args::Load, base: Distribution) -> Distribution {
    match (load.distribution, load.workload) {
        (Some(distribution), _) => distribution,
        (None, Some(Mix::D)) => Distribution::Latest,
        (None, Some(Mix::A | Mix::B | Mix::C | Mix::F)) => Distribution::Scrambled,
        (None, Some(Mix::Set) | None) => base,
    }
}

/// The default run: workload B of YCSB on 1 M items of 16 + 32 bytes.
fn plain() -> (Workload, usize) {
    let (preset, connections) = args::Preset::Mixed.workload();
    (Workload { pipeline: 1, ..preset }, connections)
}

/// Converts a `NonZeroU32` to a size.
trait GetUsize {
    fn get_usize(self) -> usize;
}

impl GetUsize for NonZeroU32 {
    fn get_usize(self) -> usize {
        self.get() as usize
    }
}

/// The limit of keys per request; memcached's own limit of a line with keys is far above.
const BATCH_MAX: usize = 10_000;

/// A day.
const SECONDS_MAX: f64 = 86_400.0;
