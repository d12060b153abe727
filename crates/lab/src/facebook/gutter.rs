//! Section 3.3: a server is killed under load; its keys go to a few idle servers, to the others, or nowhere.

use super::web::{Counts, TICK, Web};
use crate::figures::{axis, check, series, table};
use crate::live::{Client, Router, pool, store};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::{Result, ensure};
use guira_bench::mix;
use serde_json::{Value, json};

/// Figures of the text: no plot of the paper's.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-gutter",
    paper: Paper::Facebook,
    title: "queries to the database and hits when a server is lost: with a gutter, with re-hashing, with nothing",
    claim: "a gutter of 1 % of the servers takes a failed server's gets over; its hit rate exceeds 35 % in under four \
            minutes, and clients see 99 % fewer failures; re-hashing to the remaining servers would risk that one after \
            the other is overloaded",
    shape: "without a gutter queries to the database surge and gets fail; with one they don't, nearly no get fails, and \
            it answers over 35 % of what it is asked; re-hashing loads the others, the gutter doesn't",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// What happened with one way to go on.
struct Seen {
    name: &'static str,
    ticks: Vec<Counts>,
    /// Hits, and gets, of the gutter in the outage's second half.
    gutter: (u64, u64),
    /// Of the busiest server that stayed: gets a second in the outage, over those before.
    busiest: f64,
}

impl Seen {
    fn before(&self) -> Counts {
        Counts::of(&self.ticks[WARM..WARM + BEFORE])
    }

    /// From a second after the loss.
    fn outage(&self) -> Counts {
        Counts::of(&self.ticks[LOST + 2..])
    }

    /// By how much more of the gets ask the database.
    fn surge(&self) -> f64 {
        self.outage().query_rate() / self.before().query_rate()
    }

    /// Of the gets after the loss, those that failed.
    fn failures(&self) -> f64 {
        let all = Counts::of(&self.ticks[LOST..]);
        all.errors as f64 / all.gets as f64
    }

    fn gutter_hit_rate(&self) -> f64 {
        self.gutter.0 as f64 / self.gutter.1 as f64
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let outage = run.scale.pick(16, 120);
    let mut all = Vec::new();
    for (place, name) in WAYS.into_iter().enumerate() {
        (run.progress)(place as f64 / WAYS.len() as f64, name);
        all.push(watch(name, outage, run.seed)?);
    }
    let checks = checks(&all);
    let reading = format!(
        "Before the loss {:.1} % of the gets ask the database. After it {:.1} % do without a gutter, and {:.1} % of the \
         requests fail; with one {:.1} %, and {:.2} %. The gutter answers {:.0} % of its gets. Re-hashing asks the \
         database as rarely, but the busiest of the other servers gets {:.2} times its load.",
        100.0 * all[0].before().query_rate(),
        100.0 * all[0].outage().query_rate(),
        100.0 * all[0].failures(),
        100.0 * all[2].outage().query_rate(),
        100.0 * all[2].failures(),
        100.0 * all[2].gutter_hit_rate(),
        all[1].busiest,
    );
    Ok(Outcome { plots: vec![plot(&all)], tables: vec![figures(&all)], checks, reading })
}

fn checks(all: &[Seen]) -> Vec<Check> {
    let [nothing, rehash, gutter] = all else { return Vec::new() };
    vec![
        check(
            "without a gutter: queries a get after the loss, over those before",
            nothing.surge(),
            Bound::AtLeast(2.0),
            "an eighth of the gets fail, and a twentieth of all missed before",
        ),
        check(
            "with a gutter: queries a get after the loss, over those before",
            gutter.surge(),
            Bound::AtMost(1.6),
            "each of its keys misses once, and then as often as on its own server",
        ),
        check(
            "failures with a gutter, over those without",
            gutter.failures() / nothing.failures(),
            Bound::AtMost(0.01),
            "the paper's 99 %: gets that find the server gone go on to the gutter",
        ),
        check(
            "hit rate of the gutter, in the second half of the outage",
            gutter.gutter_hit_rate(),
            Bound::AtLeast(0.35),
            "the paper's figure; popular keys are there after their first miss",
        ),
        check(
            "re-hashed: load of the busiest other server, over that before",
            rehash.busiest,
            Bound::AtLeast(1.05),
            "seven servers share an eighth of the gets, and whoever gets the most popular key gets more",
        ),
        check(
            "with a gutter: load of the busiest other server, over that before",
            gutter.busiest,
            Bound::Between(0.8, 1.15),
            "what the lost server had goes to none of them",
        ),
    ]
}

/// Runs one way to go on.
fn watch(name: &'static str, outage: usize, seed: u64) -> Result<Seen> {
    let mut servers = (0..SERVERS + 1).map(|_| store()).collect::<Result<Vec<_>>>()?;
    let pools = json!({"main": pool(&servers[..SERVERS]), "gutter": pool(&servers[SERVERS..])});
    let config = json!({"pools": pools, "route": route(name)});
    let router = Router::start(&config, &["--probe-timeout-initial", "60000"])?;
    // As after long: of a key's gets so many find it changed as are changes.
    let is_there = |number: &u64| mix(*number) as f64 / 2f64.powi(64) >= CHANGES;
    Client::connect(router.port)?.fill((0..KEYS).filter(is_there).map(Web::key))?;
    let web = Web {
        port: router.port,
        keys: KEYS,
        rate: RATE,
        changes: CHANGES,
        hold_off_s: 0,
        lagging: None,
        database: f64::INFINITY,
        seed,
    };
    let ports: Vec<_> = servers.iter().map(|it| it.port).collect();
    let gets = |from: &[u16]| -> Result<Vec<u64>> {
        from.iter().map(|&port| Client::connect(port)?.stat("cmd_get")).collect()
    };
    let (mut before, mut after, mut gutter_half) = ((vec![], vec![]), vec![], (0, 0));
    let others = 1..SERVERS;
    let asked = |port: u16| -> Result<(u64, u64)> {
        let mut client = Client::connect(port)?;
        Ok((client.stat("get_hits")?, client.stat("cmd_get")?))
    };
    let ticks = web.run(LOST + outage, |tick| {
        if tick == WARM {
            before.0 = gets(&ports[others.clone()])?;
        } else if tick == LOST {
            before.1 = gets(&ports[others.clone()])?;
            servers[0].child.kill()?;
        } else if tick == LOST + outage / 2 {
            gutter_half = asked(ports[SERVERS])?;
            after = gets(&ports[others.clone()])?;
        }
        Ok(())
    })?;
    let early = Counts::of(&ticks[..LOST]);
    ensure!(early.errors == 0, "{} of {} gets failed before the loss", early.errors, early.gets);
    let (hits, all) = asked(ports[SERVERS])?;
    let load = |from: &[u64], to: &[u64], ticks: usize| -> Vec<f64> {
        from.iter().zip(to).map(|(from, to)| (to - from) as f64 / ticks as f64).collect()
    };
    let end = gets(&ports[others])?;
    let earlier = load(&before.0, &before.1, BEFORE);
    let later = load(&after, &end, outage - outage / 2);
    let busiest =
        later.iter().zip(&earlier).map(|(later, earlier)| later / earlier).fold(0.0, f64::max);
    Ok(Seen { name, ticks, gutter: (hits - gutter_half.0, all - gutter_half.1), busiest })
}

fn route(way: &str) -> Value {
    let normal = json!("PoolRoute|main");
    match way {
        "gutter" => {
            json!({"type": "FailoverWithExptimeRoute", "normal": normal, "failover": ["PoolRoute|gutter"],
                           "failover_exptime": 10})
        }
        "re-hash" => json!({"type": "SaltedFailoverRoute", "pool": "main",
                            "failover_policy": {"type": "DeterministicOrderPolicy", "max_tries": 3, "max_error_tries": 3}}),
        _ => normal,
    }
}

fn plot(all: &[Seen]) -> Plot {
    let seconds = |tick: usize| (tick as f64 - LOST as f64) * TICK.as_secs_f64();
    let line = |seen: &Seen| {
        let points = seen.ticks.iter().enumerate().skip(WARM);
        series(
            seen.name,
            points.map(|(tick, it)| (seconds(tick), 100.0 * it.query_rate())).collect::<Vec<_>>(),
        )
    };
    Plot {
        title: "Gets that ask the database, before and after one of eight servers is killed".into(),
        x: axis("seconds since the loss"),
        y: axis("% of the gets"),
        series: all.iter().map(line).collect(),
    }
}

fn figures(all: &[Seen]) -> Table {
    let percent =
        |share: f64| if share.is_finite() { format!("{:.1}", 100.0 * share) } else { "–".into() };
    let row = |seen: &Seen| {
        vec![
            seen.name.to_owned(),
            percent(seen.before().query_rate()),
            percent(seen.outage().query_rate()),
            format!("{:.2}", seen.surge()),
            format!("{:.3}", 100.0 * seen.failures()),
            percent(seen.gutter_hit_rate()),
            format!("{:.2}", seen.busiest),
        ]
    };
    let header = [
        "on a failure",
        "% of gets to the database before",
        "after",
        "ratio",
        "% of requests that fail",
        "gutter's hit rate, %",
        "busiest other server's load, over before",
    ];
    let title = format!(
        "One of {SERVERS} servers is killed; {RATE:.0} operations a second, 5 % of them changes"
    );
    table(&title, &header, all.iter().map(row).collect())
}

const WAYS: [&str; 3] = ["nothing", "re-hash", "gutter"];
const SERVERS: usize = 8;
const KEYS: u64 = 5_000;
const RATE: f64 = 2000.0;
const CHANGES: f64 = 0.05;
/// Ticks until the figures of before count, while they do, and from when on the server is lost.
const WARM: usize = 4;
const BEFORE: usize = 6;
const LOST: usize = WARM + BEFORE;
