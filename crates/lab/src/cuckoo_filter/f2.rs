//! Figure 4.2: the load at the first failed insert, against the bits of a fingerprint.
//!
//! The second bucket is the first one, changed by the fingerprint's hash, so a fingerprint of few bits has few buckets
//! to choose from. Buckets are those of the thesis (a power of two, exclusive or). The product's rule, for any even
//! number of buckets, is shown next to it. The product searches breadth first instead of displacing at random, which
//! moves the knees little; its fingerprints have at least four bits.

use super::items::Items;
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, most, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_filter::{Filter, Keyed, Lanes, Orbit, Pair, Xor};

/// Figure 4.2.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-f4.2",
    paper: Paper::CuckooFilter,
    title: "load factor against fingerprint bits",
    claim: "fingerprints of six bits and more fill buckets of four to 95 % and buckets of eight to 98 %, as if the \
            second bucket were chosen freely, and how many bits that takes grows with the table",
    shape: "from six bits on at least 0.95 with b = 4 and 0.98 with b = 8 in every table, within 0.015 of 20 bits; with \
            four bits the largest tables fail earlier",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Loads by bits, with a line for each shape of table. The largest table of a bucket size is its last line.
fn measure(run: &Run<'_>) -> Result<Data> {
    let sizes = run.scale.pick(vec![10, 13, 16], vec![15, 20, 25]);
    let largest = sizes[sizes.len() - 1];
    let mut data = Data::default();
    for (at, slots) in [4, 8].into_iter().enumerate() {
        for (place, &size) in sizes.iter().enumerate() {
            let done = (at * sizes.len() + place) as f64 / (2 * sizes.len()) as f64;
            let name = format!("b = {slots}, 2^{size} buckets");
            (run.progress)(done, &name);
            let rule = Xor::at_least(1 << size, 0);
            let line = curve(&name, slots, rule, run.seed);
            // The knee shows only in large tables: in a small one four bits choose among enough buckets.
            data.push(if size == largest { line } else { line.flat() });
        }
    }
    let pair = Pair::at_least(1 << largest);
    data.push(curve(&format!("b = 4, 2^{largest} buckets, r − i"), 4, pair, run.seed).flat());
    Ok(data)
}

fn curve(name: &str, slots: u32, rule: impl Orbit + Copy, seed: u64) -> Line {
    let loads = BITS.map(|bits| (f64::from(bits), load(Lanes::new(bits, slots), rule, seed)));
    Line::of_figures(name, loads)
}

/// Returns the load at the first failure: the least of several tables, of which there are more if they are small.
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

fn judge(data: &Data) -> Findings {
    Findings {
        plots: vec![Plot {
            title: "Load at the first failed insert".into(),
            x: axis("bits of a fingerprint"),
            y: axis("load factor"),
            series: data.lines.iter().map(drawn).collect(),
        }],
        tables: vec![shown(data)],
        checks: checks(data),
        reading: reading(data),
    }
}

fn shown(data: &Data) -> Table {
    let bits = BITS.map(|bits| format!("f = {bits}"));
    let header: Vec<&str> = ["table"].into_iter().chain(bits.iter().map(String::as_str)).collect();
    let row = |line: &Line| {
        let loads = line.figures().into_iter().map(|load| format!("{load:.3}"));
        [line.name.clone()].into_iter().chain(loads).collect()
    };
    table("Load factor, the least of several tables", &header, data.lines.iter().map(row).collect())
}

/// The lines of tables with `slots` slots per bucket: those with the thesis' rule, by size.
fn of_slots(data: &Data, slots: u32) -> impl Iterator<Item = &Line> {
    let begin = format!("b = {slots},");
    data.lines.iter().filter(move |line| line.name.starts_with(&begin))
}

/// Returns the least load of any table with `slots` slots per bucket and fingerprints of at least `bits` bits.
fn least_load(data: &Data, slots: u32, bits: f64) -> f64 {
    let of = |line: &Line| least(line.medians().filter(|&(f, _)| f >= bits).map(|(_, load)| load));
    least(of_slots(data, slots).map(of))
}

/// Returns the load that so many bits lose, compared with twenty.
fn lost(line: &Line, bits: f64) -> f64 {
    line.median(20.0) - line.median(bits)
}

fn largest(data: &Data, slots: u32) -> &Line {
    let by_thesis = of_slots(data, slots).filter(|line| line.name.ends_with("buckets"));
    by_thesis.last().expect("there are tables of each bucket size")
}

fn checks(data: &Data) -> Vec<Check> {
    let knee = "the bits needed grow with the logarithm of the buckets, divided by 2b";
    vec![
        check(
            "b = 4, six bits and more: the least load",
            least_load(data, 4, 6.0),
            Bound::AtLeast(0.95),
            "the thesis' figure, by random kicks; a search for paths fills to 0.97",
        )
        .paper_or("0.95", Bound::AtLeast(0.95), 0.5),
        check(
            "b = 8, six bits and more: the least load",
            least_load(data, 8, 6.0),
            Bound::AtLeast(0.98),
            "the thesis' figure, by random kicks; a search for paths fills to 0.99",
        )
        .paper_or("0.98", Bound::AtLeast(0.98), 0.5),
        check(
            "the most that six bits lose against twenty",
            most(data.lines.iter().map(|line| lost(line, 6.0))),
            Bound::AtMost(0.015),
            "beyond the knee the second bucket is as good as one chosen freely; small tables vary by a hundredth",
        )
        .paper_exactly("nothing", Bound::AtMost(0.015)),
        check(
            "b = 4, the largest table: what four bits lose against twenty",
            lost(largest(data, 4), 4.0),
            Bound::AtLeast(0.004),
            knee,
        )
        .paper_or("more in large tables", Bound::AtLeast(0.004), 0.0),
        check(
            "b = 8, the largest table: what four bits lose against twenty",
            lost(largest(data, 8), 4.0),
            Bound::AtLeast(0.003),
            knee,
        )
        .paper_or("more in large tables", Bound::AtLeast(0.003), 0.0),
    ]
}

fn reading(data: &Data) -> String {
    let four = |bits| least_load(data, 4, bits);
    let eight = |bits| least_load(data, 8, bits);
    format!(
        "With buckets of four the least load is {:.3} with four bits or more and {:.3} with six or more (thesis: 0.95). \
         With buckets of eight it is {:.3} and {:.3} (thesis: 0.98). In the largest tables four bits lose {:.3} and {:.3} \
         against twenty.",
        four(4.0),
        four(6.0),
        eight(4.0),
        eight(6.0),
        lost(largest(data, 4), 4.0),
        lost(largest(data, 8), 4.0),
    )
}

const BITS: [u32; 10] = [4, 5, 6, 7, 8, 9, 10, 12, 16, 20];
/// The number of items that a shape's tables get together, unless one table takes more.
const ENTERED: u64 = 1 << 18;
