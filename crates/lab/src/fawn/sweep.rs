//! Figure 2.9: what 85 servers behind a cache of 3000 entries do, whatever number of keys the adversary asks.

use super::balls::{Fullest, throughput};
use super::{RATE, SERVERS};
use crate::figures::{axis, check, series, table};
use crate::{Axis, Bound, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_route::plan;

/// Figure 2.9.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-f2.9",
    paper: Paper::Fawn,
    title: "throughput of 85 servers behind a cache of 3000 entries against the keys asked",
    claim: "behind the cache no number of keys brings the throughput below what the bound guarantees",
    shape: "the least throughput of the sweep above the guarantee, at 96 % of all servers' or more, and far more where the \
            cache answers most",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let mut points = Vec::new();
    for (at, &keys) in KEYS.iter().enumerate() {
        (run.progress)(at as f64 / KEYS.len() as f64, &format!("{keys} keys"));
        let trials = run.scale.pick(60, 300).min(TRIALS_BALLS / keys as u64).max(10);
        let fullest = Fullest::of(SERVERS, keys - ENTRIES, trials, run.seed + keys as u64);
        let all = throughput(&fullest, keys);
        let servers = all * (keys - ENTRIES) as f64 / keys as f64;
        points.push((keys as f64, all, servers));
    }
    let whole = RATE * SERVERS as f64;
    let guarantee = whole / plan::worst_bound(SERVERS as f64, ENTRIES as f64, plan::ALPHA);
    let least = points.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are points");
    let checks = vec![
        check(
            "the least throughput over the guarantee",
            least.1 / guarantee,
            Bound::AtLeast(1.0),
            "equation 2.14",
        ),
        check(
            "the least throughput, of all servers'",
            least.1 / whole,
            Bound::Between(0.945, 0.98),
            "an independent simulation found 0.962, near 100,000 keys",
        ),
        check(
            "3100 keys, of all servers' throughput",
            points[0].1 / whole,
            Bound::AtLeast(6.0),
            "30 of 31 queries never reach a server: an independent simulation found 8.2",
        ),
    ];
    let end = (KEYS[KEYS.len() - 1]) as f64;
    let plot = Plot {
        title: "Throughput behind a cache of 3000 entries".into(),
        x: Axis { is_log: true, ..axis("keys asked equally often") },
        y: Axis { is_log: true, ..axis("thousand queries a second") },
        series: vec![
            series("cache and servers", points.iter().map(|p| (p.0, p.1))),
            series("servers", points.iter().map(|p| (p.0, p.2))),
            series("guaranteed, eq. 2.14", [(3100.0, guarantee), (end, guarantee)]),
        ],
    };
    let row = |p: &(f64, f64, f64)| {
        vec![format!("{:.0}", p.0), format!("{:.0}", p.1), format!("{:.0}", p.2)]
    };
    let head = ["keys", "cache and servers", "servers"];
    let reading = format!(
        "The least is {:.0} thousand queries a second, at {:.0} keys; {guarantee:.0} are guaranteed, all servers together \
         take {whole:.0}.",
        least.1, least.0
    );
    let rows = points.iter().map(row).collect();
    let tables = vec![table("Thousand queries a second", &head, rows)];
    Ok(Outcome { plots: vec![plot], tables, checks, reading })
}

const ENTRIES: usize = 3000;
const KEYS: [usize; 12] =
    [3100, 3300, 3600, 4000, 6000, 10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 1_000_000];
/// Balls thrown for one number of keys, about.
const TRIALS_BALLS: u64 = 20_000_000;
