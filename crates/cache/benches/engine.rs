//! What a get and a set cost in process, without a wire: CPU nanoseconds an operation of one thread.
//!
//! `cargo bench -p guira-cache [-- ITEMS]` (default 1,000,000): 16-byte keys, 32-byte values, keys
//! drawn uniformly. Batches of 50 are looked up in the stages that a server uses.

use guira_cache::{Cache, Config, Handle, NoRoom, Store};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

const NOW: u32 = 100;
const BATCH: usize = 50;

fn main() {
    let items: u64 =
        std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_000_000);
    let room = usize::try_from(items).expect("fits") * 56 + (16 << 20);
    let cache =
        Cache::new(&Config { memory_bytes: room, ..Config::default() }).expect("memory for it");
    let mut handle = cache.handle();
    let insert = timed(items, || {
        for n in 0..items {
            set(&mut handle, n, n);
        }
    });
    println!("{items} items, index {} B an item", cache.index_bytes() as f64 / items as f64);
    report("insert", insert);
    let ops = items.max(4_000_000);
    for _ in 0..3 {
        report("get, one by one", timed(ops, || gets(&handle, items, ops)));
        report("get, batches of 50", timed(ops, || batched(&mut handle, items, ops, false)));
        report("miss, batches of 50", timed(ops, || batched(&mut handle, items, ops, true)));
        report("set, batches of 50", timed(ops, || sets(&mut handle, items, ops)));
    }
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
    while let Err(no_room) = handle.store(&handle.key(&key(n)), &value, &Store::default(), NOW) {
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

/// CPU time of this thread, so that neighbours on the machine count little.
fn timed(ops: u64, run: impl FnOnce()) -> f64 {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let start = now();
    run();
    let end = now();
    let ns = (end.tv_sec - start.tv_sec) * 1_000_000_000 + (end.tv_nsec - start.tv_nsec);
    ns as f64 / ops as f64
}

fn report(what: &str, ns: f64) {
    println!("{what:24} {ns:7.1} ns");
}

/// xorshift64*: cheap enough not to be measured.
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
