//! Equations 2.15 to 2.18 over a cluster: nodes of unequal speed, each with its part of the slots, behind a cache of the size
//! that the equations give.

use super::super::cluster::count;
use super::asked::{Asked, Asking, Cache};
use super::placed::{Layout, Placed};
use super::verdicts::{self, Busy, if_idle, judged, without_etcd};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, most, series, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use guira_route::plan;

/// Equations 2.15 to 2.18.
pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-kv-unequal",
    paper: Paper::Fawn,
    title: "throughput of a cluster of unequal nodes, by weight and behind a cache for them",
    claim: CLAIM,
    shape: "with slots by weight uniform queries get what all nodes take together, an adversary behind the cache at least 95 % \
            of what is guaranteed for any number of keys, and no speed of node is left behind; with slots dealt evenly the \
            slow nodes limit all",
    why: "",
    is_quick: false,
    measure,
    judge,
};

const CLAIM: &str = "a node of w times the least speed counts as w nodes; a cache of (v + v log_n v) k n ln n + 1 entries, for v \
                     times as many of these as nodes, bounds the load of each node as in a cluster of equal ones";

/// Of what all nodes take, by the number of keys.
const BEHIND: &str = "adversary, cache";
/// Of what all nodes take.
const UNIFORM: &str = "uniform, no cache";
const EVENLY: &str = "uniform, no cache, slots dealt evenly";
/// Of one node of the least speed.
const ONE: &str = "adversary, no cache, of the rate of the key's node";
/// What a node answers of what it takes, by its speed: the mean of the nodes of this speed, under uniform queries.
const USED: &str = "share of its speed that a node uses";
const WORST_USED: &str = "share of its speed that a node uses, behind the cache";
/// The least of these shares to the most. The line itself may be as the one without a cache, so that no check can tell
/// them apart.
const WORST_EVEN: &str = "what a node uses of its speed, behind the cache";
const NODES: &str = "nodes";
const SHARES: &str = "nodes of the least speed that they count as";
const ENTRIES: &str = "entries";

fn measure(run: &Run<'_>) -> Result<Data> {
    if let Some(data) = without_etcd() {
        return Ok(data);
    }
    let (each, rate) = run.scale.pick((4, 120.0), (12, 80.0));
    let speeds: Vec<u32> = SPEEDS.into_iter().flat_map(|speed| vec![speed; each]).collect();
    let nodes = speeds.len();
    let shares: u32 = speeds.iter().sum();
    let (n, v) = (nodes as f64, f64::from(shares) / nodes as f64);
    let entries = count(plan::unequal_factor(n, v) * K * n * n.ln() + 1.0);
    let (mut data, mut busy) = (Data::default(), Busy::default());
    (run.progress)(0.0, &format!("{nodes} nodes start"));
    let layout =
        |weights| Layout { weights, speeds: speeds.clone(), ..Layout::equal(nodes, rate, 1, KEYS) };
    let placed = Placed::start(layout(speeds.clone()))?;
    let whole = placed.layout.capacity();
    let mut ask = |placed: &Placed, cache, keys: u64, at: f64, doing: &str| {
        (run.progress)(at, &format!("{nodes} nodes, {doing}"));
        let next = &|rng: &mut guira_bench::Rng| rng.below(keys);
        let asked = placed.ask(&Asking { cache, clients: placed.clients(), next }, run)?;
        busy = busy.most(asked.busy);
        Ok::<_, anyhow::Error>(asked)
    };
    let uniform = ask(&placed, Cache::Nothing, KEYS, 0.1, "uniform queries")?;
    let one = ask(&placed, Cache::Nothing, 1, 0.2, "one key")?;
    let speed_of_one = f64::from(speeds[placed.reader(0)?]) * rate;
    let worst = plan::worst_keys(f64::from(shares), entries as f64, plan::ALPHA);
    let mut behind = Vec::new();
    let mut last = None;
    for (place, factor) in FACTORS.into_iter().enumerate() {
        let keys = (count(entries as f64 + factor * (worst - entries as f64)) as u64).min(KEYS);
        let at = 0.3 + 0.12 * place as f64;
        let asked = ask(&placed, Cache::Kept(entries), keys, at, &format!("{keys} keys, cache"))?;
        behind.push((keys as f64, asked.rate / whole));
        last = Some(asked);
    }
    drop(placed);
    (run.progress)(0.8, &format!("{nodes} nodes start, with slots dealt evenly"));
    let evenly = Placed::start(layout(vec![1; nodes]))?;
    let evenly = ask(&evenly, Cache::Nothing, KEYS, 0.9, "uniform queries, slots dealt evenly")?;
    data.push(Line::of_figures(BEHIND, behind));
    data.fact(UNIFORM, uniform.rate / whole);
    data.fact(EVENLY, evenly.rate / whole);
    data.fact(ONE, one.rate / speed_of_one);
    data.push(Line::of_figures(USED, used(&uniform, &speeds, rate)).flat());
    if let Some(last) = last {
        let by_speed = Line::of_figures(WORST_USED, used(&last, &speeds, rate)).aside();
        data.fact(WORST_EVEN, even(&by_speed));
        data.push(by_speed);
    }
    data.aside(NODES, n);
    data.aside(SHARES, f64::from(shares));
    data.aside(ENTRIES, entries as f64);
    busy.record(&mut data);
    Ok(data)
}

/// By speed: what the nodes of this speed answered, of what they take.
fn used(asked: &Asked, speeds: &[u32], rate: f64) -> Vec<(f64, f64)> {
    let of = |speed: u32| {
        let own = asked.loads.iter().zip(speeds).filter(|it| *it.1 == speed);
        let loads: Vec<f64> = own.map(|it| it.0 / (f64::from(speed) * rate)).collect();
        (f64::from(speed), loads.iter().sum::<f64>() / loads.len() as f64)
    };
    SPEEDS.map(of).into()
}

/// The least figure of a line to the most.
fn even(by_speed: &Line) -> f64 {
    least(by_speed.figures()) / most(by_speed.figures())
}

fn guarantee() -> f64 {
    1.0 / plan::bound_of_k(K, plan::ALPHA)
}

fn judge(data: &Data) -> Findings {
    judged(data, CLAIM, |data| {
        let behind = data.line(BEHIND);
        let ends = [behind.points.first(), behind.points.last()].into_iter().flatten();
        let ends = ends.map(|point| (point.x, guarantee()));
        let plot = Plot {
            title: "Throughput of unequal nodes behind the cache".into(),
            x: Axis { is_log: true, ..axis("keys asked equally often") },
            y: axis("of what all nodes take"),
            series: vec![drawn(behind), series("guaranteed, eq. 2.18", ends)],
        };
        let row = |speed: f64| {
            let used = [USED, WORST_USED].map(|name| data.line(name).median(speed));
            vec![format!("{speed:.0}"), format!("{:.3}", used[0]), format!("{:.3}", used[1])]
        };
        let head = ["speed", "uniform queries, no cache", "adversary, cache"];
        Findings {
            plots: vec![plot],
            tables: vec![table(
                "What a node answers, of what it takes: the mean of its speed",
                &head,
                SPEEDS.map(|speed| row(f64::from(speed))).into(),
            )],
            checks: if_idle(checks(data), data),
            reading: reading(data),
        }
    })
}

fn checks(data: &Data) -> Vec<Check> {
    let behind = data.line(BEHIND);
    let of_even = data.figure(NODES) / data.figure(SHARES);
    vec![
        check(
            "uniform queries without a cache, of what all nodes take",
            data.figure(UNIFORM),
            Bound::Between(0.85, 1.05),
            "the fullest node has a few per cent more than its share of the keys",
        )
        .paper_exactly("1", Bound::Between(0.85, 1.05)),
        check(
            "one key without a cache, of what its node takes",
            data.figure(ONE),
            Bound::Between(0.95, 1.05),
            "one key is on one node",
        )
        .paper_exactly("1", Bound::Between(0.95, 1.05)),
        check(
            "an adversary behind the cache, of what is guaranteed, at the least",
            least(behind.figures()) / guarantee(),
            Bound::AtLeast(0.95),
            "the guarantee is of a mean; the keys' places are one draw",
        )
        .paper_exactly("at least 1", Bound::AtLeast(0.95)),
        check(
            "an adversary with the fewest keys, of that with the most",
            behind.figures().first().copied().unwrap_or(f64::NAN) / behind.last(),
            Bound::AtLeast(1.1),
            "of fewer keys the cache answers more",
        ),
        check(
            "what a node uses of its speed, the least speed to the most, uniform queries",
            even(data.line(USED)),
            Bound::AtLeast(0.85),
            "slots are dealt by weight, so a query is as likely to wait for a slow node as for a fast one",
        ),
        check(
            "what all nodes answer of uniform queries, of what clients get",
            answered(data) / data.figure(UNIFORM),
            Bound::Between(0.9, 1.1),
            "without a cache nodes answer all",
        ),
        check(
            WORST_EVEN,
            data.figure(WORST_EVEN),
            Bound::AtLeast(0.85),
            "which keys the cache has doesn't depend on where they are",
        )
        .paper_exactly("1", Bound::AtLeast(0.85)),
        check(
            "uniform queries with slots dealt evenly, of what the slow nodes then allow",
            data.figure(EVENLY) / of_even,
            Bound::Between(0.8, 1.1),
            "each node gets the same queries, and the slow ones are full first: weights are needed",
        ),
    ]
}

/// What the nodes answered of uniform queries without a cache, of what all take.
fn answered(data: &Data) -> f64 {
    let speeds = SPEEDS.map(f64::from);
    let loads = speeds.iter().zip(data.line(USED).figures()).map(|(speed, used)| speed * used);
    loads.sum::<f64>() / speeds.iter().sum::<f64>()
}

fn reading(data: &Data) -> String {
    let behind = data.line(BEHIND);
    format!(
        "{:.0} nodes, as fast as {:.0} of the least speed, get {:.2} of that from uniform queries, and {:.2} if their slots \
         are dealt evenly. Behind {:.0} entries an adversary gets {:.2} at the least; {:.2} are guaranteed. {}",
        data.figure(NODES),
        data.figure(SHARES),
        data.figure(UNIFORM),
        data.figure(EVENLY),
        data.figure(ENTRIES),
        least(behind.figures()),
        guarantee(),
        verdicts::controls(data)
    )
}

/// As many nodes of each.
const SPEEDS: [u32; 3] = [1, 2, 4];
const K: f64 = 8.0;
/// Keys beyond the cache, relative to the worst number of keys by the bound.
const FACTORS: [f64; 4] = [0.1, 0.35, 1.0, 2.0];
const KEYS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plants::assert_faultless;

    /// What the equations and a cluster of equal nodes let expect.
    fn expected() -> Data {
        let mut data = Data::default();
        let keys = [1500.0, 3000.0, 6000.0, 12_000.0];
        data.push(Line::of_figures(BEHIND, keys.into_iter().zip([1.3, 1.05, 0.96, 0.93])));
        for (name, figure) in [(UNIFORM, 0.94), (EVENLY, 0.42), (ONE, 1.0)] {
            data.fact(name, figure);
        }
        let by_speed = |name, all: [f64; 3]| {
            Line::of_figures(name, SPEEDS.map(f64::from).into_iter().zip(all))
        };
        data.push(by_speed(USED, [0.93, 0.94, 0.94]).flat());
        data.push(by_speed(WORST_USED, [0.93, 0.92, 0.94]).aside());
        data.fact(WORST_EVEN, 0.98);
        data.aside(NODES, 12.0);
        data.aside(SHARES, 28.0);
        data.aside(ENTRIES, 747.0);
        Busy { router: 0.2, machine: 0.4 }.record(&mut data);
        data
    }

    /// All checks hold of it, and none of the wrong results planted into it goes unnoticed.
    #[test]
    fn what_the_theory_expects_holds_and_each_wrong_result_is_noticed() {
        assert_faultless(&EXPERIMENT, &expected());
    }
}
