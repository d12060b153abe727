//! guira-store with its defaults, with the compact index, and with a filter on the last level.

use super::{Change, Figures, LONG_LOG_BYTES, Purpose, Rival};
use guira_store::{Batch, Db, Durability, Options, RunIndex, WriteOptions};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

struct Guira(Db);

pub fn open(dir: &Path, purpose: Purpose) -> Arc<dyn Rival> {
    made(dir, purpose, |_| ())
}

pub fn open_elias_fano(dir: &Path, purpose: Purpose) -> Arc<dyn Rival> {
    made(dir, purpose, |options| options.index = RunIndex::EliasFano)
}

pub fn open_filtered(dir: &Path, purpose: Purpose) -> Arc<dyn Rival> {
    made(dir, purpose, |options| options.last_level_filter_bits = 12)
}

fn made(dir: &Path, purpose: Purpose, change: fn(&mut Options)) -> Arc<dyn Rival> {
    let mut options = Options::default();
    // A write that stalls longer than this fails.
    options.stall_max = Duration::from_secs(600);
    if purpose == Purpose::LongLog {
        options.log_bytes = LONG_LOG_BYTES as u64;
    }
    change(&mut options);
    Arc::new(Guira(Db::open(dir, options).expect("guira-store opens")))
}

impl Rival for Guira {
    fn put(&self, key: &[u8], value: &[u8], is_synced: bool) {
        let durability = if is_synced { Durability::Always } else { Durability::Os };
        self.0.put_with(key, value, WriteOptions { durability }).expect("guira-store writes");
    }

    fn write(&self, changes: &[Change], is_synced: bool) {
        let mut batch = Batch::new();
        for (key, value) in changes {
            let taken = match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
            taken.expect("guira-store takes the change");
        }
        let durability = if is_synced { Durability::Always } else { Durability::Os };
        self.0.write_with(batch, WriteOptions { durability }).expect("guira-store writes");
    }

    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        self.0.get_into(key, out).expect("guira-store reads")
    }

    fn settle(&self) {
        let busy = || {
            let stats = self.0.stats();
            let waits = stats.logs > 1 || stats.young_runs >= stats.young_runs_due;
            (waits, stats.events.bytes_converted, stats.events.bytes_merged)
        };
        let mut before = busy();
        loop {
            sleep(Duration::from_millis(500));
            let now = busy();
            if now == before && !now.0 {
                return;
            }
            before = now;
        }
    }

    fn figures(&self) -> Figures {
        let stats = self.0.stats();
        let last = stats.last_index_bytes + stats.last_filter_bytes;
        Figures {
            index_bytes: last + stats.young_index_bytes + stats.young_filter_bytes,
            last_index_bytes: Some(last),
            log_index_bytes: Some(stats.log_index_bytes),
            reads: Some(stats.events.reads_of_hits + stats.events.reads_of_misses),
        }
    }
}
