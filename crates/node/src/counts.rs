//! Counters of what clients asked for: one set per thread, so that counting has no contention.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use guira_client::{Op, Outcome};

macro_rules! counts {
    ($($variant:ident $name:ident, $meaning:literal;)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Count {
            $(#[doc = $meaning] $variant,)*
        }

        impl Count {
            pub(crate) const ALL: &[(Count, &str, &str)] =
                &[$((Count::$variant, stringify!($name), $meaning)),*];
        }
    };
}

counts! {
    CmdGet cmd_get, "keys that gets asked for";
    CmdSet cmd_set, "storage commands";
    CmdFlush cmd_flush, "flushes";
    CmdTouch cmd_touch, "touch, gat, gats, mg T";
    CmdMeta cmd_meta, "meta commands";
    GetHits get_hits, "keys of gets that were found";
    GetMisses get_misses, "keys of gets that weren't";
    GetExpired get_expired, "of these, keys whose item had expired";
    GetFlushed get_flushed, "of these, keys whose item was flushed";
    GetDirect get_direct, "keys of gets that the thread of the client answered by itself, in a node of a cluster: it reads the slot, and no change of the slot is under way";
    DeleteHits delete_hits, "deletes of what was there";
    DeleteMisses delete_misses, "deletes of what wasn't";
    DeleteBlind delete_blind, "quiet deletes, which don't look whether anything is there";
    IncrHits incr_hits, "increments of what was there";
    IncrMisses incr_misses, "increments of what wasn't";
    DecrHits decr_hits, "decrements of what was there";
    DecrMisses decr_misses, "decrements of what wasn't";
    CasHits cas_hits, "cas that stored";
    CasMisses cas_misses, "cas of what wasn't there";
    CasBadval cas_badval, "cas whose unique was another";
    TouchHits touch_hits, "touches of what was there";
    TouchMisses touch_misses, "touches of what wasn't";
    TotalItems total_items, "values that were stored";
    OutOfDisk store_no_disk, "changes that were refused because there was no room on the device";
    Delayed store_delayed, "changes that waited because merges had fallen behind";
    Failed failed, "requests that failed for another reason, such as a device that fails";
    Connections total_connections, "connections since the start";
}

/// The counters of one thread.
#[derive(Debug)]
pub(crate) struct Counts([AtomicU64; Count::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Counts {
    pub(crate) fn add(&self, count: Count, n: u64) {
        self.0[count as usize].fetch_add(n, Relaxed);
    }

    pub(crate) fn get(&self, count: Count) -> u64 {
        self.0[count as usize].load(Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.0.iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Counts a command that ended with this outcome.
    pub(crate) fn ended(&self, op: Op, is_touching: bool, outcome: Outcome) {
        let is_there = !matches!(outcome, Outcome::NotFound);
        let one = |hit, miss| self.add(if is_there { hit } else { miss }, 1);
        match op {
            _ if outcome.is_error() && outcome != Outcome::ClientError => {
                self.add(Count::Failed, 1);
            }
            _ if op.is_get() => {
                self.add(Count::CmdGet, 1);
                one(Count::GetHits, Count::GetMisses);
                if is_touching {
                    self.add(Count::CmdTouch, 1);
                    one(Count::TouchHits, Count::TouchMisses);
                }
            }
            Op::Delete => one(Count::DeleteHits, Count::DeleteMisses),
            Op::Incr => one(Count::IncrHits, Count::IncrMisses),
            Op::Decr => one(Count::DecrHits, Count::DecrMisses),
            Op::Touch => {
                self.add(Count::CmdTouch, 1);
                one(Count::TouchHits, Count::TouchMisses);
            }
            Op::Cas => {
                self.add(Count::CmdSet, 1);
                match outcome {
                    Outcome::Exists => self.add(Count::CasBadval, 1),
                    _ => one(Count::CasHits, Count::CasMisses),
                }
            }
            Op::FlushAll => self.add(Count::CmdFlush, 1),
            _ => self.add(Count::CmdSet, 1),
        }
        if op.is_update() && outcome == Outcome::Stored {
            self.add(Count::TotalItems, 1);
        }
    }
}
