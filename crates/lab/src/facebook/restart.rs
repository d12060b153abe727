//! Section 6.4: the hit rate across an upgrade, with and without memory that outlives the process.

use crate::figures::{axis, check, series, table};
use crate::{Bound, Experiment, Outcome, Paper, Plot, Run, Table, Verdict};
use anyhow::Result;
use guira_cache::{Cache, Config, Handle, MemoryFile, START_S, Store};
use std::path::PathBuf;

/// No figure of the paper's: its argument, counted.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-restart",
    paper: Paper::Facebook,
    title: "the hit rate across an upgrade, with and without a memory file",
    claim: "an upgrade took a cold cache hours to recover from; with values and tables in shared memory it has none to",
    shape: "with a memory file the hit rate is the same before and after, also after a crash; without it, it drops",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

/// The hit rate of each window of requests; the restart is in the middle.
struct Rates {
    name: &'static str,
    windows: Vec<f64>,
}

impl Rates {
    fn before(&self) -> f64 {
        self.windows[WINDOWS / 2 - 1]
    }

    fn after(&self) -> f64 {
        self.windows[WINDOWS / 2]
    }
}

/// How a cache ends, and whether another has its items.
#[derive(Clone, Copy)]
enum End {
    /// Its memory is the process's own.
    Forgets,
    Stops,
    Crashes,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let memory_bytes = run.scale.pick(8 << 20, 256 << 20);
    let mut rates = Vec::new();
    for (place, &(name, end)) in SYSTEMS.iter().enumerate() {
        (run.progress)(place as f64 / SYSTEMS.len() as f64, name);
        rates.push(Rates { name, windows: windows(memory_bytes, end, run.seed)? });
    }
    let points = |rates: &Rates| 100.0 * (rates.before() - rates.after());
    let checks = vec![
        check(
            "a restart with a memory file costs no hits, in points",
            points(&rates[1]).abs(),
            Bound::AtMost(1.0),
            "every item is there again; from window to window the rate varies by a few tenths",
        ),
        check(
            "nor does a crash, in points",
            points(&rates[2]).abs(),
            Bound::AtMost(1.0),
            "an item whose header is written is whole",
        ),
        check(
            "without one the hit rate drops, in points",
            points(&rates[0]),
            Bound::AtLeast(10.0),
            "the cache is empty, and each key misses once",
        ),
    ];
    let reading = format!(
        "Before and after a restart {:.1} % and {:.1} % of the requests hit with a memory file, {:.1} % and {:.1} % with \
         a crash in its place, and {:.1} % and {:.1} % without the file.",
        100.0 * rates[1].before(),
        100.0 * rates[1].after(),
        100.0 * rates[2].before(),
        100.0 * rates[2].after(),
        100.0 * rates[0].before(),
        100.0 * rates[0].after(),
    );
    Ok(Outcome { plots: vec![plot(&rates)], tables: vec![shares(&rates)], checks, reading })
}

/// Reads, and fills what misses; half the time before a restart, half after it.
fn windows(memory_bytes: usize, end: End, seed: u64) -> Result<Vec<f64>> {
    let file = Scratch::new(seed);
    let memory_file = || match end {
        End::Forgets => None,
        End::Stops | End::Crashes => Some(MemoryFile { path: file.0.clone(), unix_s: UNIX_S }),
    };
    let config = || Config {
        memory_bytes,
        memory_file: memory_file(),
        hash_seed: Some(seed),
        ..Config::default()
    };
    let keys = (memory_bytes / ITEM_BYTES * KEYS_PER_ITEM) as f64;
    let per_window = memory_bytes / ITEM_BYTES;
    let mut random = seed | 1;
    let mut rates = Vec::with_capacity(WINDOWS);
    let mut cache = Cache::new(&config())?;
    for window in 0..WINDOWS {
        if window == WINDOWS / 2 {
            if matches!(end, End::Stops) {
                cache.stop(START_S, UNIX_S)?;
            }
            drop(cache);
            cache = Cache::new(&config())?;
        }
        let mut handle = cache.handle();
        let hits = (0..per_window).filter(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let share = (random >> 11) as f64 / (1u64 << 53) as f64;
            // Small ranks are popular: a tenth of the keys have about half of the requests.
            read(&mut handle, keys * share.powi(3))
        });
        rates.push(hits.count() as f64 / per_window as f64);
    }
    Ok(rates)
}

/// Whether the key of this rank is there; if not, it is stored.
fn read(handle: &mut Handle<'_>, rank: f64) -> bool {
    handle.quiesce();
    let name = format!("{rank:016.0}");
    let key = handle.key(name.as_bytes());
    if handle.get(&key, START_S).is_ok() {
        return true;
    }
    // A store that finds no room now is a miss next time as well.
    let _ = handle.store(&key, &[b'v'; 80], &Store::default(), START_S);
    false
}

/// A file's name, and the file is gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(seed: u64) -> Scratch {
        let name = format!("guira-lab-restart-{}-{seed}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for path in [self.0.clone(), self.0.with_extension("meta")] {
            // It may never have been made.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn shares(rates: &[Rates]) -> Table {
    let header = ["", "hits before, %", "hits after, %", "hits at the end, %"];
    let row = |it: &Rates| {
        let last = it.windows[WINDOWS - 1];
        let percent = [it.before(), it.after(), last].map(|share| format!("{:.1}", 100.0 * share));
        std::iter::once(it.name.to_owned()).chain(percent).collect()
    };
    table("The hit rate across a restart", &header, rates.iter().map(row).collect())
}

fn plot(rates: &[Rates]) -> Plot {
    let line = |it: &Rates| {
        let windows = it.windows.iter().enumerate();
        series(it.name, windows.map(|(n, share)| (n as f64, 100.0 * share)))
    };
    Plot {
        title: "The hit rate across a restart".into(),
        x: axis("window of requests"),
        y: axis("hits, %"),
        series: rates.iter().map(line).collect(),
    }
}

const SYSTEMS: [(&str, End); 3] = [
    ("own memory", End::Forgets),
    ("memory file", End::Stops),
    ("memory file, crash", End::Crashes),
];

/// Requests are counted in windows of as many as there are items.
const WINDOWS: usize = 12;
/// A key of 16 bytes, a value of 80, a header.
const ITEM_BYTES: usize = 100;
/// So many times the keys that fit are asked for.
const KEYS_PER_ITEM: usize = 4;
/// Any time: nothing expires.
const UNIX_S: i64 = 1_700_000_000;
