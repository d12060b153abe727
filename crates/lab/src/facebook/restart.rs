//! Section 6.4: the hit rate across an upgrade, with and without memory that outlives the process.

use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_cache::{Cache, CacheConfig, Handle, MemoryFile, START_S, StoreTerms};
use std::path::PathBuf;

/// The paper's argument in numbers; it has no such figure.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-restart",
    paper: Paper::Facebook,
    title: "the hit rate across an upgrade, with and without a memory file",
    claim: "an upgrade took a cold cache hours to recover from; with values and tables in shared memory it has none to",
    shape: "with a memory file the hit rate is the same before and after, also after a crash; without it, it drops",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// How a cache ends, and whether the next one has its items.
#[derive(Clone, Copy)]
enum End {
    /// Its memory belongs to the process.
    Forgets,
    Stops,
    Crashes,
}

/// Measures the hit rate, in percent, of each window of requests, with a line for each system. The restart is in the
/// middle.
fn measure(run: &Run<'_>) -> Result<Data> {
    let memory_bytes = run.scale.pick(8 << 20, 256 << 20);
    let mut data = Data::default();
    for (place, &(name, end)) in SYSTEMS.iter().enumerate() {
        (run.progress)(place as f64 / SYSTEMS.len() as f64, name);
        let rates = windows(memory_bytes, end, run.seed)?;
        let points = rates.into_iter().enumerate().map(|(n, share)| (n as f64, 100.0 * share));
        data.push(Line::of_figures(name, points));
    }
    Ok(data)
}

/// Returns the hit rate of a system in a window.
fn at(data: &Data, system: usize, window: usize) -> f64 {
    data.line(SYSTEMS[system].0).median(window as f64)
}

fn before(data: &Data, system: usize) -> f64 {
    at(data, system, WINDOWS / 2 - 1)
}

fn after(data: &Data, system: usize) -> f64 {
    at(data, system, WINDOWS / 2)
}

fn judge(data: &Data) -> Findings {
    let [own, file, crash] = [OWN, FILE, CRASH]
        .map(|it| format!("{:.1} % and {:.1} %", before(data, it), after(data, it)));
    Findings {
        plots: vec![plot(data)],
        tables: vec![shares(data)],
        checks: checks(data),
        reading: format!(
            "Before and after a restart {file} of the requests hit with a memory file, {crash} with a crash in its place, \
             and {own} without the file."
        ),
    }
}

fn checks(data: &Data) -> Vec<Check> {
    let lost = |system| before(data, system) - after(data, system);
    let filled = [OWN, FILE, CRASH].map(|system| before(data, system) / at(data, system, 0));
    let same = Bound::Between(-1.0, 1.0);
    vec![
        check(
            "hits that a restart with a memory file costs, in points",
            lost(FILE),
            same,
            "every item is there again; from window to window the rate varies by a few tenths",
        )
        .paper_or("none", Bound::AtMost(1.0), lost(OWN)),
        check(
            "hits that a crash costs, in points",
            lost(CRASH),
            same,
            "an item whose header is written is whole",
        ),
        check(
            "without a file: hits that a restart costs, in points",
            lost(OWN),
            Bound::AtLeast(10.0),
            "the cache is empty, and each key misses once",
        )
        .paper_or("many, for hours", Bound::AtLeast(10.0), 0.0),
        check(
            "the hit rate before the restart, to the first window's: the least of all three",
            least(filled),
            Bound::AtLeast(1.3),
            "a cache begins empty",
        ),
    ]
}

/// Reads, and stores keys that miss; half of the time before a restart, half after it.
fn windows(memory_bytes: usize, end: End, seed: u64) -> Result<Vec<f64>> {
    let file = Scratch::new(seed);
    let memory_file = || match end {
        End::Forgets => None,
        End::Stops | End::Crashes => Some(MemoryFile { path: file.0.clone(), unix_s: UNIX_S }),
    };
    let config = || CacheConfig {
        memory_bytes,
        memory_file: memory_file(),
        hash_seed: Some(seed),
        ..CacheConfig::default()
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
            // Small ranks are popular: a tenth of the keys get about half of the requests.
            read(&mut handle, keys * share.powi(3))
        });
        rates.push(hits.count() as f64 / per_window as f64);
    }
    Ok(rates)
}

/// Returns whether the key of this rank is present. If not, it is stored.
fn read(handle: &mut Handle<'_>, rank: f64) -> bool {
    handle.quiesce();
    let name = format!("{rank:016.0}");
    let key = handle.key(name.as_bytes());
    if handle.get(&key, START_S).is_ok() {
        return true;
    }
    // A store that finds no room now is a miss the next time, too.
    let _ = handle.store(&key, &[b'v'; 80], &StoreTerms::default(), START_S);
    false
}

/// The name of a file, which is removed when this is dropped.
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
            // The file may not exist.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn shares(data: &Data) -> Table {
    let header = ["", "hits before, %", "hits after, %", "hits at the end, %"];
    let row = |system: usize| {
        let last = at(data, system, WINDOWS - 1);
        let percent = [before(data, system), after(data, system), last];
        let cells = percent.map(|it| format!("{it:.1}"));
        std::iter::once(SYSTEMS[system].0.to_owned()).chain(cells).collect()
    };
    table("The hit rate across a restart", &header, [OWN, FILE, CRASH].map(row).into())
}

fn plot(data: &Data) -> Plot {
    Plot {
        title: "The hit rate across a restart".into(),
        x: axis("window of requests"),
        y: axis("hits, %"),
        series: data.lines.iter().map(drawn).collect(),
    }
}

/// The constants below are indexes into this list.
const SYSTEMS: [(&str, End); 3] = [
    ("own memory", End::Forgets),
    ("memory file", End::Stops),
    ("memory file, crash", End::Crashes),
];
const OWN: usize = 0;
const FILE: usize = 1;
const CRASH: usize = 2;

/// The number of windows. A window has as many requests as there are items.
const WINDOWS: usize = 12;
/// A key of 16 bytes, a value of 80, a header.
const ITEM_BYTES: usize = 100;
/// The ratio of keys that are asked for to keys that fit.
const KEYS_PER_ITEM: usize = 4;
/// Any time: nothing expires.
const UNIX_S: i64 = 1_700_000_000;
