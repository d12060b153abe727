//! Section 3.2.1: values that an update overtook on their way into the cache, with and without leases.

use super::herd::{Clients, Counts, Herd};
use crate::figures::{axis, categories, check, series, table};
use crate::{Bound, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;

/// No figure of the paper's: its argument, counted.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-stale-set",
    paper: Paper::Facebook,
    title: "stale values left in the cache by fills that updates overtake",
    claim: "without leases concurrent updates reorder, and a value can stay that is not the latest; leases prevent it",
    shape: "without leases some changes leave a stale value, with them none does",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let mut counts = Vec::new();
    for (place, &(name, clients)) in SYSTEMS.iter().enumerate() {
        (run.progress)(place as f64 / SYSTEMS.len() as f64, name);
        let herd = Herd {
            clients,
            keys: 40,
            reads_per_s: 50,
            change_every_ms: (1, 2600),
            query_ms: (5, 100),
            seconds: run.scale.pick(100, 1000),
            interval_s: 1,
            seed: run.seed,
        };
        counts.push(herd.run()?);
    }
    let hits = |places: std::ops::Range<usize>| {
        counts[places].iter().map(|it| (it.stale_left + it.stale_hits) as f64).sum::<f64>()
    };
    let checks = vec![
        check(
            "without leases changes leave stale values: how many",
            counts[0].stale_left as f64,
            Bound::AtLeast(5.0),
            "of some 3,000 changes one of 25 meets a query under way, and some of those have read already",
        ),
        check(
            "with leases nobody reads a stale value, and none is left",
            hits(1..SYSTEMS.len()),
            Bound::AtMost(0.0),
            "a change voids the token before it takes place",
        ),
    ];
    Ok(Outcome {
        plots: vec![plot(&counts)],
        tables: vec![totals(&counts)],
        checks,
        reading: format!(
            "Of {} changes {} left a value older than itself in the cache when nobody used leases, and {} hits returned \
             one; with leases none.",
            counts[0].changes, counts[0].stale_left, counts[0].stale_hits,
        ),
    })
}

fn totals(counts: &[Counts]) -> Table {
    let header =
        ["", "changes", "reads", "queries", "stale values left", "stale hits", "taken as stale"];
    let row = |(&(name, _), it): (&(&str, Clients), &Counts)| {
        let figures =
            [it.changes, it.reads, it.queries, it.stale_left, it.stale_hits, it.stale_taken];
        std::iter::once(name.to_owned()).chain(figures.map(|n| n.to_string())).collect()
    };
    table(
        "40 keys that change every 1.3 s on the average, queries of 5 to 100 ms, a token a second",
        &header,
        SYSTEMS.iter().zip(counts).map(row).collect(),
    )
}

fn plot(counts: &[Counts]) -> Plot {
    let points = counts.iter().enumerate().map(|(n, it)| (n as f64, it.stale_left as f64));
    Plot {
        title: "Stale values left in the cache".into(),
        x: categories("clients", &SYSTEMS.map(|(name, _)| name)),
        y: axis("changes that left one"),
        series: vec![series("stale values", points)],
    }
}

const SYSTEMS: [(&str, Clients); 3] = [
    ("no leases", Clients::Plain),
    ("leases", Clients::Lease),
    ("leases, stale values", Clients::Stale),
];
