//! What `plan` says in advance, against the counters of a store under that load.

use guira_disk::{Disk, SimulatedDisk};
use guira_store::{Db, Durability, Expected, Options, RunIndex, StoreStats};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const KEYS: u64 = 20_000;
const KEY_BYTES: usize = 20;
/// Runs of a merge.
const RUNS: usize = 8;

fn options() -> Options {
    let mut options = Options::default();
    options.durability = Durability::Os;
    options.log_bytes = 256 << 10;
    options.partition_bytes = 4 << 20;
    options.runs_merge = RUNS;
    options.reserve_bytes = 1;
    options
}

/// Waits until nothing is to be done in the background.
fn settled(db: &Db) -> StoreStats {
    loop {
        let stats = db.stats();
        if stats.logs == 1 && stats.young_runs < RUNS as u64 {
            return stats;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Puts of keys drawn evenly, until so many merges are over; each log is sorted before the next is written.
fn change(db: &Db, value: &[u8], merges: usize) -> StoreStats {
    let mut over = 0;
    let mut runs_before = usize::MAX;
    loop {
        for _ in 0..50 {
            let key = format!("{:0KEY_BYTES$}", fastrand::u64(0..KEYS));
            db.put(key.as_bytes(), value).expect("a put");
        }
        let stats = settled(db);
        let runs = usize::try_from(stats.young_runs).expect("few runs");
        over += usize::from(runs < runs_before && runs == 0 && runs_before != usize::MAX);
        runs_before = runs;
        if over > merges {
            return stats;
        }
    }
}

fn check(what: &str, planned: f64, measured: f64) {
    let off = measured / planned - 1.0;
    println!("{what}: {planned:.3} planned, {measured:.3} measured, {:+.1} %", off * 100.0);
    assert!(off.abs() < 0.05, "{what}: {planned} planned, {measured} measured");
}

#[test]
fn a_real_load_writes_and_takes_what_was_planned() {
    for (value_bytes, index, filter) in [(100, RunIndex::Fence, 0), (700, RunIndex::EliasFano, 12)]
    {
        // Its syncs take no time.
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::with_dir(Path::new("/")));
        let mut options = options();
        (options.index, options.last_level_filter_bits) = (index, filter);
        options.log_bytes = if value_bytes > 500 { 1 << 20 } else { options.log_bytes };
        let db = Db::open_on(disk, Path::new("/store"), options.clone()).expect("it opens");
        let value = vec![b'v'; value_bytes];
        for n in 0..KEYS {
            let key = format!("{n:0KEY_BYTES$}");
            db.put(key.as_bytes(), &value).expect("a put");
        }
        db.compact().expect("it merges");
        let before = change(&db, &value, 0);
        let after = change(&db, &value, 4);
        let (before_events, events) = (before.events, after.events);
        let changes = (events.records_written - before_events.records_written) as f64;
        let sizing =
            Expected { keys: KEYS, key_bytes: KEY_BYTES as u64, value_bytes: value_bytes as u64 };
        let sizing = sizing.sizing(&options);
        let each = |after: u64, before: u64| (after - before) as f64 / changes;
        let logged = each(events.bytes_logged, before_events.bytes_logged);
        let converted = each(events.bytes_converted, before_events.bytes_converted);
        let merged = each(events.bytes_merged, before_events.bytes_merged);
        check("logged", sizing.bytes_logged, logged);
        check("converted", sizing.bytes_converted, converted);
        check("merged", sizing.bytes_merged, merged);
        let amplification = (logged + converted + merged) / sizing.bytes_of_caller;
        check("write amplification", sizing.write_amplification(), amplification);
        check("last level", sizing.last_bytes, after.last_bytes as f64);
        check("its index", sizing.last_index_bytes, after.last_index_bytes as f64);
        if filter > 0 {
            check("its filter", sizing.last_filter_bytes, after.last_filter_bytes as f64);
        }
    }
}
