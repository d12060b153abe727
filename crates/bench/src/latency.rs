//! Latency histograms of reads and writes.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::requests::{Kind, Request};

/// Latencies in nanoseconds, with three digits of precision, up to a minute.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        Self { reads: empty(), writes: empty() }
    }
}

impl Latency {
    /// Records that `request` was answered at `now_ns`.
    pub(crate) fn record(&mut self, request: Request, now_ns: u64) {
        let histogram = match request.kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        };
        histogram.saturating_record(now_ns.saturating_sub(request.at_ns).max(1));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.reads.add(&other.reads).expect("both have the same bounds");
        self.writes.add(&other.writes).expect("both have the same bounds");
    }

    /// The figures to show for reads and writes; `None` if there were none.
    pub(crate) fn summaries(&self) -> (Option<Summary>, Option<Summary>) {
        (Summary::of(&self.reads), Summary::of(&self.writes))
    }
}

/// Percentiles of latency, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The number of timed requests.
    pub requests: u64,
    /// The mean latency.
    pub mean_us: f64,
    /// Half of the requests were faster.
    pub p50_us: f64,
    /// 90 % were faster.
    pub p90_us: f64,
    /// 99 % were faster.
    pub p99_us: f64,
    /// 99.9 % were faster.
    pub p999_us: f64,
    /// The slowest request.
    pub max_us: f64,
}

impl Summary {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |percentile| histogram.value_at_percentile(percentile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            requests: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            p50_us: at(50.0),
            p90_us: at(90.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: histogram.max() as f64 / 1e3,
        })
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are constants in range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_recorded() {
        let mut latency = Latency::default();
        for microseconds in 1..=1000 {
            let request = Request { kind: Kind::Read, keys: 1, at_ns: 500 };
            latency.record(request, 500 + microseconds * 1000);
        }
        let (reads, writes) = latency.summaries();
        let reads = reads.unwrap();
        assert_eq!((reads.requests, writes), (1000, None));
        assert!((reads.p50_us - 500.0).abs() < 1.0 && (reads.p99_us - 990.0).abs() < 2.0);
        assert!((reads.max_us - 1000.0).abs() < 1.0);
    }
}
