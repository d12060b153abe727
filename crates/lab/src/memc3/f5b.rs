//! MemC3, figure 5b: what each step contributes when several threads look up at once.
//!
//! Two processors stand for the paper's six threads: with two threads each has its own, with six they wait for each
//! other. Rates are by the wall clock, since waiting for a lock takes no processor time. Look-ups of a thread wait for
//! each other.

use super::factors::{Factors, STEPS};
use super::gains::Gains;
use crate::drive::{look_up, threads_apart};
use crate::figures::{axis, categories, check, papers, series, table};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;
use std::ops::Range;
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
            ones; a second thread gains MemC3 at least 0.75 of what it gains work that shares nothing, and chaining under one \
            lock at most 0.75 of it; optimistic not below bucket locks",
    verdict: Verdict::NotTestable(
        "with two processors the factor of six threads can't show; what shows is that the one lock gains nothing from \
         the second thread, and that MemC3 gains all of it",
    ),
    is_quick: false,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let tell = |share: f64, doing: &str| (run.progress)(share, doing);
    let factors = Factors::new(run.scale, tell);
    let time = Duration::from_millis(run.scale.pick(60, 500));
    let keys = factors.keys();
    let measure = |range: Range<u32>| {
        Gains::measure(&THREADS, STEPS.len() + 1, run.seed, |threads, step, seed| {
            let work = threads_apart(threads, time, |thread, stop| {
                let mut ops = 0;
                while !stop.load(Relaxed) {
                    let seed = seed << 32 | (thread as u64) << 24 | ops;
                    look_up(seed, AT_ONCE, range.clone(), |key| {
                        if step < STEPS.len() { factors.get(step, key) } else { factors.known(key) }
                    });
                    ops += AT_ONCE;
                }
                ops
            });
            work.rate()
        })
    };
    tell(0.3, "present keys");
    let hits = measure(0..keys)?;
    tell(0.65, "absent keys");
    let misses = measure(keys..2 * keys)?;
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
fn plot(title: &str, gains: &Gains, papers_factor: f64) -> Plot {
    let bars = |(place, threads): (usize, usize)| {
        let points = (0..STEPS.len()).map(|step| (step as f64, gains.rate(place, step)));
        series(&format!("{threads} threads"), points)
    };
    let base = gains.rate(2, 0);
    let points = [(0.0, base), (6.0, base * papers_factor)];
    let mut all: Vec<_> = THREADS.into_iter().enumerate().map(bars).collect();
    all.push(papers("paper's 6 threads, by its factor", points));
    Plot {
        title: title.into(),
        x: categories("", &STEPS),
        y: axis("million look-ups a second"),
        series: all,
    }
}

fn scaling(hits: &Gains, misses: &Gains) -> Table {
    let row = |step: usize| {
        let gain = |gains: &Gains, place: usize| format!("{:.2}", gains.gain(place, step));
        let name = STEPS.get(step).copied().unwrap_or("(no table: reads that share nothing)");
        let cells = vec![gain(hits, 1), gain(hits, 2), gain(misses, 1), gain(misses, 2)];
        [vec![name.to_owned()], cells].concat()
    };
    let header = ["step", "present, 2 threads", "6 threads", "absent, 2 threads", "6 threads"];
    table("Rate on several threads to one's", &header, (0..=STEPS.len()).map(row).collect())
}

fn checks(hits: &Gains, misses: &Gains) -> Vec<Check> {
    let mut all = vec![
        check(
            "present keys, 2 threads: MemC3, to plain chaining under one lock",
            hits.ratio(1, 6, 0),
            Bound::AtLeast(1.6),
            "the paper has 12 on six threads, a third of which two can show",
        ),
        check(
            "absent keys, 2 threads: MemC3, to plain chaining under one lock",
            misses.ratio(1, 6, 0),
            Bound::AtLeast(2.5),
            "the paper has 25 on six threads",
        ),
        check(
            "present keys, 2 threads: optimistic, to bucket locks",
            hits.ratio(1, 6, 5),
            Bound::AtLeast(0.9),
            "a bucket's lock that nobody holds costs two atomic instructions of a look-up that waits for memory",
        ),
        check(
            "absent keys, 2 threads: optimistic, to bucket locks",
            misses.ratio(1, 6, 5),
            Bound::AtLeast(0.9),
            "as for present keys",
        ),
    ];
    all.extend(hits.scales("present keys, MemC3", 6, 0.75));
    all.extend(misses.scales("absent keys, MemC3", 6, 0.75));
    all.extend(hits.waits("present keys, chaining under one lock", 2, 0.75));
    all
}

fn reading(hits: &Gains, misses: &Gains) -> String {
    format!(
        "On two threads MemC3 does {:.1} times the look-ups of plain chaining for present keys and {:.1} times for absent \
         ones. The second thread makes MemC3 {:.2} times as fast, chaining with bucket locks {:.2} times, chaining under \
         one lock {:.2} times, and reads that share nothing {:.2} times. Optimistic reads do {:.2} times what bucket locks \
         do.",
        hits.ratio(1, 6, 0),
        misses.ratio(1, 6, 0),
        hits.gain(1, 6),
        hits.gain(1, 3),
        hits.gain(1, 2),
        hits.possible(1),
        hits.ratio(1, 6, 5),
    )
}

/// One, two processors' worth, and the paper's.
const THREADS: [usize; 3] = [1, 2, 6];
/// Look-ups between two looks at the flag that ends a run.
const AT_ONCE: u64 = 256;
