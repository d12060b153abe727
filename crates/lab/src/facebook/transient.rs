//! Section 6.3: the share of a cache that a family of short-lived keys takes, with and without the transient item cache.

use crate::data::{Data, Line};
use crate::figures::{axis, categories, check, drawn, most, papers, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::{Result, ensure};
use guira_cache::{Cache, CacheConfig, Eviction, Handle, Miss, START_S, StoreTerms};

/// The paper's 6 % and 0.3 %.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-transient",
    paper: Paper::Facebook,
    title: "memory that short-lived items hold, with and without the transient item cache",
    claim: "a family of short-lived keys took 6 % of a pool's memory, and 0.3 % with the transient item cache, at the same \
            hit rate",
    shape: "10 times less memory under LRU, the paper's eviction, and under our default; the same hits; no more than what \
            is alive",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// By system, one point each: the percentage of all items that belong to the family, dead or alive; the percentage of
/// those that are alive; and the percentage of the family's reads that hit.
const SHARE: &str = "family, % of all items";
const ALIVE: &str = "alive, % of all items";
const HITS: &str = "hits, % of its reads";

fn measure(run: &Run<'_>) -> Result<Data> {
    let memory_bytes = run.scale.pick(4 << 20, 256 << 20);
    let mut held = Vec::new();
    for (place, &(name, eviction, transient_s)) in SYSTEMS.iter().enumerate() {
        (run.progress)(place as f64 / SYSTEMS.len() as f64, name);
        let hash_seed = Some(run.seed);
        let config = CacheConfig {
            memory_bytes,
            eviction,
            transient_s,
            hash_seed,
            ..CacheConfig::default()
        };
        held.push(fill(&config)?);
    }
    let line = |name, column: usize| {
        let points = held.iter().enumerate().map(|(at, it)| (at as f64, 100.0 * it[column]));
        Line::of_figures(name, points)
    };
    let mut data = Data::default();
    data.push(line(SHARE, 0));
    // The live members and the hits are the same, whatever happens to the dead ones: that is the claim.
    data.push(line(ALIVE, 1).flat());
    data.push(line(HITS, 2).flat());
    Ok(data)
}

fn judge(data: &Data) -> Findings {
    let share = data.line(SHARE).figures();
    Findings {
        plots: vec![plot(data)],
        tables: vec![shares(data)],
        checks: checks(data),
        reading: format!(
            "Under LRU the family holds {:.1} % of the items, and {:.2} % with the transient item cache (the paper: 6 % and \
             0.3 %); under S3-CLOCK {:.1} % and {:.2} %, as here nobody reads what else there is.",
            share[0], share[1], share[2], share[3],
        ),
    }
}

fn checks(data: &Data) -> Vec<Check> {
    let [share, alive, hits] = [SHARE, ALIVE, HITS].map(|name| data.line(name).figures());
    let to_alive = [1, 3].map(|system| share[system] / alive[system]);
    vec![
        check(
            "LRU: memory of the family without the transient item cache, to that with it",
            share[0] / share[1],
            Bound::AtLeast(10.0),
            "here an item lives 3 s, and LRU keeps it for a minute",
        )
        .paper("20 (6 % to 0.3 %)", Bound::AtLeast(18.0)),
        check(
            "S3-CLOCK: the same",
            share[2] / share[3],
            Bound::AtLeast(10.0),
            "our default eviction keeps what is dead as long, where nobody reads anything",
        ),
        check(
            "with it, what the family holds to what is alive of it: the more of the two",
            most(to_alive),
            Bound::Between(1.0, 1.1),
            "its items go in the second in which they expire",
        ),
        check(
            "alive with it, to alive without: the more of the two",
            most([alive[1] / alive[0], alive[3] / alive[2]]),
            Bound::Between(0.9, 1.1),
            "only what is dead is reclaimed",
        ),
        check(
            "hits with it, less those without, in points",
            hits[1] - hits[0],
            Bound::Between(-0.1, 0.1),
            "only what is dead is reclaimed",
        )
        .paper_exactly("0", Bound::Between(-0.1, 0.1)),
    ]
}

/// Stores twice as many items as fit; one of [`FAMILY_EVERY`] belongs to the family. Returns the shares of the lines
/// above.
fn fill(config: &CacheConfig) -> Result<[f64; 3]> {
    let cache = Cache::new(config)?;
    let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
    let fitting = config.memory_bytes / ITEM_BYTES;
    let per_second = fitting / SECONDS_TO_FILL;
    let (mut now, mut reads, mut hits) = (START_S, 0u32, 0u32);
    for begin in (0..2 * fitting).step_by(per_second) {
        now += 1;
        handle.quiesce();
        while sweeper.step(now) {
            handle.quiesce();
        }
        let mut second = || -> Result<()> {
            for number in begin..begin + per_second {
                let is_family = number % FAMILY_EVERY == 0;
                store(&mut handle, number, if is_family { now + LIVES_S } else { 0 }, now)?;
                // A member is read a second after it was stored.
                if is_family && number > per_second {
                    let earlier = (number - per_second) / FAMILY_EVERY * FAMILY_EVERY;
                    let is_hit = handle.get(&handle.key(key(earlier).as_bytes()), now).is_ok();
                    (reads, hits) = (reads + 1, hits + u32::from(is_hit));
                }
            }
            Ok(())
        };
        sweeper.asleep(&mut second)?;
    }
    let (mut dead, mut alive) = (0u32, 0u32);
    for number in (0..2 * fitting).step_by(FAMILY_EVERY) {
        match handle.peek(&handle.key(key(number).as_bytes()), now) {
            Ok(_) => alive += 1,
            Err(Miss::Expired) => dead += 1,
            Err(Miss::Absent | Miss::Flushed) => {}
        }
    }
    let all = cache.len() as f64;
    let of_all = |items: u32| f64::from(items) / all;
    Ok([of_all(dead + alive), of_all(alive), f64::from(hits) / f64::from(reads)])
}

fn store(handle: &mut Handle<'_>, number: usize, exptime: u32, now: u32) -> Result<()> {
    let how = StoreTerms { exptime, ..StoreTerms::default() };
    for _ in 0..1000 {
        let key = key(number);
        if handle.store(&handle.key(key.as_bytes()), &[b'v'; 80], &how, now).is_ok() {
            return Ok(());
        }
        handle.quiesce();
    }
    ensure!(false, "the cache refuses to store");
    Ok(())
}

fn key(number: usize) -> String {
    format!("{number:016x}")
}

fn shares(data: &Data) -> Table {
    let columns = [SHARE, ALIVE, HITS];
    let header: Vec<&str> = [""].into_iter().chain(columns).collect();
    let row = |(at, (name, ..)): (usize, &(&str, Eviction, u32))| {
        let percent = columns.map(|column| format!("{:.2}", data.line(column).median(at as f64)));
        std::iter::once((*name).to_owned()).chain(percent).collect()
    };
    table(
        "A family of short-lived keys, 6 % of the stores, in a full cache",
        &header,
        SYSTEMS.iter().enumerate().map(row).collect(),
    )
}

fn plot(data: &Data) -> Plot {
    Plot {
        title: "Memory that short-lived items hold".into(),
        x: categories("cache", &SYSTEMS.map(|(name, ..)| name)),
        y: axis("% of all items"),
        series: vec![drawn(data.line(SHARE)), papers("the paper", [(0.0, 6.0), (1.0, 0.3)])],
    }
}

const SYSTEMS: [(&str, Eviction, u32); 4] = [
    ("LRU", Eviction::Lru, 0),
    ("LRU, transient", Eviction::Lru, 10),
    ("S3-CLOCK", Eviction::S3Clock, 0),
    ("S3-CLOCK, transient", Eviction::S3Clock, 10),
];

/// A key of 16 bytes, a value of 80, a header and an expiry.
const ITEM_BYTES: usize = 104;
/// One store of so many belongs to the family: 6 %.
const FAMILY_EVERY: usize = 17;
/// The seconds that a member of the family lives.
const LIVES_S: u32 = 3;
/// The seconds of stores that fill the cache: so long LRU keeps an item that isn't read.
const SECONDS_TO_FILL: usize = 60;
