//! Figures 2.7 and 2.8: the load of 85 servers without a cache when an adversary asks for x keys.

use super::balls::{Fullest, throughput, thrown};
use super::cluster::{RATE, SERVERS, WHOLE};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use guira_bench::mix;

/// Figure 2.7.
pub(crate) const SNAPSHOT: Experiment = Experiment {
    id: "fawn-f2.7",
    paper: Paper::Fawn,
    title: "each server's share without a cache, for 10 to 100,000 keys",
    claim: "with few keys most servers idle while one has all that it can take: with 100 keys 28 of 85 idle; with very many \
            all are about as busy",
    shape: "75.5 of 85 servers idle with 10 keys and 26 with 100, none with 10,000; the mean server at 0.26, 0.81 and 0.93 \
            of the busiest with 100, 10,000 and 100,000",
    why: "",
    is_quick: true,
    measure: measure_snapshot,
    judge: judge_snapshot,
};

/// Figure 2.8.
pub(crate) const THROUGHPUT: Experiment = Experiment {
    id: "fawn-f2.8",
    paper: Paper::Fawn,
    title: "throughput of 85 servers without a cache against the keys asked",
    claim: "without a cache queries for one key get one server's throughput out of 85",
    shape: "10 thousand queries a second with one key, below a third of 850 with 100 keys, 97 % with a million",
    why: "",
    is_quick: true,
    measure: measure_throughput,
    judge: judge_throughput,
};

/// Idle servers, by the number of keys.
const IDLE: &str = "idle servers";
const SNAPSHOTS: [usize; 4] = [10, 100, 10_000, 100_000];

fn snapshot_of(keys: usize) -> String {
    format!("{keys} keys")
}

/// Measures, for each number of keys, the loads from the busiest server to the least busy, relative to the busiest:
/// means of the trials.
fn measure_snapshot(run: &Run<'_>) -> Result<Data> {
    let trials = run.scale.pick(100, 400);
    let mut data = Data::default();
    let mut all_idle = Vec::new();
    for keys in SNAPSHOTS {
        let mut idle = 0.0;
        let mut sorted = vec![0.0; SERVERS];
        for trial in 0..trials {
            let mut bins = thrown(SERVERS, keys, run.seed ^ mix(trial + 1));
            bins.sort_unstable_by(|a, b| b.cmp(a));
            idle += bins.iter().filter(|&&balls| balls == 0).count() as f64 / trials as f64;
            for (sum, &balls) in sorted.iter_mut().zip(&bins) {
                *sum += f64::from(balls) / f64::from(bins[0]) / trials as f64;
            }
        }
        all_idle.push((keys as f64, idle));
        data.push(Line::of_figures(&snapshot_of(keys), (1..).map(f64::from).zip(sorted)));
    }
    data.push(Line::of_figures(IDLE, all_idle));
    Ok(data)
}

/// Returns the mean server's load, relative to the busiest server's.
fn mean(data: &Data, keys: usize) -> f64 {
    data.line(&snapshot_of(keys)).figures().iter().sum::<f64>() / SERVERS as f64
}

fn judge_snapshot(data: &Data) -> Findings {
    let idle = |keys: usize| data.line(IDLE).median(keys as f64);
    let row = |keys: usize| {
        vec![keys.to_string(), format!("{:.1}", idle(keys)), format!("{:.3}", mean(data, keys))]
    };
    let head = ["keys", "idle servers", "mean load, of the busiest"];
    Findings {
        plots: vec![Plot {
            title: "Each server's load against the busiest, mean of the trials".into(),
            x: axis("servers, the busiest first"),
            y: axis("of the busiest server's load"),
            series: SNAPSHOTS.map(|keys| drawn(data.line(&snapshot_of(keys)))).into(),
        }],
        tables: vec![table("Servers", &head, SNAPSHOTS.map(row).into())],
        checks: checks_of_snapshot(data),
        reading: format!(
            "With 10 keys {:.1} of {SERVERS} servers idle, with 100 keys {:.1} (thesis: 28). The mean server has {:.2} of \
             the busiest's load with 100 keys and {:.2} with 100,000.",
            idle(10),
            idle(100),
            mean(data, 100),
            mean(data, 100_000)
        ),
    }
}

fn checks_of_snapshot(data: &Data) -> Vec<Check> {
    let near = |claim: &str, found: f64, least: f64, most: f64| {
        let simulated = "an independent simulation of 400 trials, and its noise";
        check(claim, found, Bound::Between(least, most), simulated)
    };
    let idle = |keys: f64| data.line(IDLE).median(keys);
    let half = SERVERS as f64 / 2.0;
    vec![
        near("servers idle with 10 keys", idle(10.0), 75.0, 76.0)
            .paper_exactly("most", Bound::AtLeast(half)),
        near("servers idle with 100 keys", idle(100.0), 24.5, 27.5)
            .paper_exactly("28, once", Bound::Between(22.0, 34.0)),
        near("servers idle with 10,000 keys", idle(10_000.0), 0.0, 0.0)
            .paper_exactly("none", Bound::AtMost(0.0)),
        near("the mean server with 10 keys, of the busiest", mean(data, 10), 0.06, 0.12),
        near("the mean server with 100 keys, of the busiest", mean(data, 100), 0.234, 0.294),
        near("the mean server with 10,000 keys, of the busiest", mean(data, 10_000), 0.795, 0.835),
        near(
            "the mean server with 100,000 keys, of the busiest",
            mean(data, 100_000),
            0.923,
            0.943,
        )
        .paper_exactly("close to 1", Bound::AtLeast(0.9)),
    ]
}

/// Thousand queries per second, by the number of keys.
const RATES: &str = "85 servers of 10";

fn measure_throughput(run: &Run<'_>) -> Result<Data> {
    let trials = run.scale.pick(60, 300);
    let mut points = Vec::new();
    for (at, &keys) in KEYS.iter().enumerate() {
        (run.progress)(at as f64 / KEYS.len() as f64, &format!("{keys} keys"));
        let trials = trials.min(TRIALS_BALLS / keys as u64).max(10);
        let fullest = Fullest::of(SERVERS, keys, trials, run.seed + keys as u64);
        points.push((keys as f64, throughput(&fullest, keys)));
    }
    let mut data = Data::default();
    data.push(Line::of_figures(RATES, points));
    Ok(data)
}

fn judge_throughput(data: &Data) -> Findings {
    let rates = data.line(RATES);
    let at = |keys: f64| rates.median(keys);
    let row = |(keys, rate): (f64, f64)| vec![format!("{keys:.0}"), format!("{rate:.1}")];
    Findings {
        plots: vec![Plot {
            title: "Throughput without a cache".into(),
            x: Axis { is_log: true, ..axis("keys asked equally often") },
            y: axis("thousand queries a second"),
            series: vec![drawn(rates)],
        }],
        tables: vec![table(
            "Thousand queries a second",
            &["keys", "throughput"],
            rates.medians().map(row).collect(),
        )],
        checks: vec![
            check(
                "one key, in servers",
                at(1.0) / RATE,
                Bound::Between(1.0, 1.0),
                "one server has it",
            )
            .paper_exactly("1", Bound::Between(1.0, 1.0)),
            check(
                "100 keys, of all servers",
                at(100.0) / WHOLE,
                Bound::Between(0.25, 0.28),
                "an independent simulation found 0.264",
            ),
            check(
                "a million keys, of all servers",
                at(1e6) / WHOLE,
                Bound::Between(0.97, 0.985),
                "an independent simulation found 0.978",
            ),
        ],
        reading: format!(
            "One key brings {:.0} thousand queries a second of {WHOLE:.0}, 100 keys {:.0}, a million {:.0}.",
            at(1.0),
            at(100.0),
            at(1e6)
        ),
    }
}

const KEYS: [usize; 10] = [1, 5, 10, 50, 100, 1000, 10_000, 50_000, 200_000, 1_000_000];
/// The approximate number of balls thrown per number of keys.
const TRIALS_BALLS: u64 = 20_000_000;
