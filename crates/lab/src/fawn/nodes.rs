//! Figures 2.7 and 2.8: what 85 servers do without a cache when an adversary asks for x keys.

use super::balls::{Fullest, throughput, thrown};
use super::{RATE, SERVERS};
use crate::figures::{axis, check, series, table};
use crate::{Axis, Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_bench::mix;

/// Figure 2.7.
pub(crate) const SNAPSHOT: Experiment = Experiment {
    id: "fawn-f2.7",
    paper: Paper::Fawn,
    title: "each server's share without a cache, for 10 to 100,000 keys",
    claim: "with few keys most servers idle while one has all that it can take; with very many all are about as busy",
    shape: "75.5 of 85 servers idle with 10 keys and 26 with 100, none with 10,000; the mean server at 0.26, 0.81 and 0.93 \
            of the busiest with 100, 10,000 and 100,000",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run: run_snapshot,
};

/// Figure 2.8.
pub(crate) const THROUGHPUT: Experiment = Experiment {
    id: "fawn-f2.8",
    paper: Paper::Fawn,
    title: "throughput of 85 servers without a cache against the keys asked",
    claim: "without a cache who asks for one key gets one server's throughput out of 85",
    shape: "10 thousand queries a second with one key, below a third of 850 with 100 keys, 97 % with a million",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run: run_throughput,
};

/// The means of several trials with so many keys.
struct Snapshot {
    keys: usize,
    idle: f64,
    /// Servers from the busiest to the least busy, against the busiest.
    sorted: Vec<f64>,
}

impl Snapshot {
    fn new(keys: usize, trials: u64, seed: u64) -> Snapshot {
        let mut idle = 0.0;
        let mut sorted = vec![0.0; SERVERS];
        for trial in 0..trials {
            let mut bins = thrown(SERVERS, keys, seed ^ mix(trial + 1));
            bins.sort_unstable_by(|a, b| b.cmp(a));
            idle += bins.iter().filter(|&&balls| balls == 0).count() as f64 / trials as f64;
            for (sum, &balls) in sorted.iter_mut().zip(&bins) {
                *sum += f64::from(balls) / f64::from(bins[0]) / trials as f64;
            }
        }
        Snapshot { keys, idle, sorted }
    }

    fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / SERVERS as f64
    }
}

fn run_snapshot(run: &Run<'_>) -> Result<Outcome> {
    let trials = run.scale.pick(100, 400);
    let keys = [10, 100, 10_000, 100_000];
    let snapshots: Vec<_> =
        keys.iter().map(|&keys| Snapshot::new(keys, trials, run.seed)).collect();
    let line = |s: &Snapshot| {
        series(&format!("{} keys", s.keys), (1..).map(f64::from).zip(s.sorted.iter().copied()))
    };
    let plot = Plot {
        title: "Each server's load against the busiest, mean of the trials".into(),
        x: axis("servers, the busiest first"),
        y: axis("of the busiest server's load"),
        series: snapshots.iter().map(line).collect(),
    };
    let row = |s: &Snapshot| {
        vec![s.keys.to_string(), format!("{:.1}", s.idle), format!("{:.3}", s.mean())]
    };
    let rows = snapshots.iter().map(row).collect();
    let [ten, hundred, many, most] = &snapshots[..] else { unreachable!("four of them") };
    let near = |claim: &str, found: f64, least: f64, most: f64| {
        let bound = Bound::Between(least, most);
        check(
            claim,
            found,
            bound,
            "an independent simulation of 400 trials; the thesis saw 28 idle with 100 keys",
        )
    };
    let checks = vec![
        near("servers idle with 10 keys", ten.idle, 75.0, 76.0),
        near("servers idle with 100 keys", hundred.idle, 24.5, 27.5),
        near("servers idle with 10,000 keys", many.idle, 0.0, 0.0),
        near("the mean server with 100 keys, of the busiest", hundred.mean(), 0.234, 0.294),
        near("the mean server with 10,000 keys, of the busiest", many.mean(), 0.795, 0.835),
        near("the mean server with 100,000 keys, of the busiest", most.mean(), 0.923, 0.943),
    ];
    let reading = format!(
        "With 10 keys {:.1} of {SERVERS} servers idle, with 100 keys {:.1} (thesis: 28). The mean server has {:.2} of the \
         busiest's load with 100 keys and {:.2} with 100,000.",
        ten.idle,
        hundred.idle,
        hundred.mean(),
        most.mean()
    );
    let head = ["keys", "idle servers", "mean load, of the busiest"];
    Ok(Outcome { plots: vec![plot], tables: vec![table("Servers", &head, rows)], checks, reading })
}

fn run_throughput(run: &Run<'_>) -> Result<Outcome> {
    let trials = run.scale.pick(60, 300);
    let mut points = Vec::new();
    for (at, &keys) in KEYS.iter().enumerate() {
        (run.progress)(at as f64 / KEYS.len() as f64, &format!("{keys} keys"));
        let trials = trials.min(TRIALS_BALLS / keys as u64).max(10);
        let fullest = Fullest::of(SERVERS, keys, trials, run.seed + keys as u64);
        points.push((keys as f64, throughput(&fullest, keys)));
    }
    let whole = RATE * SERVERS as f64;
    let at = |keys: f64| points.iter().find(|p| p.0 == keys).map_or(f64::NAN, |p| p.1);
    let checks: Vec<Check> = vec![
        check("one key, in servers", at(1.0) / RATE, Bound::Between(1.0, 1.0), "one server has it"),
        check(
            "100 keys, of all servers",
            at(100.0) / whole,
            Bound::Between(0.25, 0.28),
            "an independent simulation found 0.264",
        ),
        check(
            "a million keys, of all servers",
            at(1e6) / whole,
            Bound::Between(0.97, 0.985),
            "an independent simulation found 0.978",
        ),
    ];
    let plot = Plot {
        title: "Throughput without a cache".into(),
        x: Axis { is_log: true, ..axis("keys asked equally often") },
        y: axis("thousand queries a second"),
        series: vec![series("85 servers of 10", points.clone())],
    };
    let rows = points.iter().map(|p| vec![format!("{:.0}", p.0), format!("{:.1}", p.1)]).collect();
    let reading = format!(
        "One key brings {:.0} thousand queries a second of {whole:.0}, 100 keys {:.0}, a million {:.0}.",
        at(1.0),
        at(100.0),
        at(1e6)
    );
    let tables = vec![table("Thousand queries a second", &["keys", "throughput"], rows)];
    Ok(Outcome { plots: vec![plot], tables, checks, reading })
}

const KEYS: [usize; 10] = [1, 5, 10, 50, 100, 1000, 10_000, 50_000, 200_000, 1_000_000];
/// Balls thrown for one number of keys, about.
const TRIALS_BALLS: u64 = 20_000_000;
