//! Experiments for the tests, whose results are known in advance.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::data::{Data, Line};
use crate::experiment::{Experiment, Paper, Run};
use crate::figures::{axis, check, drawn, papers, table};
use crate::outcome::{Bound, Findings, Plot};

/// Holds.
pub(crate) const HOLDS: Experiment = experiment("planted-holds", true, |run| {
    (run.progress)(0.5, "half of nothing");
    Ok(measured(2.0))
});

/// Never holds.
pub(crate) const FAILS: Experiment = experiment("planted-fails", false, |_| Ok(measured(1.25)));

/// Measures 1, 2, 2: holds by the median.
pub(crate) const NOISY: Experiment = experiment("planted-noisy", false, |_| {
    let runs = NOISE.fetch_add(1, Ordering::Relaxed);
    Ok(measured(if runs == 0 { 1.0 } else { 2.0 + f64::from(runs) / 8.0 }))
});

/// Holds whatever is measured.
pub(crate) const BLIND: Experiment = Experiment {
    judge: |_| Findings::default(),
    ..experiment("planted-blind", false, HOLDS.measure)
};

/// Ends with an error.
pub(crate) const ENDS: Experiment =
    experiment("planted-error", false, |_| anyhow::bail!("the table doesn't fit"));

/// Panics.
pub(crate) const PANICS: Experiment =
    experiment("planted-panic", false, |_| panic!("index out of bounds, for the test"));

/// Measures nothing of a line.
pub(crate) const NOTHING: Experiment = experiment("planted-nothing", false, |_| {
    let mut data = measured(2.0);
    data.lines[1].points[1].samples.clear();
    Ok(data)
});

/// Lacks a point that is judged.
pub(crate) const TOO_FEW: Experiment = experiment("planted-too-few", false, |_| {
    let mut data = measured(2.0);
    data.lines[0].points.remove(1);
    Ok(data)
});

/// The number of runs of [`NOISY`].
pub(crate) static NOISE: AtomicU32 = AtomicU32::new(0);

const fn experiment(
    id: &'static str,
    is_quick: bool,
    measure: fn(&Run<'_>) -> anyhow::Result<Data>,
) -> Experiment {
    Experiment {
        id,
        paper: Paper::Ours,
        title: "what a test plants",
        claim: "Two is twice one.",
        shape: "the ratio is at least 1.5",
        why: "one and two | are small",
        is_quick,
        measure,
        judge,
    }
}

/// Data with a line that rises by `gain` and is higher than a flat one.
pub(crate) fn measured(gain: f64) -> Data {
    let mut data = Data::default();
    data.push(Line::of_figures("cuckoo", [(1.0, 1.1), (2.0, 1.1 * gain), (4.0, f64::NAN)]));
    data.push(Line::of_figures("chaining", [(1.0, 0.5), (2.0, 0.5), (4.0, 0.5)]).flat());
    data
}

fn judge(data: &Data) -> Findings {
    let cuckoo = data.line("cuckoo");
    let chaining = data.line("chaining");
    let gain = |line: &Line| line.median(2.0) / line.median(1.0);
    Findings {
        plots: vec![Plot {
            title: "rate against threads".into(),
            x: axis("threads"),
            y: axis("operations, M/s"),
            series: vec![drawn(cuckoo), papers("cuckoo (paper)", [(1.0, 1.0), (2.0, 2.0)])],
        }],
        tables: vec![table(
            "rates",
            &["threads", "paper", "here"],
            vec![vec!["1 | one".into(), "1.0".into(), "1.1".into()]],
        )],
        checks: vec![
            check(
                "two threads do 1.5 of what one does",
                gain(cuckoo),
                Bound::AtLeast(1.5),
                "half of the second may go to the operating system",
            )
            .paper("2", Bound::AtLeast(1.9)),
            check("chaining gains nothing", gain(chaining), Bound::AtMost(1.2), "it has one lock"),
            check(
                "cuckoo, to chaining",
                cuckoo.median(1.0) / chaining.median(1.0),
                Bound::AtLeast(2.0),
                "as planted",
            ),
        ],
        reading: "Two threads did 2.0 of what one did.".into(),
    }
}
