//! The latency of requests and the size of values, from a sample of the turns.
//!
//! In one of [`TURNS_A_SAMPLE`] turns the worker reads the clock when it wakes, and again when a
//! connection's replies have been handed to the kernel. The difference is recorded once for each
//! connection served in that turn, under the command and the outcome of the first request of its batch.
//! It is therefore what a client waits for, except the network and the wake-up: receiving, parsing,
//! executing, sending, and the time spent on the other connections that were ready. A large value counts
//! from its last piece on.
//!
//! The size of each value stored in such a turn is recorded.
//!
//! # Costs
//! A branch per batch and a branch per store; in a sampled turn one reading of the clock, and one more per connection.
//! A branch a batch and a branch a store; in a sampled turn a clock reading, and one more a connection.

use guira_cache::{Distribution, Histogram};
use rustix::time::{ClockId, clock_gettime};

/// The histograms of one worker. Only that worker adds to them.
pub(crate) struct Measures {
    /// Nanoseconds by command, then by outcome.
    latency: [[Histogram; 2]; COMMANDS],
    value_bytes: Histogram,
}

/// The kinds of commands that the histograms distinguish; text, meta and binary count alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kind {
    Get,
    /// A get of several keys: a miss if any key misses.
    Multiget,
    Set,
    Delete,
    Arithmetic,
    Touch,
    Other,
}

/// A turn that is measured.
#[derive(Clone, Copy)]
pub(crate) struct Sample<'t> {
    measures: &'t Measures,
    began_ns: u64,
}

/// The request that represents its batch.
#[derive(Clone, Copy)]
pub(crate) struct Observed {
    pub(crate) kind: Kind,
    pub(crate) is_miss: bool,
}

impl Default for Measures {
    fn default() -> Self {
        let latency = || Histogram::new(LATENCY_BITS.0, LATENCY_BITS.1);
        Measures {
            latency: std::array::from_fn(|_| [latency(), latency()]),
            value_bytes: Histogram::new(VALUE_BITS.0, VALUE_BITS.1),
        }
    }
}

impl Measures {
    /// Begins to measure, if the turn of this number belongs to the sample.
    pub(crate) fn sample(&self, turn: u32) -> Option<Sample<'_>> {
        turn.is_multiple_of(TURNS_A_SAMPLE).then(|| Sample { measures: self, began_ns: clock_ns() })
    }

    /// Calls `tell` with command, outcome and latencies of each kind of request, over all workers.
    pub(crate) fn latencies(
        all: &[Measures],
        mut tell: impl FnMut(&'static str, &'static str, Distribution),
    ) {
        for (command, name) in COMMAND_NAMES.iter().enumerate() {
            for (outcome, status) in ["hit", "miss"].iter().enumerate() {
                let each = all.iter().map(|one| &one.latency[command][outcome]);
                if let Some(total) = Histogram::total(each) {
                    tell(name, status, total);
                }
            }
        }
    }

    /// The sizes of stored values, over all workers.
    pub(crate) fn values(all: &[Measures]) -> Option<Distribution> {
        Histogram::total(all.iter().map(|one| &one.value_bytes))
    }
}

impl Sample<'_> {
    /// Records that the replies to the batch represented by `observed` have been sent.
    pub(crate) fn record(&self, observed: Observed) {
        let outcomes = &self.measures.latency[observed.kind as usize];
        let took_ns = clock_ns().saturating_sub(self.began_ns);
        outcomes[usize::from(observed.is_miss)].add(took_ns);
    }

    /// Records the size of a value that is being stored.
    pub(crate) fn record_value(&self, bytes: u32) {
        self.measures.value_bytes.add(bytes.into());
    }
}

fn clock_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

const TURNS_A_SAMPLE: u32 = 16;
const COMMANDS: usize = Kind::Other as usize + 1;
const COMMAND_NAMES: [&str; COMMANDS] =
    ["get", "multiget", "set", "delete", "arithmetic", "touch", "other"];
/// Steps from 1 µs to 4 s, as powers of two in nanoseconds.
const LATENCY_BITS: (u32, u32) = (10, 32);
/// Steps from 16 bytes to 1 GiB.
const VALUE_BITS: (u32, u32) = (4, 30);
