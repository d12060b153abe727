//! Section 3.2.1: a thundering herd on hot keys, with and without leases.

use super::herd::{Clients, Counts, Herd};
use crate::figures::{axis, check, series, table};
use crate::{Axis, Bound, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;

/// The paper's peak rates of queries, 17 K and 1.3 K a second, over the time between two changes of a key.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-lease",
    paper: Paper::Facebook,
    title: "queries to the database for hot keys that change, with and without leases",
    claim: "for keys prone to thundering herds leases reduce the peak rate of database queries from 17 K to 1.3 K a second",
    shape: "13 times fewer queries with leases where a key changes less often than tokens are given; and at any rate of \
            changes, if clients take stale values",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let mut counts = Vec::new();
    for (row, &(name, clients)) in SYSTEMS.iter().enumerate() {
        for (place, &seconds) in EVERY_S.iter().enumerate() {
            let done = row * EVERY_S.len() + place;
            (run.progress)(done as f64 / (SYSTEMS.len() * EVERY_S.len()) as f64, name);
            counts.push(herd(clients, seconds, run).run()?);
        }
    }
    let rows: Vec<&[Counts]> = counts.chunks(EVERY_S.len()).collect();
    let seconds = duration_s(run) as f64;
    let rate = |counts: &Counts| counts.queries as f64 / seconds;
    let ratio = |row: usize, place: usize| rate(&rows[0][place]) / rate(&rows[row][place]);
    let fewest = |row: usize, from: usize| {
        (from..EVERY_S.len()).map(|place| ratio(row, place)).fold(f64::INFINITY, f64::min)
    };
    let checks = vec![
        check(
            "leases leave a 13th of the queries where a key changes every 20 s or more",
            fewest(1, SLOW),
            Bound::AtLeast(13.0),
            "17 K to 1.3 K in the paper; here one query is left of the 20 that a herd makes while one runs",
        ),
        check(
            "with stale values leases leave a 13th at any rate of changes",
            fewest(2, 0),
            Bound::AtLeast(13.0),
            "one token in ten seconds, and nobody else queries",
        ),
    ];
    Ok(Outcome {
        plots: vec![plot(&rows, &rate)],
        tables: vec![queries(&rows, &rate)],
        checks,
        reading: format!(
            "Keys that change every 20 s cost {:.0} queries a second without leases and {:.1} with them, {:.0} times \
             fewer (the paper: 13). Where a key changes faster than tokens are given, clients that only wait end in \
             the database, and {:.1} times as many queries are made as without leases at a change every 2 s; taking stale \
             values, as the paper's clients can, leaves {:.0} times fewer.",
            rate(&rows[0][SLOW]),
            rate(&rows[1][SLOW]),
            ratio(1, SLOW),
            1.0 / ratio(1, 0),
            ratio(2, 0),
        ),
    })
}

fn herd(clients: Clients, change_every_s: u64, run: &Run<'_>) -> Herd {
    Herd {
        clients,
        keys: 4,
        reads_per_s: 200,
        change_every_ms: (change_every_s * 1000, change_every_s * 1000),
        query_ms: (100, 200),
        seconds: duration_s(run),
        interval_s: 10,
        seed: run.seed,
    }
}

fn duration_s(run: &Run<'_>) -> u64 {
    run.scale.pick(80, 800)
}

fn queries(rows: &[&[Counts]], rate: &dyn Fn(&Counts) -> f64) -> Table {
    let columns = EVERY_S.map(|seconds| format!("change every {seconds} s"));
    let header: Vec<&str> = std::iter::once("").chain(columns.iter().map(String::as_str)).collect();
    let row = |(&(name, _), counts): (&(&str, Clients), &&[Counts])| {
        let cells = counts.iter().map(|counts| format!("{:.1}", rate(counts)));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    table(
        "Queries a second, 4 keys, 800 reads a second, queries of 100 to 200 ms",
        &header,
        SYSTEMS.iter().zip(rows).map(row).collect(),
    )
}

fn plot(rows: &[&[Counts]], rate: &dyn Fn(&Counts) -> f64) -> Plot {
    let line = |(&(name, _), counts): (&(&str, Clients), &&[Counts])| {
        series(name, EVERY_S.iter().zip(*counts).map(|(&s, counts)| (s as f64, rate(counts))))
    };
    Plot {
        title: "Queries to the database for hot keys".into(),
        x: Axis { is_log: true, ..axis("seconds between two changes of a key") },
        y: Axis { is_log: true, ..axis("queries a second") },
        series: SYSTEMS.iter().zip(rows).map(line).collect(),
    }
}

const SYSTEMS: [(&str, Clients); 3] = [
    ("no leases", Clients::Plain),
    ("leases, clients wait", Clients::Lease),
    ("leases, clients take stale values", Clients::Stale),
];

/// Between two changes of a key, in seconds; from [`SLOW`] on no less than twice the interval between tokens.
const EVERY_S: [u64; 5] = [2, 5, 10, 20, 40];
const SLOW: usize = 3;
