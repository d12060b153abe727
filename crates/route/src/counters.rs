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
    Failover = "failover_all_count";
    /// Requests for which each child failed.
    FailoverAllFailed = "failover_all_failed_count";
    /// Requests that failed over for an error that only some operations fail over for.
    FailoverConditional = "failover_conditional_count";
    /// Requests that would have failed over, but for the failover limit.
    FailoverLimited = "failover_rate_limited_count";
    /// Errors, other than of a server that isn't asked, that made a request go further.
    FailoverResultError = "failover_policy_result_error";
    /// Servers that aren't asked, for which a request went further.
    FailoverTkoError = "failover_policy_tko_error";
    /// Children that a deterministic order drew twice.
    FailoverCollisions = "failover_num_collisions";
    /// Children that a deterministic order skipped for their failure domain.
    FailoverFailedDomainCollisions = "failover_num_failed_domain_collisions";
    /// Requests that failed over to a server of the same failure domain.
    FailoverSameDomain = "failover_same_failure_domain";
    /// Failovers in the order of the children.
    FailoverInOrder = "failover_inorder_policy";
    /// As above, and each child failed.
    FailoverInOrderFailed = "failover_inorder_policy_failed";
    /// Failovers in the order of recent failures.
    FailoverLeastFailures = "failover_least_failures_policy";
    /// As above, and each child failed.
    FailoverLeastFailuresFailed = "failover_least_failures_policy_failed";
    /// Failovers in an order by the key.
    FailoverDeterministic = "failover_deterministic_order_policy";
    /// As above, and each child failed.
    FailoverDeterministicFailed = "failover_deterministic_order_policy_failed";
    /// Failovers in the order of rendezvous scores.
    FailoverRendezvous = "failover_rendezvous_policy";
    /// As above, and each child failed.
    FailoverRendezvousFailed = "failover_rendezvous_policy_failed";
    /// Sets under a lease that went where the lease came from.
    RedirectedLeaseSets = "redirected_lease_set_count";
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
