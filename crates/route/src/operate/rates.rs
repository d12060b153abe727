//! Rates in the statistics: counts per second over the last four minutes, as mcrouter shows them.
//!
//! # Costs
//! The counters are read once per second, into 150 KB of samples. Requests pay nothing.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::counters::Counter;
use crate::process::Process;

/// Names and values.
pub(crate) type Rows = Vec<(String, String)>;

/// The counters at one time.
#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    counts: Box<[u64]>,
    /// Requests to servers that were answered or timed out, and their total time.
    timed: u64,
    took_us: u64,
}

/// Samples of the last four minutes, the oldest first.
#[derive(Debug)]
pub(crate) struct Rates(Mutex<VecDeque<Sample>>);

impl Rates {
    /// Returns the current rates.
    pub(crate) fn now(&self, process: &Process) -> Rows {
        self.rows(&sample(process))
    }

    /// Takes samples forever.
    pub(crate) async fn watch(&self, process: &Process) {
        loop {
            tokio::time::sleep(EVERY).await;
            self.take(sample(process));
        }
    }

    /// Begins with a sample of zeros.
    pub(crate) fn new(at: Instant) -> Self {
        let counts = vec![0; Counter::ALL.len()].into();
        Self(Mutex::new([Sample { at, counts, timed: 0, took_us: 0 }].into()))
    }

    fn take(&self, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() > SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns each rate with its name, and the mean time of a request to a server.
    fn rows(&self, now: &Sample) -> Rows {
        let samples = self.0.lock();
        let Some(then) = samples.front() else { return Rows::new() };
        let elapsed_s = (now.at - then.at).max(EVERY).as_secs_f64();
        let mut rows: Rows = Counter::ALL
            .iter()
            .zip(now.counts.iter().zip(&then.counts))
            .filter_map(|(counter, (now, then))| {
                Some((name(*counter)?, shown(quotient(now.saturating_sub(*then), elapsed_s))))
            })
            .collect();
        let timed = now.timed.saturating_sub(then.timed);
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean_us = quotient(now.took_us.saturating_sub(then.took_us), timed.max(1) as f64);
        rows.push((DURATION.0.to_owned(), shown(mean_us)));
        rows
    }
}

/// The name of a counter's rate, usually the counter's name without `_count`. `None`: it has no rate.
fn name(counter: Counter) -> Option<String> {
    match counter.name() {
        "asynclog_requests" => Some("asynclog_requests_rate".to_owned()),
        name => name.strip_suffix("_count").map(str::to_owned),
    }
}

/// The name and meaning of the mean time of a request to a server.
const DURATION: (&str, &str) = (
    "duration_us",
    "microseconds that a request to a server took until its reply or its timeout, on average",
);

/// The name and meaning of each line.
pub(crate) fn meanings() -> impl Iterator<Item = (String, String)> {
    let rate =
        |&counter: &Counter| Some((name(counter)?, format!("`{}` per second", counter.name())));
    let mean = (DURATION.0.to_owned(), DURATION.1.to_owned());
    Counter::ALL.iter().filter_map(rate).chain([mean])
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn quotient(count: u64, by: f64) -> f64 {
    count as f64 / by
}

/// Formats a number with at most three decimals.
fn shown(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn sample(process: &Process) -> Sample {
    let sum = |&counter| process.counters.iter().map(|thread| thread.get(counter)).sum();
    let (mut timed, mut took_us) = (0, 0);
    for link in process.servers.links() {
        timed += link.stats.timed.load(Relaxed);
        took_us += link.stats.took_us.load(Relaxed);
    }
    let counts = Counter::ALL.iter().map(sum).collect();
    Sample { at: Instant::now(), counts, timed, took_us }
}

const EVERY: Duration = Duration::from_secs(1);
const SAMPLES_MAX: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_last_four_minutes_and_of_a_second_at_least() {
        let start = Instant::now();
        let gets = |second: u64, gets: u64| {
            let counts = Counter::ALL.iter().map(|&counter| match counter {
                Counter::CmdGet => gets,
                _ => 0,
            });
            let at = start + Duration::from_secs(second);
            Sample { at, counts: counts.collect(), timed: gets, took_us: gets * 50 }
        };
        let rates = Rates::new(start);
        let row = |sample: &Sample, wanted: &str| {
            let rows = rates.rows(sample);
            rows.into_iter().find_map(|(name, value)| (name == wanted).then_some(value))
        };
        assert_eq!(row(&gets(0, 7), "cmd_get").as_deref(), Some("7"));
        assert_eq!(row(&gets(3, 7), "cmd_get").as_deref(), Some("2.333"));
        (1..=1000).for_each(|second| rates.take(gets(second, 10_000 + 2 * second)));
        assert_eq!(row(&gets(1000, 12_000), "cmd_get").as_deref(), Some("2"));
        assert_eq!(row(&gets(1000, 12_000), "duration_us").as_deref(), Some("50"));
        assert_eq!(row(&gets(1000, 12_000), "cmd_set").as_deref(), Some("0"));
        assert_eq!(rates.0.lock().len(), SAMPLES_MAX + 1);
    }
}
