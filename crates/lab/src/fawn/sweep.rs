//! Figure 2.9: the throughput of 85 servers behind a cache of 3000 entries, for any number of keys that the adversary
//! asks for.

use super::balls::{Fullest, throughput};
use super::cluster::{SERVERS, WHOLE};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, series, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use guira_route::plan;

/// Figure 2.9.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-f2.9",
    paper: Paper::Fawn,
    title: "throughput of 85 servers behind a cache of 3000 entries against the keys asked",
    claim: "behind the cache no number of keys brings the throughput below what the bound guarantees",
    shape: "the least throughput of the sweep above the guarantee, at 94.5 to 98 % of all servers', and far more where the \
            cache answers most",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Thousand queries per second, by the number of keys.
const ALL: &str = "cache and servers";
const OF_SERVERS: &str = "servers";

fn measure(run: &Run<'_>) -> Result<Data> {
    let mut points = Vec::new();
    for (at, &keys) in KEYS.iter().enumerate() {
        (run.progress)(at as f64 / KEYS.len() as f64, &format!("{keys} keys"));
        let trials = run.scale.pick(60, 300).min(TRIALS_BALLS / keys as u64).max(10);
        let fullest = Fullest::of(SERVERS, keys - ENTRIES, trials, run.seed + keys as u64);
        let all = throughput(&fullest, keys);
        points.push((keys as f64, all, all * (keys - ENTRIES) as f64 / keys as f64));
    }
    let mut data = Data::default();
    data.push(Line::of_figures(ALL, points.iter().map(|it| (it.0, it.1))));
    data.push(Line::of_figures(OF_SERVERS, points.iter().map(|it| (it.0, it.2))));
    Ok(data)
}

/// The throughput that equation 2.14 guarantees.
fn guarantee() -> f64 {
    WHOLE / plan::worst_bound(SERVERS as f64, ENTRIES as f64, plan::ALPHA)
}

/// Returns the number of keys with the least throughput, and that throughput.
fn lowest(data: &Data) -> (f64, f64) {
    let lowest = data.line(ALL).medians().min_by(|a, b| a.1.total_cmp(&b.1));
    lowest.unwrap_or((f64::NAN, f64::NAN))
}

fn judge(data: &Data) -> Findings {
    let [all, servers] = [ALL, OF_SERVERS].map(|name| data.line(name));
    let ends = [KEYS[0], KEYS[KEYS.len() - 1]].map(|keys| (keys as f64, guarantee()));
    let plot = Plot {
        title: "Throughput behind a cache of 3000 entries".into(),
        x: Axis { is_log: true, ..axis("keys asked equally often") },
        y: Axis { is_log: true, ..axis("thousand queries a second") },
        series: vec![drawn(all), drawn(servers), series("guaranteed, eq. 2.14", ends)],
    };
    let row = |(keys, rate): (f64, f64)| {
        [keys, rate, servers.median(keys)].map(|it| format!("{it:.0}")).into()
    };
    let head = ["keys", "cache and servers", "servers"];
    let (keys, rate) = lowest(data);
    Findings {
        plots: vec![plot],
        tables: vec![table("Thousand queries a second", &head, all.medians().map(row).collect())],
        checks: checks(data),
        reading: format!(
            "The least is {rate:.0} thousand queries a second, at {keys:.0} keys; {:.0} are guaranteed, all servers together \
             take {WHOLE:.0}.",
            guarantee()
        ),
    }
}

fn checks(data: &Data) -> Vec<Check> {
    let most_keys = KEYS[KEYS.len() - 1] as f64;
    vec![
        check(
            "the least throughput over the guarantee",
            lowest(data).1 / guarantee(),
            Bound::AtLeast(1.0),
            "equation 2.14",
        )
        .paper_exactly("at least 1", Bound::AtLeast(1.0)),
        check(
            "the least throughput, of all servers'",
            lowest(data).1 / WHOLE,
            Bound::Between(0.945, 0.98),
            "an independent simulation found 0.962, near 100,000 keys",
        ),
        check(
            "3100 keys, of all servers' throughput",
            data.line(ALL).median(KEYS[0] as f64) / WHOLE,
            Bound::AtLeast(6.0),
            "30 of 31 queries never reach a server: an independent simulation found 8.2",
        ),
        check(
            "a million keys: what the servers answer, of all that they take",
            data.line(OF_SERVERS).median(most_keys) / WHOLE,
            Bound::Between(0.96, 0.99),
            "so many keys spread evenly, and the cache has three of a thousand",
        ),
    ]
}

const ENTRIES: usize = 3000;
const KEYS: [usize; 12] =
    [3100, 3300, 3600, 4000, 6000, 10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 1_000_000];
/// The approximate number of balls thrown per number of keys.
const TRIALS_BALLS: u64 = 20_000_000;
