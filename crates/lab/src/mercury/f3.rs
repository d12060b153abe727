//! Mercury, figure 3: cache misses a get, over 8-byte keys and values.
//!
//! A virtual machine has no counters of cache misses. So lines of memory are counted instead, get by get: each distinct
//! line of index, lock and item that the get reads. Beyond every cache a line is a miss; which of them a cache still
//! holds (locks, hot heads) is what the paper's counters would take off again.

use crate::baseline::chain::Chain;
use crate::baseline::items::{Items, Key};
use crate::figures::{categories, check, papers, series, table};
use crate::{Bound, Experiment, Outcome, Paper, Plot, Run, Verdict, measure::cpu_ns};
use anyhow::Result;
use guira_bench::{Rng, mix};
use guira_index::{Chained, Cuckoo, Index, Location};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Figure 3.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "merc-f3",
    paper: Paper::Mercury,
    title: "lines of memory a get",
    claim: "a get misses the caches 2.85 times, where memcached's misses 4.05 times on one thread and 5.44 times on eight; \
            the lock in the bucket's word saves a line",
    shape: "at most 2.9 lines a get, at least 1.2 fewer than memcached's table",
    verdict: Verdict::Reproduced,
    is_quick: true,
    run,
};

/// Lines of one get, on average.
struct Lines {
    name: &'static str,
    table: f64,
    item: f64,
    ns: f64,
    papers: Option<f64>,
}

impl Lines {
    fn all(&self) -> f64 {
        self.table + self.item
    }
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let items = Arc::new(Items::new(run.scale.pick(1 << 21, 1 << 25)));
    let keys = items.count() as usize;
    (run.progress)(0.0, "Mercury");
    let chained = Chained::with_max(keys);
    fill(&chained, &items);
    while chained.maintain(&*items, 1 << 10) {}
    let mut all = vec![count_chained(&chained, &items, run.seed)];
    drop(chained);
    (run.progress)(0.4, "memcached's table");
    let chain = Chain::new(keys, 1, Arc::clone(&items));
    fill(&chain, &items);
    all.push(count_chain(&chain, &items, run.seed));
    (run.progress)(0.7, "cuckoo");
    let cuckoo = Cuckoo::with_max(keys);
    fill(&cuckoo, &items);
    all.push(count_cuckoo(&cuckoo, &items, run.seed));
    Ok(outcome(&all))
}

fn fill(index: &impl Index, items: &Items) {
    use guira_index::{Entry as _, Items as _};
    for at in (0..items.count()).map(Location) {
        let entry = index.entry(items.hash(at), items, |found| found == at);
        entry.expect("room").put(at);
    }
}

/// Lines of Mercury's: the bucket, links beyond it, and the items compared, as the cache lays them out.
fn count_chained(index: &Chained, items: &Items, seed: u64) -> Lines {
    let mut links = 0;
    let item = averaged(items, seed, |key| {
        links += index.links_to(key.hash(), |at| items.is_key(at, key));
        lines_of_items(index, items, key, DENSE)
    });
    let table = 1.0 + links as f64 / COUNTED as f64;
    Lines { name: "Mercury", table, item, ns: ns(index, items, seed), papers: Some(2.85) }
}

/// Lines of memcached's: the lock, the chain's head, and for each item of the chain up to the key's.
fn count_chain(index: &Chain<Arc<Items>>, items: &Items, seed: u64) -> Lines {
    let item = averaged(items, seed, |key| lines_of_items(index, items, key, MEMCACHED));
    Lines {
        name: "memcached's table",
        table: 2.0,
        item,
        ns: ns(index, items, seed),
        papers: Some(4.05),
    }
}

/// Lines of ours: both buckets, which arrive together, and the items whose tags match.
fn count_cuckoo(index: &Cuckoo, items: &Items, seed: u64) -> Lines {
    let item = averaged(items, seed, |key| lines_of_items(index, items, key, DENSE));
    let ns = ns(index, items, seed);
    Lines { name: "cuckoo, ours", table: 2.0, item, ns, papers: None }
}

/// The average over many keys.
fn averaged(items: &Items, seed: u64, mut lines: impl FnMut(&Key) -> usize) -> f64 {
    let mut rng = Rng::new(mix(seed));
    let mut number = || u32::try_from(rng.below(u64::from(items.count()))).expect("32 bits");
    let sum: usize = (0..COUNTED).map(|_| lines(&Key::new(number()))).sum();
    sum as f64 / COUNTED as f64
}

/// Distinct lines of the items that a get looks at.
fn lines_of_items(index: &impl Index, items: &Items, key: &Key, layout: Layout) -> usize {
    let lines = RefCell::new(BTreeSet::new());
    let found = index.get(key.hash(), |at| {
        let start = at.0 as usize * layout.chunk;
        for (from, bytes) in layout.read {
            lines.borrow_mut().insert((start + from) / 64);
            lines.borrow_mut().insert((start + from + bytes - 1) / 64);
        }
        items.is_key(at, key)
    });
    assert!(found.is_some(), "every key is present");
    lines.into_inner().len()
}

/// Nanoseconds of a get that waits for the one before it, on the lab's items of a line each.
fn ns(index: &impl Index, items: &Items, seed: u64) -> f64 {
    let get = |key: &Key| index.get(key.hash(), |at| items.is_key(at, key));
    cpu_ns(|| crate::drive::look_up(seed, COUNTED, 0..items.count(), get))
}

fn outcome(all: &[Lines]) -> Outcome {
    let [mercury, memcached, _] = all else { unreachable!("three tables") };
    let names: Vec<&str> = all.iter().map(|lines| lines.name).collect();
    let bars = |value: fn(&Lines) -> Option<f64>| {
        all.iter().enumerate().filter_map(move |(at, l)| Some((at as f64, value(l)?)))
    };
    let row = |lines: &Lines| {
        let figures = [lines.table, lines.item, lines.all()].map(|n| format!("{n:.2}"));
        let papers = lines.papers.map_or("–".into(), |n| format!("{n:.2}"));
        let rest = [papers, format!("{:.0}", lines.ns)];
        std::iter::once(lines.name.to_owned()).chain(figures).chain(rest).collect()
    };
    Outcome {
        plots: vec![Plot {
            title: "Lines of memory a get".into(),
            x: categories("table", &names),
            y: crate::figures::axis("lines; the paper's: misses of the last cache"),
            series: vec![
                series("counted", bars(|l| Some(l.all()))),
                papers("paper", bars(|l| l.papers)),
            ],
        }],
        tables: vec![table(
            "Lines that a get reads, 8-byte keys and values",
            &["table", "lock, head, links", "items", "all", "paper: misses", "ns a get"],
            all.iter().map(row).collect(),
        )],
        checks: vec![
            check(
                "Mercury: lines a get",
                mercury.all(),
                Bound::AtMost(2.9),
                "the paper measures 2.85 misses: the bucket, the item, and what a chain adds",
            ),
            check(
                "lines a get: memcached's table, less Mercury's",
                memcached.all() - mercury.all(),
                Bound::AtLeast(1.2),
                "the paper has 4.05 less 2.85 on one thread: the lock's line, a longer chain, keys behind long headers",
            ),
        ],
        reading: format!(
            "A get reads {:.2} lines in Mercury's table and {:.2} in memcached's, counted; the paper's counters have 2.85 \
             and 4.05 misses. Counted is what no cache holds: with eight threads on eight processors the lock's line is \
             never there, which two can't show.",
            mercury.all(),
            memcached.all(),
        ),
    }
}

/// How items lie in memory, and what of them a comparison reads: (from, bytes).
#[derive(Clone, Copy)]
struct Layout {
    chunk: usize,
    read: [(usize, usize); 2],
}

/// The cache's: four bytes of header, then the key; 8 + 8 bytes make chunks of 32, the smallest.
const DENSE: Layout = Layout { chunk: 32, read: [(0, 4), (4, 8)] };
/// memcached's: the chain's link at 16, the key behind 56 bytes of header; 8 + 8 bytes fit the class of 96.
const MEMCACHED: Layout = Layout { chunk: 96, read: [(16, 8), (56, 8)] };
/// Gets that are counted.
const COUNTED: u64 = 1 << 18;
