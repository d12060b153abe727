//! Figures 2.9 and 2.10 over a cluster: throughput behind a cache against the keys that an adversary asks for, and the worst
//! of it against the cache's size.

use super::super::cluster::count;
use super::asked::{Asked, Asking, Cache, size};
use super::placed::{Layout, Placed};
use super::verdicts::{self, Busy, if_idle, judged, without_etcd};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, series, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use guira_route::plan;

/// Figures 2.9 and 2.10.
pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-kv-f2.9",
    paper: Paper::Fawn,
    title: "throughput of a cluster behind a cache against the keys asked, and its worst against the cache's size",
    claim: CLAIM,
    shape: "behind 8 n ln n + 1 entries the least throughput of the sweep at 95 % of the guarantee or more, and far more where \
            the cache answers most; the worst of each cache at 95 % of its guarantee or more, growing with the cache",
    why: "",
    is_quick: false,
    measure,
    judge,
};

const CLAIM: &str = "behind the cache no number of keys brings the throughput below what the bound guarantees, and the worst \
                     throughput grows with the cache as the theory's line does";

/// Of what all nodes take, by the number of keys.
const ALL: &str = "cache and nodes";
const OF_NODES: &str = "nodes";
const EXPECTED: &str = "cache and nodes, reckoned from the keys' places";
/// Of what all nodes take, by the cache's entries.
const WORST: &str = "worst, measured";
const GUARANTEED: &str = "guaranteed, eq. 2.14";
const NODES: &str = "number of nodes";

fn measure(run: &Run<'_>) -> Result<Data> {
    if let Some(data) = without_etcd() {
        return Ok(data);
    }
    let (nodes, rate) = size(run.scale);
    let n = nodes as f64;
    let (mut data, mut busy) = (Data::default(), Busy::default());
    (run.progress)(0.0, &format!("{nodes} nodes start"));
    let placed = Placed::start(Layout::equal(nodes, rate, 1, KEYS))?;
    let steps = (FACTORS.len() + KS.len() * SHARES.len()) as f64 + 1.0;
    let mut done = 0.0;
    let mut ask = |entries: usize, keys: u64| {
        done += 1.0;
        (run.progress)(done / steps, &format!("{nodes} nodes, {entries} entries, {keys} keys"));
        let asked = against(&placed, entries, keys, run)?;
        busy = busy.most(asked.busy);
        Ok::<_, anyhow::Error>(asked)
    };
    let entries = count(plan::entries(n, EIGHT));
    let mut by_keys = Vec::new();
    for factor in FACTORS {
        let keys = count(entries as f64 * factor) as u64;
        let asked = ask(entries, keys)?;
        let carried = asked.loads.iter().sum::<f64>();
        let is_asked = |key| f64::from(u8::from(key < keys));
        let expected = placed.expected_behind(entries as u64, is_asked)?;
        by_keys.push((keys as f64, asked.rate, carried, expected));
    }
    let mut by_size = Vec::new();
    for k in KS {
        let entries = count(plan::entries(n, k));
        let beyond = plan::worst_keys(n, entries as f64, plan::ALPHA) - entries as f64;
        let mut rates = Vec::new();
        for share in SHARES {
            let keys = entries + count(share * beyond);
            rates.push(ask(entries, (keys as u64).min(KEYS))?.rate);
        }
        let guaranteed = 1.0 / plan::worst_bound(n, entries as f64, plan::ALPHA);
        by_size.push((entries as f64, least(rates), guaranteed));
    }
    let whole = placed.layout.capacity();
    data.push(Line::of_figures(ALL, by_keys.iter().map(|it| (it.0, it.1 / whole))));
    data.push(Line::of_figures(OF_NODES, by_keys.iter().map(|it| (it.0, it.2 / whole))));
    data.push(Line::of_figures(EXPECTED, by_keys.iter().map(|it| (it.0, it.3 / whole))).aside());
    data.push(Line::of_figures(WORST, by_size.iter().map(|it| (it.0, it.1 / whole))));
    data.push(Line::of_figures(GUARANTEED, by_size.iter().map(|it| (it.0, it.2))).aside());
    data.aside(NODES, n);
    busy.record(&mut data);
    Ok(data)
}

/// Asks for so many keys equally often, behind a cache of so many entries.
fn against(placed: &Placed, entries: usize, keys: u64, run: &Run<'_>) -> Result<Asked> {
    let asking = Asking {
        cache: Cache::Kept(entries),
        clients: placed.clients(),
        next: &|rng| rng.below(keys),
    };
    placed.ask(&asking, run)
}

fn guarantee() -> f64 {
    1.0 / plan::bound_of_k(EIGHT, plan::ALPHA)
}

fn judge(data: &Data) -> Findings {
    judged(data, CLAIM, |data| {
        let [all, nodes, worst, guaranteed] =
            [ALL, OF_NODES, WORST, GUARANTEED].map(|name| data.line(name));
        let ends = [all.points.first(), all.points.last()].into_iter().flatten();
        let ends = ends.map(|point| (point.x, guarantee()));
        let log = |label: &str| Axis { is_log: true, ..axis(label) };
        let plots = vec![
            Plot {
                title: "Throughput behind a cache of 8 n ln n + 1 entries".into(),
                x: log("keys asked equally often"),
                y: axis("of what all nodes take"),
                series: vec![
                    drawn(all),
                    drawn(nodes),
                    drawn(data.line(EXPECTED)),
                    series(GUARANTEED, ends),
                ],
            },
            Plot {
                title: "The worst throughput of two numbers of keys".into(),
                x: log("entries of the cache"),
                y: axis("of what all nodes take"),
                series: vec![drawn(worst), drawn(guaranteed)],
            },
        ];
        let row = |(x, figure): (f64, f64), other: f64| {
            vec![format!("{x:.0}"), format!("{figure:.3}"), format!("{other:.3}")]
        };
        let by_keys = all.medians().map(|it| row(it, nodes.median(it.0))).collect();
        let by_size = worst.medians().map(|it| row(it, guaranteed.median(it.0))).collect();
        Findings {
            plots,
            tables: vec![
                table("Of what all nodes take", &["keys", ALL, OF_NODES], by_keys),
                table("Of what all nodes take", &["entries", "worst", "guaranteed"], by_size),
            ],
            checks: if_idle(checks(data), data),
            reading: reading(data),
        }
    })
}

fn checks(data: &Data) -> Vec<Check> {
    let [all, nodes, worst, guaranteed] =
        [ALL, OF_NODES, WORST, GUARANTEED].map(|name| data.line(name));
    let first = |line: &Line| line.figures().first().copied().unwrap_or(f64::NAN);
    let of_expected = all.medians().map(|(keys, rate)| rate / data.line(EXPECTED).median(keys));
    let one_draw = "the guarantee is of a mean; the keys' places are one draw";
    let apart = worst.figures().into_iter().zip(guaranteed.figures());
    vec![
        check(
            "the least throughput of the sweep, of what is guaranteed",
            least(all.figures()) / guarantee(),
            Bound::AtLeast(0.95),
            one_draw,
        )
        .paper_exactly("at least 1", Bound::AtLeast(0.95)),
        check(
            "throughput, of what the fullest node allows, at the least",
            least(of_expected),
            Bound::AtLeast(0.8),
            "the view says which node reads which key; but of equally popular keys the cache now and then takes others",
        ),
        check(
            "with the fewest keys, throughput of what all nodes take",
            first(all),
            Bound::AtLeast(1.3),
            "of three queries the cache answers two",
        )
        .paper("more than 1", Bound::AtLeast(1.3)),
        check(
            "the least throughput of the sweep, of that with the fewest keys",
            least(all.figures()) / first(all),
            Bound::AtMost(0.8),
            "with more keys the cache answers fewer of the queries",
        ),
        check(
            "with the most keys, what the nodes answer, of what they take",
            nodes.last(),
            Bound::Between(0.8, 1.02),
            "many keys spread evenly; a simulation of 85 nodes found 0.93",
        ),
        check(
            "with the fewest keys, what the nodes answer, of that with the most",
            first(nodes) / nodes.last(),
            Bound::AtMost(0.95),
            "few keys are on few nodes: only the fullest has all that it takes",
        ),
        check(
            "the worst with each cache, of what is guaranteed, at the least",
            least(apart.map(|(worst, guaranteed)| worst / guaranteed)),
            Bound::AtLeast(0.95),
            one_draw,
        )
        .paper_exactly("at least 1", Bound::AtLeast(0.95)),
        check(
            "the worst with the largest cache, of that with the smallest",
            worst.last() / first(worst),
            Bound::AtLeast(1.25),
            "a simulation of 85 nodes found 1.8 between 100 and 3000 entries",
        )
        .paper("more than 1", Bound::AtLeast(1.25)),
        check(
            "the worst with the largest cache, of what all nodes take",
            worst.last(),
            Bound::Between(0.83, 1.1),
            "a simulation of 85 nodes found 0.96 with half of the entries; links are now and then without a waiting query",
        ),
    ]
}

fn reading(data: &Data) -> String {
    let [all, guaranteed] = [ALL, GUARANTEED].map(|name| data.line(name));
    let worst = |(entries, worst): (f64, f64)| {
        format!(
            "{worst:.2} with {entries:.0} entries ({:.2} guaranteed)",
            guaranteed.median(entries)
        )
    };
    let worst: Vec<_> = data.line(WORST).medians().map(worst).collect();
    format!(
        "The least of the sweep is {:.2} of what {:.0} nodes take, {:.2} are guaranteed. The worst is {}. {}",
        least(all.figures()),
        data.figure(NODES),
        guarantee(),
        worst.join(", "),
        verdicts::controls(data)
    )
}

const EIGHT: f64 = 8.0;
/// Keys that are asked, for each entry of the cache.
const FACTORS: [f64; 4] = [1.5, 3.0, 7.0, 16.0];
const KS: [f64; 4] = [0.1, 1.0, 4.0, 16.0];
/// Keys beyond the cache, relative to the worst number of keys by the bound.
const SHARES: [f64; 2] = [0.35, 1.0];
const KEYS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plants::assert_faultless;

    /// What simulations of 85 nodes found.
    fn expected() -> Data {
        let mut data = Data::default();
        let keys = FACTORS.map(|factor| (factor * 3022.0).round());
        data.push(Line::of_figures(ALL, keys.into_iter().zip([1.9, 1.15, 0.97, 0.95])));
        data.push(Line::of_figures(OF_NODES, keys.into_iter().zip([0.63, 0.77, 0.83, 0.89])));
        data.push(Line::of_figures(EXPECTED, keys.into_iter().zip([2.0, 1.2, 1.0, 0.97])).aside());
        let entries = KS.map(|k| count(plan::entries(85.0, k)) as f64);
        let bound = |entries| 1.0 / plan::worst_bound(85.0, entries, plan::ALPHA);
        data.push(Line::of_figures(WORST, entries.into_iter().zip([0.33, 0.65, 0.86, 0.96])));
        data.push(Line::of_figures(GUARANTEED, entries.map(|it| (it, bound(it)))).aside());
        data.aside(NODES, 85.0);
        Busy { router: 0.2, machine: 0.4 }.record(&mut data);
        data
    }

    /// All checks hold of it, and none of the wrong results planted into it goes unnoticed.
    #[test]
    fn what_the_theory_expects_holds_and_each_wrong_result_is_noticed() {
        assert_faultless(&EXPERIMENT, &expected());
    }
}
