//! Mercury, figure 4: throughput against threads for different bucket locks, gets only.
//!
//! As in the paper, gets take the bucket's lock. The product's gets don't: that is the paper's bound, "no lock".

use super::lock::Mutexes;
use crate::baseline::chain::Chain;
use crate::baseline::engine::LOCKS;
use crate::baseline::items::Items;
use crate::baseline::pages;
use crate::data::{Data, Line, Point, ratio};
use crate::figures::{axis, check, series, table};
use crate::machine::Machine;
use crate::measure::in_turns;
use crate::memc3::gains::{SCALES, second_thread};
use crate::ycsb::Ycsb;
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_index::{Chained, LockedGets, Tas};
use std::sync::Arc;
use std::time::Duration;

/// Figure 4.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "merc-f4",
    paper: Paper::Mercury,
    title: "throughput against threads, by the bucket's lock",
    claim: "a test-and-set lock in the bucket's word comes close to no lock at all; a mutex falls behind, and so do striped \
            locks, by 1.16 on one thread already; on 12 threads it is 15 times as fast as memcached",
    shape: "test-and-set at least 0.8 of no lock and ahead of the mutex on two threads, at least 1.1 of striped locks on \
            one and on two; with four threads on two processors at least 0.6 of no lock; at least 1.5 times one lock",
    why: "two processors can't show 12 threads; and where threads outnumber processors, a thread that loses its processor \
          while it holds a test-and-set lock lets others spin",
    is_quick: false,
    measure,
    judge,
};

/// Measures a line of rates for each number of threads, with a point for each kind of lock.
fn measure(run: &Run<'_>) -> Result<Data> {
    let items = Arc::new(Items::new(run.scale.pick(1 << 21, 1 << 25)));
    let keys = items.count() as usize;
    let ycsb = Ycsb::new(&items, *THREADS.last().expect("some"), run.seed);
    (run.progress)(0.0, "filling the tables");
    let ((none, tas, mutex, striped, one_lock), huge) = pages::grown(|| {
        let none = Chained::with_max(keys);
        let tas = Chained::<LockedGets<Tas>>::with_lock(keys);
        let mutex = Chained::<LockedGets<Mutexes>>::with_lock(keys);
        // Links of a chain are in its items, so each chain has its own.
        let [striped, one_lock] =
            [LOCKS, 1].map(|locks| Chain::new(keys, locks, Arc::new(Items::new(items.count()))));
        ycsb.fill(&none);
        ycsb.fill(&tas);
        ycsb.fill(&mutex);
        ycsb.fill(&striped);
        ycsb.fill(&one_lock);
        (none, tas, mutex, striped, one_lock)
    });
    let time = Duration::from_millis(run.scale.pick(250, 2000));
    let one = |turn: usize, _| {
        let threads = THREADS[turn / (VARIANTS.len() + 1)];
        let work = match turn % (VARIANTS.len() + 1) {
            NONE => ycsb.run(&none, threads, 0.0, time),
            TAS => ycsb.run(&tas, threads, 0.0, time),
            MUTEX => ycsb.run(&mutex, threads, 0.0, time),
            STRIPED => ycsb.run(&striped, threads, 0.0, time),
            ONE_LOCK => ycsb.run(&one_lock, threads, 0.0, time),
            _ => ycsb.control(threads, time),
        };
        work.rate() / 1e6
    };
    (run.progress)(0.3, "driving");
    let turns = THREADS.len() * (VARIANTS.len() + 1);
    let mut samples = in_turns(turns, run.scale.pick(5, 9), run.seed, one)?.samples.into_iter();
    let (mut data, mut control) = (Data::default(), Vec::new());
    for threads in THREADS {
        let points: Vec<_> = (0..VARIANTS.len())
            .map(|variant| (variant as f64, samples.next().expect("a variant's rounds")))
            .collect();
        data.push(Line::new(&name(threads), points));
        control.push((threads as f64, samples.next().expect("the control's rounds")));
    }
    data.push(Line::new(CONTROL, control).aside());
    data.aside(pages::SHARE, huge);
    data.aside(PROCESSORS, Machine::this().cores as f64);
    Ok(data)
}

fn name(threads: usize) -> String {
    format!("threads: {threads}")
}

fn at(data: &Data, threads: usize, variant: usize) -> &Point {
    data.line(&name(threads)).at(variant as f64)
}

/// Returns how many times as fast test-and-set is as another lock.
fn ahead(data: &Data, threads: usize, of: usize) -> f64 {
    ratio(at(data, threads, TAS), at(data, threads, of))
}

fn judge(data: &Data) -> Findings {
    let line = |(variant, name): (usize, &&str)| {
        let points = THREADS.map(|threads| (threads as f64, at(data, threads, variant).median()));
        series(name, points)
    };
    Findings {
        plots: vec![Plot {
            title: "Gets, by lock".into(),
            x: axis("threads, on two processors"),
            y: axis("million gets a second"),
            series: VARIANTS.iter().enumerate().map(line).collect(),
        }],
        tables: vec![rates(data)],
        checks: pages::judged(checks(data), data),
        reading: format!(
            "With two threads, test-and-set in the bucket does {:.2} of what gets without a lock do, {:.2} times a mutex per \
             bucket, {:.2} times striped locks and {:.1} times one lock; with four threads on two processors {:.2} of gets \
             without a lock; with one thread {:.2} times striped locks (paper: 1.16).",
            ahead(data, 2, NONE),
            ahead(data, 2, MUTEX),
            ahead(data, 2, STRIPED),
            ahead(data, 2, ONE_LOCK),
            ahead(data, 4, NONE),
            ahead(data, 1, STRIPED),
        ),
    }
}

fn rates(data: &Data) -> Table {
    let row = |threads: usize| {
        let cells = data.line(&name(threads)).figures().into_iter();
        let cells = cells.map(|rate| format!("{rate:.2}"));
        std::iter::once(threads.to_string()).chain(cells).collect()
    };
    let header: Vec<&str> = std::iter::once("threads").chain(VARIANTS).collect();
    table("Million gets a second, medians", &header, THREADS.map(row).into())
}

fn checks(data: &Data) -> Vec<Check> {
    let close = "the paper calls it close; an uncontended test-and-set is two stores to a line that is at hand";
    let crowded = "threads outnumber processors, so others spin for a holder that lost its processor; loosened from 0.8";
    let mut all: Vec<_> = [(2, 0.8, close), (4, 0.6, crowded)]
        .map(|(threads, least, reason)| {
            check(
                format!("{threads} threads: test-and-set, to no lock"),
                ahead(data, threads, NONE),
                Bound::AtLeast(least),
                reason,
            )
            .paper_or("close to 1 (drawn)", Bound::AtLeast(0.8), 0.0)
        })
        .into();
    all.push(
        check(
            "2 threads: test-and-set, to a mutex",
            ahead(data, 2, MUTEX),
            Bound::AtLeast(1.0),
            "the mutex is a line more, and two atomic operations to test-and-set's one",
        )
        .paper("ahead (drawn)", Bound::AtLeast(1.05)),
    );
    all.push(
        check(
            "1 thread: test-and-set, to striped locks",
            ahead(data, 1, STRIPED),
            Bound::AtLeast(1.1),
            "a lock's line less, and shorter chains",
        )
        .paper("1.16", Bound::AtLeast(1.1)),
    );
    all.push(check(
        "2 threads: test-and-set, to striped locks",
        ahead(data, 2, STRIPED),
        Bound::AtLeast(1.1),
        "as with one thread",
    ));
    all.push(check(
        "4 threads: test-and-set, to one lock",
        ahead(data, 4, ONE_LOCK),
        Bound::AtLeast(1.5),
        "the lock keeps a second processor waiting",
    ));
    let processors = data.figure(PROCESSORS);
    all.push(
        check(
            "12 threads: test-and-set, to one lock",
            ahead(data, 12, ONE_LOCK),
            Bound::AtLeast(1.5),
            "of 12 threads as many run as there are processors; the bound is two processors'",
        )
        .paper("15", Bound::AtLeast(12.0))
        .judged_if(processors >= 12.0, || format!("there are {processors} processors, of 12")),
    );
    let control = data.line(CONTROL);
    all.extend([NONE, TAS].map(|variant| {
        let own = [1, 2].map(|threads| at(data, threads, variant));
        let control = [control.at(1.0), control.at(2.0)];
        second_thread(VARIANTS[variant], own, control, Bound::AtLeast(0.65), SCALES)
    }));
    all
}

const VARIANTS: [&str; 5] = [
    "no lock for gets (ours)",
    "test-and-set (Mercury)",
    "mutex per bucket",
    "chaining, striped locks",
    "chaining, one lock",
];
/// Indexes into [`VARIANTS`].
const NONE: usize = 0;
const TAS: usize = 1;
const MUTEX: usize = 2;
const STRIPED: usize = 3;
const ONE_LOCK: usize = 4;
const CONTROL: &str = "reads that share nothing";
const PROCESSORS: &str = "processors";
const THREADS: [usize; 4] = [1, 2, 4, 12];
