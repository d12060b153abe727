//! Figure 4.2: how full filters are when the first insert fails, by the bits of a fingerprint.
//!
//! The second bucket is the first one, changed by the fingerprint's hash: a fingerprint of few bits has few to choose
//! from. Buckets are those of the thesis (a power of two, exclusive or); the product's rule for any even number of
//! buckets stands beside it. The product searches breadth first instead of kicking at random, which moves the knees
//! little; its fingerprints begin at four bits.

use super::items::Items;
use crate::figures::{axis, check, series, table};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;
use guira_filter::{Filter, Keyed, Lanes, Orbit, Pair, Xor};

/// Figure 4.2.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-f4.2",
    paper: Paper::CuckooFilter,
    title: "load factor against fingerprint bits",
    claim: "fingerprints of six bits and more fill buckets of four to 95 % and buckets of eight to 98 %, as if the \
            second bucket were chosen freely, and how many bits that takes grows slowly with the table",
    shape: "from seven bits on at least 0.95 with b = 4 and 0.98 with b = 8 in every table, within 0.01 of 20 bits; \
            with four bits and b = 4 the largest table fails earlier",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

/// The loads that one shape of table reaches, by fingerprint bits.
struct Curve {
    name: String,
    slots: u32,
    buckets_log2: u32,
    loads: Vec<f64>,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let sizes = run.scale.pick(vec![10, 13, 16], vec![15, 20, 25]);
    let shapes: Vec<(u32, u32)> =
        [4, 8].into_iter().flat_map(|slots| sizes.iter().map(move |&size| (slots, size))).collect();
    let mut curves = Vec::new();
    for (at, &(slots, size)) in shapes.iter().enumerate() {
        let name = format!("b = {slots}, 2^{size} buckets");
        (run.progress)(at as f64 / shapes.len() as f64, &name);
        let rule = Xor::at_least(1 << size, 0);
        let loads = BITS.map(|bits| load(Lanes::new(bits, slots), rule, run.seed));
        curves.push(Curve { name, slots, buckets_log2: size, loads: loads.into() });
    }
    let largest = *sizes.last().expect("several");
    let pair = Pair::at_least(1 << largest);
    let pairs = BITS.map(|bits| load(Lanes::new(bits, 4), pair, run.seed));
    let name = format!("b = 4, 2^{largest} buckets, r − i");
    curves.push(Curve { name, slots: 4, buckets_log2: largest, loads: pairs.into() });
    Ok(Outcome {
        plots: vec![plot(&curves)],
        tables: vec![shown(&curves)],
        checks: checks(&curves),
        reading: reading(&curves),
    })
}

/// The load at the first failure: the least of several tables, more of them where they are small.
fn load(layout: Lanes, rule: impl Orbit, seed: u64) -> f64 {
    let one = |seed| {
        let mut filter = Filter::new(layout, rule, Keyed::from_seed(seed));
        Items::new(seed).fill(&mut filter, 0);
        (filter.load(), filter.slots())
    };
    let (first, slots) = one(seed);
    let tables = (ENTERED / slots as u64).clamp(1, 10);
    (1..tables).map(|table| one(seed + table).0).fold(first, f64::min)
}

fn plot(curves: &[Curve]) -> Plot {
    let points = |curve: &Curve| {
        BITS.map(f64::from).into_iter().zip(curve.loads.iter().copied()).collect::<Vec<_>>()
    };
    Plot {
        title: "Load at the first failed insert".into(),
        x: axis("bits of a fingerprint"),
        y: axis("load factor"),
        series: curves.iter().map(|curve| series(&curve.name, points(curve))).collect(),
    }
}

fn shown(curves: &[Curve]) -> Table {
    let bits = BITS.map(|bits| format!("f = {bits}"));
    let header: Vec<&str> = ["table"].into_iter().chain(bits.iter().map(String::as_str)).collect();
    let row = |curve: &Curve| {
        let loads = curve.loads.iter().map(|load| format!("{load:.3}"));
        [curve.name.clone()].into_iter().chain(loads).collect()
    };
    table("Load factor, the least of several tables", &header, curves.iter().map(row).collect())
}

/// The least load of any table with buckets of `slots` and fingerprints of `bits` or more.
fn least(curves: &[Curve], slots: u32, bits: u32) -> f64 {
    let of = |curve: &Curve| {
        let long = BITS.into_iter().zip(&curve.loads).filter(|&(f, _)| f >= bits);
        long.map(|(_, &load)| load).fold(1.0, f64::min)
    };
    curves.iter().filter(|curve| curve.slots == slots).map(of).fold(1.0, f64::min)
}

fn checks(curves: &[Curve]) -> Vec<Check> {
    let at = |curve: &Curve, bits| curve.loads[BITS.iter().position(|&f| f == bits).expect("one")];
    let lost = |curve: &Curve| at(curve, 20) - at(curve, 7);
    let of_four = curves.iter().filter(|curve| curve.slots == 4);
    let large = of_four.max_by_key(|curve| curve.buckets_log2).expect("several");
    vec![
        check(
            "b = 4, seven bits and more: the least load",
            least(curves, 4, 7),
            Bound::AtLeast(0.95),
            "the thesis has 0.95 from six bits on, by random kicks; a search for paths fills to 0.97",
        ),
        check(
            "b = 8, seven bits and more: the least load",
            least(curves, 8, 7),
            Bound::AtLeast(0.98),
            "the thesis has 0.98; a search for paths fills to 0.99",
        ),
        check(
            "the most that seven bits lose against twenty",
            curves.iter().map(lost).fold(0.0, f64::max),
            Bound::AtMost(0.01),
            "beyond the knee the second bucket is as good as one chosen freely",
        ),
        check(
            "b = 4, the largest table: what four bits lose against twenty",
            at(large, 20) - at(large, 4),
            Bound::AtLeast(0.004),
            "the bits needed grow with the logarithm of the buckets, divided by 2b",
        ),
    ]
}

fn reading(curves: &[Curve]) -> String {
    let four = |bits| least(curves, 4, bits);
    let eight = |bits| least(curves, 8, bits);
    format!(
        "With buckets of four the least load is {:.3} with four bits, {:.3} with six or more and {:.3} with seven or \
         more; the thesis has 0.95 from six on. With buckets of eight it is {:.3}, {:.3} and {:.3} (thesis: 0.98). The \
         rule for any even number of buckets fills as the exclusive or does.",
        four(4),
        four(6),
        four(7),
        eight(4),
        eight(6),
        eight(7),
    )
}

const BITS: [u32; 10] = [4, 5, 6, 7, 8, 9, 10, 12, 16, 20];
/// As many items as a shape's tables take together, unless one takes more.
const ENTERED: u64 = 1 << 18;
