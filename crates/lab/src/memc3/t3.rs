//! MemC3, table 3: how many items fit into a memory, and what that and the eviction are worth in misses.
//!
//! The paper's rows are {chaining, cuckoo} × {LRU, CLOCK}; what fits follows from what an item weighs in each. Ours is
//! filled for real. Misses are simulated over zipf(0.99) directly over 1e8 keys, as YCSB draws it, which fits the paper's
//! LRU row to 0.7 points up to 512 MB; keys are sampled (see [`crate::trace::sampled`]), one of 16 at the paper's scale.

use anyhow::Result;
use guira_cache::{Cache, Config, Store};
use guira_policy::Kind;

use crate::trace::parallel::in_parallel;
use crate::trace::sampled::{Sampled, Workload};
use crate::{Axis, Bound, Check, Experiment, Outcome, Paper, Plot, Run, Series, Table, Verdict};

/// Table 3.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "memc3-t3",
    paper: Paper::MemC3,
    title: "items that fit, and misses, from 64 MB to 2 GB",
    claim: "16-byte keys and 32-byte values, zipf, 95 % reads: CLOCK with cuckoo holds 40 % more items than LRU with \
            chaining, has as many misses at 64 MB and a quarter fewer at 2 GB; LRU wins below 256 MB",
    shape: "0.60, 0.65, 0.76 and 0.84 M items in 64 MB; LRU's misses within 0.7 points of the paper's to 512 MB; CLOCK \
            with the bit set on insertion below LRU at every size; the default below both",
    verdict: Verdict::NotReproduced(
        "items and LRU's misses are, but LRU does not win below 256 MB: the paper's CLOCK misses there nearly as FIFO does, \
         because its code sets the bit on insertion and ignores hits on items younger than a minute",
    ),
    is_quick: false,
    run,
};

/// A row of the table.
struct System {
    name: &'static str,
    kind: Kind,
    /// What an item takes of the memory that is given.
    item_bytes: f64,
    /// Whether the memory is for everything, index included.
    is_all_in: bool,
    papers: Option<[f64; SIZES]>,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    (run.progress)(0.0, "filling a cache");
    let (item_bytes, all_in_bytes) = fill()?;
    let workload = Workload {
        keys: 100_000_000,
        theta: 0.99,
        requests: 300_000_000,
        sets: 0.05,
        every: run.scale.pick(64, 16),
    };
    (run.progress)(0.02, "drawing requests");
    let sampled = Sampled::new(workload, run.seed);
    let systems = systems(item_bytes, all_in_bytes);
    let cell = |place: usize| {
        let system = &systems[place / SIZES];
        let items = items(megabytes(place % SIZES), system.item_bytes);
        100.0 * sampled.miss_ratio(items, |items| system.kind.cache(items))
    };
    let told = |share: f64| (run.progress)(0.05 + 0.95 * share, "simulating");
    let cells = in_parallel(systems.len() * SIZES, cell, &told);
    let misses: Vec<&[f64]> = cells.chunks(SIZES).collect();
    Ok(Outcome {
        plots: vec![plot(&systems, &misses)],
        tables: vec![
            fitting(&systems),
            table(&systems, &misses, false),
            table(&systems, &misses, true),
        ],
        checks: checks(&systems, &misses),
        reading: reading(&misses, item_bytes, all_in_bytes, workload.every),
    })
}

/// Fills a cache of 64 MB; bytes an item, of the items' memory and with the index.
fn fill() -> Result<(f64, f64)> {
    let memory_bytes = 64 << 20;
    let cache = Cache::new(&Config { memory_bytes, ..Config::default() })?;
    let mut handle = cache.handle();
    let value = [b'v'; 32];
    for number in 0..2_000_000u32 {
        let key = format!("{number:016x}");
        let mut attempts = 0;
        while handle.store(&handle.key(key.as_bytes()), &value, &Store::default(), NOW).is_err() {
            handle.quiesce();
            attempts += 1;
            anyhow::ensure!(attempts < 1000, "the cache refuses to store");
        }
        if number % 64 == 0 {
            handle.quiesce();
        }
    }
    let items = cache.len() as f64;
    let all = (memory_bytes + cache.index_bytes()) as f64;
    Ok((memory_bytes as f64 / items, all / items))
}

fn systems(item_bytes: f64, all_in_bytes: f64) -> Vec<System> {
    let row = |name, kind, item_bytes, papers| System {
        name,
        kind,
        item_bytes,
        is_all_in: false,
        papers,
    };
    let all_in =
        |name, kind, item_bytes| System { name, kind, item_bytes, is_all_in: true, papers: None };
    vec![
        row("chaining, LRU", Kind::Lru, 112.0, Some(PAPERS_LRU)),
        row("cuckoo, LRU", Kind::Lru, 104.0, None),
        row("chaining, CLOCK, bit set on insertion", Kind::ClockSet, 88.0, None),
        row("cuckoo, CLOCK, bit set on insertion", Kind::ClockSet, 80.0, Some(PAPERS_CLOCK)),
        row("cuckoo, CLOCK, bit clear on insertion", Kind::Clock, 80.0, None),
        row("cuckoo, FIFO", Kind::Fifo, 80.0, None),
        row(OURS, Kind::S3Clock, item_bytes, None),
        all_in("memcached: chaining, LRU", Kind::Lru, MEMCACHED_ALL_IN),
        all_in("MemC3: cuckoo, CLOCK, bit set", Kind::ClockSet, MEMC3_ALL_IN),
        all_in(OURS, Kind::S3Clock, all_in_bytes),
    ]
}

fn fitting(systems: &[System]) -> Table {
    let papers = ["0.60", "0.65", "0.76", "0.84"];
    let rows = systems.iter().filter(|system| !system.is_all_in && system.name != "cuckoo, FIFO");
    let row = |(place, system): (usize, &System)| {
        vec![
            system.name.to_owned(),
            format!("{:.1}", system.item_bytes),
            format!("{:.2}", millions(system)),
            papers.get(place).map_or("–", |papers| *papers).to_owned(),
        ]
    };
    Table {
        title: "Items in 64 MB, in millions".into(),
        header: ["", "bytes an item", "items", "paper"].map(str::to_owned).to_vec(),
        rows: rows.enumerate().map(row).collect(),
    }
}

fn table(systems: &[System], misses: &[&[f64]], is_all_in: bool) -> Table {
    let mut header = vec![String::new(), "bytes an item".into()];
    header.extend((0..SIZES).map(size_name));
    let mut rows = Vec::new();
    for (system, misses) in systems.iter().zip(misses).filter(|(it, _)| it.is_all_in == is_all_in) {
        let row = |name: String, bytes: String, misses: &[f64]| {
            let cells = misses.iter().map(|miss| format!("{miss:.2}"));
            [name, bytes].into_iter().chain(cells).collect::<Vec<_>>()
        };
        if let Some(papers) = &system.papers {
            let name = papers_name(system);
            rows.push(row(name, format!("{:.1}", system.item_bytes), papers));
        }
        rows.push(row(system.name.into(), format!("{:.1}", system.item_bytes), misses));
    }
    let memory = if is_all_in { "items, index and all" } else { "items only, as in the paper" };
    Table { title: format!("Misses, % of gets; the memory is for {memory}"), header, rows }
}

fn plot(systems: &[System], misses: &[&[f64]]) -> Plot {
    let points = |misses: &[f64]| {
        misses.iter().enumerate().map(|(size, &miss)| (megabytes(size) as f64, miss)).collect()
    };
    let mut series = Vec::new();
    for (system, misses) in systems.iter().zip(misses).filter(|(system, _)| !system.is_all_in) {
        if let Some(papers) = &system.papers {
            let name = papers_name(system);
            series.push(Series { name, points: points(papers), is_papers: true });
        }
        let is_main = system.item_bytes != 104.0 && system.item_bytes != 88.0;
        if is_main {
            let name = system.name.to_owned();
            series.push(Series { name, points: points(misses), is_papers: false });
        }
    }
    Plot {
        title: "Misses over memory for items".into(),
        x: Axis { label: "memory for items, MB".into(), is_log: true, categories: Vec::new() },
        y: Axis { label: "misses, % of gets".into(), is_log: false, categories: Vec::new() },
        series,
    }
}

fn checks(systems: &[System], misses: &[&[f64]]) -> Vec<Check> {
    let gap = |above: usize, below: usize| {
        let gaps = (0..SIZES).map(|size| misses[below][size] - misses[above][size]);
        gaps.fold(f64::INFINITY, f64::min)
    };
    let lru_off = (0..4).map(|size| (misses[LRU][size] - PAPERS_LRU[size]).abs());
    let off = |row: usize, size: usize| (misses[row][size] - PAPERS_CLOCK[size]).abs();
    let nearness = (0..2).map(|size| off(FIFO, size) / off(CLOCK_SET, size));
    let check = |claim: &str, measured, bound, reason| Check {
        claim: claim.into(),
        measured,
        bound,
        reason,
    };
    let mut checks = vec![
        check(
            "cuckoo with CLOCK holds at least 1.38 of what chaining with LRU does",
            millions(&systems[CLOCK_SET]) / millions(&systems[LRU]),
            Bound::AtLeast(1.38),
            "table 3 says 0.84 to 0.60 M; the layouts say 112 to 80 bytes",
        ),
        check(
            "ours holds at least 1.29 M items in 64 MB",
            millions(&systems[OURS_AT]),
            Bound::AtLeast(1.27),
            "52 bytes an item; some of the first page of each class stays empty",
        ),
        check(
            "LRU's misses are the paper's to 512 MB, in points",
            lru_off.fold(0.0, f64::max),
            Bound::AtMost(0.9),
            "0.7 with the whole workload; a sample of 1 in 64 adds some 0.1",
        ),
        check(
            "the paper's CLOCK at 64 and 128 MB lies nearer to FIFO than to CLOCK: one distance by the other",
            nearness.fold(0.0, f64::max),
            Bound::AtMost(0.8),
            "its code ignores hits in an item's first minute; by theory 0.4 and 0.6",
        ),
        check(
            "CLOCK with the bit set on insertion has fewer misses than LRU at every size, in points",
            gap(CLOCK_SET, LRU),
            Bound::AtLeast(0.5),
            "its items are 80 bytes, not 112; simulated gaps are 1.3 to 2",
        ),
        check(
            "the bit clear on insertion has fewer misses than set at every size, in points",
            gap(CLOCK_CLEAR, CLOCK_SET),
            Bound::AtLeast(0.3),
            "simulated gaps are 0.7 to 1.4",
        ),
    ];
    for (size, most) in [(0, 26.5), (2, 19.8), (4, 13.8)] {
        checks.push(check(
            &format!("ours misses at most {most} % in {} for everything", size_name(size)),
            misses[OURS_ALL_IN][size],
            Bound::AtMost(most),
            "what the default eviction promises; LRU in memcached's layout misses 36.8, 28.0 and 18.7 %",
        ));
    }
    checks
}

fn reading(misses: &[&[f64]], item_bytes: f64, all_in_bytes: f64, every: u64) -> String {
    format!(
        "Items fit as the paper says, and LRU misses as it says. Its CLOCK row lies near FIFO's at 64 and 128 MB; a CLOCK that \
         heeds every hit misses {:.1} % at 64 MB with the bit set on insertion and {:.1} % with it clear, against LRU's \
         {:.1} %: the crossover at 256 MB is the code's, not CLOCK's. Ours takes {item_bytes:.1} bytes an item \
         ({all_in_bytes:.1} with the index) and misses {:.1} % of gets at 64 MB where memcached's layout and LRU, index \
         counted in both, miss {:.1} %. One key of {every} is simulated, in a cache of one place of {every}; above 1 GB \
         the paper's figures lie below any steady state of this workload.",
        misses[CLOCK_SET][0],
        misses[CLOCK_CLEAR][0],
        misses[LRU][0],
        misses[OURS_ALL_IN][0],
        misses[MEMCACHED_AT][0],
    )
}

fn papers_name(system: &System) -> String {
    format!("{} (paper)", system.name.split(", bit").next().unwrap_or(system.name))
}

fn millions(system: &System) -> f64 {
    items(64, system.item_bytes) as f64 / 1e6
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of items")]
fn items(megabytes: u64, item_bytes: f64) -> u64 {
    ((megabytes << 20) as f64 / item_bytes) as u64
}

fn megabytes(size: usize) -> u64 {
    64 << size
}

fn size_name(size: usize) -> String {
    ["64 MB", "128 MB", "256 MB", "512 MB", "1 GB", "2 GB"][size].into()
}

const SIZES: usize = 6;
const OURS: &str = "Guira: dense items, S3-CLOCK";

/// Rows of [`systems`].
const LRU: usize = 0;
const CLOCK_SET: usize = 3;
const CLOCK_CLEAR: usize = 4;
const FIFO: usize = 5;
const OURS_AT: usize = 6;
const MEMCACHED_AT: usize = 7;
const OURS_ALL_IN: usize = 9;

/// Table 3, misses of chaining with LRU and of cuckoo with CLOCK.
const PAPERS_LRU: [f64; SIZES] = [36.34, 31.91, 27.27, 22.30, 16.80, 10.44];
const PAPERS_CLOCK: [f64; SIZES] = [36.46, 31.86, 26.92, 21.38, 14.68, 7.89];

/// An item of 112 bytes and a chain's head of 8 (memcached 1.4.13 without cas).
const MEMCACHED_ALL_IN: f64 = 120.0;
/// An item of 80 bytes and a cuckoo slot of 9 at 95 % load, with a bit of CLOCK.
const MEMC3_ALL_IN: f64 = 89.6;

/// Any second: nothing expires.
const NOW: u32 = 100;
