//! Figure 4.6: how the times of look-ups are distributed.
//!
//! A look-up is shorter than a look at the clock, so that eight are timed together: a sample is their mean. Each needs
//! the answer of the one before it, and waits for it if that is computed; where it comes from a branch, as in Bloom
//! filters, the processor guesses it and goes on. The wall clock is read, since the processor's takes a system call;
//! what others do with the machine shows in the last hundredths, which no check uses.

use super::contest::{BLOOM, CUCKOO, KINDS, QUOTIENT, SORTED};
use super::items::Items;
use crate::figures::{axis, check, series, table};
use crate::measure::now;
use crate::{Axis, Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;
use std::hint::black_box;

/// Figure 4.6.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "cf-f4.6",
    paper: Paper::CuckooFilter,
    title: "distribution of the time of a look-up, half of the items present",
    claim: "the figure has the latencies of look-ups: a cuckoo filter reads two buckets whatever is asked, a quotient \
            filter a cluster of any length",
    shape: "the 90th of a hundred cuckoo look-ups takes at most three times what the 50th takes; the quotient filter's \
            50th takes longer than the cuckoo filter's",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// Means of a few look-ups each, in nanoseconds, ascending.
struct Sorted {
    name: &'static str,
    ns: Vec<f64>,
}

impl Sorted {
    fn at(&self, percent: usize) -> f64 {
        self.ns[(self.ns.len() * percent / 100).min(self.ns.len() - 1)]
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let slots_log2 = run.scale.pick(22, 27);
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
        let mut ns: Vec<f64> =
            hashes.chunks(usize::try_from(TOGETHER).expect("few")).map(sample).collect();
        ns.sort_by(f64::total_cmp);
        all.push(Sorted { name: kind.name, ns });
    }
    Ok(Outcome {
        plots: vec![plot(&all)],
        tables: vec![shown(&all)],
        checks: checks(&all),
        reading: reading(&all),
    })
}

fn plot(all: &[Sorted]) -> Plot {
    let points =
        |it: &Sorted| (1..=49).map(|n| 2 * n).map(|n| (it.at(n), n as f64)).collect::<Vec<_>>();
    Plot {
        title: "Look-ups that take at most so long".into(),
        x: Axis { is_log: true, ..axis("nanoseconds") },
        y: axis("share of look-ups, %"),
        series: all.iter().map(|it| series(it.name, points(it))).collect(),
    }
}

fn shown(all: &[Sorted]) -> Table {
    let row = |it: &Sorted| {
        let ns = PERCENTS.map(|percent| format!("{:.0}", it.at(percent)));
        [it.name.to_owned()].into_iter().chain(ns).collect()
    };
    table(
        "Nanoseconds of a look-up that needs the answer of the one before it, means of eight",
        &["filter", "10th of 100", "50th", "90th", "99th"],
        all.iter().map(row).collect(),
    )
}

fn checks(all: &[Sorted]) -> Vec<Check> {
    let spread = |at: usize| all[at].at(90) / all[at].at(50);
    let why = "two buckets each time; what differs is how far away memory is";
    vec![
        check("cuckoo: the 90th of 100 to the 50th", spread(CUCKOO), Bound::AtMost(3.0), why),
        check("semi-sorted: the 90th of 100 to the 50th", spread(SORTED), Bound::AtMost(3.0), why),
        check(
            "the 50th of 100: quotient to cuckoo",
            all[QUOTIENT].at(50) / all[CUCKOO].at(50),
            Bound::AtLeast(1.2),
            "at 90 % a cluster has dozens of slots, all read one after the other",
        ),
    ]
}

fn reading(all: &[Sorted]) -> String {
    let of = |at: usize| format!("{:.0} and {:.0}", all[at].at(50), all[at].at(90));
    format!(
        "Half of the look-ups and nine tenths of them take at most so many nanoseconds: cuckoo {}, semi-sorted {}, Bloom \
         {}, quotient {}. The cuckoo filters' answers are computed, so that each look-up waits for the one before it; a \
         Bloom filter's come from branches that are guessed, so that look-ups overlap.",
        of(CUCKOO),
        of(SORTED),
        of(BLOOM),
        of(QUOTIENT),
    )
}

/// Look-ups a sample.
const TOGETHER: u64 = 8;
const PERCENTS: [usize; 4] = [10, 50, 90, 99];
