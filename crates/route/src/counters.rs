//! A proxy thread's counters: written by that thread only, read by whoever shows statistics.
//!
//! # Invariants
//! 1. One thread writes: an addition is a load and a store, without a locked instruction.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal;)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $($(#[doc = $doc])* $name,)*
        }

        impl Counter {
            /// Each counter, in the order of the discriminants.
            pub const ALL: &[Counter] = &[$(Counter::$name),*];

            /// Its name among the statistics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => $text,)* }
            }
        }
    };
}

counters! {
    /// Requests that a `DevNullRoute` swallowed.
    DevNull = "dev_null_requests";
    /// Requests that a rate limit turned away.
    RateLimited = "rate_limited_requests";
    /// Requests that went to another child after the first failed.
    Failover = "failover_all";
    /// Requests that would have failed over, but for the failover limit.
    FailoverLimited = "failover_rate_limited";
    /// Deletes written down to be sent later.
    Spooled = "asynclog_requests";
}

/// One thread's counters.
#[derive(Debug, Default)]
pub struct Counters {
    cells: [AtomicU64; Counter::ALL.len()],
}

impl Counters {
    /// Adds; by the thread that owns them only.
    pub fn add(&self, counter: Counter, n: u64) {
        let cell = &self.cells[counter as usize];
        cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The count now.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.cells[counter as usize].load(Relaxed)
    }
}
