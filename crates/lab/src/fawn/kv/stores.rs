//! Figure 2.6 over a cluster: throughput against the number of nodes, with one copy and with three.

use super::super::cluster::count;
use super::asked::{Asking, Cache, nodes_max};
use super::placed::{Layout, Placed};
use super::verdicts::{self, Busy, if_idle, judged, without_etcd};
use crate::data::{Data, Line, ratio};
use crate::figures::{axis, check, drawn, least, most, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_bench::Zipf;
use guira_route::plan;

/// Figure 2.6.
pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-kv-f2.6",
    paper: Paper::Fawn,
    title: "throughput of a cluster against its nodes, with one copy of each item and with three",
    claim: CLAIM,
    shape: "without the cache an adversary gets the throughput of one node, within 5 %; with it at least 95 % of what uniform \
            queries get without, and at every size 95 % of what equation 2.14 guarantees; zipf(1.01) more than linear; the \
            same with three copies",
    why: "",
    is_quick: false,
    measure,
    judge,
};

const CLAIM: &str = "without a cache only uniform queries scale with the nodes; behind one of 8 n ln n + 1 entries all do, those \
                     of an adversary too, at least linearly";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Queries {
    Uniform,
    Zipf,
    Adversary,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Kept,
    Held,
}

use Kind::{Held, Kept, Nothing};
use Queries::{Adversary, Uniform, Zipf as Popular};

/// What is asked for, behind which cache.
type Variant = (Queries, Kind);

/// Returns the name of a line: queries per second by the number of nodes.
fn line((queries, kind): Variant, copies: u32) -> String {
    let queries = match queries {
        Uniform => "uniform",
        Popular => "zipf(1.01)",
        Adversary => "adversary",
    };
    let cache = match kind {
        Nothing => "",
        Kept => ", cache",
        Held => ", cache with holds",
    };
    let copies = if copies == 1 { String::new() } else { format!(", {copies} copies") };
    format!("{queries}{cache}{copies}")
}

/// The numbers of nodes with so many copies.
fn sizes_of(run: &Run<'_>, copies: u32) -> Vec<usize> {
    let all: &[usize] = match copies {
        1 => run.scale.pick(&[4, 14], &[10, 20, 40, 85]),
        _ => run.scale.pick(&[14], &[10, 40, 85]),
    };
    all.iter().copied().filter(|nodes| *nodes <= nodes_max()).collect()
}

fn measure(run: &Run<'_>) -> Result<Data> {
    if let Some(data) = without_etcd() {
        return Ok(data);
    }
    let (mut data, mut busy) = (Data::default(), Busy::default());
    let (mut done, mut expected) = (0.0, Vec::new());
    let all: usize = COPIES.map(|(copies, of)| sizes_of(run, copies).len() * of.len()).iter().sum();
    for (copies, variants) in COPIES {
        let mut rates = vec![Vec::new(); variants.len()];
        for nodes in sizes_of(run, copies) {
            (run.progress)(done / all as f64, &format!("{nodes} nodes start"));
            let placed = Placed::start(Layout::equal(nodes, rate(run), copies, KEYS))?;
            if copies == 1 {
                expected.push((nodes as f64, placed.expected(popularity)?));
            }
            for (points, &variant) in rates.iter_mut().zip(variants) {
                let doing = format!("{nodes} nodes, {}", line(variant, copies));
                (run.progress)(done / all as f64, &doing);
                let (rate, its) = throughput(&placed, variant, run)?;
                points.push((nodes as f64, rate));
                busy = busy.most(its);
                done += 1.0;
            }
        }
        for (points, &variant) in rates.into_iter().zip(variants) {
            let line = Line::of_figures(&line(variant, copies), points);
            // One key is on one node, however many there are.
            data.push(if variant == (Adversary, Nothing) { line.flat() } else { line });
        }
    }
    data.push(Line::of_figures(EXPECTED, expected).aside());
    data.aside(RATE, rate(run));
    busy.record(&mut data);
    Ok(data)
}

/// How popular a key is under zipf.
fn popularity(key: u64) -> f64 {
    (key as f64 + 1.0).powf(-ZIPF)
}

/// The keys a second that a node takes.
fn rate(run: &Run<'_>) -> f64 {
    run.scale.pick(250.0, 100.0)
}

fn throughput(placed: &Placed, (queries, kind): Variant, run: &Run<'_>) -> Result<(f64, Busy)> {
    let nodes = placed.relays.len() as f64;
    let entries = plan::entries(nodes, K);
    let keys = match (queries, kind) {
        (Adversary, Nothing) => 1,
        (Adversary, _) => count(plan::worst_keys(nodes, entries, plan::ALPHA)) as u64,
        _ => KEYS,
    };
    let zipf = Zipf::new(KEYS, ZIPF);
    let asking = Asking {
        cache: match kind {
            Nothing => Cache::Nothing,
            Kept => Cache::Kept(count(entries)),
            Held => Cache::Held(count(entries)),
        },
        clients: placed.clients(),
        next: &|rng| if queries == Popular { zipf.rank(rng) } else { rng.below(keys) },
    };
    let asked = placed.ask(&asking, run)?;
    Ok((asked.rate, asked.busy))
}

fn judge(data: &Data) -> Findings {
    judged(data, CLAIM, |data| {
        let plot = |copies: u32, variants: &[Variant]| Plot {
            title: match copies {
                1 => "Throughput of nodes of a fixed rate, one copy".into(),
                _ => format!("Throughput of nodes of a fixed rate, {copies} copies"),
            },
            x: axis("nodes"),
            y: axis("queries a second"),
            series: variants.iter().map(|it| drawn(data.line(&line(*it, copies)))).collect(),
        };
        let checks = [of_one(data), of_three(data)].concat();
        Findings {
            plots: COPIES.map(|(copies, variants)| plot(copies, variants)).into(),
            tables: COPIES.map(|(copies, variants)| rates(data, copies, variants)).into(),
            checks: if_idle(checks, data),
            reading: reading(data),
        }
    })
}

/// The numbers of nodes that were measured.
fn sizes(data: &Data, copies: u32) -> impl Iterator<Item = f64> {
    data.line(&line((Uniform, Nothing), copies)).medians().map(|(nodes, _)| nodes)
}

fn last(data: &Data, copies: u32) -> f64 {
    sizes(data, copies).last().unwrap_or(f64::NAN)
}

/// Returns the throughput, relative to that of uniform queries without a cache.
fn of_linear(data: &Data, nodes: f64, variant: Variant, copies: u32) -> f64 {
    let linear = data.line(&line((Uniform, Nothing), copies)).at(nodes);
    ratio(data.line(&line(variant, copies)).at(nodes), linear)
}

/// Returns the least over all sizes, relative to what all nodes take together.
fn least_of_all(data: &Data, variant: Variant, copies: u32) -> f64 {
    let rates = data.line(&line(variant, copies));
    least(sizes(data, copies).map(|nodes| rates.median(nodes) / (data.figure(RATE) * nodes)))
}

/// Returns zipf's throughput without a cache, relative to what the places of its keys allow.
fn of_expected(data: &Data, nodes: f64) -> f64 {
    data.line(&line((Popular, Nothing), 1)).median(nodes) / data.line(EXPECTED).median(nodes)
}

fn of_one(data: &Data) -> Vec<Check> {
    let (copies, nodes) = (1, last(data, 1));
    let at_last = |variant| of_linear(data, nodes, variant, copies);
    let mut all = of_both(data, copies);
    all.extend([
        check(
            "zipf without a cache, of linear, with the most nodes",
            at_last((Popular, Nothing)),
            Bound::AtMost(0.75),
            "the most popular key alone has 8 % of the queries, more than a node's share",
        )
        .paper("less than 1", Bound::AtMost(0.9)),
        check(
            "zipf without a cache, of what the node with most of it allows, at the least",
            least(sizes(data, 1).map(|nodes| of_expected(data, nodes))),
            Bound::Between(0.93, 1.05),
            "the view says which node reads which key; the node that has most is never without a waiting client",
        ),
        check(
            "zipf without a cache, of what the node with most of it allows, at the most",
            most(sizes(data, 1).map(|nodes| of_expected(data, nodes))),
            Bound::Between(0.93, 1.05),
            "as for the least",
        ),
        check(
            "uniform queries behind the cache, of linear, at the least",
            least(sizes(data, 1).map(|nodes| of_linear(data, nodes, (Uniform, Kept), copies))),
            Bound::AtLeast(0.95),
            "the cache is no use to them, and must cost nothing",
        )
        .paper_or("at least 1", Bound::AtLeast(0.95), 1.0 / nodes),
        check(
            "an adversary against the cache with holds, of linear, with the most nodes",
            at_last((Adversary, Held)),
            Bound::AtLeast(0.7),
            "a hold ends after a second. The nodes here take so few queries that each of these keys is asked about as \
             often, so this cache answers few: the load is that of as many keys without a cache",
        ),
    ]);
    all
}

fn of_three(data: &Data) -> Vec<Check> {
    of_both(data, 3)
}

/// What must hold with any number of copies: reads of a slot are one node's.
fn of_both(data: &Data, copies: u32) -> Vec<Check> {
    let nodes = last(data, copies);
    let named =
        |what: &str| if copies == 1 { what.to_owned() } else { format!("{what}, {copies} copies") };
    let at_last = |variant| of_linear(data, nodes, variant, copies);
    let one_node = 1.0 / nodes;
    let adversary = data.line(&line((Adversary, Nothing), copies));
    let guaranteed = 1.0 / plan::bound_of_k(K, plan::ALPHA);
    vec![
        check(
            named("uniform queries without a cache, of all nodes' rates, at the least"),
            least_of_all(data, (Uniform, Nothing), copies),
            Bound::Between(0.85, 1.05),
            "the fullest node has a few per cent more than its share of the keys, and now and then nobody waits for one",
        )
        .paper_exactly("1", Bound::Between(0.85, 1.05)),
        check(
            named("an adversary without a cache, of one node's rate, with the most nodes"),
            adversary.median(nodes) / data.figure(RATE),
            Bound::Between(0.95, 1.05),
            "one key is on one node, and its link carries a fixed number of keys",
        )
        .paper_exactly("1", Bound::Between(0.95, 1.05)),
        check(
            named("an adversary behind the cache, of linear, with the most nodes"),
            at_last((Adversary, Kept)),
            Bound::AtLeast(0.95),
            "the bound for k = 8 is 0.83, and an independent simulation found 0.96 for 85 nodes",
        )
        .paper_or("at least 1", Bound::AtLeast(0.95), one_node),
        check(
            named("an adversary behind the cache, of what eq. 2.14 guarantees, at the least"),
            least_of_all(data, (Adversary, Kept), copies) / guaranteed,
            Bound::AtLeast(0.95),
            "the guarantee is of a mean; these are one draw of the keys' places each",
        )
        .paper_exactly("at least 1", Bound::AtLeast(0.95)),
        check(
            named("zipf behind the cache, of linear, with the most nodes"),
            at_last((Popular, Kept)),
            Bound::AtLeast(1.2),
            "the cache answers nearly half of the queries",
        )
        .paper_or("at least 1", Bound::AtLeast(0.95), one_node),
        check(
            named("zipf behind the cache with holds, of linear, at the least"),
            least(sizes(data, copies).map(|nodes| of_linear(data, nodes, (Popular, Held), copies))),
            Bound::AtLeast(0.95),
            "the most popular keys are asked many times in the second that a hold lasts",
        )
        .paper_or("at least 1", Bound::AtLeast(0.95), one_node),
    ]
}

fn rates(data: &Data, copies: u32, variants: &[Variant]) -> Table {
    let row = |nodes: f64| {
        let rates = variants.iter().map(|it| data.line(&line(*it, copies)).median(nodes));
        [nodes].into_iter().chain(rates).map(|it| format!("{it:.0}")).collect()
    };
    let names = variants.iter().map(|it| line(*it, copies));
    let header: Vec<_> = ["nodes".to_owned()].into_iter().chain(names).collect();
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    let title = format!("Queries a second; a node takes {:.0}", data.figure(RATE));
    table(&title, &header, sizes(data, copies).map(row).collect())
}

fn reading(data: &Data) -> String {
    let nodes = last(data, 1);
    let of = |variant, copies| of_linear(data, last(data, copies), variant, copies);
    format!(
        "With {nodes:.0} nodes an adversary gets {:.2} of linear with one key and no cache, and {:.2} against the cache; zipf \
         {:.2} and {:.2}. With three copies these are {:.2} and {:.2}, and zipf {:.2} behind the cache. Behind a cache with \
         holds zipf gets {:.2}, an adversary {:.2}. {}",
        of((Adversary, Nothing), 1),
        of((Adversary, Kept), 1),
        of((Popular, Nothing), 1),
        of((Popular, Kept), 1),
        of((Adversary, Nothing), 3),
        of((Adversary, Kept), 3),
        of((Popular, Kept), 3),
        of((Popular, Held), 1),
        of((Adversary, Held), 1),
        verdicts::controls(data)
    )
}

const COPIES: [(u32, &[Variant]); 2] = [
    (
        1,
        &[
            (Uniform, Nothing),
            (Uniform, Kept),
            (Popular, Nothing),
            (Popular, Kept),
            (Popular, Held),
            (Adversary, Nothing),
            (Adversary, Kept),
            (Adversary, Held),
        ],
    ),
    (
        3,
        &[
            (Uniform, Nothing),
            (Popular, Kept),
            (Popular, Held),
            (Adversary, Nothing),
            (Adversary, Kept),
        ],
    ),
];
/// The name of the line of it: keys per second of a node.
const RATE: &str = "what a node takes";
/// The name of the line of what zipf gets by the places of its keys.
const EXPECTED: &str = "zipf(1.01), reckoned from the keys' places";
const K: f64 = 8.0;
const ZIPF: f64 = 1.01;
const KEYS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plants::assert_faultless;

    /// What simulations of so many nodes found.
    fn expected() -> Data {
        let (mut data, rate) = (Data::default(), 250.0);
        let sizes = |copies| if copies == 1 { vec![4.0, 14.0] } else { vec![14.0] };
        let skewed = |n: f64| rate / (0.085 + 0.9 / n);
        for (copies, variants) in COPIES {
            for &variant in variants {
                let figure = |n: f64| match variant {
                    (Uniform, _) => 0.94 * rate * n,
                    (Popular, Nothing) => 0.98 * skewed(n),
                    (Popular, _) => 1.5 * rate * n,
                    (Adversary, Nothing) => rate,
                    (Adversary, Kept) => 0.95 * rate * n,
                    (Adversary, Held) => 0.8 * rate * n,
                };
                let points = sizes(copies).into_iter().map(|n| (n, figure(n)));
                let line = Line::of_figures(&line(variant, copies), points);
                data.push(if variant == (Adversary, Nothing) { line.flat() } else { line });
            }
        }
        let points = sizes(1).into_iter().map(|n| (n, skewed(n)));
        data.push(Line::of_figures(EXPECTED, points).aside());
        data.aside(RATE, rate);
        Busy { router: 0.2, machine: 0.4 }.record(&mut data);
        data
    }

    /// All checks hold of it, and none of the wrong results planted into it goes unnoticed.
    #[test]
    fn what_the_theory_expects_holds_and_each_wrong_result_is_noticed() {
        assert_faultless(&EXPERIMENT, &expected());
    }
}
