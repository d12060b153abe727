//! Mercury, figure 4: throughput against threads for three ways to lock a bucket, gets only.
//!
//! As in the paper, gets take the bucket's lock. The product's don't: that is the paper's bound, "no lock".

use super::lock::Mutexes;
use crate::baseline::chain::Chain;
use crate::baseline::engine::LOCKS;
use crate::baseline::items::Items;
use crate::figures::{axis, check, series, table};
use crate::measure::{Rounds, rounds};
use crate::ycsb::Ycsb;
use crate::{Bound, Experiment, Outcome, Paper, Plot, Run, Verdict};
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
            locks, by 1.16 on one thread already",
    shape: "test-and-set at least 0.75 of no lock, ahead of the mutex and of striped locks",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let items = Arc::new(Items::new(run.scale.pick(1 << 21, 1 << 25)));
    let keys = items.count() as usize;
    let ycsb = Ycsb::new(&items, *THREADS.last().expect("some"), run.seed);
    (run.progress)(0.0, "filling the tables");
    let none = Chained::with_max(keys);
    let tas = Chained::<LockedGets<Tas>>::with_lock(keys);
    let mutex = Chained::<LockedGets<Mutexes>>::with_lock(keys);
    let striped = Chain::new(keys, LOCKS, Arc::clone(&items));
    ycsb.fill(&none);
    ycsb.fill(&tas);
    ycsb.fill(&mutex);
    ycsb.fill(&striped);
    let time = Duration::from_millis(run.scale.pick(250, 2000));
    let mut measured = Vec::new();
    for (done, &threads) in THREADS.iter().enumerate() {
        (run.progress)(
            0.3 + 0.7 * done as f64 / THREADS.len() as f64,
            &format!("{threads} threads"),
        );
        let rates = rounds(
            run.scale.pick(5, 9),
            &mut [
                &mut || ycsb.rate(&none, threads, 0.0, time),
                &mut || ycsb.rate(&tas, threads, 0.0, time),
                &mut || ycsb.rate(&mutex, threads, 0.0, time),
                &mut || ycsb.rate(&striped, threads, 0.0, time),
            ],
        )?;
        measured.push((threads, rates));
    }
    Ok(outcome(&measured))
}

fn outcome(measured: &[(usize, Rounds)]) -> Outcome {
    let line = |(variant, name): (usize, &&str)| {
        let point =
            |(threads, rates): &(usize, Rounds)| (*threads as f64, rates.median(variant) / 1e6);
        series(name, measured.iter().map(point))
    };
    let row = |(threads, rates): &(usize, Rounds)| {
        let cell = |variant| format!("{:.2}", rates.median(variant) / 1e6);
        std::iter::once(threads.to_string()).chain((0..VARIANTS.len()).map(cell)).collect()
    };
    let mut header = vec!["threads"];
    header.extend(VARIANTS);
    let (_, one) = &measured[0];
    let (_, two) = &measured[1];
    let [to_none, to_mutex, to_striped] = [0, 2, 3].map(|other| two.ratio(1, other).median);
    let alone = one.ratio(1, 3).median;
    Outcome {
        plots: vec![Plot {
            title: "Gets, by lock".into(),
            x: axis("threads, on two processors"),
            y: axis("million gets a second"),
            series: VARIANTS.iter().enumerate().map(line).collect(),
        }],
        tables: vec![table(
            "Million gets a second, medians",
            &header,
            measured.iter().map(row).collect(),
        )],
        checks: vec![
            check(
                "two threads: test-and-set, to no lock",
                to_none,
                Bound::AtLeast(0.75),
                "the paper calls it close; an uncontended test-and-set is two stores to a line that is at hand",
            ),
            check(
                "two threads: test-and-set, to a mutex",
                to_mutex,
                Bound::AtLeast(1.0),
                "the mutex is a line more, and two atomic operations to test-and-set's one",
            ),
            check(
                "two threads: test-and-set, to striped locks",
                to_striped,
                Bound::AtLeast(1.05),
                "the paper has 1.16 on one thread: a lock's line less, and shorter chains",
            ),
        ],
        reading: format!(
            "With two threads, test-and-set in the bucket does {to_none:.2} of what gets without a lock do, {to_mutex:.2} \
             times a mutex a bucket, and {to_striped:.2} times striped locks; with one thread {alone:.2} times striped \
             locks (paper: 1.16).",
        ),
    }
}

const VARIANTS: [&str; 4] = [
    "no lock for gets (ours)",
    "test-and-set (Mercury)",
    "mutex a bucket",
    "chaining, striped locks",
];
const THREADS: [usize; 4] = [1, 2, 4, 8];
