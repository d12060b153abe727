//! Section 3.3: a server is killed under load. Its keys go to a few idle servers, to the other servers, or nowhere.

use super::web::{Counts, TICK, Web};
use crate::data::{Data, Line, ratio};
use crate::figures::{axis, check, drawn, least, most, table};
use crate::live::{Client, Router, pool, store};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::{Result, ensure};
use guira_bench::mix;
use serde_json::{Value, json};

/// The figures are from the paper's text, not from a plot.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-gutter",
    paper: Paper::Facebook,
    title: "queries to the database and hits when a server is lost: with a gutter, with re-hashing, with nothing",
    claim: "a gutter of 1 % of the servers takes a failed server's gets over; its hit rate exceeds 35 % in under four \
            minutes, and clients see 99 % fewer failures; re-hashing to the remaining servers would risk that one after \
            the other is overloaded",
    shape: "without a gutter queries to the database surge and gets fail; with one there are at most 0.7 times as many \
            queries, nearly no get fails, and it answers over 35 % of what it is asked; re-hashing loads the other servers, \
            the gutter doesn't",
    why: "",
    is_quick: false,
    measure,
    judge,
};

/// By way, one point each: the percentage of gets that ask the database, before and after the loss.
const BEFORE_LOSS: &str = "% of gets to the database before";
const AFTER_LOSS: &str = "after";
/// The percentage of requests after the loss that fail.
const FAILURES: &str = "% of requests that fail";
/// Gets per get of the client during the outage, relative to before: for all servers that stayed, and for the busiest
/// of them.
const OTHERS: &str = "other servers' load, over before";
const BUSIEST: &str = "busiest other server's load, over before";
/// The percentage of the gutter's gets in the second half of the outage that hit.
const GUTTER_HITS: &str = "gutter's hit rate, %";

/// The observations for one way to go on.
struct Seen {
    ticks: Vec<Counts>,
    /// Hits and gets of the gutter in the second half of the outage.
    gutter: (u64, u64),
    /// For the servers that stayed: gets per get of the client during the outage, relative to before. For all, and for
    /// the busiest.
    load: [f64; 2],
}

impl Seen {
    /// Returns the figures of the lines above, in their order.
    fn figures(&self) -> [f64; 5] {
        let before = Counts::of(&self.ticks[WARM..WARM + BEFORE]);
        // From one second after the loss.
        let outage = Counts::of(&self.ticks[LOST + 2..]);
        let all = Counts::of(&self.ticks[LOST..]);
        let [before, outage] = [before, outage].map(|it| 100.0 * it.query_rate());
        let failures = 100.0 * all.errors as f64 / all.gets as f64;
        [before, outage, failures, self.load[0], self.load[1]]
    }
}

fn measure(run: &Run<'_>) -> Result<Data> {
    let outage = run.scale.pick(16, 120);
    let mut all = Vec::new();
    for (place, name) in WAYS.into_iter().enumerate() {
        (run.progress)(place as f64 / WAYS.len() as f64, name);
        all.push(watch(name, outage, run.seed)?);
    }
    let mut data = Data::default();
    let lines = [BEFORE_LOSS, AFTER_LOSS, FAILURES, OTHERS, BUSIEST];
    for (column, name) in lines.into_iter().enumerate() {
        let points = all.iter().enumerate().map(|(way, it)| (way as f64, it.figures()[column]));
        let line = Line::of_figures(name, points);
        // Before the loss the ways don't differ.
        data.push(if name == BEFORE_LOSS { line.flat() } else { line });
    }
    let (hits, gets) = all[GUTTER].gutter;
    data.fact(GUTTER_HITS, 100.0 * hits as f64 / gets as f64);
    // The plot's curves. The claims about them are checked by the lines above.
    let second = |tick: usize| (tick as f64 - LOST as f64) * TICK.as_secs_f64();
    for (name, seen) in WAYS.into_iter().zip(&all) {
        let points = seen.ticks.iter().enumerate().skip(WARM);
        let points = points.map(|(tick, it)| (second(tick), 100.0 * it.query_rate()));
        data.push(Line::of_figures(name, points).aside());
    }
    Ok(data)
}

/// Returns how many times as many gets ask the database after the loss.
fn surge(data: &Data, way: usize) -> f64 {
    let [after, before] = [AFTER_LOSS, BEFORE_LOSS].map(|name| data.line(name).at(way as f64));
    ratio(after, before)
}

fn at(data: &Data, line: &str, way: usize) -> f64 {
    data.line(line).median(way as f64)
}

fn judge(data: &Data) -> Findings {
    Findings {
        plots: vec![Plot {
            title: "Gets that ask the database, before and after one of eight servers is killed"
                .into(),
            x: axis("seconds since the loss"),
            y: axis("% of the gets"),
            series: WAYS.map(|name| drawn(data.line(name))).into(),
        }],
        tables: vec![figures(data)],
        checks: [queries(data), load(data)].concat(),
        reading: format!(
            "Before the loss {:.1} % of the gets ask the database. After it {:.1} % do without a gutter, and {:.1} % of the \
             requests fail; with one {:.1} %, and {:.2} %. The gutter answers {:.0} % of its gets. With re-hashing {:.1} % \
             ask the database, but the other servers get {:.2} times their load, and the busiest of them {:.2} times; with a \
             gutter {:.2} and {:.2} times.",
            at(data, BEFORE_LOSS, NOTHING),
            at(data, AFTER_LOSS, NOTHING),
            at(data, FAILURES, NOTHING),
            at(data, AFTER_LOSS, GUTTER),
            at(data, FAILURES, GUTTER),
            data.figure(GUTTER_HITS),
            at(data, AFTER_LOSS, REHASH),
            at(data, OTHERS, REHASH),
            at(data, BUSIEST, REHASH),
            at(data, OTHERS, GUTTER),
            at(data, BUSIEST, GUTTER),
        ),
    }
}

/// The checks of what clients and the database see.
fn queries(data: &Data) -> Vec<Check> {
    let before = data.line(BEFORE_LOSS).figures();
    vec![
        check(
            "queries a get before the loss: the most of the ways, to the least",
            most(before.iter().copied()) / least(before.iter().copied()),
            Bound::AtMost(1.4),
            "nothing differs yet",
        ),
        check(
            "without a gutter: queries a get after the loss, over those before",
            surge(data, NOTHING),
            Bound::AtLeast(2.0),
            "an eighth of the gets fail, and a twentieth of all missed before",
        )
        .paper("a surge", Bound::AtLeast(1.5)),
        check(
            "after the loss: queries a get with a gutter, to those without",
            at(data, AFTER_LOSS, GUTTER) / at(data, AFTER_LOSS, NOTHING),
            Bound::AtMost(0.7),
            "each of its keys misses once, and then as often as on its own server",
        )
        .paper("a substantial fraction less", Bound::AtMost(0.8)),
        check(
            "failures with a gutter, over those without",
            at(data, FAILURES, GUTTER) / at(data, FAILURES, NOTHING),
            Bound::AtMost(0.01),
            "the paper's 99 %: gets that find the server gone go on to the gutter",
        )
        .paper("0.01 (99 % fewer)", Bound::AtMost(0.01)),
        check(
            "hit rate of the gutter, in the second half of the outage, %",
            data.figure(GUTTER_HITS),
            Bound::AtLeast(35.0),
            "the paper's figure; popular keys are there after their first miss",
        )
        .paper_or("35", Bound::AtLeast(35.0), 0.0),
    ]
}

/// The checks that distinguish a gutter from re-hashing.
fn load(data: &Data) -> Vec<Check> {
    vec![
        check(
            "re-hashed: load of the other servers, over that before",
            at(data, OTHERS, REHASH),
            Bound::AtLeast(1.08),
            "seven servers share an eighth of the gets: a seventh more, if it was no more popular than they",
        )
        .paper("more than 1", Bound::AtLeast(1.05)),
        check(
            "with a gutter: load of the other servers, over that before",
            at(data, OTHERS, GUTTER),
            Bound::Between(0.9, 1.05),
            "what the lost server had goes to none of them",
        )
        .paper_exactly("1", Bound::Between(0.9, 1.05)),
        check(
            "load of the busiest other server: re-hashed, to with a gutter",
            at(data, BUSIEST, REHASH) / at(data, BUSIEST, GUTTER),
            Bound::AtLeast(1.05),
            "the server that becomes responsible for popular keys gets more",
        )
        .paper("more than 1", Bound::AtLeast(1.05)),
    ]
}

/// Observes one way to go on.
fn watch(name: &str, outage: usize, seed: u64) -> Result<Seen> {
    let mut servers = (0..SERVERS + 1).map(|_| store()).collect::<Result<Vec<_>>>()?;
    let pools = json!({"main": pool(&servers[..SERVERS]), "gutter": pool(&servers[SERVERS..])});
    let config = json!({"pools": pools, "route": route(name)});
    let router = Router::start(&config, &["--probe-timeout-initial", "60000"])?;
    // The state after a long run: a get finds its key changed as often as operations are changes.
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
    let (hits, gets_of_gutter) = asked(ports[SERVERS])?;
    // Relative to what the client asked: a busy machine slows the client down.
    let load = |from: &[u64], to: &[u64], ticks: &[Counts]| -> Vec<f64> {
        let asked = Counts::of(ticks).gets as f64;
        from.iter().zip(to).map(|(from, to)| (to - from) as f64 / asked).collect()
    };
    let end = gets(&ports[others])?;
    let earlier = load(&before.0, &before.1, &ticks[WARM..LOST]);
    let later = load(&after, &end, &ticks[LOST + outage / 2..]);
    let busiest = most(later.iter().zip(&earlier).map(|(later, earlier)| later / earlier));
    let all = later.iter().sum::<f64>() / earlier.iter().sum::<f64>();
    let gutter = (hits - gutter_half.0, gets_of_gutter - gutter_half.1);
    Ok(Seen { ticks, gutter, load: [all, busiest] })
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

fn figures(data: &Data) -> Table {
    let row = |(way, name): (usize, &str)| {
        let gutter =
            if way == GUTTER { format!("{:.1}", data.figure(GUTTER_HITS)) } else { "–".into() };
        vec![
            name.to_owned(),
            format!("{:.1}", at(data, BEFORE_LOSS, way)),
            format!("{:.1}", at(data, AFTER_LOSS, way)),
            format!("{:.2}", surge(data, way)),
            format!("{:.3}", at(data, FAILURES, way)),
            gutter,
            format!("{:.2}", at(data, OTHERS, way)),
            format!("{:.2}", at(data, BUSIEST, way)),
        ]
    };
    let header =
        ["on a failure", BEFORE_LOSS, AFTER_LOSS, "ratio", FAILURES, GUTTER_HITS, OTHERS, BUSIEST];
    let title = format!(
        "One of {SERVERS} servers is killed; {RATE:.0} operations a second, 5 % of them changes"
    );
    table(&title, &header, WAYS.into_iter().enumerate().map(row).collect())
}

/// The constants below are indexes into this list.
const WAYS: [&str; 3] = ["nothing", "re-hash", "gutter"];
const NOTHING: usize = 0;
const REHASH: usize = 1;
const GUTTER: usize = 2;
const SERVERS: usize = 8;
const KEYS: u64 = 5_000;
const RATE: f64 = 2000.0;
const CHANGES: f64 = 0.05;
/// Ticks before the figures of "before" count, ticks in which they count, and the tick at which the server is lost.
const WARM: usize = 4;
const BEFORE: usize = 6;
const LOST: usize = WARM + BEFORE;
