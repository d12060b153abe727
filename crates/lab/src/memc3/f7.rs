//! MemC3, figure 7: rate of reads and writes together, from reads only to writes only.
//!
//! As the paper does, each table is given the number of threads with which it does best: one or two here.

use super::contest::{BUCKET_LOCKS, Contest, MEMC3, ONE_LOCK, OURS, TABLES};
use super::f5a::in_turns;
use super::figures::{axis, check, series};
use crate::measure::{Rounds, Spread};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use std::time::Duration;

/// Figure 7.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f7",
    paper: Paper::MemC3,
    title: "best rate against the share of writes",
    claim: "MemC3's table is ahead of chaining for mixes that mostly read, and falls as writes, of which there is one at \
            a time, become more",
    shape: "reads only: MemC3 at least 1.3 times chaining under one lock; with writes only at most 0.6 of its own rate for \
            reads, and behind chaining with bucket locks; the product's table, with many writers, at least 1.2 \
            times MemC3 from half writes on",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// By share of writes: one round's best rates a table.
type Measured = Vec<Rounds>;

fn run(run: &Run<'_>) -> Result<Outcome> {
    let contest = Contest::new(run.scale, |share, doing| (run.progress)(0.3 * share, doing));
    let time = Duration::from_millis(run.scale.pick(80, 1000));
    let mut measured = Measured::new();
    for (place, writes) in WRITES.into_iter().enumerate() {
        let share = 0.3 + 0.7 * place as f64 / WRITES.len() as f64;
        (run.progress)(share, &format!("{:.0} % writes", writes * 100.0));
        let one = |table, _| {
            let rates = [1, 2].map(|threads| contest.run(table, threads, writes, time).rate());
            rates[0].max(rates[1])
        };
        measured.push(in_turns(TABLES.len(), ROUNDS, run.seed, one)?);
    }
    Ok(Outcome {
        plots: vec![plot(&measured)],
        tables: Vec::new(),
        checks: checks(&measured),
        reading: reading(&measured),
    })
}

fn plot(measured: &Measured) -> Plot {
    let line = |table: usize| {
        let points = WRITES.iter().zip(measured);
        let points = points.map(|(&writes, rounds)| (writes * 100.0, rounds.median(table) / 1e6));
        series(TABLES[table], points)
    };
    Plot {
        title: "Best of one and two threads".into(),
        x: axis("writes, %"),
        y: axis("million operations a second"),
        series: (0..TABLES.len()).map(line).collect(),
    }
}

/// A table's rate at a share of writes, to its rate of reads.
fn kept(measured: &Measured, place: usize, table: usize) -> f64 {
    let [mixed, reads] = [place, 0].map(|place| &measured[place].samples[table]);
    Spread::of(&mixed.iter().zip(reads).map(|(mixed, reads)| mixed / reads).collect::<Vec<_>>())
        .median
}

fn checks(measured: &Measured) -> Vec<Check> {
    let (half, all) = (HALF, WRITES.len() - 1);
    vec![
        check(
            "reads only: MemC3, to chaining under one lock",
            measured[0].ratio(MEMC3, ONE_LOCK).median,
            Bound::AtLeast(1.3),
            "the paper has several times, on more threads",
        ),
        check(
            "reads only: MemC3, to chaining with bucket locks",
            measured[0].ratio(MEMC3, BUCKET_LOCKS).median,
            Bound::AtLeast(0.9),
            "fewer items are read; how much that is worth depends on the memory",
        ),
        check(
            "writes only: MemC3, to its reads",
            kept(measured, all, MEMC3),
            Bound::AtMost(0.6),
            "one writer at a time, which displaces keys at this load",
        ),
        check(
            "writes only: MemC3, to chaining with bucket locks",
            measured[all].ratio(MEMC3, BUCKET_LOCKS).median,
            Bound::AtMost(0.9),
            "chains displace nothing, and have as many writers as threads",
        ),
        check(
            "half writes: the product's table, to MemC3",
            measured[half].ratio(OURS, MEMC3).median,
            Bound::AtLeast(1.2),
            "two writers instead of one",
        ),
        check(
            "writes only: the product's table, to MemC3",
            measured[all].ratio(OURS, MEMC3).median,
            Bound::AtLeast(1.2),
            "two writers instead of one",
        ),
    ]
}

fn reading(measured: &Measured) -> String {
    let (half, all) = (HALF, WRITES.len() - 1);
    let rate = |place: usize, table: usize| measured[place].median(table) / 1e6;
    format!(
        "Million operations a second, from reads only over half writes to writes only: MemC3 {:.1}, {:.1}, {:.1}; \
         chaining with bucket locks {:.1}, {:.1}, {:.1}; under one lock {:.1}, {:.1}, {:.1}; ours {:.1}, {:.1}, {:.1}.",
        rate(0, MEMC3),
        rate(half, MEMC3),
        rate(all, MEMC3),
        rate(0, BUCKET_LOCKS),
        rate(half, BUCKET_LOCKS),
        rate(all, BUCKET_LOCKS),
        rate(0, ONE_LOCK),
        rate(half, ONE_LOCK),
        rate(all, ONE_LOCK),
        rate(0, OURS),
        rate(half, OURS),
        rate(all, OURS),
    )
}

/// Shares of writes, and the place of one half.
const WRITES: [f64; 6] = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0];
const HALF: usize = 3;
const ROUNDS: usize = 5;
