//! Section 3.2.1: values that an update overtook on their way into the cache, with and without leases.

use super::herd::{Clients, Counts, Herd};
use crate::data::{Data, Line};
use crate::figures::{axis, categories, check, drawn, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;

/// The paper's argument in numbers; it has no such figure.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-stale-set",
    paper: Paper::Facebook,
    title: "stale values left in the cache by fills that updates overtake",
    claim: "without leases concurrent updates reorder, and a value can stay that is not the latest; leases prevent it",
    shape: "without leases some changes leave a stale value, with them none does",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// Counts by system, one point each.
const LEFT: &str = "stale values left";
const HITS: &str = "stale hits";
const TAKEN: &str = "taken as stale";
/// The circumstances: how much happened.
const CHANGES: &str = "changes";
const READS: &str = "reads";
const QUERIES: &str = "queries";

fn measure(run: &Run<'_>) -> Result<Data> {
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
    let line = |name, of: fn(&Counts) -> u64| {
        let points = counts.iter().enumerate().map(|(at, it)| (at as f64, of(it) as f64));
        Line::of_figures(name, points)
    };
    let mut data = Data::default();
    data.push(line(LEFT, |it| it.stale_left));
    data.push(line(HITS, |it| it.stale_hits));
    data.push(line(TAKEN, |it| it.stale_taken));
    data.push(line(CHANGES, |it| it.changes).aside());
    data.push(line(READS, |it| it.reads).aside());
    data.push(line(QUERIES, |it| it.queries).aside());
    Ok(data)
}

fn judge(data: &Data) -> Findings {
    let plain = |name: &str| data.line(name).median(0.0);
    let plot = Plot {
        title: "Stale values left in the cache".into(),
        x: categories("clients", &SYSTEMS.map(|(name, _)| name)),
        y: axis("changes that left one"),
        series: vec![drawn(data.line(LEFT))],
    };
    Findings {
        plots: vec![plot],
        tables: vec![totals(data)],
        checks: checks(data),
        reading: format!(
            "Of {:.0} changes {:.0} left a value older than itself in the cache when nobody used leases, and {:.0} hits \
             returned one; with leases none.",
            plain(CHANGES),
            plain(LEFT),
            plain(HITS),
        ),
    }
}

fn checks(data: &Data) -> Vec<Check> {
    let [left, hits, taken] = [LEFT, HITS, TAKEN].map(|name| data.line(name).figures());
    let with_leases = |figures: &[f64]| figures[1..].iter().sum::<f64>();
    vec![
        check(
            "without leases changes leave stale values: how many",
            left[0],
            Bound::AtLeast(5.0),
            "of some 3,000 changes one of 25 meets a query under way, and some of those have read already",
        )
        .paper_or("some", Bound::AtLeast(1.0), 0.0),
        check(
            "with leases nobody reads a stale value, and none is left",
            with_leases(&left) + with_leases(&hits),
            Bound::AtMost(0.0),
            "a change voids the token before it takes place",
        )
        .paper_exactly("none", Bound::AtMost(0.0)),
        check(
            "without leases: hits that return a stale value, to those left",
            hits[0] / left[0],
            Bound::AtLeast(5.0),
            "each stays for most of a second, with 50 reads a second",
        ),
        check(
            "stale values taken knowingly by clients that may",
            taken[2],
            Bound::AtLeast(100.0),
            "a client that is told to wait takes what was deleted",
        ),
        check(
            "and by those that may not",
            taken[0] + taken[1],
            Bound::AtMost(0.0),
            "only clients that ask for stale values get them",
        ),
    ]
}

fn totals(data: &Data) -> Table {
    let columns = [CHANGES, READS, QUERIES, LEFT, HITS, TAKEN];
    let header: Vec<&str> = [""].into_iter().chain(columns).collect();
    let row = |(at, (name, _)): (usize, &(&str, Clients))| {
        let cells = columns.map(|column| format!("{:.0}", data.line(column).median(at as f64)));
        std::iter::once((*name).to_owned()).chain(cells).collect()
    };
    table(
        "40 keys that change every 1.3 s on average, queries of 5 to 100 ms, a token a second",
        &header,
        SYSTEMS.iter().enumerate().map(row).collect(),
    )
}

const SYSTEMS: [(&str, Clients); 3] = [
    ("no leases", Clients::Plain),
    ("leases", Clients::Lease),
    ("leases, stale values", Clients::Stale),
];
