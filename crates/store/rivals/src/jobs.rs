//! The jobs: what is measured with one engine. Each job runs in its own process, so that the process' usage is the job's.
//!
//! A job prints one line of JSON, an object of numbers.

use crate::engines::{Maker, Purpose, Rival};
use crate::measure::{Cold, Used, disk_bytes};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Sizes of a job.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub items: u64,
    pub value_bytes: usize,
    pub seconds: f64,
}

/// Loads all items in random order with one thread, without syncs, and settles.
pub fn load(maker: &Maker, dir: &Path, sizes: Sizes) -> Value {
    let before = Used::now();
    let engine = (maker.open)(dir, Purpose::Usual);
    let mut values = Values::new(sizes.value_bytes);
    for n in 0..sizes.items {
        engine.put(&key(n), values.of(n), false);
    }
    let put = before.spent();
    engine.settle();
    let figures = engine.figures();
    drop(engine);
    let settled = before.spent();
    let items = sizes.items as f64;
    let bytes = items * (KEY_BYTES + sizes.value_bytes) as f64;
    json!({
        "put_per_s": items / put.seconds,
        "put_settled_per_s": items / settled.seconds,
        "put_cpu_us": settled.cpu_us / items,
        "write_amplification": settled.write_bytes / bytes,
        "space_amplification": disk_bytes(dir) as f64 / bytes,
        "index_bytes_per_key": figures.index_bytes as f64 / items,
        "last_index_bytes_per_key": figures.last_index_bytes.map(|it| it as f64 / items),
        "whole_index_bytes_per_key":
            figures.log_index_bytes.map(|it| (figures.index_bytes + it) as f64 / items),
    })
}

/// Gets random keys: hits with 1 and 16 threads, misses with 16.
pub fn gets(maker: &Maker, dir: &Path, sizes: Sizes) -> Value {
    let engine = (maker.open)(dir, Purpose::Usual);
    let cold = maker.is_buffered.then(|| Cold::keep(dir));
    let warm = Sizes { seconds: (sizes.seconds / 2.0).min(1.0), ..sizes };
    get_for(&engine, cold.as_ref(), warm, 16, true);
    let mut told = serde_json::Map::new();
    for (name, threads, is_hit) in
        [("hit_16", 16, true), ("hit_1", 1, true), ("miss_16", 16, false)]
    {
        let found = get_for(&engine, cold.as_ref(), sizes, threads, is_hit);
        for (what, figure) in found {
            told.insert(format!("{name}_{what}"), figure);
        }
    }
    Value::Object(told)
}

fn get_for(
    engine: &Arc<dyn Rival>,
    cold: Option<&Cold>,
    sizes: Sizes,
    threads: u64,
    is_hit: bool,
) -> Vec<(&'static str, Value)> {
    let gets = AtomicU64::new(0);
    let others = || cold.map_or(0.0, Cold::cpu_us);
    let (before, others_before, counted) = (Used::now(), others(), engine.figures().reads);
    let ends = Instant::now() + Duration::from_secs_f64(sizes.seconds);
    thread::scope(|scope| {
        for thread in 0..threads {
            let gets = &gets;
            scope.spawn(move || {
                let mut random = Random::new(thread);
                let mut out = Vec::new();
                let mut done = 0;
                while Instant::now() < ends {
                    let n = random.next() % sizes.items;
                    if is_hit {
                        assert!(engine.get(&key(n), &mut out), "item {n} is there");
                        check(n, &out, sizes.value_bytes);
                    } else {
                        assert!(!engine.get(&key(n | 1 << 60), &mut out), "item {n} is not there");
                    }
                    done += 1;
                }
                gets.fetch_add(done, Relaxed);
            });
        }
    });
    let spent = before.spent();
    let gets = gets.into_inner() as f64;
    let counted = engine.figures().reads.zip(counted).map(|(now, before)| (now - before) as f64);
    vec![
        ("per_s", json!(gets / spent.seconds)),
        ("cpu_us", json!((spent.cpu_us - (others() - others_before)) / gets)),
        ("bytes", json!(spent.read_bytes / gets)),
        ("pages", json!(spent.read_bytes / 4096.0 / gets)),
        ("reads", json!(counted.map(|it| it / gets))),
    ]
}

/// Changes without a sync by 1, 4 and 16 threads, each into a new store.
pub fn puts(maker: &Maker, dir: &Path, sizes: Sizes) -> Value {
    std::fs::create_dir_all(dir).expect("the folder of --dir can be made");
    let mut told = serde_json::Map::new();
    for threads in [1, 4, 16] {
        let engine = (maker.open)(&dir.join(threads.to_string()), Purpose::Usual);
        let spent = put_for(&engine, sizes, threads, false);
        told.insert(format!("put_{threads}_per_s"), json!(spent.0));
        told.insert(format!("put_{threads}_cpu_us"), json!(spent.1));
    }
    Value::Object(told)
}

/// Synced changes by 1 thread and by 64.
pub fn sync(maker: &Maker, dir: &Path, sizes: Sizes) -> Value {
    let engine = (maker.open)(dir, Purpose::Usual);
    json!({
        "synced_put_1_per_s": put_for(&engine, sizes, 1, true).0,
        "synced_put_per_s": put_for(&engine, sizes, 64, true).0,
    })
}

/// Returns puts per second, and microseconds of CPU time per put, including the background work.
fn put_for(engine: &Arc<dyn Rival>, sizes: Sizes, threads: u64, is_synced: bool) -> (f64, f64) {
    let puts = AtomicU64::new(0);
    let before = Used::now();
    let ends = Instant::now() + Duration::from_secs_f64(sizes.seconds);
    thread::scope(|scope| {
        for thread in 0..threads {
            let puts = &puts;
            scope.spawn(move || {
                let mut values = Values::new(sizes.value_bytes);
                let mut done = 0;
                while Instant::now() < ends {
                    let n = threads << 50 | thread << 40 | done;
                    engine.put(&key(n), values.of(n), is_synced);
                    done += 1;
                }
                puts.fetch_add(done, Relaxed);
            });
        }
    });
    let spent = before.spent();
    let puts = puts.into_inner() as f64;
    (puts / spent.seconds, spent.cpu_us / puts)
}

/// Writes 256 MiB of items that stay in the log, and kills itself without closing.
pub fn crash(maker: &Maker, dir: &Path, sizes: Sizes) -> Value {
    let engine = (maker.open)(dir, Purpose::LongLog);
    let mut values = Values::new(sizes.value_bytes);
    for n in 0..log_items(sizes) {
        engine.put(&key(n), values.of(n), false);
    }
    println!("{}", json!({}));
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .expect("a process may kill itself");
    unreachable!("killed")
}

/// Opens what a crash left, and checks how much of it is there.
pub fn open(maker: &Maker, dir: &Path, sizes: Sizes) -> Value {
    let begun = Instant::now();
    let engine = (maker.open)(dir, Purpose::LongLog);
    let seconds = begun.elapsed().as_secs_f64();
    let (mut out, items) = (Vec::new(), log_items(sizes));
    let asked = (0..items).step_by(1 + items as usize / 1000);
    let kept = asked.clone().filter(|&n| engine.get(&key(n), &mut out)).count();
    json!({ "open_s": seconds, "kept": kept as f64 / asked.count() as f64 })
}

/// The number of items that take 256 MiB in the log, with their keys and a record head.
fn log_items(sizes: Sizes) -> u64 {
    (256 << 20) / (KEY_BYTES + 24 + sizes.value_bytes) as u64
}

const KEY_BYTES: usize = 20;

fn key(n: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let (first, second) = (mixed(n), mixed(n ^ 0x5555_5555_5555));
    key[..8].copy_from_slice(&first.to_le_bytes());
    key[8..16].copy_from_slice(&second.to_le_bytes());
    key[16..].copy_from_slice(&(mixed(second) as u32).to_le_bytes());
    key
}

/// Values that don't compress. Each begins with its item's number.
struct Values {
    random: Vec<u8>,
    value: Vec<u8>,
}

impl Values {
    fn new(bytes: usize) -> Self {
        let mut random = Random::new(99);
        let pool = (0..1 << 17).flat_map(|_| random.next().to_le_bytes()).collect();
        Self { random: pool, value: vec![0; bytes.max(8)] }
    }

    fn of(&mut self, n: u64) -> &[u8] {
        let len = self.value.len();
        let from = mixed(n) as usize % (self.random.len() - len);
        self.value.copy_from_slice(&self.random[from..from + len]);
        self.value[..8].copy_from_slice(&n.to_le_bytes());
        &self.value
    }
}

fn check(n: u64, value: &[u8], bytes: usize) {
    assert!(value.len() == bytes.max(8) && value[..8] == n.to_le_bytes(), "the value of item {n}");
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(mixed(seed + 1 + u64::from(std::process::id()) * 1000))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }
}

fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}
