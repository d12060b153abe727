//! The Hopscotch paper, table 1: the number of items stored in 64 to 512 MB.
//!
//! The size of an item decides, and hopscotch and cuckoo items have the same size: neither needs a pointer in the item.
//! Our cache is really filled, with both indexes, and so is memcached, if it is installed.

use anyhow::Result;
use guira_cache::{Cache, CacheConfig, StoreTerms};
use guira_index::{AnyIndex, Cuckoo, Hopscotch};
use std::process::Command;

use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, most, papers, table};
use crate::live::{Client, Server, memcached};
use crate::trace::parallel::in_parallel;
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};

/// Table 1.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "hop-t1",
    paper: Paper::Hopscotch,
    title: "items stored, 64 to 512 MB",
    claim: "16-byte keys and 32-byte values: hopscotch stores as many items as MemC3, 0.64 M in 64 MB, and more than \
            memcached",
    shape: "hopscotch and cuckoo hold the same number in our cache, at least twice memcached's; items grow with memory",
    why: "",
    is_quick: false,
    measure,
    judge,
};

fn measure(run: &Run<'_>) -> Result<Data> {
    let told = |share: f64| (run.progress)(0.1 + 0.9 * share, "filling caches");
    (run.progress)(0.0, "filling memcached");
    let memcached = memcached().map(|program| fill_memcached(&program)).transpose()?;
    // The largest come first, so that the threads end together.
    let filled = in_parallel(
        2 * SIZES,
        |place| {
            let megabytes = 64 << (SIZES - 1 - place / 2);
            let items_max = megabytes << 20 >> 5;
            match place % 2 {
                0 => fill(megabytes, AnyIndex::Cuckoo(Cuckoo::with_max(items_max))),
                _ => fill(megabytes, AnyIndex::Hopscotch(Hopscotch::with_max(items_max))),
            }
        },
        &told,
    );
    let filled = filled.into_iter().collect::<Result<Vec<f64>>>()?;
    let line = |name: &str, index: usize| {
        let point = |size: usize| (megabytes(size), filled[2 * (SIZES - 1 - size) + index]);
        Line::of_figures(name, (0..SIZES).map(point))
    };
    let mut data = Data::default();
    data.push(line(HOPSCOTCH, 1));
    // The figure that hopscotch is compared with. It must be the same, so an exchange of the two couldn't be detected.
    data.push(line(CUCKOO, 0).aside());
    if let Some(items) = memcached {
        data.fact(MEMCACHED, items);
    }
    Ok(data)
}

/// Stores more items than the memory holds. Returns the millions of items that stay.
fn fill(megabytes: usize, index: AnyIndex) -> Result<f64> {
    let memory_bytes = megabytes << 20;
    let cache = Cache::with_index(&CacheConfig { memory_bytes, ..CacheConfig::default() }, index)?;
    let mut handle = cache.handle();
    let value = [b'v'; 32];
    for number in 0..memory_bytes / 45 {
        let key = format!("{number:016x}");
        let mut attempts = 0;
        while handle
            .store(&handle.key(key.as_bytes()), &value, &StoreTerms::default(), NOW)
            .is_err()
        {
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

/// Like `fill`, with memcached and 64 MB.
fn fill_memcached(program: &str) -> Result<f64> {
    let mut command = Command::new(program);
    let server = Server::with_memory("memcached", &mut command, 1, 64)?;
    let mut client = Client::connect(server.port)?;
    for chunk in 0..10_u32 {
        let keys = (chunk * 100_000..(chunk + 1) * 100_000).map(|number| format!("{number:016x}"));
        client.fill_with(keys, &"v".repeat(32))?;
    }
    Ok(client.stat("curr_items")? as f64 / 1e6)
}

fn judge(data: &Data) -> Findings {
    let first = data.line(HOPSCOTCH).median(64.0);
    Findings {
        plots: vec![Plot {
            title: "Items stored over memory".into(),
            x: Axis { is_log: true, ..axis("memory for items, MB") },
            y: axis("items, millions"),
            series: vec![
                drawn(data.line(HOPSCOTCH)),
                drawn(data.line(CUCKOO)),
                papers("MemC3 and hopscotch (paper)", [(64.0, PAPERS)]),
            ],
        }],
        tables: vec![stored(data)],
        checks: checks(data),
        reading: format!(
            "In our cache both indexes hold {first:.2} M items in 64 MB, {:.1} times the paper's {PAPERS} M{}, because an item \
             is 4 bytes next to its key and value and no index asks it for a pointer.",
            first / PAPERS,
            data.find(MEMCACHED).map_or(String::new(), |_| {
                let memcached = data.figure(MEMCACHED);
                format!(" and {:.1} times memcached's {memcached:.2}", first / memcached)
            }),
        ),
    }
}

fn stored(data: &Data) -> Table {
    let sizes: Vec<String> = (0..SIZES).map(|size| format!("{} MB", megabytes(size))).collect();
    let header: Vec<&str> = std::iter::once("").chain(sizes.iter().map(String::as_str)).collect();
    let row = |name: &str, items: &[f64]| {
        let cell =
            |size: usize| items.get(size).map_or("–".into(), |items| format!("{items:.2}"));
        std::iter::once(name.to_owned()).chain((0..SIZES).map(cell)).collect()
    };
    let mut rows = vec![row("MemC3 and hopscotch (paper)", &[PAPERS])];
    rows.extend(data.lines.iter().map(|line| row(&line.name, &line.figures())));
    table("Items stored, in millions (16-byte keys, 32-byte values)", &header, rows)
}

fn checks(data: &Data) -> Vec<Check> {
    let hopscotch = data.line(HOPSCOTCH);
    let pairs = hopscotch.figures().into_iter().zip(data.line(CUCKOO).figures());
    let apart = pairs.map(|(one, other)| (one / other - 1.0).abs());
    let memcached = data.find(MEMCACHED).map_or(f64::NAN, |_| data.figure(MEMCACHED));
    vec![
        check(
            "hopscotch and cuckoo: items apart, at most, as a share",
            most(apart),
            Bound::AtMost(0.001),
            "items decide, not the index; chunks between two owners are a few dozen",
        )
        .paper_exactly("0 (0.64 M of each)", Bound::AtMost(0.01)),
        check(
            "items in 64 MB: hopscotch in our cache, to memcached's",
            hopscotch.median(64.0) / memcached,
            Bound::AtLeast(2.0),
            "52 bytes per item, to memcached's chunk of 120",
        )
        .paper("more: 1.14 (0.64 M to 120 bytes each)", Bound::AtLeast(1.14))
        .judged_if(data.find(MEMCACHED).is_some(), || "memcached is not installed".into()),
        check(
            "items in 64 MB: hopscotch in our cache, to the paper's 0.64 M",
            hopscotch.median(64.0) / PAPERS,
            Bound::AtLeast(1.9),
            "52 bytes per item, to the paper's 104",
        )
        .paper("1", Bound::AtLeast(1.0)),
        check(
            "hopscotch: items in 512 MB, to those in 64 MB",
            hopscotch.median(512.0) / hopscotch.median(64.0),
            Bound::Between(7.9, 8.1),
            "eight times the memory",
        ),
    ]
}

fn megabytes(size: usize) -> f64 {
    (64_u64 << size) as f64
}

const SIZES: usize = 4;
const HOPSCOTCH: &str = "Guira, hopscotch";
const CUCKOO: &str = "Guira, cuckoo";
const MEMCACHED: &str = "memcached";
/// Millions of items in 64 MB.
const PAPERS: f64 = 0.64;
/// Any second will do: nothing expires.
const NOW: u32 = 100;
