//! Figure 2.6: throughput against the number of stores, live: `guira route` before `guira serve`s.
//!
//! Each store is behind a link of a fixed rate (`relay.rs`), far below what the router takes, so that the router is never
//! what limits. Clients ask one key at a time and wait: as many of them that a store always has somebody waiting if it gets
//! its share. So the fullest store holds up all, and the throughput is its rate over its share of the queries.
//!
//! The adversary asks without a cache one key, and against the cache as many keys as are worst by eq. 2.10, equally often.

use super::{count, relay};
use crate::figures::{axis, check, series, table};
use crate::live::{Answer, Client, Router, pause, store};
use crate::measure::now;
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::{Result, ensure};
use guira_bench::{Rng, Zipf};
use guira_route::plan;
use serde_json::json;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

/// Figure 2.6.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fawn-f2.6",
    paper: Paper::Fawn,
    title: "live throughput against the number of stores, without a cache in front and with one",
    claim: "without a cache only uniform queries scale with the stores; behind one of 8 n ln n + 1 entries all do, those of \
            an adversary too, at least linearly",
    shape: "without the cache an adversary gets the throughput of one store whatever their number, and zipf(1.01) falls \
            behind; with it both reach 95 % of what uniform queries get without, or more (an adversary where there are few \
            stores and keys at least what the bound for k = 8 promises)",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queries {
    Uniform,
    Zipf,
    Adversary,
}

/// So many stores, and the queries a second that each kind of load got.
struct Measured {
    stores: usize,
    entries: usize,
    worst_keys: usize,
    /// By kind: without and with the cache.
    rates: Vec<(Queries, f64, f64)>,
}

impl Measured {
    fn of(&self, queries: Queries) -> (f64, f64) {
        let found = self.rates.iter().find(|rates| rates.0 == queries);
        found.map_or((f64::NAN, f64::NAN), |&(_, without, with)| (without, with))
    }

    /// What uniform queries get without a cache.
    fn linear(&self) -> f64 {
        self.of(Queries::Uniform).0
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let sizes: &[usize] = run.scale.pick(&[2, 6, 14], &[2, 4, 8, 16, 24, 32]);
    let mut measured = Vec::new();
    let points = sizes.len() * KINDS.len() * 2;
    for &stores in sizes {
        let servers: Vec<_> = (0..stores).map(|_| store()).collect::<Result<_>>()?;
        let mut ports = Vec::new();
        for server in &servers {
            Client::connect(server.port)?.fill((0..KEYS).map(key))?;
            ports.push(relay::start(server.port, RATE)?);
        }
        let n = stores as f64;
        let entries = count(plan::entries(n, K));
        let worst_keys = count(plan::worst_keys(n, entries as f64, plan::ALPHA));
        let mut rates = Vec::new();
        for queries in KINDS {
            let done = measured.len() * KINDS.len() * 2 + rates.len() * 2;
            (run.progress)(done as f64 / points as f64, &format!("{stores} stores, {queries:?}"));
            let rate = |has_cache: bool| {
                let keys = match queries {
                    Queries::Adversary if !has_cache => 1,
                    Queries::Adversary => worst_keys as u64,
                    Queries::Uniform | Queries::Zipf => KEYS,
                };
                let cache = has_cache.then_some(entries);
                throughput(&ports, cache, (queries, keys), run)
            };
            rates.push((queries, rate(false)?, rate(true)?));
        }
        measured.push(Measured { stores, entries, worst_keys, rates });
    }
    Ok(Outcome {
        plots: vec![plot(&measured)],
        tables: vec![rates(&measured)],
        checks: checks(&measured),
        reading: reading(&measured),
    })
}

fn key(n: u64) -> String {
    format!("key-{n:08}")
}

/// Queries a second that clients get answered, once the cache knows what is popular.
fn throughput(
    ports: &[u16],
    cache: Option<usize>,
    (queries, keys): (Queries, u64),
    run: &Run<'_>,
) -> Result<f64> {
    let names: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let pool = json!("PoolRoute|stores");
    let route = match cache {
        // Nothing is written, so what is kept stays true.
        Some(entries) => {
            json!({"type": "HotCacheRoute", "target": pool, "entries": entries, "fresh_ms": 3_600_000})
        }
        None => pool,
    };
    let config = json!({"pools": {"stores": {"servers": names}}, "route": route});
    let router = Router::start(&config, &["--server-timeout", "20000"])?;
    let zipf = Zipf::new(KEYS, ZIPF);
    let (answers, failures, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let client = |seed: u64| -> Result<()> {
        let mut rng = Rng::new(seed);
        let mut client = Client::connect(router.port)?;
        while !stop.load(Relaxed) {
            let number =
                if queries == Queries::Zipf { zipf.rank(&mut rng) } else { rng.below(keys) };
            match client.get(&key(number))? {
                Answer::Value(_) => answers.fetch_add(1, Relaxed),
                Answer::Miss | Answer::Error => failures.fetch_add(1, Relaxed),
            };
        }
        Ok(())
    };
    let learns_s = if cache.is_some() { 3.0 } else { 0.5 };
    let warm = Duration::from_secs_f64(learns_s * run.scale.pick(1.0, 2.0));
    let lasts = Duration::from_secs_f64(run.scale.pick(1.5, 6.0));
    let rate = thread::scope(|scope| {
        let client = &client;
        let all: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let seed = run.seed * CLIENTS + n;
                thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, move || client(seed))
            })
            .collect::<std::io::Result<_>>()?;
        pause(warm);
        let (begun, before) = (now(), answers.load(Relaxed));
        pause(lasts);
        let rate = (answers.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
        stop.store(true, Relaxed);
        for client in all {
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<f64, anyhow::Error>(rate)
    })?;
    ensure!(failures.load(Relaxed) == 0, "{} gets were not answered", failures.load(Relaxed));
    Ok(rate)
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let least =
        |of: &dyn Fn(&Measured) -> f64| measured.iter().map(of).fold(f64::INFINITY, f64::min);
    let [.., last] = measured else { return Vec::new() };
    let linear = |queries| least(&|m: &Measured| m.of(queries).1 / m.linear());
    vec![
        check(
            "uniform queries without a cache, of all stores' rates, at the least",
            least(&|m| m.linear() / (RATE * m.stores as f64)),
            Bound::Between(0.85, 1.02),
            "the fullest store has a few per cent more than its share of the keys, and now and then nobody waits for one",
        ),
        check(
            "an adversary without a cache, of one store's rate, with the most stores",
            last.of(Queries::Adversary).0 / RATE,
            Bound::Between(0.9, 1.05),
            "one key is on one store",
        ),
        check(
            "zipf without a cache, of linear, with the most stores",
            last.of(Queries::Zipf).0 / last.linear(),
            Bound::AtMost(0.7),
            "the most popular key alone has 8 % of the queries, more than a store's share",
        ),
        check(
            "an adversary behind the cache, of linear, with the most stores",
            last.of(Queries::Adversary).1 / last.linear(),
            Bound::AtLeast(0.95),
            "the bound for k = 8 is 0.83, and an independent simulation found 0.96 for 85 stores",
        ),
        check(
            "an adversary behind the cache, of linear, at the least",
            linear(Queries::Adversary),
            Bound::AtLeast(0.83),
            "the bound for k = 8; where some hundred keys fall on a few stores, luck decides: 0.93 to 0.95 in three runs",
        ),
        check(
            "zipf behind the cache, of linear, at the least",
            linear(Queries::Zipf),
            Bound::AtLeast(0.95),
            "the cache answers the most popular keys, so that more than linear is expected",
        ),
        check(
            "uniform queries behind the cache, of linear, at the least",
            linear(Queries::Uniform),
            Bound::AtLeast(0.95),
            "the cache is no use to them, and must cost nothing",
        ),
    ]
}

fn rates(measured: &[Measured]) -> Table {
    let row = |m: &Measured| {
        let cells = KINDS.iter().flat_map(|&queries| <[f64; 2]>::from(m.of(queries)));
        let counts = [m.stores, m.entries, m.worst_keys].map(|n| n.to_string());
        counts.into_iter().chain(cells.map(|rate| format!("{rate:.0}"))).collect()
    };
    let header = [
        "stores",
        "entries",
        "the adversary's keys",
        "uniform",
        "with cache",
        "zipf(1.01)",
        "with cache",
        "adversary",
        "with cache",
    ];
    let title = format!("Queries a second; a store takes {RATE:.0}");
    table(&title, &header, measured.iter().map(row).collect())
}

fn plot(measured: &[Measured]) -> Plot {
    let line = |name: String, of: &dyn Fn(&Measured) -> f64| {
        series(&name, measured.iter().map(|m| (m.stores as f64, of(m))).collect::<Vec<_>>())
    };
    let lines =
        KINDS.iter().zip(["uniform", "zipf(1.01)", "adversary"]).flat_map(|(&queries, name)| {
            let without = line(name.to_owned(), &|m| m.of(queries).0);
            [without, line(format!("{name}, cache"), &|m| m.of(queries).1)]
        });
    Plot {
        title: "Throughput of rate-limited stores behind guira route".into(),
        x: axis("stores"),
        y: axis("queries a second"),
        series: lines.collect(),
    }
}

fn reading(measured: &[Measured]) -> String {
    let [.., last] = measured else { return String::new() };
    let of = |queries| {
        let (without, with) = last.of(queries);
        (without / last.linear(), with / last.linear())
    };
    let (zipf, adversary) = (of(Queries::Zipf), of(Queries::Adversary));
    format!(
        "With {} stores zipf(1.01) gets {:.2} of what uniform queries get without a cache and {:.2} with one of {} entries; \
         an adversary {:.2} with one key and no cache, and {:.2} with {} keys against the cache.",
        last.stores, zipf.0, zipf.1, last.entries, adversary.0, adversary.1, last.worst_keys,
    )
}

const KINDS: [Queries; 3] = [Queries::Uniform, Queries::Zipf, Queries::Adversary];
const K: f64 = 8.0;
const ZIPF: f64 = 1.01;
const KEYS: u64 = 100_000;
/// Gets a second that a store takes.
const RATE: f64 = 250.0;
const CLIENTS: u64 = 400;
const STACK_BYTES: usize = 128 << 10;
