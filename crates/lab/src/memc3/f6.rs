//! MemC3, figure 6: rate against threads, of reads alone and of nine reads in ten operations.
//!
//! A write enters or removes a key, by turns. Rates are by the wall clock.

use super::contest::{BUCKET_LOCKS, Contest, MEMC3, ONE_LOCK, OURS, TABLES};
use super::f5a::in_turns;
use super::figures::{axis, check, papers, series};
use crate::measure::{Rounds, Spread};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use std::time::Duration;

/// Figure 6.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f6",
    paper: Paper::MemC3,
    title: "rate against threads, 100 % and 90 % reads",
    claim: "look-ups scale with threads, to 35 million a second on 12; chaining under one lock does not scale at all",
    shape: "a second thread gains at least 1.3 times as much with the cuckoo tables as with chaining under one lock, \
            for reads and for 90 % reads; with two threads they are at least 1.5 times as fast; with four threads on \
            two processors they keep 0.8 of that",
    verdict: Verdict::NotTestable(
        "two processors can't show 12 threads; two threads against one, four on two processors, and that a read \
         writes no shared memory do instead",
    ),
    is_quick: false,
    run,
};

/// By share of writes: by number of threads, the rates of the tables.
type Measured = [[Rounds; 3]; 2];

fn run(run: &Run<'_>) -> Result<Outcome> {
    let contest = Contest::new(run.scale, |share, doing| (run.progress)(0.3 * share, doing));
    let time = Duration::from_millis(run.scale.pick(100, 1000));
    let mut measured = Vec::new();
    for (kind, writes) in WRITES.into_iter().enumerate() {
        let mut by_threads = Vec::new();
        for (place, threads) in THREADS.into_iter().enumerate() {
            let share = 0.3 + 0.7 * (3 * kind + place) as f64 / 6.0;
            (run.progress)(share, &format!("{threads} threads, {:.0} % writes", writes * 100.0));
            let one = |table, _| contest.run(table, threads, writes, time).rate();
            by_threads.push(in_turns(TABLES.len(), ROUNDS, run.seed, one)?);
        }
        measured.push(by_threads.try_into().map_err(|_| anyhow::anyhow!("three of them"))?);
    }
    let measured: Measured = measured.try_into().map_err(|_| anyhow::anyhow!("two of them"))?;
    let mut plots =
        vec![plot("Reads only", &measured[0]), plot("90 % reads, 10 % writes", &measured[1])];
    plots[0].series.push(papers("paper: MemC3, 12 threads", [(12.0, 35.0)]));
    Ok(Outcome {
        plots,
        tables: Vec::new(),
        checks: checks(&measured),
        reading: reading(&measured, contest.retries()),
    })
}

fn plot(title: &str, by_threads: &[Rounds; 3]) -> Plot {
    let line = |table: usize| {
        let points = THREADS.iter().zip(by_threads);
        let points = points.map(|(&threads, rounds)| (threads as f64, rounds.median(table) / 1e6));
        series(TABLES[table], points)
    };
    Plot {
        title: title.into(),
        x: axis("threads"),
        y: axis("million operations a second"),
        series: (0..TABLES.len()).map(line).collect(),
    }
}

/// A table's rate with the threads at `place`, to its rate with one.
fn gain(by_threads: &[Rounds; 3], place: usize, table: usize) -> f64 {
    let [many, one] = [place, 0].map(|place| &by_threads[place].samples[table]);
    Spread::of(&many.iter().zip(one).map(|(many, one)| many / one).collect::<Vec<_>>()).median
}

fn checks(measured: &Measured) -> Vec<Check> {
    let mut all = Vec::new();
    for (kind, by_threads) in ["reads", "90 % reads"].iter().zip(measured) {
        for table in [MEMC3, OURS] {
            let name = TABLES[table];
            all.push(check(
                format!("{kind}: what {name} gains from a second thread, to what one lock gains"),
                gain(by_threads, 1, table) / gain(by_threads, 1, ONE_LOCK),
                Bound::AtLeast(1.3),
                "2 at most; below where a neighbour has the second processor, or at 90 % reads the one writer's lock \
                 is held",
            ));
            all.push(check(
                format!("{kind}, 2 threads: {name}, to chaining under one lock"),
                by_threads[1].ratio(table, ONE_LOCK).median,
                Bound::AtLeast(1.5),
                "the paper has an order of magnitude on more threads",
            ));
            all.push(check(
                format!("{kind}: {name} with four threads on two processors, to two"),
                gain(by_threads, 2, table) / gain(by_threads, 1, table),
                Bound::AtLeast(0.8),
                "readers that wait for nobody lose nothing when one of them is put aside",
            ));
        }
    }
    all
}

fn reading(measured: &Measured, retries: u64) -> String {
    let of = |kind: usize, table: usize| gain(&measured[kind], 1, table);
    format!(
        "A second thread makes reads {:.2} times as fast with MemC3's table and {:.2} with ours, {:.2} with bucket locks \
         and {:.2} with one lock; with 10 % writes {:.2}, {:.2}, {:.2} and {:.2}. MemC3's readers looked again {retries} \
         times in all.",
        of(0, MEMC3),
        of(0, OURS),
        of(0, BUCKET_LOCKS),
        of(0, ONE_LOCK),
        of(1, MEMC3),
        of(1, OURS),
        of(1, BUCKET_LOCKS),
        of(1, ONE_LOCK),
    )
}

const WRITES: [f64; 2] = [0.0, 0.1];
const THREADS: [usize; 3] = [1, 2, 4];
const ROUNDS: usize = 5;
