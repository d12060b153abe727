//! Figure 4.3: bits per item against the false-positive rate, for buckets of two, four and eight slots.
//!
//! Each filter is filled until an insert fails. The rate is counted with items that were never inserted.

use super::items::Items;
use crate::data::{Data, Line};
use crate::figures::{axis, check, series, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run};
use anyhow::Result;
use guira_filter::{Filter, Keyed, Lanes, Pair};

/// Figure 4.3.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-f4.3",
    paper: Paper::CuckooFilter,
    title: "bits an item against the rate of false positives, by bucket size",
    claim: "buckets of two take the fewest bits above a rate of 0.2 %, buckets of four below it",
    shape: "at 1 % b = 2 takes fewer bits than b = 4, at 0.01 % more, and b = 8 the most; they cross between 0.04 and \
            0.3 %",
    why: "they cross nearer to 0.1 % than to 0.2: a search for paths fills buckets of two to 0.89, which random kicks fill \
          to 0.87; from 0.2 to 0.1 % the two take the same within one in a hundred",
    is_quick: true,
    measure,
    judge,
};

/// Measures, for each bucket size and by the bits of a fingerprint, the logarithm of the rate and the bits per item.
fn measure(run: &Run<'_>) -> Result<Data> {
    let slots_log2 = run.scale.pick(18, 25);
    let asked = run.scale.pick(1 << 22, 1 << 27);
    let mut data = Data::default();
    for (at, slots) in SLOTS.into_iter().enumerate() {
        (run.progress)(at as f64 / SLOTS.len() as f64, &format!("b = {slots}"));
        let (mut rates, mut sizes) = (Vec::new(), Vec::new());
        // Fewer bits give too few second buckets: see figure 4.2.
        for bits in BITS.into_iter().filter(|&bits| bits > 6 || slots > 2) {
            let buckets = Pair::at_least((1 << slots_log2) / u64::from(slots));
            let filter = Filter::new(Lanes::new(bits, slots), buckets, Keyed::from_seed(run.seed));
            let (rate_log2, size) = filled(filter, asked, run.seed);
            rates.push((f64::from(bits), rate_log2));
            sizes.push((f64::from(bits), size));
        }
        data.push(Line::of_figures(&rates_of(slots), rates));
        data.push(Line::of_figures(&bits_of(slots), sizes));
    }
    Ok(data)
}

fn rates_of(slots: u32) -> String {
    format!("b = {slots}, log2 of the rate")
}

fn bits_of(slots: u32) -> String {
    format!("b = {slots}, bits an item")
}

/// Returns log2 of the rate, and bits per item.
fn filled(mut filter: Filter<Lanes, Pair>, asked: u64, seed: u64) -> (f64, f64) {
    let items = Items::new(seed);
    let entered = items.fill(&mut filter, 0);
    let bits = filter.slots() as f64 * f64::from(filter.fingerprint_bits());
    (items.rate(&filter, asked).log2(), bits / entered as f64)
}

/// Returns log2 of the rate and bits per item, by falling rate.
fn points(data: &Data, slots: u32) -> Vec<(f64, f64)> {
    let [rates, bits] = [rates_of(slots), bits_of(slots)].map(|name| data.line(&name).figures());
    rates.into_iter().zip(bits).collect()
}

/// Returns the bits per item at a rate, interpolated between the two nearest filters.
fn bits_at(data: &Data, slots: u32, rate: f64) -> f64 {
    let wanted = rate.log2();
    let points = points(data, slots);
    let pair = points.windows(2).find(|pair| (pair[1].0..=pair[0].0).contains(&wanted));
    pair.map_or(f64::NAN, |pair| {
        let share = (wanted - pair[0].0) / (pair[1].0 - pair[0].0);
        pair[0].1 + share * (pair[1].1 - pair[0].1)
    })
}

fn judge(data: &Data) -> Findings {
    let row = |rate: f64| {
        let bits = SLOTS.map(|slots| format!("{:.2}", bits_at(data, slots, rate)));
        [format!("{} %", rate * 100.0)].into_iter().chain(bits).collect()
    };
    let header = ["rate", "b = 2", "b = 4", "b = 8"];
    Findings {
        plots: vec![plot(data)],
        tables: vec![table(
            "Bits an item, between measured filters",
            &header,
            RATES.map(row).into(),
        )],
        checks: checks(data),
        reading: reading(data),
    }
}

fn plot(data: &Data) -> Plot {
    let line = |slots: u32| {
        let points = points(data, slots).into_iter();
        series(
            &format!("b = {slots}"),
            points.map(|(log2, bits)| (log2.exp2() * 100.0, bits)).collect::<Vec<_>>(),
        )
    };
    Plot {
        title: "Bits an item at the first failed insert".into(),
        x: Axis { is_log: true, ..axis("rate of false positives, %") },
        y: axis("bits an item"),
        series: SLOTS.map(line).into(),
    }
}

/// Returns the rate at which b = 2 and b = 4 take the same bits, by bisection to a hundredth.
fn crossing(data: &Data) -> f64 {
    let (mut low, mut high) = (RATES[RATES.len() - 1].log2(), RATES[0].log2());
    while high - low > 0.01 {
        let middle = f64::midpoint(low, high);
        if bits_at(data, 2, middle.exp2()) < bits_at(data, 4, middle.exp2()) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low.exp2()
}

fn checks(data: &Data) -> Vec<Check> {
    let ratio = |over, under, rate| bits_at(data, over, rate) / bits_at(data, under, rate);
    let why = "(log2(1/ε) + log2(2bα)) / α with the loads reached: 0.89, 0.97, 0.99";
    vec![
        check("at 1 %: bits with b = 2, to b = 4", ratio(2, 4, 0.01), Bound::AtMost(0.995), why)
            .paper_exactly("less than 1", Bound::AtMost(1.0)),
        check("at 0.2 %: b = 2, to b = 4", ratio(2, 4, 0.002), Bound::Between(0.97, 1.03), why)
            .paper_exactly("1", Bound::Between(0.97, 1.03)),
        check("at 0.01 %: b = 4, to b = 2", ratio(4, 2, 0.0001), Bound::AtMost(0.99), why)
            .paper_exactly("less than 1", Bound::AtMost(1.0)),
        check("at 0.1 %: b = 4, to b = 8", ratio(4, 8, 0.001), Bound::AtMost(0.99), why)
            .paper_exactly("less than 1", Bound::AtMost(1.0)),
        check(
            "the rate, in %, at which b = 2 and b = 4 take the same",
            crossing(data) * 100.0,
            Bound::Between(0.04, 0.3),
            "loosened below the thesis' 0.2: the formula has 0.1 with loads of 0.89 and 0.97, as reached here, and 0.27 \
             with 0.87 and 0.965",
        )
        .paper_or("0.2", Bound::Between(0.15, 0.4), 0.0),
    ]
}

fn reading(data: &Data) -> String {
    let bits = |slots, rate| bits_at(data, slots, rate);
    format!(
        "Buckets of two and of four take the same bits at a rate of {:.2} % (thesis: 0.2 %). At 1 % they take {:.2} and \
         {:.2} bits an item, at 0.2 % {:.2} and {:.2}, at 0.1 % {:.2} and {:.2}.",
        crossing(data) * 100.0,
        bits(2, 0.01),
        bits(4, 0.01),
        bits(2, 0.002),
        bits(4, 0.002),
        bits(2, 0.001),
        bits(4, 0.001),
    )
}

const SLOTS: [u32; 3] = [2, 4, 8];
const BITS: [u32; 9] = [6, 7, 8, 9, 10, 12, 14, 16, 18];
const RATES: [f64; 6] = [0.02, 0.01, 0.003, 0.002, 0.001, 0.0001];
