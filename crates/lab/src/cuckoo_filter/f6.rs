//! Figure 4.6: the distribution of lookup times.
//!
//! A lookup is shorter than reading the clock, so eight are timed together, and a sample is their mean. Each begins
//! when the previous one has its result. The wall clock is read, because the processor's takes a system call. Other
//! load on the machine shows in the last hundredths, on which few checks rest.

use super::contest::{BLOOM, CUCKOO, KINDS, QUOTIENT, SORTED};
use super::items::Items;
use crate::data::{Data, Line, ratio};
use crate::figures::{axis, check, most, series, table};
use crate::measure::now;
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use std::hint::black_box;

/// Figure 4.6.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-f4.6",
    paper: Paper::CuckooFilter,
    title: "distribution of the time of a lookup, half of the items present",
    claim: "a cuckoo filter reads two buckets whatever is asked, so that its times lie close together, a quotient filter a \
            cluster of any length; and cuckoo filters answer faster than Bloom filters, also when they are full",
    shape: "the 90th of a hundred cuckoo lookups takes at most 1.6 times what the 50th takes, a quotient filter's at least \
            1.5 times, and is at least 3 times as far from it; the quotient filter's 50th takes at least 1.2 times the cuckoo filter's",
    why: "most lookups in a Bloom filter end at its first or second bit, and a processor of today reads several at once",
    is_quick: false,
    measure,
    judge,
};

/// By kind of filter, one point each.
const PERCENTS: [(usize, &str); 4] =
    [(10, "10th of 100"), (50, "50th of 100"), (90, "90th of 100"), (99, "99th of 100")];

fn measure(run: &Run<'_>) -> Result<Data> {
    let slots_log2 = run.scale.pick(25, 27);
    let samples = run.scale.pick(1 << 15, 1 << 19);
    let items = Items::new(run.seed);
    let mut all = Vec::new();
    for (at, kind) in KINDS.iter().enumerate() {
        (run.progress)(at as f64 / KINDS.len() as f64, kind.name);
        let mut set = kind.make(slots_log2);
        let entered = items.enter(set.as_mut(), 0..kind.items(slots_log2, 1.0)).count;
        let hashes: Vec<u64> = (0..samples * TOGETHER).map(items.mixture(entered, 0.5)).collect();
        let sample = |hashes: &[u64]| {
            let begun = now();
            black_box(set.count_in_turn(hashes));
            begun.elapsed().as_nanos() as f64 / TOGETHER as f64
        };
        let pass = |_| {
            let chunks = hashes.chunks(usize::try_from(TOGETHER).expect("few"));
            let mut ns: Vec<f64> = chunks.map(sample).collect();
            ns.sort_by(f64::total_cmp);
            ns
        };
        let middle = |ns: &Vec<f64>| ns[ns.len() / 2];
        let passes = (0..PASSES).map(pass);
        all.extend(passes.min_by(|one, other| middle(one).total_cmp(&middle(other))));
    }
    let at = |ns: &[f64], percent: usize| ns[(ns.len() * percent / 100).min(ns.len() - 1)];
    let mut data = Data::default();
    data.aside(SLOTS, f64::from(slots_log2));
    for (percent, name) in PERCENTS {
        let points = all.iter().enumerate().map(|(kind, ns)| (kind as f64, at(ns, percent)));
        data.push(Line::of_figures(name, points));
    }
    // The plot's curves. The claims about them are checked by the lines above.
    for (kind, ns) in KINDS.iter().zip(&all) {
        let points = (1..=49).map(|half| (f64::from(2 * half), at(ns, 2 * half as usize)));
        data.push(Line::of_figures(kind.name, points).aside());
    }
    Ok(data)
}

fn at(data: &Data, percent: usize, kind: usize) -> f64 {
    data.line(PERCENTS[percent].1).median(kind as f64)
}

/// Returns how many times as long the slower of two percentiles takes, for a kind.
fn spread(data: &Data, from: usize, to: usize, kind: usize) -> f64 {
    let [from, to] = [from, to].map(|percent| data.line(PERCENTS[percent].1).at(kind as f64));
    ratio(to, from)
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
    let curve = |kind: &super::contest::Kind| {
        series(kind.name, data.line(kind.name).medians().map(|(percent, ns)| (ns, percent)))
    };
    Plot {
        title: "Lookups that take at most so long".into(),
        x: Axis { is_log: true, ..axis("nanoseconds") },
        y: axis("share of lookups, %"),
        series: KINDS.iter().map(curve).collect(),
    }
}

fn shown(data: &Data) -> Table {
    let row = |kind: usize| {
        let ns = (0..PERCENTS.len()).map(|percent| format!("{:.0}", at(data, percent, kind)));
        [KINDS[kind].name.to_owned()].into_iter().chain(ns).collect()
    };
    table(
        "Nanoseconds of a lookup that begins when the one before it has its answer, means of eight",
        &["filter", "10th of 100", "50th", "90th", "99th"],
        (0..KINDS.len()).map(row).collect(),
    )
}

fn checks(data: &Data) -> Vec<Check> {
    let narrow = Bound::Between(1.0, 1.6);
    let why = "two buckets each time; what differs is how far away memory is";
    // If they spread as widely as a quotient filter's, they would not be close together at all.
    let quotients = spread(data, 1, 2, QUOTIENT);
    let slots = data.find(SLOTS).map_or(22.0, |_| data.figure(SLOTS));
    let close = |name: &str, kind: usize| {
        check(format!("{name}: the 90th of 100 to the 50th"), spread(data, 1, 2, kind), narrow, why)
            .paper_or("close to 1", narrow, quotients)
            .judged_if(slots >= SLOTS_MIN, || {
                format!("filters of 2^{slots} slots lie in the processor's caches, some nearer than others: it takes 2^{SLOTS_MIN}")
            })
    };
    let apart = |kind: usize| at(data, 2, kind) - at(data, 1, kind);
    vec![
        close("cuckoo", CUCKOO),
        close("semi-sorted", SORTED),
        check(
            "how far the 90th of 100 is from the 50th: quotient, to the farther of cuckoo and semi-sorted",
            apart(QUOTIENT) / most([apart(CUCKOO), apart(SORTED)]),
            Bound::AtLeast(3.0),
            "a cluster may have any length, and two buckets have theirs",
        )
        .paper("far more than 1", Bound::AtLeast(3.0)),
        check(
            "quotient: the 90th of 100 to the 50th",
            spread(data, 1, 2, QUOTIENT),
            Bound::AtLeast(1.5),
            "clusters differ in length",
        )
        .paper("far more than 1", Bound::AtLeast(1.5)),
        check(
            "the 50th of 100: quotient to cuckoo",
            at(data, 1, QUOTIENT) / at(data, 1, CUCKOO),
            Bound::AtLeast(1.2),
            "at 90 % a cluster has dozens of slots, all read one after the other",
        )
        .paper("more than 1", Bound::AtLeast(1.2)),
        check(
            "the 10th of 100: quotient to cuckoo",
            at(data, 0, QUOTIENT) / at(data, 0, CUCKOO),
            Bound::AtLeast(1.2),
            "eight short clusters in a row are seldom",
        ),
        check(
            "the 50th of 100: Bloom to cuckoo",
            at(data, 1, BLOOM) / at(data, 1, CUCKOO),
            Bound::AtLeast(0.4),
            "loosened from 1.05: half of the lookups end at a bit that is 0, most after two, and caches hold the filter",
        )
        .paper("more than 1", Bound::AtLeast(1.05)),
        check(
            "the 99th of 100: quotient to cuckoo",
            at(data, 3, QUOTIENT) / at(data, 3, CUCKOO),
            Bound::AtLeast(1.2),
            "the longest clusters, to what others do with the machine, which both feel",
        ),
    ]
}

fn reading(data: &Data) -> String {
    let of = |kind: usize| format!("{:.0} and {:.0}", at(data, 1, kind), at(data, 2, kind));
    format!(
        "Half of the lookups and nine tenths of them take at most so many nanoseconds: cuckoo {}, semi-sorted {}, Bloom \
         {}, quotient {}.",
        of(CUCKOO),
        of(SORTED),
        of(BLOOM),
        of(QUOTIENT),
    )
}

/// A circumstance: slots of twelve bits, log2.
const SLOTS: &str = "slots, log2";
/// From this size on, 48 MiB, filters don't fit in caches.
const SLOTS_MIN: f64 = 25.0;
/// Passes, of which the one with the least median counts: what neighbours do to the caches can only add time.
const PASSES: usize = 5;
/// Lookups per sample.
const TOGETHER: u64 = 8;
