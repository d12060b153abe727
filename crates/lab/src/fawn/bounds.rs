//! Figure 2.5: the bound on the fullest server's load, against the cache's size and against k.

use super::balls::Fullest;
use super::cluster::count;
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, most, series, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use guira_route::plan;

/// Figure 2.5.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-f2.5",
    paper: Paper::Fawn,
    title: "bound on the fullest server's load against the cache's size",
    claim: "a cache of k·n·ln n + 1 entries bounds the load by a figure that depends on k alone: 1.2 with k = 8",
    shape: "1.207 at k = 8 for 10, 85 and 300 servers alike; simulated worst means below the bound at every k, and below \
            1.1 at k = 8",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Loads by k.
const BY_K: &str = "bound, eq. 2.13";
/// The bound with k = 8 by servers.
const BY_SERVERS: &str = "bound at k = 8";

fn measure(run: &Run<'_>) -> Result<Data> {
    let trials = run.scale.pick(40, 400);
    let mut data = Data::default();
    data.push(Line::of_figures(BY_K, KS.map(|k| (k, plan::bound_of_k(k, plan::ALPHA)))));
    for (at, servers) in SERVERS.into_iter().enumerate() {
        (run.progress)(at as f64 / SERVERS.len() as f64, &format!("{servers} servers"));
        let worst = KS.map(|k| (k, worst_mean(servers, k, trials, run.seed)));
        data.push(Line::of_figures(&worst_of(servers), worst));
    }
    let at_eight = SERVERS.map(|servers| {
        let n = servers as f64;
        (n, plan::worst_bound(n, plan::entries(n, EIGHT), plan::ALPHA))
    });
    // The claim is that the number of servers makes no difference.
    data.push(Line::of_figures(BY_SERVERS, at_eight).flat());
    Ok(data)
}

fn worst_of(servers: usize) -> String {
    format!("worst mean, n = {servers}")
}

/// Returns the worst mean load over numbers of keys on both sides of the worst case.
fn worst_mean(servers: usize, k: f64, trials: u64, seed: u64) -> f64 {
    let entries = count(plan::entries(servers as f64, k));
    // The means are worst at about 5 to 16 times the size of the cache.
    let factors = [3.0, 5.0, 8.0, 12.0, 16.0, 24.0];
    let load = |factor: f64| {
        let keys = count(entries as f64 * factor);
        let fullest = Fullest::of(servers, keys - entries, trials, seed + keys as u64);
        fullest.mean() * servers as f64 / keys as f64
    };
    factors.into_iter().map(load).fold(0.0, f64::max)
}

fn judge(data: &Data) -> Findings {
    let by_size = SERVERS.map(|servers| {
        let sizes = (2..=40).map(|step| 10f64.powf(f64::from(step) / 8.0));
        let points =
            sizes.map(|entries| (entries, plan::worst_bound(servers as f64, entries, plan::ALPHA)));
        series(&format!("n = {servers}"), points.filter(|point| point.1 < 4.0))
    });
    let by_k = || [data.line(BY_K)].into_iter().chain(worst_lines(data));
    let plot = |title: &str, x: Axis, series| Plot {
        title: title.into(),
        x,
        y: axis("load, 1 = an equal share"),
        series,
    };
    let row = |line: &Line| {
        let loads = line.figures().into_iter().map(|load| format!("{load:.3}"));
        [line.name.clone()].into_iter().chain(loads).collect()
    };
    let ks = KS.map(|k| format!("k = {k}"));
    let head: Vec<&str> = [""].into_iter().chain(ks.iter().map(String::as_str)).collect();
    Findings {
        plots: vec![
            plot(
                "Bound against the cache's size",
                Axis { is_log: true, ..axis("entries of the cache") },
                by_size.into(),
            ),
            plot("Bound against k", axis("k, entries over n ln n"), by_k().map(drawn).collect()),
        ],
        tables: vec![table(
            "Worst load over all numbers of keys",
            &head,
            by_k().map(row).collect(),
        )],
        checks: checks(data),
        reading: reading(data),
    }
}

fn worst_lines(data: &Data) -> impl Iterator<Item = &Line> {
    SERVERS.into_iter().map(|servers| data.line(&worst_of(servers)))
}

/// Returns the simulated worst mean at k = 8, over all numbers of servers.
fn worst_at_eight(data: &Data) -> f64 {
    most(worst_lines(data).map(|line| line.median(EIGHT)))
}

fn checks(data: &Data) -> Vec<Check> {
    let bound = data.line(BY_K);
    let apart = worst_lines(data).flat_map(|line| KS.map(|k| bound.median(k) / line.median(k)));
    let by_servers = data.line(BY_SERVERS).figures();
    let eight = "equation 2.13: (1 + √2) / 2, whatever n";
    vec![
        check("the bound at k = 8", bound.median(EIGHT), Bound::Between(1.207, 1.2072), eight)
            .paper_exactly("1.2", Bound::Between(1.15, 1.25)),
        check(
            "the bound at k = 8, the most of any number of servers, to the least",
            most(by_servers.iter().copied()) / least(by_servers.iter().copied()),
            Bound::Between(1.0, 1.0002),
            eight,
        )
        .paper_exactly("1", Bound::Between(1.0, 1.01)),
        check(
            "the bound over the simulated worst mean, at the least",
            least(apart),
            Bound::AtLeast(1.0),
            "a bound on the expected load",
        )
        .paper_exactly("at least 1", Bound::AtLeast(1.0)),
        check(
            "the simulated worst mean at k = 8, the most of any number of servers",
            worst_at_eight(data),
            Bound::AtMost(1.1),
            "an independent simulation found 1.02 to 1.045",
        ),
    ]
}

fn reading(data: &Data) -> String {
    format!(
        "With k = 8 the bound is {:.3} for any number of servers, and the worst mean of the trials {:.3}.",
        data.line(BY_K).median(EIGHT),
        worst_at_eight(data)
    )
}

const SERVERS: [usize; 3] = [10, 85, 300];
const KS: [f64; 5] = [1.0, 2.0, 4.0, EIGHT, 16.0];
const EIGHT: f64 = 8.0;
