//! Figure 2.4: the load of the fullest server against the number of keys asked, and the bound on it.

use super::balls::Fullest;
use crate::figures::{axis, check, series, table};
use crate::{Axis, Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_route::plan;

/// Figure 2.4.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-f2.4",
    paper: Paper::Fawn,
    title: "load of the fullest of 100 servers against the keys asked, 1000 of them cached",
    claim: "the bound of equation 2.9 lies above every trial and close to the worst of them, and there is one number of \
            keys that is worst",
    shape: "no mean above the bound; no trial above it, or above 1 where too few keys fall on the servers for the bound \
            to hold; the worst trial at 0.85 of the bound's top or more; the mean has one top, inside",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

/// The trials of one number of keys, as normalised loads.
struct Point {
    keys: usize,
    mean: f64,
    p99: f64,
    most: f64,
    bound: f64,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let trials = run.scale.pick(300, 1000);
    let mut points = Vec::new();
    for (at, &keys) in KEYS.iter().enumerate() {
        (run.progress)(at as f64 / KEYS.len() as f64, &format!("{keys} keys"));
        let fullest = Fullest::of(SERVERS, keys - ENTRIES, trials, run.seed + keys as u64);
        let load = |balls: f64| balls * SERVERS as f64 / keys as f64;
        points.push(Point {
            keys,
            mean: load(fullest.mean()),
            p99: load(fullest.p99()),
            most: load(fullest.most()),
            bound: plan::bound(SERVERS as f64, ENTRIES as f64, keys as f64, plan::ALPHA),
        });
    }
    let line = |name, of: fn(&Point) -> f64| {
        series(name, points.iter().map(|point| (point.keys as f64, of(point))))
    };
    let plot = Plot {
        title: "The fullest server's load".into(),
        x: Axis { is_log: true, ..axis("keys asked equally often") },
        y: axis("load, 1 = an equal share"),
        series: vec![
            line("bound, eq. 2.9", |p| p.bound),
            line("most of all trials", |p| p.most),
            line("99 of 100 trials", |p| p.p99),
            line("mean", |p| p.mean),
        ],
    };
    let row = |p: &Point| {
        let loads = [p.mean, p.p99, p.most, p.bound].map(|load| format!("{load:.3}"));
        [p.keys.to_string()].into_iter().chain(loads).collect()
    };
    let head = ["keys", "mean", "p99", "most", "bound"];
    Ok(Outcome {
        plots: vec![plot],
        tables: vec![table("Normalised load", &head, points.iter().map(row).collect())],
        checks: checks(&points),
        reading: reading(&points, trials),
    })
}

fn top(points: &[Point], of: fn(&Point) -> f64) -> &Point {
    points.iter().max_by(|a, b| of(a).total_cmp(&of(b))).expect("there are points")
}

fn checks(points: &[Point]) -> Vec<Check> {
    let apart = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::INFINITY, f64::min);
    let worst = top(points, |p| p.most);
    let highest = top(points, |p| p.bound);
    let mean = top(points, |p| p.mean);
    let ends = points[0].mean.max(points[points.len() - 1].mean);
    vec![
        check(
            "the bound over the mean, at the least",
            apart(|p| p.bound / p.mean),
            Bound::AtLeast(1.0),
            "equation 2.9 bounds the expected load",
        ),
        check(
            "the bound, or 1 if that is more, over the worst trial, at the least",
            apart(|p| p.bound.max(1.0) / p.most),
            Bound::AtLeast(1.0),
            "with fewer keys than n ln n on the servers single trials exceed it, at loads below 1",
        ),
        check(
            "the worst trial of all over the bound's top",
            worst.most / highest.bound,
            Bound::AtLeast(0.85),
            "an independent simulation of 1000 trials found 0.935",
        ),
        check(
            "the mean's top over its ends",
            mean.mean / ends,
            Bound::AtLeast(1.05),
            "few keys are all cached, many spread evenly",
        ),
        check(
            "the mean at 7500 keys",
            points.iter().find(|p| p.keys == 7500).map_or(f64::NAN, |p| p.mean),
            Bound::Between(1.125, 1.171),
            "an independent simulation found 1.148; 2 % to either side",
        ),
    ]
}

fn reading(points: &[Point], trials: u64) -> String {
    let (worst, mean) = (top(points, |p| p.most), top(points, |p| p.mean));
    format!(
        "Of {trials} trials for each number of keys the worst has {:.3} at {} keys; the bound is at most {:.3}, at {:.0} \
         keys. The mean is at most {:.3}, at {} keys: the bound is one on extremes.",
        worst.most,
        worst.keys,
        plan::worst_bound(SERVERS as f64, ENTRIES as f64, plan::ALPHA),
        plan::worst_keys(SERVERS as f64, ENTRIES as f64, plan::ALPHA),
        mean.mean,
        mean.keys,
    )
}

const SERVERS: usize = 100;
const ENTRIES: usize = 1000;
const KEYS: [usize; 13] =
    [1050, 1200, 1500, 2000, 2500, 3000, 3714, 5000, 7500, 10_000, 20_000, 50_000, 200_000];
