//! The Hopscotch paper, table 1: how many items are stored in 64 to 512 MB.
//!
//! What an item weighs decides, and hopscotch and cuckoo weigh the same: neither needs a pointer in the item. The papers'
//! layouts are arithmetic; ours is filled for real, under both indexes.

use anyhow::Result;
use guira_cache::{Cache, Config, Store};
use guira_index::{Cuckoo, Hopscotch, Index};

use crate::trace::parallel::in_parallel;
use crate::{Axis, Bound, Check, Experiment, Outcome, Paper, Plot, Run, Series, Table, Verdict};

/// Table 1.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "hop-t1",
    paper: Paper::Hopscotch,
    title: "items stored, 64 to 512 MB",
    claim: "16-byte keys and 32-byte values: hopscotch stores as many items as MemC3, 0.64 M in 64 MB, and more than \
            memcached",
    shape: "0.64 M of 104 bytes in 64 MB; hopscotch and cuckoo hold the same number in our cache, at least 1.14 of \
            memcached's; items grow with memory",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

fn run(run: &Run<'_>) -> Result<Outcome> {
    let told = |share: f64| (run.progress)(share, "filling caches");
    // The largest first, so that the threads end together.
    let filled = in_parallel(
        2 * SIZES,
        |place| {
            let megabytes = megabytes(SIZES - 1 - place / 2);
            let items_max = megabytes << 20 >> 5;
            match place % 2 {
                0 => fill(megabytes, Cuckoo::with_max(items_max)),
                _ => fill(megabytes, Hopscotch::with_max(items_max)),
            }
        },
        &told,
    );
    let mut cuckoo = Vec::new();
    let mut hopscotch = Vec::new();
    for (place, items) in filled.into_iter().enumerate().rev() {
        if place % 2 == 0 { &mut cuckoo } else { &mut hopscotch }.push(items?);
    }
    let fixed =
        |bytes: usize| (0..SIZES).map(move |size| ((megabytes(size) << 20) / bytes) as f64 / 1e6);
    let memcached: Vec<f64> = fixed(MEMCACHED_BYTES).collect();
    let papers: Vec<f64> = fixed(PAPERS_BYTES).collect();
    let rows = [
        ("memcached with cas, 120 bytes", &memcached),
        ("MemC3 and hopscotch as published, 104 bytes", &papers),
        ("Guira, cuckoo", &cuckoo),
        ("Guira, hopscotch", &hopscotch),
    ];
    Ok(Outcome {
        plots: vec![plot(&rows)],
        tables: vec![table(&rows)],
        checks: checks(&memcached, &papers, &cuckoo, &hopscotch),
        reading: format!(
            "Items of 104 bytes give the paper's 0.64 M in 64 MB. In our cache both indexes hold {:.2} M there, {:.2} of \
             memcached's, because an item is 4 bytes beside its key and value and no index asks it for a pointer.",
            hopscotch[0],
            hopscotch[0] / memcached[0],
        ),
    })
}

/// Stores until the memory is full and more; millions of items that stay.
fn fill(megabytes: usize, index: impl Index) -> Result<f64> {
    let memory_bytes = megabytes << 20;
    let cache = Cache::with_index(&Config { memory_bytes, ..Config::default() }, index)?;
    let mut handle = cache.handle();
    let value = [b'v'; 32];
    for number in 0..memory_bytes / 45 {
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
    Ok(cache.len() as f64 / 1e6)
}

fn plot(rows: &[(&str, &Vec<f64>)]) -> Plot {
    let points = |items: &[f64]| {
        items.iter().enumerate().map(|(size, &items)| (megabytes(size) as f64, items)).collect()
    };
    let series = rows.iter().map(|(name, items)| Series {
        name: (*name).to_owned(),
        points: points(items),
        is_papers: name.contains("published"),
    });
    Plot {
        title: "Items stored over memory".into(),
        x: Axis { label: "memory for items, MB".into(), is_log: true, categories: Vec::new() },
        y: Axis { label: "items, millions".into(), is_log: false, categories: Vec::new() },
        series: series.collect(),
    }
}

fn table(rows: &[(&str, &Vec<f64>)]) -> Table {
    let mut header = vec![String::new()];
    header.extend((0..SIZES).map(|size| format!("{} MB", megabytes(size))));
    let row = |(name, items): &(&str, &Vec<f64>)| {
        let cells = items.iter().map(|items| format!("{items:.2}"));
        std::iter::once((*name).to_owned()).chain(cells).collect()
    };
    Table {
        title: "Items stored, in millions (16-byte keys, 32-byte values)".into(),
        header,
        rows: rows.iter().map(row).collect(),
    }
}

fn checks(memcached: &[f64], papers: &[f64], cuckoo: &[f64], hopscotch: &[f64]) -> Vec<Check> {
    let least = |above: &[f64], below: &[f64]| {
        let ratios = above.iter().zip(below).map(|(above, below)| above / below);
        ratios.fold(f64::INFINITY, f64::min)
    };
    let apart = cuckoo.iter().zip(hopscotch).map(|(one, other)| (one / other - 1.0).abs());
    vec![
        Check {
            claim: "items of 104 bytes in 64 MB are the paper's 0.64 M".into(),
            measured: papers[0],
            bound: Bound::Between(0.635, 0.65),
            reason: "arithmetic: 64 MB / 104",
        },
        Check {
            claim: "the published layout holds at least 1.14 of memcached's items".into(),
            measured: least(papers, memcached),
            bound: Bound::AtLeast(1.14),
            reason: "104 to 120 bytes",
        },
        Check {
            claim: "hopscotch and cuckoo hold the same number of items, apart by a share of".into(),
            measured: apart.fold(0.0, f64::max),
            bound: Bound::AtMost(0.001),
            reason: "items decide, not the index; chunks between two owners are a few dozen",
        },
        Check {
            claim: "ours holds at least twice memcached's items at every size".into(),
            measured: least(hopscotch, memcached),
            bound: Bound::AtLeast(2.0),
            reason: "52 to 120 bytes",
        },
    ]
}

fn megabytes(size: usize) -> usize {
    64 << size
}

const SIZES: usize = 4;
/// A chunk of memcached's for such an item with cas, by its default growth factor.
const MEMCACHED_BYTES: usize = 120;
/// What 0.64 M in 64 MB come to.
const PAPERS_BYTES: usize = 104;
/// Any second: nothing expires.
const NOW: u32 = 100;
