//! Size, false positives and speed, compared with the filters that people use from Rust.
//!
//! `cd crates/filter/rivals && cargo run --release` (options: `-- --keys 10000000 --rounds 3 --look-ups 2000000`).
//! All filters are built for the same keys and rate in one process and measured in turn, round by round; the medians
//! are printed. Times are nanoseconds of **CPU time**, so that a busy machine gives the same result. A key is a
//! 64-bit number, and hashing it is part of each operation (xorf takes hashes: the keys are random already).
//!
//! Every filter gets the memory that it asks for, as in a user's program: only guira's asks for huge pages.

mod filters;

use filters::{MAKERS, Maker, STATIC_MAKERS};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str, default: usize| {
        let at = args.iter().position(|arg| arg == name);
        at.map_or(default, |at| args[at + 1].parse().expect("a number"))
    };
    let (keys, rounds) = (option("--keys", 10_000_000), option("--rounds", 3));
    let look_ups = option("--look-ups", 2_000_000).min(keys);
    let present: Vec<u64> = (0..keys as u64).map(mixed).collect();
    let absent: Vec<u64> = (0..look_ups as u64).map(|n| mixed(n | 1 << 60)).collect();
    let stride = keys / look_ups;
    let asked: Vec<u64> = present.iter().step_by(stride).take(look_ups).copied().collect();
    for rate in [0.03, 0.002, 0.0001] {
        let makers: Vec<&Maker> = MAKERS.iter().chain(&STATIC_MAKERS).collect();
        let mut rows = vec![Row::default(); makers.len()];
        for _ in 0..rounds {
            for ((_, make), row) in makers.iter().zip(&mut rows) {
                let Some(mut filter) = make(keys, rate) else { continue };
                let (entered, insert) = time(keys, || filter.insert(&present));
                let (wrong, miss) = time(look_ups, || filter.contains(&absent));
                let (found, hit) = time(look_ups, || filter.contains(&asked));
                assert!(found == look_ups || entered < keys, "a false negative");
                let bytes = filter.bytes();
                let (removed, remove) = time(look_ups, || filter.remove(&asked));
                row.times[0].push(insert);
                row.times[1].push(miss);
                row.times[2].push(hit);
                row.times[3].extend(removed.map(|_| remove));
                row.bits_per_item = 8.0 * float(bytes) / float(entered);
                row.false_positives = 100.0 * float(wrong) / float(look_ups);
                row.is_short = entered < keys;
            }
        }
        print(rate, &makers, rows);
    }
}

#[derive(Clone, Default)]
struct Row {
    /// Insert, miss, hit, remove; one figure per round.
    times: [Vec<f64>; 4],
    bits_per_item: f64,
    false_positives: f64,
    is_short: bool,
}

fn print(rate: f64, makers: &[&Maker], rows: Vec<Row>) {
    println!(
        "\n| at most {} % | bits/item | found wrongly, % | insert, ns | miss | hit | remove |",
        rate * 100.0
    );
    println!("|---|---|---|---|---|---|---|");
    for ((name, _), row) in makers.iter().zip(rows).filter(|(_, row)| !row.times[0].is_empty()) {
        let [insert, miss, hit, remove] = row.times.map(median);
        let short = if row.is_short { " (full too early)" } else { "" };
        let (bits, wrong) = (row.bits_per_item, row.false_positives);
        println!(
            "| {name}{short} | {bits:.2} | {wrong:.4} | {insert} | {miss} | {hit} | {remove} |"
        );
    }
}

fn median(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).map_or_else(|| "–".into(), |time| format!("{time:.1}"))
}

/// Returns the result of `work`, and its CPU time per operation.
fn time<T>(operations: usize, work: impl FnOnce() -> T) -> (T, f64) {
    let before = cpu_ns();
    let answer = work();
    (answer, (cpu_ns() - before) / float(operations))
}

#[expect(clippy::cast_precision_loss, reason = "times are told to a tenth of a nanosecond")]
fn cpu_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts are told to a few digits")]
fn float(n: usize) -> f64 {
    n as f64
}

/// A different random-looking number for each number.
fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let n = (n ^ n >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    n ^ n >> 33
}
