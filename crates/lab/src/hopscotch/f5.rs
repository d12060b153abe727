//! The hopscotch paper, figures 5 and 6: throughput against threads, under YCSB's workloads B and C.
//!
//! The paper measures servers. Here only the tables are measured, because the claim is about them: readers that take no
//! lock keep each processor busy. Rates are by the wall clock, since waiting takes no processor time, and are compared
//! with those of reads that share nothing. On two processors, two threads run at once; more threads take turns.

use crate::baseline::chain::Chain;
use crate::baseline::items::Items;
use crate::baseline::pages;
use crate::baseline::single_writer::{Design, SingleWriter};
use crate::data::Data;
use crate::figures::{axis, check, drawn, table};
use crate::memc3::gains::{Gains, NOTHING_GAINED, measure as measure_rates};
use crate::ycsb::Ycsb;
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_index::{Cuckoo, Hopscotch};
use std::sync::Arc;
use std::time::Duration;

/// Figure 5: workload B, 95 % gets and 5 % puts.
pub(crate) const F5: Experiment = Experiment {
    id: "hop-f5",
    paper: Paper::Hopscotch,
    title: "throughput against threads, 95 % gets and 5 % puts",
    claim: "throughput rises with the number of threads up to the number of processors, as MemC3's does, while memcached's \
            levels off",
    shape: "a second thread gains the tables without locks for readers at least 0.65 of what it gains reads that share \
            nothing, and one lock at most 0.75; eight threads on two processors at least 0.6 of two; at two threads each of \
            the tables without locks for readers at least 1.2 times one lock, and hopscotch 0.65 to 1.55 of MemC3's cuckoo",
    why: "two processors stand for the paper's eight",
    is_quick: false,
    measure: |run| measure(run, 0.05),
    judge: |data| judge(data, 0.05),
};

/// Figure 6: workload C, gets only.
pub(crate) const F6: Experiment = Experiment {
    id: "hop-f6",
    title: "throughput against threads, gets only",
    shape: "a second thread gains the tables without locks for readers at least 0.75 of what it gains reads that share \
            nothing, and one lock at most 0.75; eight threads on two processors at least 0.6 of two; at two threads each of \
            the tables without locks for readers at least 1.2 times one lock, and hopscotch 0.65 to 1.55 of MemC3's cuckoo",
    measure: |run| measure(run, 0.0),
    judge: |data| judge(data, 0.0),
    ..F5
};

fn measure(run: &Run<'_>, puts: f64) -> Result<Data> {
    let items = Arc::new(Items::new(run.scale.pick(1 << 21, 10_000_000)));
    let keys = items.count() as usize;
    let ycsb = Ycsb::new(&items, *THREADS.last().expect("some"), run.seed);
    (run.progress)(0.0, "filling the tables");
    let ((hopscotch, memc3, cuckoo, chain), huge) = pages::grown(|| {
        let hopscotch = Hopscotch::with_max(keys);
        let memc3 = SingleWriter::with_room(keys, Design::MEMC3);
        let cuckoo = Cuckoo::with_max(keys);
        let chain = Chain::new(keys, 1, Arc::clone(&items));
        ycsb.fill(&hopscotch);
        ycsb.fill(&memc3);
        ycsb.fill(&cuckoo);
        ycsb.fill(&chain);
        (hopscotch, memc3, cuckoo, chain)
    });
    let time = Duration::from_millis(run.scale.pick(250, 2000));
    (run.progress)(0.2, "driving");
    let names = TABLES.map(String::from);
    let lines = measure_rates(&THREADS, &names, ROUNDS, run.seed, |threads, table, _| {
        let work = match TABLES[table] {
            HOPSCOTCH => ycsb.run(&hopscotch, threads, puts, time),
            MEMC3 => ycsb.run(&memc3, threads, puts, time),
            OURS => ycsb.run(&cuckoo, threads, puts, time),
            ONE_LOCK => ycsb.run(&chain, threads, puts, time),
            _ => ycsb.control(threads, time),
        };
        work.rate()
    })?;
    let mut data = Data::default();
    for line in lines {
        // A table under one lock levels off at once.
        data.push(if line.name == ONE_LOCK { line.flat() } else { line });
    }
    data.aside(pages::SHARE, huge);
    Ok(data)
}

fn judge(data: &Data, puts: f64) -> Findings {
    let gains = Gains::of(data, CONTROL);
    let [crowded, ahead] = [crowded(data), gains.ratio(2, HOPSCOTCH, ONE_LOCK)];
    Findings {
        plots: vec![Plot {
            title: format!("{:.0} % puts", puts * 100.0),
            x: axis("threads, on two processors"),
            y: axis("million operations a second"),
            series: TABLES.map(|name| drawn(data.line(name))).into(),
        }],
        tables: vec![rates(data)],
        checks: pages::judged(checks(data, puts), data),
        reading: format!(
            "The second thread makes the hopscotch table {:.2} times as fast, MemC3's {:.2}, ours {:.2}, chaining under one \
             lock {:.2}, and reads that share nothing {:.2}; eight threads on two processors do {crowded:.2} of what two do. \
             At two threads hopscotch does {ahead:.1} times what one lock allows.",
            gains.gain(2, HOPSCOTCH),
            gains.gain(2, MEMC3),
            gains.gain(2, OURS),
            gains.gain(2, ONE_LOCK),
            gains.possible(2),
        ),
    }
}

fn rates(data: &Data) -> Table {
    let row = |threads: usize| {
        let rate = |name: &str| format!("{:.2}", data.line(name).median(threads as f64));
        std::iter::once(threads.to_string()).chain(TABLES.map(rate)).collect()
    };
    let header: Vec<&str> = std::iter::once("threads").chain(TABLES).collect();
    let rows = THREADS.map(row).into();
    table("Million operations a second of wall time, medians", &header, rows)
}

/// Returns hopscotch's rate with eight threads, relative to that with two.
fn crowded(data: &Data) -> f64 {
    let line = data.line(HOPSCOTCH);
    crate::data::ratio(line.at(8.0), line.at(2.0))
}

fn checks(data: &Data, puts: f64) -> Vec<Check> {
    let gains = Gains::of(data, CONTROL);
    let least = if puts > 0.0 { 0.65 } else { 0.75 };
    let scales = |name: &str| gains.scales(name, least);
    let rises = |check: Check| {
        check.paper_or("rises with the threads (drawn)", Bound::AtLeast(0.75), NOTHING_GAINED)
    };
    let over_one_lock = |name: &str, reason: &'static str| {
        check(
            format!("operations a second with two threads: {name}, to chaining under one lock"),
            gains.ratio(2, name, ONE_LOCK),
            Bound::AtLeast(1.2),
            reason,
        )
    };
    vec![
        rises(scales(HOPSCOTCH)),
        rises(scales(MEMC3)),
        scales(OURS),
        gains.waits(ONE_LOCK, 0.75).paper("levels off (drawn)", Bound::AtMost(0.75)),
        check(
            "hopscotch: operations a second with eight threads, to two",
            crowded(data),
            Bound::AtLeast(0.6),
            "no reader waits for a thread that lost its processor",
        ),
        over_one_lock(
            HOPSCOTCH,
            "the paper has memcached level off; where another process takes a processor, the lock is less contended",
        ),
        over_one_lock(MEMC3, "as hopscotch"),
        over_one_lock(OURS, "as hopscotch"),
        check(
            "operations a second with two threads: hopscotch, to MemC3's cuckoo",
            gains.ratio(2, HOPSCOTCH, MEMC3),
            Bound::Between(0.65, 1.55),
            "a get of either reads one or two lines of its table and the item's; the rest is noise of the machine",
        ),
    ]
}

const HOPSCOTCH: &str = "hopscotch, H = 32";
const MEMC3: &str = "cuckoo, one writer (MemC3)";
const OURS: &str = "cuckoo, ours";
const ONE_LOCK: &str = "chaining, one lock";
const CONTROL: &str = "reads that share nothing";
const TABLES: [&str; 5] = [HOPSCOTCH, MEMC3, OURS, ONE_LOCK, CONTROL];
const THREADS: [usize; 4] = [1, 2, 4, 8];
const ROUNDS: usize = 5;
