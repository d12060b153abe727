//! Section 6.3: what a family of short-lived keys holds, with and without the transient item cache.

use crate::figures::{axis, categories, check, papers, series, table};
use crate::{Bound, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::{Result, ensure};
use guira_cache::{Cache, Config, Eviction, Handle, Miss, START_S, Store};

/// The paper's 6 % and 0.3 %.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-transient",
    paper: Paper::Facebook,
    title: "memory that short-lived items hold, with and without the transient item cache",
    claim: "a family of short-lived keys took 6 % of a pool's memory, and 0.3 % with the transient item cache, at the same \
            hit rate",
    shape: "10 times less memory under LRU, the paper's eviction; the same hits; no more than what is alive, also with our \
            default eviction",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

/// A cache at the end of its run.
struct Held {
    name: &'static str,
    /// Share of all items that are of the family, dead or alive.
    share: f64,
    /// Share of all items that are of the family and alive.
    alive: f64,
    /// Hits of the family, of its reads.
    hits: f64,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let memory_bytes = run.scale.pick(4 << 20, 256 << 20);
    let mut held = Vec::new();
    for (place, &(name, eviction, transient_s)) in SYSTEMS.iter().enumerate() {
        (run.progress)(place as f64 / SYSTEMS.len() as f64, name);
        let hash_seed = Some(run.seed);
        let config = Config { memory_bytes, eviction, transient_s, hash_seed, ..Config::default() };
        held.push(fill(name, &config)?);
    }
    let checks = vec![
        check(
            "the transient item cache leaves a tenth of the memory under LRU",
            held[0].share / held[1].share,
            Bound::AtLeast(10.0),
            "6 % to 0.3 % in the paper; here an item lives 3 s, and LRU keeps it for a minute",
        ),
        check(
            "with it the family holds what is alive of it, and a little: ratio",
            (held[1].share / held[1].alive).max(held[3].share / held[3].alive),
            Bound::AtMost(1.1),
            "its items go in the second in which they expire",
        ),
        check(
            "its hits are the same, in points",
            100.0 * (held[0].hits - held[1].hits).abs(),
            Bound::AtMost(0.1),
            "only what is dead is reclaimed",
        ),
    ];
    let reading = format!(
        "Under LRU the family holds {:.1} % of the items, and {:.2} % with the transient item cache (the paper: 6 % and \
         0.3 %); under S3-CLOCK {:.1} % and {:.2} %, as here nobody reads what else there is.",
        100.0 * held[0].share,
        100.0 * held[1].share,
        100.0 * held[2].share,
        100.0 * held[3].share,
    );
    Ok(Outcome { plots: vec![plot(&held)], tables: vec![shares(&held)], checks, reading })
}

/// Stores as many items as fit, twice over; one of [`FAMILY_EVERY`] is of the family.
fn fill(name: &'static str, config: &Config) -> Result<Held> {
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
    let share = f64::from(dead + alive) / all;
    Ok(Held {
        name,
        share,
        alive: f64::from(alive) / all,
        hits: f64::from(hits) / f64::from(reads),
    })
}

fn store(handle: &mut Handle<'_>, number: usize, exptime: u32, now: u32) -> Result<()> {
    let how = Store { exptime, ..Store::default() };
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

fn shares(held: &[Held]) -> Table {
    let header = ["", "family, % of all items", "alive, % of all items", "hits, % of its reads"];
    let row = |it: &Held| {
        let percent = [it.share, it.alive, it.hits].map(|share| format!("{:.2}", 100.0 * share));
        std::iter::once(it.name.to_owned()).chain(percent).collect()
    };
    table(
        "A family of short-lived keys, 6 % of the stores, in a full cache",
        &header,
        held.iter().map(row).collect(),
    )
}

fn plot(held: &[Held]) -> Plot {
    let ours = held.iter().enumerate().map(|(n, it)| (n as f64, 100.0 * it.share));
    Plot {
        title: "Memory that short-lived items hold".into(),
        x: categories("cache", &SYSTEMS.map(|(name, ..)| name)),
        y: axis("% of all items"),
        series: vec![series("ours", ours), papers("the paper", [(0.0, 6.0), (1.0, 0.3)])],
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
/// One store in so many is of the family: 6 %.
const FAMILY_EVERY: usize = 17;
/// Seconds that a member of the family lives.
const LIVES_S: u32 = 3;
/// Stores of so many seconds fill the cache: so long LRU keeps what nobody reads.
const SECONDS_TO_FILL: usize = 60;
