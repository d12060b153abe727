//! The cost of a get and a set in process, without a network, with each index: CPU nanoseconds per operation of one
//! thread.
//!
//! `cargo bench -p guira-cache [-- ITEMS [ROUNDS]]` (default 1,000,000 and 5): 16-byte keys, 32-byte values, keys
//! drawn uniformly. Batches of 50 are looked up in the stages that a server uses. All caches are built first and
//! measured in turn, round by round; the medians are printed.

use guira_cache::{Cache, CacheConfig, Handle, IndexKind, NoRoom, StoreTerms};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

const NOW: u32 = 100;
const BATCH: usize = 50;
const WORKS: [&str; 5] = [
    "insert",
    "get, one by one",
    "get, batches of 50",
    "miss, batches of 50",
    "set, batches of 50",
];

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse().ok());
    let items: u64 = numbers.next().unwrap_or(1_000_000);
    let rounds = numbers.next().unwrap_or(5);
    let memory_bytes = usize::try_from(items).expect("fits") * 56 + (16 << 20);
    let config = |index| CacheConfig { memory_bytes, index, ..CacheConfig::default() };
    let chosen = IndexKind::ALL.map(|kind| Cache::new(&config(kind)).expect("memory for it"));
    let names = ["cuckoo", "hopscotch", "chained"].into_iter().zip(&chosen);
    let mut columns: Vec<_> = names.map(|(name, cache)| Column::new(name, cache, items)).collect();
    let ops = items.max(2_000_000);
    for _ in 0..rounds {
        for (column, cache) in columns.iter_mut().zip(&chosen) {
            measure(column, cache, items, ops);
        }
    }
    print(&columns);
}

/// The measurements of one cache.
struct Column {
    name: &'static str,
    index_bytes: f64,
    ns: [Vec<f64>; WORKS.len()],
}

impl Column {
    /// Makes a column, and fills the cache.
    fn new(name: &'static str, cache: &Cache, items: u64) -> Self {
        let mut handle = cache.handle();
        let insert = timed(items, || (0..items).for_each(|n| set(&mut handle, n, n)));
        let index_bytes = cache.index_bytes() as f64 / items as f64;
        let mut ns = [const { Vec::new() }; WORKS.len()];
        ns[0].push(insert);
        Self { name, index_bytes, ns }
    }
}

fn measure(column: &mut Column, cache: &Cache, items: u64, ops: u64) {
    let mut handle = cache.handle();
    let [_, one, hits, misses, writes] = &mut column.ns;
    one.push(timed(ops, || gets(&handle, items, ops)));
    hits.push(timed(ops, || batched(&mut handle, items, ops, false)));
    misses.push(timed(ops, || batched(&mut handle, items, ops, true)));
    writes.push(timed(ops, || sets(&mut handle, items, ops)));
}

fn print(columns: &[Column]) {
    let line = |what: &str, cells: &mut dyn Iterator<Item = String>| {
        print!("{what:22}");
        cells.for_each(|cell| print!("{cell:>15}"));
        println!();
    };
    line("", &mut columns.iter().map(|column| column.name.to_owned()));
    line("index, B an item", &mut columns.iter().map(|c| format!("{:.1}", c.index_bytes)));
    for (at, what) in WORKS.into_iter().enumerate() {
        line(what, &mut columns.iter().map(|column| format!("{:.1} ns", median(&column.ns[at]))));
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    let mut rest = n;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
    key
}

fn set(handle: &mut Handle<'_>, n: u64, seed: u64) {
    let value = [u8::try_from(seed & 0xff).expect("a byte"); 32];
    while let Err(no_room) = handle.store(&handle.key(&key(n)), &value, &StoreTerms::default(), NOW)
    {
        assert_eq!(no_room, NoRoom::Later);
        handle.quiesce();
    }
}

fn gets(handle: &Handle<'_>, items: u64, ops: u64) {
    let mut random = Random(1);
    for _ in 0..ops {
        let found = handle.get(&handle.key(&key(random.below(items))), NOW);
        black_box(found.expect("nothing was evicted").value());
    }
}

fn batched(handle: &mut Handle<'_>, items: u64, ops: u64, absent: bool) {
    let mut random = Random(2);
    let beyond = if absent { items } else { 0 };
    for _ in 0..ops / BATCH as u64 {
        let keys: [_; BATCH] = std::array::from_fn(|_| key(random.below(items) + beyond));
        let keys = keys.each_ref().map(|key| handle.key(key));
        keys.iter().for_each(|key| handle.prefetch(key));
        keys.iter().for_each(|key| handle.prefetch_item(key));
        for key in &keys {
            assert_eq!(handle.get(key, NOW).is_err(), absent);
        }
        handle.quiesce();
    }
}

fn sets(handle: &mut Handle<'_>, items: u64, ops: u64) {
    let mut random = Random(3);
    for _ in 0..ops / BATCH as u64 {
        let numbers: [u64; BATCH] = std::array::from_fn(|_| random.below(items));
        let keys = numbers.map(key);
        let keys = keys.each_ref().map(|key| handle.key(key));
        keys.iter().for_each(|key| handle.prefetch(key));
        keys.iter().for_each(|key| handle.prefetch_item(key));
        for n in numbers {
            set(handle, n, n);
        }
        handle.quiesce();
    }
}

/// CPU time of this thread per operation, so that other load on the machine matters little.
fn timed(ops: u64, run: impl FnOnce()) -> f64 {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let start = now();
    run();
    let end = now();
    let ns = (end.tv_sec - start.tv_sec) * 1_000_000_000 + (end.tv_nsec - start.tv_nsec);
    ns as f64 / ops as f64
}

/// xorshift64*: too cheap to distort the measurement.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(n)) >> 64)
            .try_into()
            .expect("below n")
    }
}
