//! Figure 2.5: the bound on the fullest server's load against the cache's size, and against k.

use super::balls::Fullest;
use super::count;
use crate::figures::{axis, check, series, table};
use crate::{Axis, Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_route::plan;

/// Figure 2.5.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-f2.5",
    paper: Paper::Fawn,
    title: "bound on the fullest server's load against the cache's size",
    claim: "a cache of k·n·ln n + 1 entries bounds the load by a figure that depends on k alone: 1.2 with k = 8",
    shape: "1.207 at k = 8 for 10, 85 and 1000 servers alike; simulated worst means below the bound at every k, and below \
            1.1 at k = 8",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

/// A number of servers, and the worst mean load that trials found at each k.
struct Found {
    servers: usize,
    worst: Vec<f64>,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let trials = run.scale.pick(40, 400);
    let mut found = Vec::new();
    for (at, servers) in SERVERS.into_iter().enumerate() {
        (run.progress)(at as f64 / SERVERS.len() as f64, &format!("{servers} servers"));
        let worst = KS.map(|k| worst_mean(servers, k, trials, run.seed));
        found.push(Found { servers, worst: worst.into() });
    }
    let by_size = SERVERS.map(|servers| {
        let sizes = (2..=40).map(|step| 10f64.powf(f64::from(step) / 8.0));
        let points =
            sizes.map(|entries| (entries, plan::worst_bound(servers as f64, entries, plan::ALPHA)));
        series(&format!("n = {servers}"), points.filter(|point| point.1 < 4.0))
    });
    let bound = KS.map(|k| (k, plan::bound_of_k(k, plan::ALPHA)));
    let mut by_k = vec![series("bound, eq. 2.13", bound)];
    by_k.extend(found.iter().map(|f| {
        series(&format!("worst mean, n = {}", f.servers), KS.into_iter().zip(f.worst.clone()))
    }));
    let plot = |title: &str, x: Axis, series| Plot {
        title: title.into(),
        x,
        y: axis("load, 1 = an equal share"),
        series,
    };
    let row = |f: &Found| {
        let loads = f.worst.iter().map(|load| format!("{load:.3}"));
        [format!("n = {}", f.servers)].into_iter().chain(loads).collect()
    };
    let ks = KS.map(|k| format!("k = {k}"));
    let head: Vec<&str> = [""].into_iter().chain(ks.iter().map(String::as_str)).collect();
    let mut rows = vec![
        ["bound".to_owned()].into_iter().chain(bound.map(|(_, b)| format!("{b:.3}"))).collect(),
    ];
    rows.extend(found.iter().map(row));
    Ok(Outcome {
        plots: vec![
            plot(
                "Bound against the cache's size",
                Axis { is_log: true, ..axis("entries of the cache") },
                by_size.into(),
            ),
            plot("Bound against k", axis("k, entries over n ln n"), by_k),
        ],
        tables: vec![table("Worst load over all numbers of keys", &head, rows)],
        checks: checks(&found),
        reading: reading(&found),
    })
}

/// The worst mean load over numbers of keys on both sides of where trials are worst.
fn worst_mean(servers: usize, k: f64, trials: u64, seed: u64) -> f64 {
    let entries = count(plan::entries(servers as f64, k));
    // The means are worst at some 5 to 16 times the cache.
    let factors = [3.0, 5.0, 8.0, 12.0, 16.0, 24.0];
    let load = |factor: f64| {
        let keys = count(entries as f64 * factor);
        let fullest = Fullest::of(servers, keys - entries, trials, seed + keys as u64);
        fullest.mean() * servers as f64 / keys as f64
    };
    factors.into_iter().map(load).fold(0.0, f64::max)
}

fn checks(found: &[Found]) -> Vec<Check> {
    let apart = found.iter().flat_map(|f| {
        KS.into_iter().zip(&f.worst).map(|(k, worst)| plan::bound_of_k(k, plan::ALPHA) / worst)
    });
    let eight = |f: &Found| f.worst[KS.iter().position(|&k| k == 8.0).expect("one of them")];
    let bounds = SERVERS.map(|n| {
        let n = n as f64;
        plan::worst_bound(n, plan::entries(n, 8.0), plan::ALPHA)
    });
    vec![
        check(
            "the bound at k = 8, the most of any number of servers",
            bounds.into_iter().fold(0.0, f64::max),
            Bound::Between(1.207, 1.2072),
            "equation 2.13: (1 + √2) / 2, whatever n",
        ),
        check(
            "the bound over the simulated worst mean, at the least",
            apart.fold(f64::INFINITY, f64::min),
            Bound::AtLeast(1.0),
            "a bound on the expected load",
        ),
        check(
            "the simulated worst mean at k = 8, the most of any number of servers",
            found.iter().map(eight).fold(0.0, f64::max),
            Bound::AtMost(1.1),
            "an independent simulation found 1.02 to 1.045",
        ),
    ]
}

fn reading(found: &[Found]) -> String {
    let eight = KS.iter().position(|&k| k == 8.0).expect("one of them");
    let worst = found.iter().map(|f| f.worst[eight]).fold(0.0, f64::max);
    format!(
        "With k = 8 the bound is {:.3} for any number of servers, and the worst mean of the trials {worst:.3}.",
        plan::bound_of_k(8.0, plan::ALPHA)
    )
}

const SERVERS: [usize; 3] = [10, 85, 300];
const KS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
