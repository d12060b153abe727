//! Section 3.2.1: a thundering herd on hot keys, with and without leases.

use super::herd::{Clients, Herd};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, table};
use crate::{Axis, Bound, Experiment, Outcome, Paper, Plot, Run, Table};
use anyhow::Result;

/// The paper's peak rates of queries, 17 K and 1.3 K a second, over the time between two changes of a key.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-lease",
    paper: Paper::Facebook,
    title: "queries to the database for hot keys that change, with and without leases",
    claim: "for keys prone to thundering herds leases reduce the peak rate of database queries from 17 K to 1.3 K a second",
    shape: "13 times fewer queries with leases where a key changes less often than tokens are given; and at any rate of \
            changes, if clients take stale values",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Queries a second, by the seconds between two changes.
fn measure(run: &Run<'_>) -> Result<Data> {
    let mut data = Data::default();
    let all = (SYSTEMS.len() * EVERY_S.len()) as f64;
    for (row, &(name, clients)) in SYSTEMS.iter().enumerate() {
        let mut points = Vec::new();
        for (place, &seconds) in EVERY_S.iter().enumerate() {
            (run.progress)((row * EVERY_S.len() + place) as f64 / all, name);
            let counts = herd(clients, seconds, run).run()?;
            points.push((seconds as f64, counts.queries as f64 / duration_s(run) as f64));
        }
        data.push(Line::of_figures(name, points));
    }
    Ok(data)
}

fn judge(data: &Data) -> Outcome {
    let [plain, lease, stale] = SYSTEMS.map(|(name, _)| data.line(name));
    // How many times fewer, at the least, among those who change no more often than every `from` seconds.
    let fewest = |line: &Line, from: f64| {
        let places = EVERY_S.into_iter().map(|it| it as f64).filter(|it| *it >= from);
        places.map(|it| plain.median(it) / line.median(it)).fold(f64::INFINITY, f64::min)
    };
    let checks = vec![
        check(
            "leases: times fewer queries where a key changes every 20 s or more, at the least",
            fewest(lease, SLOW_S),
            Bound::AtLeast(13.0),
            "one query is left of the 20 that a herd makes while one runs",
        )
        .paper("13 (17 K to 1.3 K)", Bound::AtLeast(13.0)),
        check(
            "leases and stale values: times fewer queries at any rate of changes, at the least",
            fewest(stale, 0.0),
            Bound::AtLeast(13.0),
            "one token in ten seconds, and nobody else queries",
        )
        .paper("13 (17 K to 1.3 K)", Bound::AtLeast(13.0)),
    ];
    Outcome {
        plots: vec![plot(data)],
        tables: vec![queries(data)],
        checks,
        reading: format!(
            "Keys that change every 20 s cost {:.0} queries a second without leases and {:.1} with them, {:.0} times \
             fewer. Where a key changes faster than tokens are given, clients that only wait end in the database, and {:.1} \
             times as many queries are made as without leases at a change every 2 s; taking stale values, as the paper's \
             clients can, leaves {:.0} times fewer.",
            plain.median(SLOW_S),
            lease.median(SLOW_S),
            plain.median(SLOW_S) / lease.median(SLOW_S),
            lease.median(2.0) / plain.median(2.0),
            plain.median(2.0) / stale.median(2.0),
        ),
    }
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

fn queries(data: &Data) -> Table {
    let columns = EVERY_S.map(|seconds| format!("change every {seconds} s"));
    let header: Vec<&str> = std::iter::once("").chain(columns.iter().map(String::as_str)).collect();
    let row = |(name, _): (&str, Clients)| {
        let cells = data.line(name).figures().into_iter().map(|rate| format!("{rate:.1}"));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    table(
        "Queries a second, 4 keys, 800 reads a second, queries of 100 to 200 ms",
        &header,
        SYSTEMS.map(row).into(),
    )
}

fn plot(data: &Data) -> Plot {
    Plot {
        title: "Queries to the database for hot keys".into(),
        x: Axis { is_log: true, ..axis("seconds between two changes of a key") },
        y: Axis { is_log: true, ..axis("queries a second") },
        series: data.lines.iter().map(drawn).collect(),
    }
}

const SYSTEMS: [(&str, Clients); 3] = [
    ("no leases", Clients::Plain),
    ("leases, clients wait", Clients::Lease),
    ("leases, clients take stale values", Clients::Stale),
];

/// Between two changes of a key, in seconds; from [`SLOW_S`] on no less than twice the interval between tokens.
const EVERY_S: [u64; 5] = [2, 5, 10, 20, 40];
const SLOW_S: f64 = 20.0;
