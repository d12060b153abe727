//! Figures 2.7 and 2.8 over a cluster: the load of each node without a cache when an adversary asks for x keys.

use super::asked::{Asking, Cache, size};
use super::placed::{Layout, Placed};
use super::verdicts::{self, Busy, if_idle, judged, without_etcd};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, most, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;

/// Figures 2.7 and 2.8.
pub(in super::super) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-kv-f2.7",
    paper: Paper::Fawn,
    title: "load of each node of a cluster, and its throughput, without a cache against the keys asked",
    claim: CLAIM,
    shape: "one key brings one node's throughput, within 5 %; exactly the nodes idle that have none of the keys: most of them \
            with few keys, none with very many; the throughput is what the fullest node's share of the keys allows",
    why: "",
    is_quick: false,
    measure,
    judge,
};

const CLAIM: &str = "with few keys most nodes idle while one has all that it can take: queries for one key get one node's \
                     throughput out of 85; with very many keys all are about as busy";

/// By the number of keys. Throughputs and means are relative to what all nodes take.
const RATES: &str = "throughput";
const EXPECTED: &str = "throughput, reckoned from the keys' places";
const IDLE: &str = "idle nodes";
const WITHOUT: &str = "nodes without a key";
const MEAN: &str = "mean node, of the busiest";
const NODES: &str = "nodes";

fn measure(run: &Run<'_>) -> Result<Data> {
    if let Some(data) = without_etcd() {
        return Ok(data);
    }
    let (nodes, rate) = size(run.scale);
    let (mut data, mut busy) = (Data::default(), Busy::default());
    (run.progress)(0.0, &format!("{nodes} nodes start"));
    let placed = Placed::start(Layout::equal(nodes, rate, 1, KEYS))?;
    let mut lines: [Vec<(f64, f64)>; 5] = Default::default();
    for (at, of_85) in OF_85.into_iter().enumerate() {
        let keys = scaled(of_85, nodes);
        let doing = format!("{nodes} nodes, {keys} keys");
        (run.progress)((at as f64 + 1.0) / (OF_85.len() as f64 + 1.0), &doing);
        let without = without(&placed, keys)?;
        let asking = Asking {
            cache: Cache::Nothing,
            clients: placed.clients_of(nodes - without),
            next: &|rng| rng.below(keys),
        };
        let asked = placed.ask(&asking, run)?;
        busy = busy.most(asked.busy);
        let is_asked = |key| f64::from(u8::from(key < keys));
        let most = most(asked.loads.iter().copied());
        let figures = [
            asked.rate / placed.layout.capacity(),
            placed.expected(is_asked)? / placed.layout.capacity(),
            asked.loads.iter().filter(|load| **load <= 0.0).count() as f64,
            without as f64,
            asked.loads.iter().sum::<f64>() / nodes as f64 / most,
        ];
        lines.iter_mut().zip(figures).for_each(|(line, figure)| line.push((keys as f64, figure)));
    }
    for (name, points) in [RATES, EXPECTED, IDLE, WITHOUT, MEAN].into_iter().zip(lines) {
        let line = Line::of_figures(name, points);
        // These are reckoned.
        data.push(if name == EXPECTED || name == WITHOUT { line.aside() } else { line });
    }
    data.aside(NODES, nodes as f64);
    busy.record(&mut data);
    Ok(data)
}

/// As many keys a node as so many have for the thesis' 85.
fn scaled(of_85: u64, nodes: usize) -> u64 {
    (of_85 * nodes as u64).div_ceil(85)
}

/// The number of nodes that read none of the keys.
fn without(placed: &Placed, keys: u64) -> Result<usize> {
    let mut has = vec![false; placed.relays.len()];
    for key in 0..keys {
        has[placed.reader(key)?] = true;
    }
    Ok(has.iter().filter(|has| !**has).count())
}

fn judge(data: &Data) -> Findings {
    judged(data, CLAIM, |data| {
        let logarithmic = || Axis { is_log: true, ..axis("keys asked equally often") };
        let plot = |title: &str, y: &str, names: &[&str]| Plot {
            title: title.into(),
            x: logarithmic(),
            y: axis(y),
            series: names.iter().map(|name| drawn(data.line(name))).collect(),
        };
        let row = |keys: f64| {
            let all =
                [RATES, EXPECTED, IDLE, WITHOUT, MEAN].map(|name| data.line(name).median(keys));
            let [rate, expected, idle, without, mean] = all;
            vec![
                format!("{keys:.0}"),
                format!("{idle:.0}"),
                format!("{without:.0}"),
                format!("{mean:.3}"),
                format!("{rate:.3}"),
                format!("{expected:.3}"),
            ]
        };
        let head = [
            "keys",
            "idle nodes",
            "without a key",
            "mean, of the busiest",
            "throughput, of all nodes",
            "reckoned",
        ];
        Findings {
            plots: vec![
                plot("Throughput without a cache", "of what all nodes take", &[RATES, EXPECTED]),
                plot("Idle nodes without a cache", "nodes", &[IDLE, WITHOUT]),
            ],
            tables: vec![table(
                &format!("{:.0} nodes", data.figure(NODES)),
                &head,
                keys(data).map(row).collect(),
            )],
            checks: if_idle(checks(data), data),
            reading: reading(data),
        }
    })
}

fn keys(data: &Data) -> impl Iterator<Item = f64> {
    data.line(RATES).medians().map(|(keys, _)| keys)
}

/// The numbers of keys that correspond to one, 10, 100, 1000, 10,000 and 100,000 for 85 nodes.
fn places(data: &Data) -> [f64; 6] {
    let mut all = keys(data);
    std::array::from_fn(|_| all.next().unwrap_or(f64::NAN))
}

fn checks(data: &Data) -> Vec<Check> {
    [rates(data), loads(data)].concat()
}

fn rates(data: &Data) -> Vec<Check> {
    let [rates, expected] = [RATES, EXPECTED].map(|name| data.line(name));
    let nodes = data.figure(NODES);
    let one = places(data)[0];
    let of_expected = || keys(data).map(|keys| rates.median(keys) / expected.median(keys));
    let exact = "the view says which node reads which key; the fullest is never without a waiting client for long";
    vec![
        check(
            "one key, in nodes",
            rates.median(one) * nodes,
            Bound::Between(0.95, 1.05),
            "one node has it",
        )
        .paper_exactly("1", Bound::Between(0.95, 1.05)),
        check(
            "throughput, of what the fullest node allows, at the least",
            least(of_expected()),
            Bound::Between(0.9, 1.05),
            exact,
        ),
        check(
            "throughput, of what the fullest node allows, at the most",
            most(of_expected()),
            Bound::Between(0.9, 1.05),
            exact,
        ),
    ]
}

fn loads(data: &Data) -> Vec<Check> {
    let [idle, without, mean] = [IDLE, WITHOUT, MEAN].map(|name| data.line(name));
    let nodes = data.figure(NODES);
    let [_, ten, hundred, _, ten_thousand, hundred_thousand] = places(data);
    vec![
        check(
            "idle nodes that have a key, and busy ones that have none",
            keys(data)
                .map(|keys| (idle.median(keys) - without.median(keys)).abs())
                .fold(0.0, |a, b| most([a, b])),
            Bound::AtMost(0.0),
            "who has no key is asked nothing, and everybody else is, many times",
        ),
        check(
            "with as many keys a node as 10 for 85: idle nodes, of all",
            idle.median(ten) / nodes,
            Bound::AtLeast(0.75),
            "ten keys are on ten of 85 nodes at the most",
        )
        .paper_exactly("most", Bound::AtLeast(0.5)),
        check(
            "with as many keys a node as 100 for 85: idle nodes, of all",
            idle.median(hundred) / nodes,
            Bound::Between(0.12, 0.5),
            "(1 − 1/85)^100 is 0.31; the keys' places are one draw",
        )
        .paper_exactly("0.33 (28 of 85, once)", Bound::Between(0.12, 0.5)),
        check(
            "with as many as 10,000: idle nodes",
            idle.median(ten_thousand),
            Bound::AtMost(0.0),
            "each has about a hundred of them",
        )
        .paper_exactly("none", Bound::AtMost(0.0)),
        check(
            "with as many as 100: the mean node, of the busiest",
            mean.median(hundred),
            Bound::Between(0.15, 0.45),
            "0.26 in simulations of 85 nodes; the keys' places are one draw",
        ),
        check(
            "with as many as 100,000: the mean node, of the busiest",
            mean.median(hundred_thousand),
            Bound::AtLeast(0.85),
            "0.93 in simulations of 85 nodes; and the queries of a few seconds are a draw, too",
        )
        .paper_exactly("close to 1", Bound::AtLeast(0.85)),
    ]
}

fn reading(data: &Data) -> String {
    let [one, ten, hundred, _, _, last] = places(data);
    let nodes = data.figure(NODES);
    format!(
        "Of {nodes:.0} nodes {:.0} idle with {ten:.0} keys and {:.0} with {hundred:.0}. One key brings {:.2} nodes' \
         throughput, {last:.0} bring {:.2} of all. {}",
        data.line(IDLE).median(ten),
        data.line(IDLE).median(hundred),
        data.line(RATES).median(one) * nodes,
        data.line(RATES).median(last),
        verdicts::controls(data)
    )
}

/// The thesis' numbers of keys.
const OF_85: [u64; 6] = [1, 10, 100, 1000, 10_000, 100_000];
const KEYS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plants::assert_faultless;

    /// What simulations of 85 nodes found.
    fn expected() -> Data {
        let mut data = Data::default();
        let figures = [
            (RATES, [0.0118, 0.094, 0.264, 0.55, 0.79, 0.90]),
            (EXPECTED, [0.0118, 0.095, 0.27, 0.567, 0.81, 0.933]),
            (IDLE, [84.0, 76.0, 26.0, 0.0, 0.0, 0.0]),
            (WITHOUT, [84.0, 76.0, 26.0, 0.0, 0.0, 0.0]),
            (MEAN, [0.0118, 0.096, 0.264, 0.57, 0.81, 0.93]),
        ];
        for (name, figures) in figures {
            let points = OF_85.map(|keys| keys as f64).into_iter().zip(figures);
            let line = Line::of_figures(name, points);
            data.push(if name == EXPECTED || name == WITHOUT { line.aside() } else { line });
        }
        data.aside(NODES, 85.0);
        Busy { router: 0.2, machine: 0.4 }.record(&mut data);
        data
    }

    /// All checks hold of it, and none of the wrong results planted into it goes unnoticed.
    #[test]
    fn what_the_theory_expects_holds_and_each_wrong_result_is_noticed() {
        assert_faultless(&EXPERIMENT, &expected());
    }

    #[test]
    fn fewer_nodes_have_as_many_keys_each() {
        assert_eq!(OF_85.map(|keys| scaled(keys, 85)), OF_85);
        assert_eq!(OF_85.map(|keys| scaled(keys, 17)), [1, 2, 20, 200, 2000, 20_000]);
    }
}
