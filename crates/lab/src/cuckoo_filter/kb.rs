//! Thesis §4.5: more than two buckets an item, and buckets of one slot.
//!
//! `Xor` with random bits has 4 or 16 buckets, found by exclusive ors with two or four hashes; `Digits` has any number,
//! found by addition without carries in base k. Filters are filled until an insert fails.

use super::items::Items;
use crate::figures::{check, table};
use crate::{Bound, Check, Experiment, Outcome, Paper, Run, Table, Verdict};
use anyhow::Result;
use guira_filter::{Digits, Filter, Keyed, Lanes, Orbit, Pair, Xor};

/// §4.5.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-kb",
    paper: Paper::CuckooFilter,
    title: "more than two buckets an item: load, rate and bits",
    claim: "with k = 3 or 4 buckets of one slot a table fills to 91 or 97 %",
    shape: "buckets of one slot: at most 0.6 with k = 2, at least 0.9 with k = 3, 0.96 with k = 4, 0.97 with k = 16; \
            k = 4 takes at least 0.5 bits an item less than two buckets of four, for the same rate",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

/// A filter that was filled.
struct Row {
    name: &'static str,
    thesis: &'static str,
    ways: u32,
    slots: u32,
    load: f64,
    rate: f64,
    bits: f64,
}

impl Row {
    /// Bits an item beyond log2(1/ε), the least possible.
    fn overhead(&self) -> f64 {
        self.bits + self.rate.log2()
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let size: u64 = run.scale.pick(1 << 18, 1 << 24);
    let power_of_three = run.scale.pick(177_147, 14_348_907);
    (run.progress)(0.0, "k = 2");
    let mut rows = vec![
        fill("k = 2", "–", 1, Pair::at_least(size), run),
        fill("k = 2", "0.84", 2, Pair::at_least(size / 2), run),
        fill("k = 2", "0.95", 4, Pair::at_least(size / 4), run),
    ];
    (run.progress)(0.3, "k = 3 and 4");
    rows.push(fill("k = 3, digits", "0.91", 1, Digits::<3>::at_least(power_of_three), run));
    rows.push(fill("k = 4, a random bit", "0.97", 1, Xor::at_least(size, 1), run));
    rows.push(fill("k = 4, digits", "0.97", 1, Digits::<4>::at_least(size), run));
    rows.push(fill("k = 4, a random bit", "–", 2, Xor::at_least(size / 2, 1), run));
    (run.progress)(0.7, "k = 16");
    rows.push(fill("k = 16, two random bits", "–", 1, Xor::at_least(size, 2), run));
    Ok(Outcome {
        plots: Vec::new(),
        tables: vec![shown(&rows)],
        checks: checks(&rows),
        reading: reading(&rows),
    })
}

fn fill(
    name: &'static str,
    thesis: &'static str,
    slots: u32,
    orbit: impl Orbit,
    run: &Run<'_>,
) -> Row {
    let layout = Lanes::new(BITS, slots);
    let mut filter = Filter::new(layout, orbit, Keyed::from_seed(run.seed));
    let items = Items::new(run.seed);
    let entered = items.fill(&mut filter, 0);
    Row {
        name,
        thesis,
        ways: filter.ways(),
        slots,
        load: filter.load(),
        rate: items.rate(&filter, run.scale.pick(1 << 22, 1 << 24)),
        bits: filter.slots() as f64 * f64::from(BITS) / entered as f64,
    }
}

fn shown(rows: &[Row]) -> Table {
    let row = |row: &Row| {
        vec![
            row.name.to_owned(),
            row.slots.to_string(),
            format!("{:.3}", row.load),
            row.thesis.to_owned(),
            (row.ways * row.slots).to_string(),
            row.ways.to_string(),
            format!("{:.3}", row.rate * 100.0),
            format!("{:.2}", row.bits),
            format!("{:.2}", row.overhead()),
        ]
    };
    table(
        "Fingerprints of twelve bits, filled until an insert fails",
        &[
            "buckets an item",
            "b",
            "load factor",
            "thesis",
            "compared a look-up",
            "lines",
            "found wrongly, %",
            "bits an item",
            "beyond log2(1/ε)",
        ],
        rows.iter().map(row).collect(),
    )
}

fn checks(rows: &[Row]) -> Vec<Check> {
    let [pair, _, fours, three, bit, digits, _, sixteen] = rows else { unreachable!("eight") };
    let simulated = "simulations with 500 random kicks have 0.90 for k = 3, 0.94 to 0.957 for k = 4; a search fills higher";
    vec![
        check("k = 2, b = 1: load", pair.load, Bound::AtMost(0.6), "one half for large tables"),
        check("k = 3, b = 1: load", three.load, Bound::AtLeast(0.9), simulated),
        check("k = 4 by a random bit, b = 1: load", bit.load, Bound::AtLeast(0.96), simulated),
        check("k = 4 by digits, b = 1: load", digits.load, Bound::AtLeast(0.96), simulated),
        check(
            "k = 16, b = 1: load",
            sixteen.load,
            Bound::AtLeast(0.97),
            "sixteen slots to choose from, as many as two buckets of eight",
        ),
        check(
            "bits beyond log2(1/ε): two buckets of four, less k = 4 by digits",
            fours.overhead() - digits.overhead(),
            Bound::AtLeast(0.5),
            "half as many fingerprints are compared: one bit less, at nearly the same load",
        ),
    ]
}

fn reading(rows: &[Row]) -> String {
    let [_, _, fours, three, bit, digits, _, sixteen] = rows else { unreachable!("eight") };
    format!(
        "With buckets of one slot k = 3 fills to {:.3} (thesis: 0.91), k = 4 to {:.3} by a random bit and {:.3} by digits \
         (thesis: 0.97), k = 16 to {:.3}. For its rate k = 4 takes {:.2} bits an item less than two buckets of four, at \
         twice the lines a look-up.",
        three.load,
        bit.load,
        digits.load,
        sixteen.load,
        fours.overhead() - digits.overhead(),
    )
}

const BITS: u32 = 12;
