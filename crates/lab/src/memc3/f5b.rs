//! MemC3, figure 5b: what each step contributes when several threads look up at once.
//!
//! Two processors stand for the paper's six threads: with two threads each has its own, with six they wait for each
//! other. Rates are by the wall clock, since waiting for a lock takes no processor time.

use super::drive::look_up;
use super::f5a::in_turns;
use super::factors::{Factors, STEPS};
use super::figures::{axis, categories, check, papers, series, table};
use crate::measure::{Rounds, Spread, threads_for};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Series, Table, Verdict};
use anyhow::Result;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Figure 5b.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-f5b",
    paper: Paper::MemC3,
    title: "what each step contributes to look-ups, several threads",
    claim: "on six threads MemC3 does 12 times the look-ups of chaining under one lock for present keys, and 25 times for \
            absent ones; the optimistic lock is what scales",
    shape: "on two threads MemC3 at least 1.6 times chaining under one lock for present keys, 2.5 times for absent \
            ones; a second thread gains at least 1.3 times as much with MemC3 as with the one lock; \
            optimistic not below bucket locks",
    verdict: Verdict::NotTestable(
        "with two processors the factor of six threads can't show; what shows is that the one lock gains nothing from \
         the second thread, and that MemC3 gains all of it",
    ),
    is_quick: false,
    run,
};

/// Rates by step, of one kind of keys.
struct Measured {
    by_threads: [Rounds; 3],
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let tell = |share: f64, doing: &str| (run.progress)(share, doing);
    let factors = Factors::new(run.scale, tell);
    let time = Duration::from_millis(run.scale.pick(70, 500));
    let keys = factors.keys();
    let mut kinds = Vec::new();
    for (kind, range) in [0..keys, keys..2 * keys].into_iter().enumerate() {
        let mut by_threads = Vec::new();
        for (place, threads) in THREADS.into_iter().enumerate() {
            tell(0.3 + 0.7 * (3 * kind + place) as f64 / 6.0, &format!("{threads} threads"));
            let one = |step: usize, seed: u64| {
                let work = threads_for(threads, time, |thread, stop| {
                    let mut ops = 0;
                    while !stop.load(Relaxed) {
                        let seed = seed << 32 | (thread as u64) << 24 | ops;
                        look_up(seed, AT_ONCE, range.clone(), |key| factors.get(step, key));
                        ops += AT_ONCE;
                    }
                    ops
                });
                work.rate()
            };
            by_threads.push(in_turns(STEPS.len(), ROUNDS, run.seed, one)?);
        }
        let by_threads = by_threads.try_into().map_err(|_| anyhow::anyhow!("three of them"))?;
        kinds.push(Measured { by_threads });
    }
    let [hits, misses] = [kinds.remove(0), kinds.remove(0)];
    Ok(Outcome {
        plots: vec![
            plot("Look-ups of present keys", &hits, 12.0),
            plot("Look-ups of absent keys", &misses, 25.0),
        ],
        tables: vec![scaling(&hits, &misses)],
        checks: checks(&hits, &misses),
        reading: reading(&hits, &misses),
    })
}

/// The paper's bars can be drawn to scale only: its factor over chaining under one lock, at six threads.
fn plot(title: &str, measured: &Measured, papers_factor: f64) -> Plot {
    let bars = |place: usize| -> Series {
        let rounds = &measured.by_threads[place];
        let points = (0..STEPS.len()).map(|step| (step as f64, rounds.median(step) / 1e6));
        series(&format!("{} threads", THREADS[place]), points)
    };
    let base = measured.by_threads[2].median(0) / 1e6;
    let factor =
        papers("paper's 6 threads, by its factor", [(0.0, base), (6.0, base * papers_factor)]);
    Plot {
        title: title.into(),
        x: categories("", &STEPS),
        y: axis("million look-ups a second"),
        series: vec![bars(0), bars(1), bars(2), factor],
    }
}

/// The second thread's gain, by step.
fn scaling(hits: &Measured, misses: &Measured) -> Table {
    let row = |step: usize| {
        let gain = |measured: &Measured, place: usize| {
            format!("{:.2}", across(measured, place, step).median)
        };
        vec![STEPS[step].to_owned(), gain(hits, 1), gain(hits, 2), gain(misses, 1), gain(misses, 2)]
    };
    let header = ["step", "present, 2 threads", "6 threads", "absent, 2 threads", "6 threads"];
    table("Rate on several threads to one's", &header, (0..STEPS.len()).map(row).collect())
}

/// A step's rate with the threads at `place`, to its rate with one.
fn across(measured: &Measured, place: usize, step: usize) -> Spread {
    let [many, one] = [place, 0].map(|place| &measured.by_threads[place].samples[step]);
    Spread::of(&many.iter().zip(one).map(|(many, one)| many / one).collect::<Vec<_>>())
}

fn checks(hits: &Measured, misses: &Measured) -> Vec<Check> {
    let over = |measured: &Measured, to: usize| measured.by_threads[1].ratio(6, to).median;
    let scales =
        |measured: &Measured| across(measured, 1, 6).median / across(measured, 1, 2).median;
    vec![
        check(
            "present keys, 2 threads: MemC3, to plain chaining under one lock",
            over(hits, 0),
            Bound::AtLeast(1.6),
            "the paper has 12 on six threads, a third of which two can show",
        ),
        check(
            "absent keys, 2 threads: MemC3, to plain chaining under one lock",
            over(misses, 0),
            Bound::AtLeast(2.5),
            "the paper has 25 on six threads",
        ),
        check(
            "present keys: gain of MemC3 from a second thread, to the gain of one lock",
            scales(hits),
            Bound::AtLeast(1.3),
            "2 to 1 at most; a neighbour on the second processor takes from both",
        ),
        check(
            "present keys, 2 threads: optimistic, to bucket locks",
            over(hits, 5),
            Bound::AtLeast(0.95),
            "a bucket's lock that nobody holds costs two atomic instructions of a look-up that waits for memory",
        ),
        check(
            "absent keys, 2 threads: optimistic, to bucket locks",
            over(misses, 5),
            Bound::AtLeast(0.95),
            "as for present keys",
        ),
    ]
}

fn reading(hits: &Measured, misses: &Measured) -> String {
    let over = |measured: &Measured, to: usize| measured.by_threads[1].ratio(6, to).median;
    format!(
        "On two threads MemC3 does {:.1} times the look-ups of plain chaining for present keys and {:.1} times for absent \
         ones. The second thread makes MemC3 {:.2} times as fast, chaining with bucket locks {:.2} times, and chaining \
         under one lock {:.2} times. Optimistic reads do {:.2} times what bucket locks do.",
        over(hits, 0),
        over(misses, 0),
        across(hits, 1, 6).median,
        across(hits, 1, 3).median,
        across(hits, 1, 2).median,
        over(hits, 5),
    )
}

/// Two processors' worth, and the paper's.
const THREADS: [usize; 3] = [1, 2, 6];
const ROUNDS: usize = 5;
/// Look-ups between two looks at the flag that ends a run.
const AT_ONCE: u64 = 256;
