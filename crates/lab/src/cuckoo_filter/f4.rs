//! Figure 4.4: bits per item against the rate, by formula: the theoretical minimum, Bloom filters, and cuckoo filters
//! with and without semi-sorting. Measured filters are shown next to the formulas.

use super::items::Items;
use crate::baseline::filter::{Bloom, Set};
use crate::data::{Data, Line};
use crate::figures::{axis, check, least, most, papers, series, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_filter::{Filter, Keyed, Lanes, Layout, Pair, Sorted};
use std::f64::consts::LN_2;

/// Figure 4.4.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-f4.4",
    paper: Paper::CuckooFilter,
    title: "bits an item against the rate, in theory and measured",
    claim: "a semi-sorted cuckoo filter takes fewer bits than a space-optimized Bloom filter at rates below 3 %",
    shape: "at the same measured rate the semi-sorted filter takes fewer bits than the Bloom filter at 2 % and below, \
            more at 5 %; the plain one fewer at 0.3 %; what is measured is at most what the formulas say",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// A kind of filter, with its formula.
struct Kind {
    name: &'static str,
    /// Bits per item for a value of log2(1/ε).
    formula: fn(f64) -> f64,
}

impl Kind {
    fn rates(&self) -> String {
        format!("{}, log2 of 1/rate", self.name)
    }

    fn bits(&self) -> String {
        format!("{}, bits an item", self.name)
    }

    /// Measured filters: log2(1/ε) and bits per item, by falling rate.
    fn measured(&self, data: &Data) -> Vec<(f64, f64)> {
        let [rates, bits] = [self.rates(), self.bits()].map(|name| data.line(&name).figures());
        rates.into_iter().zip(bits).collect()
    }

    /// Returns the bits per item at a rate, interpolated between the two nearest measured filters.
    fn bits_at(&self, data: &Data, rate: f64) -> f64 {
        let wanted = -rate.log2();
        let measured = self.measured(data);
        let pair = measured.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&wanted));
        pair.map_or(f64::NAN, |pair| {
            let share = (wanted - pair[0].0) / (pair[1].0 - pair[0].0);
            pair[0].1 + share * (pair[1].1 - pair[0].1)
        })
    }
}

const BLOOM: Kind = Kind { name: "Bloom", formula: |log2| log2 / LN_2 };
const PLAIN: Kind = Kind { name: "cuckoo", formula: |log2| (log2 + 3.0) / LOAD };
const SORTED: Kind = Kind { name: "semi-sorted", formula: |log2| (log2 + 2.0) / LOAD };
const KINDS: [Kind; 3] = [BLOOM, PLAIN, SORTED];

/// Measures the rates and the bits per item for each kind, by the bits of a fingerprint or the number of hash functions.
fn measure(run: &Run<'_>) -> Result<Data> {
    let size = Size {
        slots: run.scale.pick(1 << 18, 1 << 25),
        asked: run.scale.pick(1 << 22, 1 << 26),
        items: Items::new(run.seed),
    };
    let hasher = Keyed::from_seed(run.seed);
    let mut data = Data::default();
    let mut push = |kind: &Kind, found: Vec<(u32, (f64, f64))>| {
        let places = found.into_iter().map(|(n, point)| (f64::from(n), point));
        let (rates, bits): (Vec<_>, Vec<_>) =
            places.map(|(n, (log2, bits))| ((n, log2), (n, bits))).unzip();
        data.push(Line::of_figures(&kind.rates(), rates));
        data.push(Line::of_figures(&kind.bits(), bits));
    };
    (run.progress)(0.0, BLOOM.name);
    push(&BLOOM, [4, 5, 6, 8, 9, 12].map(|hashes| (hashes, size.bloom(hashes))).into());
    (run.progress)(0.4, PLAIN.name);
    let plain = |bits| (bits, size.cuckoo(Lanes::new(bits, 4), bits, hasher));
    push(&PLAIN, [7, 8, 10, 12, 16].map(plain).into());
    (run.progress)(0.7, SORTED.name);
    let sorted = |bits| (bits, size.cuckoo(Sorted::new(bits), bits - 1, hasher));
    push(&SORTED, [7, 8, 9, 11, 13, 17].map(sorted).into());
    Ok(data)
}

/// The size of the filters, and the number of lookups that their rates are measured with.
struct Size {
    slots: u64,
    asked: u64,
    items: Items,
}

impl Size {
    /// Returns log2(1/ε) and bits per item of a filter that was filled until an insert failed.
    fn cuckoo(&self, layout: impl Layout, slot_bits: u32, hasher: Keyed) -> (f64, f64) {
        let mut filter = Filter::new(layout, Pair::at_least(self.slots / 4), hasher);
        let entered = self.items.fill(&mut filter, 0);
        let bits = filter.slots() as f64 * f64::from(slot_bits);
        (-self.items.rate(&filter, self.asked).log2(), bits / entered as f64)
    }

    /// Like `cuckoo`, for a Bloom filter with the number of items for which k hash functions are best: half of its bits
    /// are set.
    fn bloom(&self, hashes: u32) -> (f64, f64) {
        let bytes = usize::try_from(self.slots).expect("an address") * 8;
        let mut bloom = Bloom::new(bytes, hashes);
        let mut entered = 0;
        while f64::from(hashes) * (entered as f64) < bytes as f64 * 8.0 * LN_2 {
            entered += self.items.enter(&mut bloom, entered..entered + STEP).count;
        }
        let rate = self.items.rate(&bloom, self.asked);
        (-rate.log2(), bloom.bytes() as f64 * 8.0 / entered as f64)
    }
}

fn judge(data: &Data) -> Findings {
    Findings {
        plots: vec![plot(data)],
        tables: vec![shown(data)],
        checks: checks(data),
        reading: reading(data),
    }
}

fn plot(data: &Data) -> Plot {
    let percent = |log2: f64| (-log2).exp2() * 100.0;
    let line = |bits: fn(f64) -> f64| {
        (8..=34).map(f64::from).map(move |half| (percent(half / 2.0), bits(half / 2.0)))
    };
    let least = papers("least possible", line(|log2| log2));
    let formulas =
        KINDS.iter().map(|it| papers(&format!("{}, formula", it.name), line(it.formula)));
    let measured = KINDS.iter().map(|it| {
        let points = it.measured(data).into_iter();
        series(it.name, points.map(|(log2, bits)| (percent(log2), bits)))
    });
    Plot {
        title: "Bits an item".into(),
        x: Axis { is_log: true, ..axis("rate of false positives, %") },
        y: axis("bits an item"),
        series: [least].into_iter().chain(formulas).chain(measured).collect(),
    }
}

fn shown(data: &Data) -> Table {
    let row = |rate: f64| {
        let bits = KINDS.iter().flat_map(|it| [(it.formula)(-rate.log2()), it.bits_at(data, rate)]);
        let bits = bits.map(|bits| format!("{bits:.2}"));
        let least = format!("{:.2}", -rate.log2());
        [format!("{} %", rate * 100.0), least].into_iter().chain(bits).collect()
    };
    table(
        "Bits an item by formula (α = 0.95), and between measured filters",
        &[
            "rate",
            "least possible",
            "Bloom",
            "measured",
            "cuckoo",
            "measured",
            "semi-sorted",
            "measured",
        ],
        [0.05, 0.03, 0.02, 0.01, 0.003, 0.001].map(row).into(),
    )
}

/// Returns the rate below which the semi-sorted filter takes fewer bits, by bisection to a hundredth.
fn crossing(data: &Data) -> f64 {
    let (mut low, mut high) = (0.01_f64.log2(), 0.05_f64.log2());
    while high - low > 0.01 {
        let middle = f64::midpoint(low, high);
        if SORTED.bits_at(data, middle.exp2()) < BLOOM.bits_at(data, middle.exp2()) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp2()
}

fn checks(data: &Data) -> Vec<Check> {
    let to_bloom = |kind: &Kind, rate| kind.bits_at(data, rate) / BLOOM.bits_at(data, rate);
    let to_formula = || {
        let of = |it: Kind| {
            [0.03, 0.01, 0.001].map(|rate| it.bits_at(data, rate) / (it.formula)(-f64::log2(rate)))
        };
        [PLAIN, SORTED].into_iter().flat_map(of)
    };
    let why = "(log2(1/ε) + 2) / α against 1.44 log2(1/ε): they cross at 2.4 % with α = 0.95, at 3.1 % with 0.97";
    let fewer = Bound::AtMost(1.0);
    vec![
        check(
            "at 2 %: bits, semi-sorted to Bloom",
            to_bloom(&SORTED, 0.02),
            Bound::AtMost(0.99),
            why,
        )
        .paper_exactly("less than 1", fewer),
        check("at 0.1 %: semi-sorted to Bloom", to_bloom(&SORTED, 0.001), Bound::AtMost(0.9), why)
            .paper_exactly("less than 1", fewer),
        check(
            "the rate, in %, below which semi-sorted takes fewer bits than Bloom",
            crossing(data) * 100.0,
            Bound::Between(2.4, 4.5),
            why,
        )
        .paper_or("3", Bound::AtLeast(2.9), 0.0),
        check("at 5 %: semi-sorted to Bloom", to_bloom(&SORTED, 0.05), Bound::AtLeast(1.01), why),
        check(
            "at 0.3 %: plain cuckoo to Bloom",
            to_bloom(&PLAIN, 0.003),
            Bound::AtMost(0.99),
            "(log2(1/ε) + 3) / α: they cross at 0.36 % with α = 0.95, at 0.55 % with 0.97",
        ),
        check(
            "cuckoo filters measured, to their formulas, at most",
            most(to_formula()),
            Bound::AtMost(1.0),
            "the formulas plan with α = 0.95 and full buckets; the load reached is 0.97",
        ),
        check(
            "cuckoo filters measured, to their formulas, at least",
            least(to_formula()),
            Bound::AtLeast(0.95),
            "no load is above 1",
        ),
    ]
}

fn reading(data: &Data) -> String {
    let bits = |rate| KINDS.map(|kind| kind.bits_at(data, rate));
    let ([bloom, plain, sorted], [low_bloom, low_plain, low_sorted]) = (bits(0.01), bits(0.001));
    let [high_bloom, high_plain, high_sorted] = bits(0.05);
    format!(
        "At 1 % a Bloom filter takes {bloom:.2} bits an item, a cuckoo filter {plain:.2}, a semi-sorted one {sorted:.2}; at \
         0.1 % {low_bloom:.2}, {low_plain:.2} and {low_sorted:.2}; at 5 % {high_bloom:.2}, {high_plain:.2} and \
         {high_sorted:.2}. Semi-sorted filters take the fewest below {:.1} % (thesis: 3 %).",
        crossing(data) * 100.0
    )
}

/// The load that the thesis plans with.
const LOAD: f64 = 0.95;
/// Items that are inserted in a Bloom filter at a time.
const STEP: u64 = 256;
