//! Figure 2.10: the worst throughput of 85 servers against the size of the cache before them.

use super::balls::{Fullest, throughput};
use super::{RATE, SERVERS, count};
use crate::figures::{axis, check, series, table};
use crate::{Axis, Bound, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;
use guira_route::plan;

/// Figure 2.10.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-f2.10",
    paper: Paper::Fawn,
    title: "worst throughput of 85 servers against the cache's size",
    claim: "the worst throughput grows with the cache as the theory's line does, and lies above it",
    shape: "above the line at every size; 3000 entries bring 96 % of what all servers take, four times as many 99 %",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

/// A cache, and the worst of ten numbers of keys.
struct Point {
    entries: usize,
    worst: f64,
    keys: usize,
    guarantee: f64,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let whole = RATE * SERVERS as f64;
    let mut points = Vec::new();
    for (at, &entries) in ENTRIES.iter().enumerate() {
        (run.progress)(at as f64 / ENTRIES.len() as f64, &format!("{entries} entries"));
        let at_keys = |keys: usize| {
            let trials = run.scale.pick(30, 300).min(TRIALS_BALLS / keys as u64).max(10);
            let fullest = Fullest::of(SERVERS, keys - entries, trials, run.seed + keys as u64);
            throughput(&fullest, keys)
        };
        let worst = plan::worst_keys(SERVERS as f64, entries as f64, plan::ALPHA);
        let beyond = worst - entries as f64;
        let keys = SHARES.map(|share| entries + count(share * beyond));
        let least = keys.into_iter().map(|keys| (at_keys(keys), keys));
        let (worst, keys) = least.min_by(|a, b| a.0.total_cmp(&b.0)).expect("ten of them");
        let guarantee = whole / plan::worst_bound(SERVERS as f64, entries as f64, plan::ALPHA);
        points.push(Point { entries, worst, keys, guarantee });
    }
    let of = |entries: usize| {
        points.iter().find(|p| p.entries == entries).map_or(f64::NAN, |p| p.worst / whole)
    };
    let apart = points.iter().map(|p| p.worst / p.guarantee).fold(f64::INFINITY, f64::min);
    let checks = vec![
        check("worst over guaranteed, at the least", apart, Bound::AtLeast(1.0), "equation 2.14"),
        check(
            "3000 entries: the worst, of all servers'",
            of(3000),
            Bound::Between(0.945, 0.98),
            "an independent simulation found 0.962",
        ),
        check(
            "100 entries: the worst, of all servers'",
            of(100),
            Bound::Between(0.5, 0.57),
            "an independent simulation found 0.532",
        ),
        check(
            "12,000 entries: the worst, of all servers'",
            of(12_000),
            Bound::AtLeast(0.98),
            "an independent simulation found 0.991",
        ),
    ];
    let reading = format!(
        "3000 entries keep {:.1} % of what all servers take under the worst queries, 12,000 keep {:.1} %.",
        100.0 * of(3000),
        100.0 * of(12_000)
    );
    let (plot, table) = shown(&points);
    Ok(Outcome { plots: vec![plot], tables: vec![table], checks, reading })
}

fn shown(points: &[Point]) -> (Plot, Table) {
    let line = |name, of: fn(&Point) -> f64| {
        series(name, points.iter().map(|p| (p.entries as f64, of(p))))
    };
    let plot = Plot {
        title: "The worst throughput of ten numbers of keys".into(),
        x: Axis { is_log: true, ..axis("entries of the cache") },
        y: axis("thousand queries a second"),
        series: vec![
            line("worst, simulated", |p| p.worst),
            line("guaranteed, eq. 2.14", |p| p.guarantee),
        ],
    };
    let row = |p: &Point| {
        vec![
            p.entries.to_string(),
            format!("{:.0}", p.worst),
            p.keys.to_string(),
            format!("{:.0}", p.guarantee),
        ]
    };
    let head = ["entries", "worst", "at keys", "guaranteed"];
    let rows = points.iter().map(row).collect();
    (plot, table("Thousand queries a second", &head, rows))
}

const ENTRIES: [usize; 8] = [10, 50, 100, 300, 1000, 3000, 8000, 12_000];
/// Keys beyond the cache, against those of the bound's worst number of keys.
const SHARES: [f64; 10] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 3.0];
/// Balls thrown for one number of keys, about.
const TRIALS_BALLS: u64 = 6_000_000;
