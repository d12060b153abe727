//! Experiments of the tests: what they find is known beforehand.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::experiment::{Experiment, Paper, Run, Verdict};
use crate::outcome::{Axis, Bound, Check, Outcome, Plot, Series, Table};

/// Holds.
pub(crate) const HOLDS: Experiment = experiment("planted-holds", true, |run| {
    (run.progress)(0.5, "half of nothing");
    Ok(outcome(2.0))
});

/// Never holds.
pub(crate) const FAILS: Experiment = experiment("planted-fails", false, |_| Ok(outcome(1.25)));

/// Holds on the third attempt, counting from where [`NOISE`] stands.
pub(crate) const NOISY: Experiment = experiment("planted-noisy", false, |_| {
    Ok(outcome(1.0 + 0.25 * f64::from(NOISE.fetch_add(1, Ordering::Relaxed))))
});

/// Ends with an error.
pub(crate) const ENDS: Experiment =
    experiment("planted-error", false, |_| anyhow::bail!("the table doesn't fit"));

/// Panics.
pub(crate) const PANICS: Experiment =
    experiment("planted-panic", false, |_| panic!("index out of bounds, for the test"));

/// Runs of [`NOISY`].
pub(crate) static NOISE: AtomicU32 = AtomicU32::new(0);

const fn experiment(
    id: &'static str,
    is_quick: bool,
    run: fn(&Run<'_>) -> anyhow::Result<Outcome>,
) -> Experiment {
    Experiment {
        id,
        paper: Paper::Ours,
        title: "what a test plants",
        claim: "Two is twice one.",
        shape: "the ratio is at least 1.5",
        verdict: Verdict::NotTestable("one and two | are not measured"),
        is_quick,
        run,
    }
}

/// An outcome with one of everything, whose only check measures `ratio` and wants 1.5.
pub(crate) fn outcome(ratio: f64) -> Outcome {
    let axis = |label: &str| Axis { label: label.into(), is_log: false, categories: Vec::new() };
    let line = |name: &str, is_papers, points: &[(f64, f64)]| Series {
        name: name.into(),
        points: points.to_vec(),
        is_papers,
    };
    Outcome {
        plots: vec![Plot {
            title: "rate against threads".into(),
            x: axis("threads"),
            y: axis("operations, M/s"),
            series: vec![
                line("cuckoo", false, &[(1.0, 1.1), (2.0, 2.2), (4.0, f64::NAN)]),
                line("cuckoo (paper)", true, &[(1.0, 1.0), (2.0, 2.0)]),
            ],
        }],
        tables: vec![Table {
            title: "rates".into(),
            header: vec!["threads".into(), "paper".into(), "here".into()],
            rows: vec![vec!["1 | one".into(), "1.0".into(), "1.1".into()]],
        }],
        checks: vec![Check {
            claim: "two threads do 1.5 of what one does".into(),
            measured: ratio,
            bound: Bound::AtLeast(1.5),
            reason: "half of the second may go to the operating system",
        }],
        reading: "Two threads did 2.0 of what one did.".into(),
    }
}
