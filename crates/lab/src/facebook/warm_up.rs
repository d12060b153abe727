//! Section 4.3: a cold cluster that fills itself from a warm one, and what its updates race with.

use super::web::{Counts, TICK, Web};
use crate::figures::{axis, check, series, table};
use crate::live::{Client, Router, pool, store};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

/// Figures of the text: no plot of the paper's.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-warmup",
    paper: Paper::Facebook,
    title: "a cold cluster's hit rate over time, and stale values, with and without a warm cluster and a hold-off",
    claim: "filled from a warm cluster a cold one works in hours, where the database would take days; a delete that holds \
            off adds for two seconds keeps values that the warm cluster has not yet forgotten from being stored",
    shape: "with a warm cluster clients' hit rate is there at once, without it the database bounds how fast it comes; with \
            the hold-off and WarmUpRoute as it is no stale value is read, without either some are",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// A way to start.
struct Way {
    name: &'static str,
    has_warm: bool,
    is_strict: bool,
    hold_off_s: u32,
}

/// A way, and what clients saw.
struct Seen<'w> {
    way: &'w Way,
    ticks: Vec<Counts>,
}

impl Seen<'_> {
    /// In the first two seconds.
    fn at_first(&self) -> f64 {
        Counts::of(&self.ticks[..FIRST]).hit_rate()
    }

    fn at_last(&self) -> f64 {
        Counts::of(&self.ticks[self.ticks.len() - FIRST..]).hit_rate()
    }

    fn all(&self) -> Counts {
        Counts::of(&self.ticks)
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let ticks = run.scale.pick(24, 120);
    let mut all = Vec::new();
    for (place, way) in WAYS.iter().enumerate() {
        (run.progress)(place as f64 / WAYS.len() as f64, way.name);
        all.push(Seen { way, ticks: watch(way, ticks, run.seed)? });
    }
    let [cold, _, _, held_off] = &all[..] else { anyhow::bail!("not four ways") };
    let reading = format!(
        "In the first two seconds {:.0} % of the gets hit with a warm cluster and {:.0} % without one; in the last two \
         {:.0} % and {:.0} %. Without a hold-off {} hits are older than the database, with it {} where the router answers \
         before it knows whether its add was taken, and {} where it waits for that.",
        100.0 * held_off.at_first(),
        100.0 * cold.at_first(),
        100.0 * held_off.at_last(),
        100.0 * cold.at_last(),
        all[1].all().stale,
        all[2].all().stale,
        held_off.all().stale,
    );
    let checks = checks(&all);
    Ok(Outcome { plots: vec![plot(&all)], tables: vec![figures(&all)], checks, reading })
}

fn checks(all: &[Seen<'_>]) -> Vec<Check> {
    let [cold, unheld, early, held_off] = all else { return Vec::new() };
    vec![
        check(
            "hit rate in the first two seconds with a warm cluster",
            held_off.at_first(),
            Bound::AtLeast(0.8),
            "one get of ten finds its value changed a moment before",
        ),
        check(
            "and without one, over that",
            cold.at_first() / held_off.at_first(),
            Bound::AtMost(0.7),
            "the database answers a fraction of what is asked",
        ),
        check(
            "without a hold-off: stale hits",
            unheld.all().stale as f64,
            Bound::AtLeast(20.0),
            "the warm cluster gets its deletes half a second later, and popular keys are asked before",
        ),
        check(
            "with one, answered before it is known whether the add was taken: stale hits, over those without",
            early.all().stale as f64 / unheld.all().stale as f64,
            Bound::AtMost(0.8),
            "nothing stale is stored, but it is still answered while the warm cluster has it",
        ),
        check(
            "with one, and the answer after the add: stale hits",
            held_off.all().stale as f64,
            Bound::AtMost(0.0),
            "an add that is refused means that there is something newer, and the answer is a miss",
        ),
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

fn plot(all: &[Seen<'_>]) -> Plot {
    let line = |seen: &Seen<'_>| {
        let points = seen.ticks.iter().enumerate();
        let second = |tick: usize| (tick + 1) as f64 * TICK.as_secs_f64();
        series(
            seen.way.name,
            points.map(|(n, it)| (second(n), 100.0 * it.hit_rate())).collect::<Vec<_>>(),
        )
    };
    Plot {
        title: "Gets that hit, after a cluster began cold".into(),
        x: axis("seconds"),
        y: axis("% of the gets"),
        series: all.iter().map(line).collect(),
    }
}

fn figures(all: &[Seen<'_>]) -> Table {
    let row = |seen: &Seen<'_>| {
        let counts = seen.all();
        let rates = [seen.at_first(), seen.at_last()].map(|rate| format!("{:.1}", 100.0 * rate));
        let counts = [counts.gets, counts.queries, counts.stale].map(|n| n.to_string());
        std::iter::once(seen.way.name.to_owned()).chain(rates).chain(counts).collect()
    };
    let header = [
        "",
        "hits in the first two seconds, %",
        "in the last two",
        "gets",
        "queries",
        "stale hits",
    ];
    let title = format!(
        "{RATE:.0} operations a second wanted, a tenth of them changes; a database of {DATABASE:.0} queries a second; \
         deletes reach the warm cluster {} ms later",
        LAG.as_millis()
    );
    table(&title, &header, all.iter().map(row).collect())
}

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
const KEYS: u64 = 20_000;
const RATE: f64 = 2000.0;
const CHANGES: f64 = 0.1;
/// Queries a second that the database answers.
const DATABASE: f64 = 400.0;
/// How much later the warm cluster gets its deletes: less than the hold-off.
const LAG: Duration = Duration::from_millis(500);
/// Ticks of the first two seconds, and of the last.
const FIRST: usize = 4;
