//! Figure 2.4: the load of the fullest server against the number of keys that are asked, and the bound on it.

use super::balls::Fullest;
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use guira_route::plan;

/// Figure 2.4.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-f2.4",
    paper: Paper::Fawn,
    title: "load of the fullest of 100 servers against the keys asked, 1000 of them cached",
    claim: "the bound of equation 2.9 lies above the load, and close to the worst of the trials, and there is one number of \
            keys that is worst",
    shape: "no mean above the bound; no trial above it, or above 1 where too few keys fall on the servers for the bound \
            to hold; the worst trial at 0.85 of the bound's top or more; the mean has one top, inside",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Normalised loads by the number of keys.
const MEAN: &str = "mean";
const P99: &str = "99 of 100 trials";
const MOST: &str = "most of all trials";
const BOUND: &str = "bound, eq. 2.9";

fn measure(run: &Run<'_>) -> Result<Data> {
    let trials = run.scale.pick(300, 1000);
    let mut points: Vec<(f64, [f64; 4])> = Vec::new();
    for (at, &keys) in KEYS.iter().enumerate() {
        (run.progress)(at as f64 / KEYS.len() as f64, &format!("{keys} keys"));
        let fullest = Fullest::of(SERVERS, keys - ENTRIES, trials, run.seed + keys as u64);
        let load = |balls: f64| balls * SERVERS as f64 / keys as f64;
        let bound = plan::bound(SERVERS as f64, ENTRIES as f64, keys as f64, plan::ALPHA);
        let loads = [fullest.mean(), fullest.p99(), fullest.most()].map(load);
        points.push((keys as f64, [loads[0], loads[1], loads[2], bound]));
    }
    let mut data = Data::default();
    for (place, name) in [MEAN, P99, MOST, BOUND].into_iter().enumerate() {
        let line = points.iter().map(|(keys, loads)| (*keys, loads[place]));
        data.push(Line::of_figures(name, line));
    }
    data.aside(TRIALS, trials as f64);
    Ok(data)
}

fn judge(data: &Data) -> Findings {
    let [mean, p99, most, bound] = [MEAN, P99, MOST, BOUND].map(|name| data.line(name));
    let plot = Plot {
        title: "The fullest server's load".into(),
        x: Axis { is_log: true, ..axis("keys asked equally often") },
        y: axis("load, 1 = an equal share"),
        series: [bound, most, p99, mean].map(drawn).into(),
    };
    let row = |&keys: &usize| {
        let loads = [mean, p99, most, bound].map(|line| format!("{:.3}", line.median(keys as f64)));
        [keys.to_string()].into_iter().chain(loads).collect()
    };
    let head = ["keys", "mean", "p99", "most", "bound"];
    Findings {
        plots: vec![plot],
        tables: vec![table("Normalised load", &head, KEYS.iter().map(row).collect())],
        checks: checks(data),
        reading: reading(data),
    }
}

/// Returns the highest point of a line.
fn top(line: &Line) -> (f64, f64) {
    let highest = line.medians().max_by(|a, b| a.1.total_cmp(&b.1));
    highest.unwrap_or((f64::NAN, f64::NAN))
}

fn checks(data: &Data) -> Vec<Check> {
    let [mean, p99, most, bound] = [MEAN, P99, MOST, BOUND].map(|name| data.line(name));
    let apart = |over: &Line, under: &Line| {
        least(over.figures().into_iter().zip(under.figures()).map(|(over, under)| over / under))
    };
    let mean_figures = mean.figures();
    let ends = mean_figures[0].max(mean_figures[mean_figures.len() - 1]);
    let bound_or_1 = bound.figures().into_iter().map(|it| it.max(1.0)).zip(most.figures());
    vec![
        check(
            "the bound over the mean, at the least",
            apart(bound, mean),
            Bound::AtLeast(1.0),
            "equation 2.9 bounds the expected load",
        )
        .paper_exactly("at least 1", Bound::AtLeast(1.0)),
        check(
            "the worst trial of all over the bound's top",
            top(most).1 / top(bound).1,
            Bound::Between(0.85, 1.0),
            "an independent simulation of 1000 trials found 0.935",
        )
        .paper_exactly("just below 1", Bound::Between(0.85, 1.0)),
        check(
            "the bound, or 1 if that is more, over the worst trial, at the least",
            least(bound_or_1.map(|(bound, most)| bound / most)),
            Bound::AtLeast(1.0),
            "loosened by the 1: with fewer keys than n ln n on the servers single trials exceed the bound, at loads below 1",
        ),
        check(
            "the mean's top over its ends",
            top(mean).1 / ends,
            Bound::AtLeast(1.05),
            "few keys are all cached, many spread evenly",
        )
        .paper("more than 1", Bound::AtLeast(1.05)),
        check(
            "the mean at 7500 keys",
            mean.median(7500.0),
            Bound::Between(1.125, 1.171),
            "an independent simulation found 1.148; 2 % to either side",
        ),
        check(
            "99 of 100 trials, over the mean, and the worst, over those: at the least",
            least([apart(p99, mean), apart(most, p99)]),
            Bound::AtLeast(1.0),
            "they are percentiles",
        ),
    ]
}

fn reading(data: &Data) -> String {
    let (worst, mean) = (top(data.line(MOST)), top(data.line(MEAN)));
    format!(
        "Of {:.0} trials for each number of keys the worst has {:.3} at {:.0} keys; the bound is at most {:.3}, at {:.0} \
         keys. The mean is at most {:.3}, at {:.0} keys: the bound is one on extremes.",
        data.figure(TRIALS),
        worst.1,
        worst.0,
        plan::worst_bound(SERVERS as f64, ENTRIES as f64, plan::ALPHA),
        plan::worst_keys(SERVERS as f64, ENTRIES as f64, plan::ALPHA),
        mean.1,
        mean.0,
    )
}

const TRIALS: &str = "trials";
const SERVERS: usize = 100;
const ENTRIES: usize = 1000;
const KEYS: [usize; 13] =
    [1050, 1200, 1500, 2000, 2500, 3000, 3714, 5000, 7500, 10_000, 20_000, 50_000, 200_000];
