//! The counters of a proxy thread: written by that thread only, and read for statistics.
//!
//! # Invariants
//! 1. One thread writes, so an addition is a load and a store, without a locked instruction.

use guira_client::{Op, Outcome};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal;)*) => {
        /// An event that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $($(#[doc = $doc])* $name,)*
        }

        impl Counter {
            /// All counters, in the order of their discriminants.
            pub const ALL: &[Counter] = &[$(Counter::$name),*];

            /// The name in statistics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => $text,)* }
            }

            /// What it counts.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Counter::$name => concat!($($doc),*),)* }
            }
        }
    };
}

counters! {
    /// Gets that a `HotCacheRoute` answered.
    HotCacheHits = "hot_cache_hits";
    /// Gets that a `HotCacheRoute` passed on.
    HotCacheMisses = "hot_cache_misses";
    /// Requests that a `ClusterRoute` sent to another node, or again.
    ClusterRepeats = "cluster_repeats";
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
    /// Requests that the failover limit kept from failing over.
    FailoverLimited = "failover_rate_limited_count";
    /// Errors, except of servers that aren't asked, that made a request go further.
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
    /// Failovers in the order of the children, where each child failed.
    FailoverInOrderFailed = "failover_inorder_policy_failed";
    /// Failovers in the order of recent failures.
    FailoverLeastFailures = "failover_least_failures_policy";
    /// Failovers in the order of recent failures, where each child failed.
    FailoverLeastFailuresFailed = "failover_least_failures_policy_failed";
    /// Failovers in an order by the key.
    FailoverDeterministic = "failover_deterministic_order_policy";
    /// Failovers in an order by the key, where each child failed.
    FailoverDeterministicFailed = "failover_deterministic_order_policy_failed";
    /// Failovers in the order of rendezvous scores.
    FailoverRendezvous = "failover_rendezvous_policy";
    /// Failovers in the order of rendezvous scores, where each child failed.
    FailoverRendezvousFailed = "failover_rendezvous_policy_failed";
    /// Sets under a lease that went where the lease came from.
    RedirectedLeaseSets = "redirected_lease_set_count";
    /// Deletes written down to be sent later.
    Spooled = "asynclog_requests";
    /// Keys that clients asked `get` for.
    CmdGet = "cmd_get_count";
    /// Keys that clients asked `gets` for.
    CmdGets = "cmd_gets_count";
    /// Keys that clients asked `gat` for.
    CmdGat = "cmd_gat_count";
    /// Keys that clients asked `gats` for.
    CmdGats = "cmd_gats_count";
    /// Keys that clients asked `lease-get` for.
    CmdLeaseGet = "cmd_lease_get_count";
    /// Keys that clients asked `metaget` for.
    CmdMetaGet = "cmd_metaget_count";
    /// Keys that clients asked `set` for.
    CmdSet = "cmd_set_count";
    /// Keys that clients asked `add` for.
    CmdAdd = "cmd_add_count";
    /// Keys that clients asked `replace` for.
    CmdReplace = "cmd_replace_count";
    /// Keys that clients asked `append` for.
    CmdAppend = "cmd_append_count";
    /// Keys that clients asked `prepend` for.
    CmdPrepend = "cmd_prepend_count";
    /// Keys that clients asked `cas` for.
    CmdCas = "cmd_cas_count";
    /// Keys that clients asked `lease-set` for.
    CmdLeaseSet = "cmd_lease_set_count";
    /// Keys that clients asked `delete` for.
    CmdDelete = "cmd_delete_count";
    /// Keys that clients asked `touch` for.
    CmdTouch = "cmd_touch_count";
    /// Keys that clients asked `incr` for.
    CmdIncr = "cmd_incr_count";
    /// Keys that clients asked `decr` for.
    CmdDecr = "cmd_decr_count";
    /// Keys that clients asked `flushall` for.
    CmdFlushAll = "cmd_flushall_count";
    /// Keys that clients asked `version` for.
    CmdVersion = "cmd_version_count";
    /// Requests of clients, a key each.
    RequestSent = "request_sent_count";
    /// Those that were answered.
    RequestReplied = "request_replied_count";
    /// Those that were answered without an error.
    RequestSuccess = "request_success_count";
    /// Those that were answered with an error.
    RequestError = "request_error_count";
    /// Replies of servers to requests: errors of all kinds.
    ResultAny = "result_error_count";
    /// Replies of servers to requests: errors of all kinds, shadows included.
    ResultAnyAll = "result_error_all_count";
    /// Replies of servers to requests: connections that failed.
    ResultConnectError = "result_connect_error_count";
    /// Replies of servers to requests: connections that failed, shadows included.
    ResultConnectErrorAll = "result_connect_error_all_count";
    /// Replies of servers to requests: connections that took too long.
    ResultConnectTimeout = "result_connect_timeout_count";
    /// Replies of servers to requests: connections that took too long, shadows included.
    ResultConnectTimeoutAll = "result_connect_timeout_all_count";
    /// Replies of servers to requests: replies that took too long.
    ResultTimeout = "result_data_timeout_count";
    /// Replies of servers to requests: replies that took too long, shadows included.
    ResultTimeoutAll = "result_data_timeout_all_count";
    /// Replies of servers to requests: servers that were busy.
    ResultBusy = "result_busy_count";
    /// Replies of servers to requests: servers that were busy, shadows included.
    ResultBusyAll = "result_busy_all_count";
    /// Replies of servers to requests: servers that weren't asked.
    ResultTko = "result_tko_count";
    /// Replies of servers to requests: servers that weren't asked, shadows included.
    ResultTkoAll = "result_tko_all_count";
    /// Replies of servers to requests: requests at fault.
    ResultClientError = "result_client_error_count";
    /// Replies of servers to requests: requests at fault, shadows included.
    ResultClientErrorAll = "result_client_error_all_count";
    /// Replies of servers to requests: errors of the router's own.
    ResultLocalError = "result_local_error_count";
    /// Replies of servers to requests: errors of the router's own, shadows included.
    ResultLocalErrorAll = "result_local_error_all_count";
    /// Replies of servers to requests: errors of other kinds.
    ResultRemoteError = "result_remote_error_count";
    /// Replies of servers to requests: errors of other kinds, shadows included.
    ResultRemoteErrorAll = "result_remote_error_all_count";
    /// Replies of servers to requests: requests that were late.
    ResultDeadlineExceeded = "result_deadline_exceeded_error_count";
    /// Replies of servers to requests: requests that were late, shadows included.
    ResultDeadlineExceededAll = "result_deadline_exceeded_error_all_count";
}

impl Counter {
    /// The counter of client requests with this command.
    #[must_use]
    pub const fn of(op: Op) -> Counter {
        match op {
            Op::Get => Counter::CmdGet,
            Op::Gets => Counter::CmdGets,
            Op::Gat => Counter::CmdGat,
            Op::Gats => Counter::CmdGats,
            Op::LeaseGet => Counter::CmdLeaseGet,
            Op::MetaGet => Counter::CmdMetaGet,
            Op::Set => Counter::CmdSet,
            Op::Add => Counter::CmdAdd,
            Op::Replace => Counter::CmdReplace,
            Op::Append => Counter::CmdAppend,
            Op::Prepend => Counter::CmdPrepend,
            Op::Cas => Counter::CmdCas,
            Op::LeaseSet => Counter::CmdLeaseSet,
            Op::Delete => Counter::CmdDelete,
            Op::Touch => Counter::CmdTouch,
            Op::Incr => Counter::CmdIncr,
            Op::Decr => Counter::CmdDecr,
            Op::FlushAll => Counter::CmdFlushAll,
            Op::Version => Counter::CmdVersion,
        }
    }

    /// The counters of server errors with this outcome: without shadows, and with them.
    #[must_use]
    pub const fn of_error(outcome: Outcome) -> (Counter, Counter) {
        match outcome {
            Outcome::ConnectError => (Counter::ResultConnectError, Counter::ResultConnectErrorAll),
            Outcome::ConnectTimeout => {
                (Counter::ResultConnectTimeout, Counter::ResultConnectTimeoutAll)
            }
            Outcome::Timeout => (Counter::ResultTimeout, Counter::ResultTimeoutAll),
            Outcome::Busy => (Counter::ResultBusy, Counter::ResultBusyAll),
            Outcome::Tko => (Counter::ResultTko, Counter::ResultTkoAll),
            Outcome::LocalError => (Counter::ResultLocalError, Counter::ResultLocalErrorAll),
            Outcome::DeadlineExceeded => {
                (Counter::ResultDeadlineExceeded, Counter::ResultDeadlineExceededAll)
            }
            Outcome::ClientError | Outcome::BadKey | Outcome::BadValue | Outcome::BadCommand => {
                (Counter::ResultClientError, Counter::ResultClientErrorAll)
            }
            _ => (Counter::ResultRemoteError, Counter::ResultRemoteErrorAll),
        }
    }
}

/// The counters of one thread.
#[derive(Debug)]
pub struct Counters {
    cells: [AtomicU64; Counter::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self { cells: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Counters {
    /// Adds to a counter. Only the owning thread may call it.
    pub fn add(&self, counter: Counter, n: u64) {
        let cell = &self.cells[counter as usize];
        cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The current count.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.cells[counter as usize].load(Relaxed)
    }
}
