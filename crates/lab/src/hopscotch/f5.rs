//! The hopscotch paper, figures 5 and 6: throughput against threads, under YCSB's workloads B and C.
//!
//! The paper measures servers; here the tables alone, since the claim is theirs: readers that take no lock keep each
//! processor busy. Two processors show two threads; with more than that, the threads take turns.

use crate::baseline::chain::Chain;
use crate::baseline::items::Items;
use crate::baseline::single_writer::{Design, SingleWriter};
use crate::figures::{axis, check, series, table};
use crate::measure::{Rounds, Work, rounds};
use crate::ycsb::Ycsb;
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_index::{Cuckoo, Hopscotch};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// Figure 5: workload B, 95 % gets and 5 % puts.
pub(crate) const F5: Experiment = Experiment {
    id: "hop-f5",
    paper: Paper::Hopscotch,
    title: "throughput against threads, 95 % gets and 5 % puts",
    claim: "throughput rises with the number of threads up to the number of processors, as MemC3's does, while memcached's \
            levels off",
    shape: "two threads do at least 1.6 times as much a processor-second as one would twice; eight threads on two \
            processors at least 0.6 of two; hopscotch ahead of one lock at two threads",
    verdict: TWO_PROCESSORS,
    is_quick: false,
    run: |run| threads(run, 0.05),
};

/// Figure 6: workload C, gets only.
pub(crate) const F6: Experiment = Experiment {
    id: "hop-f6",
    title: "throughput against threads, gets only",
    shape: "two threads at least 1.7 times one's rate a processor-second; eight threads on two processors at least 0.6 of \
            two; hopscotch ahead of one lock at two threads",
    run: |run| threads(run, 0.0),
    ..F5
};

const TWO_PROCESSORS: Verdict = Verdict::NotTestable(
    "beyond two threads; what shows is that two threads don't slow each other, and that eight on two processors don't \
     lose what two achieve",
);

fn threads(run: &Run<'_>, puts: f64) -> Result<Outcome> {
    let items = Arc::new(Items::new(run.scale.pick(1 << 21, 10_000_000)));
    let keys = items.count() as usize;
    let ycsb = Ycsb::new(&items, *THREADS.last().expect("some"), run.seed);
    (run.progress)(0.0, "filling the tables");
    let hopscotch = Hopscotch::with_max(keys);
    let cuckoo = Cuckoo::with_max(keys);
    let memc3 = SingleWriter::with_room(keys, Design::MEMC3);
    let chain = Chain::new(keys, 1, Arc::clone(&items));
    ycsb.fill(&hopscotch);
    ycsb.fill(&cuckoo);
    ycsb.fill(&memc3);
    ycsb.fill(&chain);
    let time = Duration::from_millis(run.scale.pick(250, 2000));
    let turns = run.scale.pick(5, 9);
    let mut measured = Vec::new();
    for (done, &threads) in THREADS.iter().enumerate() {
        (run.progress)(0.2 + 0.2 * done as f64, &format!("{threads} threads"));
        measured.push(Measured {
            threads,
            work: RefCell::default(),
            rates: Rounds { samples: Vec::new() },
        });
        let now = measured.last_mut().expect("just pushed");
        let work = &now.work;
        let rates = rounds(
            turns,
            &mut [
                &mut || turn(work, 0, ycsb.run(&hopscotch, threads, puts, time)),
                &mut || turn(work, 1, ycsb.run(&memc3, threads, puts, time)),
                &mut || turn(work, 2, ycsb.run(&cuckoo, threads, puts, time)),
                &mut || turn(work, 3, ycsb.run(&chain, threads, puts, time)),
            ],
        )?;
        now.rates = rates;
    }
    Ok(outcome(&measured, puts))
}

/// Keeps the processor time an operation, returns the rate.
fn turn(all: &RefCell<[Vec<f64>; 4]>, table: usize, work: Work) -> Result<f64> {
    all.borrow_mut()[table].push(work.cpu_ns());
    Ok(work.rate())
}

/// One number of threads.
struct Measured {
    threads: usize,
    work: RefCell<[Vec<f64>; 4]>,
    rates: Rounds,
}

impl Measured {
    fn cpu_ns(&self, table: usize) -> f64 {
        crate::measure::Spread::of(&self.work.borrow()[table]).median
    }
}

fn outcome(measured: &[Measured], puts: f64) -> Outcome {
    let line = |(number, name): (usize, &&str)| {
        let point = |m: &Measured| (m.threads as f64, m.rates.median(number) / 1e6);
        series(name, measured.iter().map(point))
    };
    let row = |m: &Measured| {
        let rate = |number| format!("{:.2}", m.rates.median(number) / 1e6);
        std::iter::once(m.threads.to_string()).chain((0..4).map(rate)).collect()
    };
    let mut header = vec!["threads"];
    header.extend(TABLES);
    let [one, two, _, eight] = measured else { unreachable!("four numbers of threads") };
    let alone = 2.0 * one.cpu_ns(0) / two.cpu_ns(0);
    let crowded = eight.rates.median(0) / two.rates.median(0);
    let ahead = two.rates.ratio(0, 3).median;
    Outcome {
        plots: vec![Plot {
            title: format!("{:.0} % puts", puts * 100.0),
            x: axis("threads, on two processors"),
            y: axis("million operations a second"),
            series: TABLES.iter().enumerate().map(line).collect(),
        }],
        tables: vec![table(
            "Million operations a second of wall time, medians",
            &header,
            measured.iter().map(row).collect(),
        )],
        checks: checks(alone, crowded, ahead, puts),
        reading: format!(
            "With two threads an operation on the hopscotch table takes the processor {:.2} of what it takes with one, so \
             two processors do {alone:.2} times as much; eight threads on two processors do {crowded:.2} of what two do. \
             At two threads it does {ahead:.1} times what one lock allows.",
            two.cpu_ns(0) / one.cpu_ns(0),
        ),
    }
}

fn checks(alone: f64, crowded: f64, ahead: f64, puts: f64) -> Vec<Check> {
    vec![
        check(
            "hopscotch: twice the processor time of an operation with one thread, to that with two",
            alone,
            Bound::AtLeast(if puts > 0.0 { 1.6 } else { 1.7 }),
            "2 if threads share nothing that is written; by processor time, so that a busy machine tells the same",
        ),
        check(
            "hopscotch: operations a second with eight threads, to two",
            crowded,
            Bound::AtLeast(0.6),
            "no reader waits for a thread that lost its processor",
        ),
        check(
            "operations a second with two threads: hopscotch, to chaining under one lock",
            ahead,
            Bound::AtLeast(1.2),
            "the paper has memcached level off; where another process takes a processor, the lock is less contended",
        ),
    ]
}

const TABLES: [&str; 4] =
    ["hopscotch, H = 32", "cuckoo, one writer (MemC3)", "cuckoo, ours", "chaining, one lock"];
const THREADS: [usize; 4] = [1, 2, 4, 8];
