//! MemC3, figure 7: rate of reads and writes together, from reads only to writes only.
//!
//! As the paper does, each table is given the number of threads with which it does best: one or two here. MemC3's table
//! is 90 % full, ours as full as it is when it grows, 95 %; a write enters or removes a key, by turns.

use super::contest::{BUCKET_LOCKS, Contest, MEMC3, ONE_LOCK, OURS, TABLES};
use super::gains::Gains;
use crate::figures::{axis, check, series};
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
    shape: "reads only: MemC3 at least 1.3 times chaining under one lock, and not behind chaining with bucket locks; \
            with writes only it has at most 0.6 of its own rate for reads, and a second thread gains it at most 0.8 of what \
            it gains work that shares nothing; it gains the product's table, with many writers, at least 0.7",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// By share of writes.
type Measured = Vec<Gains>;

fn run(run: &Run<'_>) -> Result<Outcome> {
    let contest = Contest::new(run.scale, |share, doing| (run.progress)(0.3 * share, doing));
    let time = Duration::from_millis(run.scale.pick(60, 1000));
    let mut measured = Measured::new();
    for (place, writes) in WRITES.into_iter().enumerate() {
        let share = 0.3 + 0.7 * place as f64 / WRITES.len() as f64;
        (run.progress)(share, &format!("{:.0} % writes", writes * 100.0));
        let one = |threads, table, _| {
            if table < TABLES.len() {
                contest.run(table, threads, writes, time).rate()
            } else {
                contest.control(threads, time).rate()
            }
        };
        measured.push(Gains::measure(&THREADS, TABLES.len() + 1, run.seed, one)?);
    }
    Ok(Outcome {
        plots: vec![plot(&measured)],
        tables: Vec::new(),
        checks: checks(&measured),
        reading: reading(&measured),
    })
}

/// A table's rate with as many threads as suit it, in millions a second.
fn best(gains: &Gains, table: usize) -> f64 {
    gains.rate(0, table).max(gains.rate(1, table))
}

fn plot(measured: &Measured) -> Plot {
    let line = |table: usize| {
        let points = WRITES.iter().zip(measured);
        series(TABLES[table], points.map(|(&writes, gains)| (writes * 100.0, best(gains, table))))
    };
    Plot {
        title: "Best of one and two threads".into(),
        x: axis("writes, %"),
        y: axis("million operations a second"),
        series: (0..TABLES.len()).map(line).collect(),
    }
}

fn checks(measured: &Measured) -> Vec<Check> {
    let (reads, writes) = (&measured[0], &measured[WRITES.len() - 1]);
    let mut all = vec![
        check(
            "reads only: MemC3, to chaining under one lock",
            best(reads, MEMC3) / best(reads, ONE_LOCK),
            Bound::AtLeast(1.3),
            "the paper has several times, on more threads",
        ),
        check(
            "reads only: MemC3, to chaining with bucket locks",
            best(reads, MEMC3) / best(reads, BUCKET_LOCKS),
            Bound::AtLeast(0.95),
            "fewer items are read; how much that is worth depends on the memory",
        ),
        check(
            "writes only: MemC3, to its reads",
            best(writes, MEMC3) / best(reads, MEMC3),
            Bound::AtMost(0.7),
            "one writer at a time, which displaces keys at this load; a machine that gave one processor only would \
             have 0.6",
        ),
    ];
    all.extend(writes.scales("writes only, ours, many writers", OURS, 0.7));
    all.extend(writes.waits("writes only, MemC3, one writer", MEMC3, 0.8));
    all.extend(writes.waits("writes only, chaining, one lock", ONE_LOCK, 0.8));
    all
}

fn reading(measured: &Measured) -> String {
    let ends = [0, HALF, WRITES.len() - 1].map(|place| &measured[place]);
    let each = |table: usize| {
        let rates = ends.map(|gains| format!("{:.1}", best(gains, table)));
        format!("{} {}", TABLES[table], rates.join(", "))
    };
    let writes = ends[2];
    format!(
        "Million operations a second, with reads only, half writes, and writes only: {}. With writes only the second thread \
         makes MemC3 {:.2} times as fast, chaining with bucket locks {:.2}, ours {:.2}, and work that shares nothing \
         {:.2}. Ours writes slower than MemC3 on one thread, since it keeps its table fuller and every write \
         locks both buckets.",
        (0..TABLES.len()).map(each).collect::<Vec<_>>().join("; "),
        writes.gain(1, MEMC3),
        writes.gain(1, BUCKET_LOCKS),
        writes.gain(1, OURS),
        writes.possible(1),
    )
}

/// Shares of writes, and the place of one half.
const WRITES: [f64; 6] = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0];
const HALF: usize = 3;
const THREADS: [usize; 2] = [1, 2];
