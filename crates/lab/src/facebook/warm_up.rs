//! Section 4.3: a cold cluster that fills itself from a warm one, and the races of its updates.

use super::web::{Counts, TICK, Web};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, table};
use crate::live::{Client, Router, pool, store};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

/// The figures are from the paper's text, not from a plot.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-warmup",
    paper: Paper::Facebook,
    title: "a cold cluster's hit rate over time, and stale values, with and without a warm cluster and a hold-off",
    claim: "filled from a warm cluster a cold one works in hours, where the database would take days; a delete that holds \
            off adds for two seconds keeps values that the warm cluster has not yet forgotten from being stored",
    shape: "with a warm cluster clients' hit rate is there at once, without it the database bounds how fast it comes; with \
            the hold-off and WarmUpRoute as it is no stale value is read, without either some are",
    why: "",
    is_quick: false,
    measure,
    judge,
};

/// A way to start a cluster.
struct Way {
    name: &'static str,
    has_warm: bool,
    is_strict: bool,
    hold_off_s: u32,
}

/// By way, one point each: the percentage of gets that hit in the first two seconds, and in the last two.
const AT_FIRST: &str = "hits in the first two seconds, %";
const AT_LAST: &str = "in the last two";
/// The number of hits older than the database.
const STALE: &str = "stale hits";
/// The circumstances: how much happened.
const GETS: &str = "gets";
const QUERIES: &str = "queries";

fn measure(run: &Run<'_>) -> Result<Data> {
    let ticks = run.scale.pick(24, 120);
    let mut all = Vec::new();
    for (place, way) in WAYS.iter().enumerate() {
        (run.progress)(place as f64 / WAYS.len() as f64, way.name);
        all.push(watch(way, ticks, run.seed)?);
    }
    let line = |name: &str, of: fn(&[Counts]) -> f64| {
        let points = all.iter().enumerate().map(|(way, ticks)| (way as f64, of(ticks)));
        Line::of_figures(name, points)
    };
    let mut data = Data::default();
    data.push(line(AT_FIRST, |ticks| 100.0 * Counts::of(&ticks[..FIRST]).hit_rate()));
    data.push(line(AT_LAST, |ticks| 100.0 * Counts::of(&ticks[ticks.len() - FIRST..]).hit_rate()));
    data.push(line(STALE, |ticks| Counts::of(ticks).stale as f64));
    data.push(line(GETS, |ticks| Counts::of(ticks).gets as f64).aside());
    data.push(line(QUERIES, |ticks| Counts::of(ticks).queries as f64).aside());
    // The plot's curves. The claims about them are checked by the lines above.
    let second = |tick: usize| (tick + 1) as f64 * TICK.as_secs_f64();
    for (way, ticks) in WAYS.iter().zip(&all) {
        let points = ticks.iter().enumerate();
        let points = points.map(|(tick, it)| (second(tick), 100.0 * it.hit_rate()));
        data.push(Line::of_figures(way.name, points).aside());
    }
    Ok(data)
}

fn at(data: &Data, line: &str, way: usize) -> f64 {
    data.line(line).median(way as f64)
}

fn judge(data: &Data) -> Findings {
    Findings {
        plots: vec![Plot {
            title: "Gets that hit, after a cluster began cold".into(),
            x: axis("seconds"),
            y: axis("% of the gets"),
            series: WAYS.iter().map(|way| drawn(data.line(way.name))).collect(),
        }],
        tables: vec![figures(data)],
        checks: [hits(data), stale(data)].concat(),
        reading: format!(
            "In the first two seconds {:.0} % of the gets hit with a warm cluster and {:.0} % without one; in the last two \
             {:.0} % and {:.0} %. Without a hold-off {:.0} hits are older than the database, with it {:.0} where the router \
             answers before it knows whether its add was taken, and {:.0} where it waits for that.",
            at(data, AT_FIRST, HELD_OFF),
            at(data, AT_FIRST, COLD),
            at(data, AT_LAST, HELD_OFF),
            at(data, AT_LAST, COLD),
            at(data, STALE, UNHELD),
            at(data, STALE, EARLY),
            at(data, STALE, HELD_OFF),
        ),
    }
}

fn hits(data: &Data) -> Vec<Check> {
    vec![
        check(
            "hit rate in the first two seconds with a warm cluster, %",
            at(data, AT_FIRST, HELD_OFF),
            Bound::AtLeast(80.0),
            "one get of ten finds its value changed a moment before",
        ),
        check(
            "and without one, over that",
            at(data, AT_FIRST, COLD) / at(data, AT_FIRST, HELD_OFF),
            Bound::AtMost(0.7),
            "the database answers a fraction of what is asked",
        )
        .paper("days to hours", Bound::AtMost(0.7)),
        check(
            "without one: the hit rate in the last two seconds, over that in the first",
            at(data, AT_LAST, COLD) / at(data, AT_FIRST, COLD),
            Bound::AtLeast(1.2),
            "what the database answers is stored",
        ),
        check(
            "hit rate in the last two seconds with a warm cluster, %",
            at(data, AT_LAST, HELD_OFF),
            Bound::AtLeast(80.0),
            "one get of ten finds its value changed a moment before",
        ),
    ]
}

fn stale(data: &Data) -> Vec<Check> {
    let unheld = at(data, STALE, UNHELD);
    vec![
        check(
            "without a hold-off: stale hits",
            unheld,
            Bound::AtLeast(20.0),
            "the warm cluster gets its deletes half a second later, and popular keys are asked before",
        )
        .paper_or("some", Bound::AtLeast(1.0), 0.0),
        check(
            "with one, answered before it is known whether the add was taken: stale hits, over those without",
            at(data, STALE, EARLY) / unheld,
            Bound::AtMost(0.8),
            "nothing stale is stored, but it is still answered while the warm cluster has it",
        ),
        check(
            "with one, and the answer after the add: stale hits, over those without",
            at(data, STALE, HELD_OFF) / unheld,
            Bound::AtMost(0.0),
            "an add that is refused means that there is something newer, and the answer is a miss",
        )
        .paper("nearly none", Bound::AtMost(0.01)),
    ]
}

fn watch(way: &Way, ticks: usize, seed: u64) -> Result<Vec<Counts>> {
    let (cold, warm) = (store()?, store()?);
    Client::connect(warm.port)?.fill((0..KEYS).map(Web::key))?;
    let pools = json!({"cold": pool([&cold]), "warm": pool([&warm])});
    let route = if way.has_warm {
        json!({"type": "WarmUpRoute", "cold": "PoolRoute|cold", "warm": "PoolRoute|warm", "exptime": 0,
               "strict": way.is_strict})
    } else {
        json!("PoolRoute|cold")
    };
    let router = Router::start(&json!({"pools": pools, "route": route}), &[])?;
    let web = Web {
        port: router.port,
        keys: KEYS,
        rate: RATE,
        changes: CHANGES,
        hold_off_s: way.hold_off_s,
        lagging: Some((warm.port, LAG)),
        database: DATABASE,
        seed,
    };
    web.run(ticks, |_| Ok(()))
}

fn figures(data: &Data) -> Table {
    let row = |(place, way): (usize, &Way)| {
        let rates = [AT_FIRST, AT_LAST].map(|name| format!("{:.1}", at(data, name, place)));
        let counts = [GETS, QUERIES, STALE].map(|name| format!("{:.0}", at(data, name, place)));
        std::iter::once(way.name.to_owned()).chain(rates).chain(counts).collect()
    };
    let header = ["", AT_FIRST, AT_LAST, GETS, QUERIES, STALE];
    let title = format!(
        "{RATE:.0} operations a second wanted, a tenth of them changes; a database of {DATABASE:.0} queries a second; \
         deletes reach the warm cluster {} ms later",
        LAG.as_millis()
    );
    table(&title, &header, WAYS.iter().enumerate().map(row).collect())
}

/// The constants below are indexes into this list.
const WAYS: [Way; 4] = [
    Way { name: "cold only", has_warm: false, is_strict: true, hold_off_s: 0 },
    Way { name: "warm, no hold-off", has_warm: true, is_strict: true, hold_off_s: 0 },
    Way {
        name: "warm, hold-off, answer before the add",
        has_warm: true,
        is_strict: false,
        hold_off_s: 2,
    },
    Way { name: "warm, hold-off", has_warm: true, is_strict: true, hold_off_s: 2 },
];
const COLD: usize = 0;
const UNHELD: usize = 1;
const EARLY: usize = 2;
const HELD_OFF: usize = 3;
const KEYS: u64 = 20_000;
const RATE: f64 = 2000.0;
const CHANGES: f64 = 0.1;
/// The queries per second that the database answers.
const DATABASE: f64 = 400.0;
/// The delay of the deletes at the warm cluster: less than the hold-off.
const LAG: Duration = Duration::from_millis(500);
/// The number of ticks in the first two seconds, and in the last two.
const FIRST: usize = 4;
