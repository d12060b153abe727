//! Section 3.2.1: a thundering herd on hot keys, with and without leases.

use super::herd::{Clients, Herd};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;

/// The paper's peak query rates, 17 K and 1.3 K per second, against the time between two changes of a key.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-lease",
    paper: Paper::Facebook,
    title: "queries to the database for hot keys that change, with and without leases",
    claim: "for keys prone to thundering herds leases reduce the peak rate of database queries from 17 K to 1.3 K a second",
    shape: "13 times fewer queries with leases at any rate of changes, whether clients wait for a value or take a stale one",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Measures queries per second, and the mean wait of a read, by the seconds between two changes.
fn measure(run: &Run<'_>) -> Result<Data> {
    let mut data = Data::default();
    let all = (SYSTEMS.len() * EVERY_S.len()) as f64;
    for (row, &(name, clients)) in SYSTEMS.iter().enumerate() {
        let (mut queries, mut waits) = (Vec::new(), Vec::new());
        for (place, &seconds) in EVERY_S.iter().enumerate() {
            (run.progress)((row * EVERY_S.len() + place) as f64 / all, name);
            let counts = herd(clients, seconds, run).run()?;
            let every = seconds as f64;
            queries.push((every, counts.queries as f64 / duration_s(run) as f64));
            waits.push((every, counts.waited_ms as f64 / counts.reads as f64));
        }
        let line = Line::of_figures(name, queries);
        // Clients that give up aren't in the paper: their cost is shown, and nothing is claimed about it.
        data.push(if clients == Clients::GivesUp { line.aside() } else { line });
        // The price of fewer queries. The paper has no figure of it.
        data.push(Line::of_figures(&wait_of(name), waits).aside());
    }
    Ok(data)
}

fn wait_of(name: &str) -> String {
    format!("{name}: mean wait, ms")
}

fn judge(data: &Data) -> Findings {
    Findings {
        plots: vec![plot(data)],
        tables: vec![queries(data), waits(data)],
        checks: checks(data),
        reading: reading(data),
    }
}

/// Returns the smallest factor, over all rates of changes, by which queries are fewer than without leases.
fn fewest(data: &Data, system: usize) -> f64 {
    let [plain, other] = [PLAIN, system].map(|system| data.line(SYSTEMS[system].0));
    least(plain.figures().into_iter().zip(other.figures()).map(|(plain, other)| plain / other))
}

fn checks(data: &Data) -> Vec<Check> {
    let plain = data.line(SYSTEMS[PLAIN].0);
    let why = "a key has a token every ten seconds at most, and clients without one wait: one query is left of the 20 that a herd \
               makes while one runs, and of several herds in ten seconds one query";
    vec![
        check(
            "leases: times fewer queries at any rate of changes, at the least",
            fewest(data, LEASE),
            Bound::AtLeast(13.0),
            why,
        )
        .paper("13 (17 K to 1.3 K)", Bound::AtLeast(13.0)),
        check(
            "leases and stale values: times fewer queries at any rate of changes, at the least",
            fewest(data, STALE),
            Bound::AtLeast(13.0),
            why,
        )
        .paper("13 (17 K to 1.3 K)", Bound::AtLeast(13.0)),
        check(
            "no leases: queries where keys change every 2 s, to every 40 s",
            plain.median(2.0) / plain.median(40.0),
            Bound::AtLeast(5.0),
            "each change sends a herd; the rest is that of the first fill",
        ),
    ]
}

fn reading(data: &Data) -> String {
    let queries = |system: usize| data.line(SYSTEMS[system].0).median(2.0);
    let wait_s = |system: usize| data.line(&wait_of(SYSTEMS[system].0)).median(2.0) / 1e3;
    format!(
        "Keys that change every 2 s cost {:.0} queries a second without leases and {:.1} with them, but as a key has a \
         token every 10 s a read waits {:.1} s on average. Clients that take stale values make {:.1} queries and wait \
         {:.2} s. Clients that give up after 1.5 s and query make {:.0}: more than without leases, as nobody stores what \
         they find.",
        queries(PLAIN),
        queries(LEASE),
        wait_s(LEASE),
        queries(STALE),
        wait_s(STALE),
        queries(GIVES_UP),
    )
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
    by_changes(
        "Queries a second, 4 keys, 800 reads a second, queries of 100 to 200 ms",
        SYSTEMS.map(|(name, _)| data.line(name)),
    )
}

fn waits(data: &Data) -> Table {
    by_changes(
        "Milliseconds that a read waits on average before it has a value or a token, or gives up",
        SYSTEMS.map(|(name, _)| data.line(&wait_of(name))),
    )
}

fn by_changes(title: &str, lines: [&Line; SYSTEMS.len()]) -> Table {
    let columns = EVERY_S.map(|seconds| format!("change every {seconds} s"));
    let header: Vec<&str> = std::iter::once("").chain(columns.iter().map(String::as_str)).collect();
    let row = |(line, (name, _)): (&Line, (&str, Clients))| {
        let cells = line.figures().into_iter().map(|figure| format!("{figure:.1}"));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    table(title, &header, lines.into_iter().zip(SYSTEMS).map(row).collect())
}

fn plot(data: &Data) -> Plot {
    Plot {
        title: "Queries to the database for hot keys".into(),
        x: Axis { is_log: true, ..axis("seconds between two changes of a key") },
        y: Axis { is_log: true, ..axis("queries a second") },
        series: SYSTEMS.iter().map(|(name, _)| drawn(data.line(name))).collect(),
    }
}

/// The constants below are indexes into this list.
const SYSTEMS: [(&str, Clients); 4] = [
    ("no leases", Clients::Plain),
    ("leases, clients wait", Clients::Lease),
    ("leases, clients take stale values", Clients::Stale),
    ("leases, clients give up after 1.5 s", Clients::GivesUp),
];
const PLAIN: usize = 0;
const LEASE: usize = 1;
const STALE: usize = 2;
const GIVES_UP: usize = 3;

/// Seconds between two changes of a key.
const EVERY_S: [u64; 5] = [2, 5, 10, 20, 40];
