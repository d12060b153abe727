//! The Hopscotch paper, table 2: hit ratios from 64 to 512 MB, 10 M zipf queries over 10 M keys.
//!
//! Two correct indexes over the same items, with the same eviction, must hit the same requests. So a small cache of
//! keys, CLOCK over an array of slots, runs with our cuckoo and our hopscotch index, and with a model of the published
//! lookup. If a key is elsewhere in its neighbourhood, that lookup returns the home slot's item: another key's, or
//! none.
//!
//! The generator is YCSB's: zipf over 1e10 ranks, mapped to the keys by a hash.

use anyhow::{Context, Result};
use guira_bench::{Rng, mix};
use guira_index::{Cuckoo, Entry, Hash, Hopscotch, Index, Items, Location};
use guira_policy::Access;

use super::published::{Answer, Published};
use crate::data::{Data, Line};
use crate::figures::{axis, check, drawn, least, most, papers, table};
use crate::policies::PolicyKind;
use crate::trace::gray::GrayZipf;
use crate::trace::parallel::in_parallel;
use crate::trace::sampled::shuffle;
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};

/// Table 2.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "hop-t2",
    paper: Paper::Hopscotch,
    title: "hit ratio, 64 to 512 MB, 10 M zipf queries over 10 M keys",
    claim: "hopscotch hits less often than MemC3, by up to 0.016, for which the paper blames huge pages; both hit more often \
            than memcached's LRU",
    shape: "memcached's LRU hits 0.50, 0.56, 0.63 and 0.74, each within 0.02; hopscotch hits exactly the requests that cuckoo \
            does, and no fewer than LRU; the published lookup, as modelled, returns other keys' items and loses hits",
    why: "huge pages change no hit, and a hopscotch index that answers rightly hits exactly what cuckoo hits",
    is_quick: false,
    measure,
    judge,
};

/// The queries, and the order in which the keys are loaded.
struct Workload {
    load: Vec<u32>,
    queries: Vec<u32>,
}

fn measure(run: &Run<'_>) -> Result<Data> {
    (run.progress)(0.0, "drawing queries");
    let workload = Workload::new(run.seed);
    let told = |share: f64| (run.progress)(0.1 + 0.9 * share, "querying");
    // The largest come first, so that the threads end together.
    let cell = |place: usize| {
        let megabytes = 64 << (SIZES - 1 - place / VARIANTS.len());
        let slots = (megabytes << 20) / ITEM_BYTES;
        match VARIANTS[place % VARIANTS.len()] {
            LRU => Ok(lru(&workload, (megabytes << 20) / MEMCACHED_BYTES)),
            CUCKOO => clock(&workload, slots, &Cuckoo::with_max(with_room(slots))).map(Cell::of),
            HOPSCOTCH => {
                clock(&workload, slots, &Hopscotch::with_max(with_room(slots))).map(Cell::of)
            }
            _ => published(&workload, slots),
        }
    };
    let cells = in_parallel(SIZES * VARIANTS.len(), cell, &told);
    let cells = cells.into_iter().collect::<Result<Vec<Cell>>>()?;
    let by_size: Vec<&[Cell]> = cells.chunks(VARIANTS.len()).rev().collect();
    let line = |name: &str, figure: &dyn Fn(&[Cell]) -> f64| {
        let points = by_size.iter().enumerate();
        Line::of_figures(name, points.map(|(size, cells)| (megabytes(size), figure(cells))))
    };
    let mut data = Data::default();
    for (variant, name) in VARIANTS.into_iter().enumerate() {
        data.push(line(name, &|cells| cells[variant].hits));
    }
    // The same share of stored keys is out of the home slot at every size, because the load is the same.
    data.push(line(FOREIGN, &|cells| cells[3].foreign).flat());
    data.push(line(SAME, &|cells| f64::from(u8::from(cells[1].which == cells[2].which))).flat());
    Ok(data)
}

/// Shares of the measured queries.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    hits: f64,
    /// Queries that were answered with another key's item.
    foreign: f64,
    /// A fingerprint of the set of queries that hit.
    which: u64,
}

impl Cell {
    fn of(counted: Counted) -> Self {
        let share = |n: u64| n as f64 / counted.queries.max(1) as f64;
        Self { hits: share(counted.hits), foreign: share(counted.foreign), which: counted.which }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    queries: u64,
    hits: u64,
    foreign: u64,
    which: u64,
}

impl Counted {
    fn query(&mut self, is_hit: bool) {
        self.queries += 1;
        self.hits += u64::from(is_hit);
        self.which = mix(self.which.wrapping_add(u64::from(is_hit) + 1));
    }
}

impl Workload {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let zipf = GrayZipf::new(RANKS, THETA);
        let mut load: Vec<u32> = (0..KEYS).collect();
        shuffle(&mut load, &mut rng);
        let fold = |rank: u64| u32::try_from(mix(rank) % u64::from(KEYS)).expect("below KEYS");
        let queries = (0..QUERIES).map(|_| fold(zipf.rank(&mut rng))).collect();
        Self { load, queries }
    }

    /// The queries, and whether each is in the measured second half. The first half fills the cache with popular keys.
    fn queries(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        let half = self.queries.len() / 2;
        self.queries.iter().enumerate().map(move |(place, &key)| (key, place >= half))
    }
}

fn lru(workload: &Workload, items: usize) -> Cell {
    let mut cache = PolicyKind::Lru.cache(items as u64);
    for &key in &workload.load[workload.load.len().saturating_sub(items)..] {
        cache.insert(&Access::of(u64::from(key)));
    }
    let mut counted = Counted::default();
    for (key, is_measured) in workload.queries() {
        let is_hit = cache.access(&Access::of(u64::from(key)));
        if is_measured {
            counted.query(is_hit);
        }
    }
    Cell::of(counted)
}

/// Runs CLOCK over an array of slots, found through an index.
fn clock(workload: &Workload, slots: usize, index: &impl Index) -> Result<Counted> {
    let mut cache = Clock::new(slots);
    for &key in &workload.load[workload.load.len().saturating_sub(slots)..] {
        cache.insert(index, key)?;
    }
    let mut counted = Counted::default();
    for (key, is_measured) in workload.queries() {
        let slot = index.get(hash(key), |at| cache.keys[at.0 as usize] == key);
        match slot {
            Some(at) => cache.recent[at.0 as usize] = true,
            None => {
                cache.insert(index, key)?;
            }
        }
        if is_measured {
            counted.query(slot.is_some());
        }
    }
    Ok(counted)
}

/// Runs the same cache. Each hit is also looked up by the published code, and counted as that returns.
///
/// The consequences of a wrong result are left out: a key stored twice, or another key's item replaced.
fn published(workload: &Workload, slots: usize) -> Result<Cell> {
    let index = Cuckoo::with_max(with_room(slots));
    let mut cache = Clock::new(slots);
    let mut table = Published::new(slots);
    let enter = |cache: &mut Clock, table: &mut Published, key| {
        let evicted = cache.insert(&index, key)?;
        if let Some(evicted) = evicted {
            table.remove(evicted, hash(evicted).0);
        }
        table.insert(key, hash(key).0, |other| hash(other).0);
        anyhow::Ok(())
    };
    for &key in &workload.load[workload.load.len().saturating_sub(slots)..] {
        enter(&mut cache, &mut table, key)?;
    }
    let mut counted = Counted::default();
    for (key, is_measured) in workload.queries() {
        let slot = index.get(hash(key), |at| cache.keys[at.0 as usize] == key);
        let answer = table.find(key, hash(key).0);
        match slot {
            Some(at) => cache.recent[at.0 as usize] = true,
            None => enter(&mut cache, &mut table, key)?,
        }
        if is_measured {
            counted.query(matches!(answer, Answer::Own | Answer::Foreign));
            counted.foreign += u64::from(answer == Answer::Foreign);
        }
    }
    Ok(Cell::of(counted))
}

/// Slots with a recency bit each, and a hand.
struct Clock {
    keys: Vec<u32>,
    recent: Vec<bool>,
    hand: usize,
    slots: usize,
}

impl Items for Clock {
    fn hash(&self, at: Location) -> Hash {
        hash(self.keys[at.0 as usize])
    }
}

impl Clock {
    fn new(slots: usize) -> Self {
        Self { keys: Vec::with_capacity(slots), recent: Vec::with_capacity(slots), hand: 0, slots }
    }

    /// Stores an absent key. Returns the key that was evicted for it.
    fn insert(&mut self, index: &impl Index, key: u32) -> Result<Option<u32>> {
        let (slot, evicted) = if self.keys.len() < self.slots {
            self.keys.push(key);
            self.recent.push(false);
            (self.keys.len() - 1, None)
        } else {
            while std::mem::take(&mut self.recent[self.hand]) {
                self.hand = (self.hand + 1) % self.slots;
            }
            let slot = self.hand;
            self.hand = (slot + 1) % self.slots;
            let evicted = self.keys[slot];
            index
                .find_entry(hash(evicted), |at| at.0 as usize == slot)
                .context("the index lost a key")?
                .remove();
            self.keys[slot] = key;
            (slot, Some(evicted))
        };
        let location = Location(u32::try_from(slot).expect("slots are fewer than 2^32"));
        index.entry(hash(key), self, |at| at == location)?.put(location);
        Ok(evicted)
    }
}

/// Returns the number of keys that an index must have room for, so that it never refuses one of the keys that come and
/// go.
fn with_room(slots: usize) -> usize {
    slots + slots / 4
}

fn hash(key: u32) -> Hash {
    Hash(mix(u64::from(key)))
}

fn judge(data: &Data) -> Findings {
    let mut hits = vec![papers(
        &format!("{LRU} (paper)"),
        PAPERS_LRU.into_iter().enumerate().map(|(size, hits)| (megabytes(size), hits)),
    )];
    hits.extend(VARIANTS.map(|name| drawn(data.line(name))));
    Findings {
        plots: vec![Plot {
            title: "Hit ratio over memory".into(),
            x: Axis { is_log: true, ..axis("memory for items, MB") },
            y: axis("hits of all gets"),
            series: hits,
        }],
        tables: vec![shares(data)],
        checks: checks(data),
        reading: reading(data),
    }
}

fn shares(data: &Data) -> Table {
    let sizes: Vec<String> = (0..SIZES).map(|size| format!("{} MB", megabytes(size))).collect();
    let header: Vec<&str> = std::iter::once("").chain(sizes.iter().map(String::as_str)).collect();
    let row = |name: &str, figures: &[f64]| {
        let cells = figures.iter().map(|figure| format!("{figure:.4}"));
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let mut rows = vec![row(&format!("{LRU} (paper)"), &PAPERS_LRU)];
    rows.extend(VARIANTS.map(|name| row(name, &data.line(name).figures())));
    rows.push(row(FOREIGN, &data.line(FOREIGN).figures()));
    table("Hits, as a share of gets", &header, rows)
}

fn checks(data: &Data) -> Vec<Check> {
    let less = |over: &'static str, under: &'static str| {
        let pairs = data.line(over).figures().into_iter().zip(data.line(under).figures());
        pairs.map(|(over, under)| over - under).collect::<Vec<_>>()
    };
    let lru_off = data.line(LRU).figures().into_iter().zip(PAPERS_LRU);
    let lru_off = lru_off.map(|(ours, papers)| (ours - papers).abs());
    let (lost, foreign) = (less(CUCKOO, PUBLISHED), data.line(FOREIGN).figures());
    vec![
        check(
            "memcached's LRU: hits apart from the paper's, at most",
            most(lru_off),
            Bound::AtMost(0.02),
            "0.017 by theory; the paper does not say how many items memcached held",
        )
        .paper_exactly("0 (0.496, 0.555, 0.630, 0.741)", Bound::AtMost(0.02)),
        check(
            "hits that hopscotch loses, compared with cuckoo, at most",
            most(less(CUCKOO, HOPSCOTCH)),
            Bound::Between(0.0, 0.0),
            "same items, same eviction: an index that answers rightly has no part in it",
        )
        .paper_or("0.016", Bound::AtLeast(0.008), 0.0),
        check(
            "sizes at which hopscotch and cuckoo hit the very same requests, of four",
            data.line(SAME).figures().iter().sum(),
            Bound::Between(4.0, 4.0),
            "same items, same eviction: an index that answers rightly has no part in it",
        ),
        check(
            "hits that hopscotch gains, compared with memcached's LRU, at least",
            least(less(HOPSCOTCH, LRU)),
            Bound::AtLeast(0.005),
            "more items of 104 bytes than of 120, and CLOCK; simulated gains are 0.017 to 0.03",
        )
        .paper_or("above 0 (no figure here)", Bound::AtLeast(0.0), 0.0),
        check(
            "the published lookup, as modelled: answers with another key's item, the least share of gets",
            least(foreign.iter().copied()),
            Bound::AtLeast(0.05),
            "of keys that come and go at this load, more than half are not in their home slot",
        ),
        check(
            "the published lookup, as modelled: answers with another key's item, the greatest share of gets",
            most(foreign),
            Bound::AtMost(0.4),
            "it can't answer so for keys that are in their home slot",
        ),
        check(
            "the published lookup, as modelled: loses hits, the least share of gets",
            least(lost.iter().copied()),
            Bound::AtLeast(0.002),
            "keys whose home slot is empty by now are answered with nothing",
        ),
        check(
            "the published lookup, as modelled: loses hits, the greatest share of gets",
            most(lost),
            Bound::AtMost(0.2),
            "home slots are empty as often as the load says, a quarter at the least load",
        ),
    ]
}

fn reading(data: &Data) -> String {
    let ends = |name: &str| [64.0, 512.0].map(|size| data.line(name).median(size));
    let ([hits, hits_512], [lru, lru_512]) = (ends(HOPSCOTCH), ends(LRU));
    let lost: Vec<f64> = {
        let pairs = data.line(CUCKOO).figures().into_iter().zip(data.line(PUBLISHED).figures());
        pairs.map(|(right, published)| right - published).collect()
    };
    let (least, most) = (least(lost.iter().copied()), most(lost));
    format!(
        "Cuckoo and hopscotch hit the very same requests, {hits:.3} of them at 64 MB and {hits_512:.3} at 512 MB, where \
         memcached's LRU hits {lru:.3} and {lru_512:.3}. So the paper's gap comes neither from huge pages, which change no hit, \
         nor from hopscotch hashing. Its published lookup, as modelled, returns another key's item for {:.3} of the gets at \
         64 MB and loses {least:.3} to {most:.3} of the hits: far more than the paper's gap of 0.016, so the model does not \
         explain the size of the gap, only that such code can lose hits. The model leaves out what follows from a wrong \
         answer, and what the paper's client made of wrong items is not known.",
        ends(FOREIGN)[0],
    )
}

fn megabytes(size: usize) -> f64 {
    (64_u64 << size) as f64
}

const SIZES: usize = 4;
const KEYS: u32 = 10_000_000;
const QUERIES: usize = 10_000_000;
/// YCSB draws from this many ranks, whatever the number of keys.
const RANKS: u64 = 10_000_000_000;
const THETA: f64 = 0.99;

const LRU: &str = "memcached, LRU";
const CUCKOO: &str = "cuckoo, CLOCK";
const HOPSCOTCH: &str = "hopscotch, CLOCK";
const PUBLISHED: &str = "hopscotch, CLOCK, the published lookup";
const VARIANTS: [&str; 4] = [LRU, CUCKOO, HOPSCOTCH, PUBLISHED];
const FOREIGN: &str = "of which other keys' values";
const SAME: &str = "whether hopscotch hits the very requests that cuckoo does";

/// Table 2, memcached.
const PAPERS_LRU: [f64; SIZES] = [0.496, 0.555, 0.630, 0.741];

/// The size of an item of memcached, and of one of MemC3 and Hopscotch, all with CAS uniques.
const MEMCACHED_BYTES: usize = 120;
const ITEM_BYTES: usize = 104;
