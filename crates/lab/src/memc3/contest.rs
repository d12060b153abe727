//! The tables that figures 6 and 7 drive with the same mixes of reads and writes.

use crate::Scale;
use crate::baseline::chain::Chain;
use crate::baseline::engine::LOCKS;
use crate::baseline::items::Items;
use crate::baseline::single_writer::{Design, SLOTS, SingleWriter};
use crate::drive::{Mix, look_up, threads_apart};
use crate::measure::Work;
use guira_index::Cuckoo;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The tables, all with the same keys; MemC3's is filled to 90 %.
pub(crate) struct Contest {
    stable: u32,
    /// Links of a chain are in its items, so each chain has its own.
    chains: [(Arc<Items>, Chain<Arc<Items>>); 2],
    memc3: SingleWriter,
    ours: Cuckoo,
}

impl Contest {
    /// Creates tables that are larger than the processor's caches.
    pub(crate) fn new(scale: Scale, tell: impl Fn(f64, &str)) -> Self {
        Self::of(scale.pick(1 << 20, 1 << 23), tell)
    }

    /// Creates tables with `buckets` buckets in MemC3's.
    pub(crate) fn of(buckets: u32, tell: impl Fn(f64, &str)) -> Self {
        let slots = buckets * u32::try_from(SLOTS).expect("four");
        let (stable, others) = (slots / 10 * 8, slots / 10 * 2);
        let count = stable + others;
        let chain = |locks| {
            let items = Arc::new(Items::new(count));
            (items.clone(), Chain::new(count as usize, locks, items))
        };
        let contest = Self {
            stable,
            chains: [chain(1), chain(LOCKS)],
            memc3: SingleWriter::new(buckets as usize, Design::MEMC3),
            ours: Cuckoo::with_max(count as usize),
        };
        for (table, name) in TABLES.iter().enumerate() {
            tell(table as f64 / TABLES.len() as f64, &format!("filling: {name}"));
            contest.on(table, Job::Fill);
        }
        contest
    }

    /// Runs a table with `threads` threads for `time`. Operations are writes with probability `writes`.
    pub(crate) fn run(&self, table: usize, threads: usize, writes: f64, time: Duration) -> Work {
        self.on(table, Job::Run { threads, writes, time })
    }

    /// Measures what any table could gain from threads on this machine now: reads of items at known places, without a
    /// table.
    pub(crate) fn control(&self, threads: usize, time: Duration) -> Work {
        let items = &*self.chains[0].0;
        threads_apart(threads, time, |thread, stop| {
            let mut ops = 0;
            while !stop.load(Relaxed) {
                let numbers = 0..self.stable;
                look_up((thread as u64) << 32 | ops, AT_ONCE, numbers, |key| items.known(key));
                ops += AT_ONCE;
            }
            ops
        })
    }

    /// The number of lookups by MemC3's readers that a writer invalidated.
    pub(crate) fn retries(&self) -> u64 {
        self.memc3.retries()
    }

    fn on(&self, table: usize, job: Job) -> Work {
        let stable = self.stable;
        // The items have the same numbers in both copies.
        let items = &*self.chains[0].0;
        match table {
            ONE_LOCK | BUCKET_LOCKS => {
                let (items, table) = &self.chains[table];
                job.on(&Mix { table, items, stable })
            }
            MEMC3 => job.on(&Mix { table: &self.memc3, items, stable }),
            _ => job.on(&Mix { table: &self.ours, items, stable }),
        }
    }
}

enum Job {
    Fill,
    Run { threads: usize, writes: f64, time: Duration },
}

impl Job {
    fn on<I: guira_index::Index>(self, mix: &Mix<'_, I>) -> Work {
        match self {
            Self::Fill => {
                mix.fill();
                Work::default()
            }
            Self::Run { threads, writes, time } => mix.run(threads, writes, time),
        }
    }
}

/// The tables, by index.
pub(crate) const TABLES: [&str; 4] =
    ["chaining, one lock", "chaining, bucket locks", "MemC3, one writer", "ours, many writers"];
pub(crate) const ONE_LOCK: usize = 0;
pub(crate) const BUCKET_LOCKS: usize = 1;
pub(crate) const MEMC3: usize = 2;
pub(crate) const OURS: usize = 3;
/// Lookups between two checks of the flag that ends a run.
const AT_ONCE: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver itself checks that every stable key is found.
    #[test]
    fn every_table_runs_every_mix() {
        let contest = Contest::of(256, |_, _| {});
        for (table, name) in TABLES.iter().enumerate() {
            for writes in [0.0, 0.5, 1.0] {
                let work = contest.run(table, 3, writes, Duration::from_millis(2));
                assert!(work.ops > 0, "{name}");
            }
        }
    }
}
