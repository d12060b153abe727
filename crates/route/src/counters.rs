//! The counters of a proxy thread: written by that thread only, and read for statistics.
//!
//! # Invariants
//! 1. One thread writes, so an addition is a load and a store, without a locked instruction.

use guira_client::{Op, Outcome};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    (
        $($(#[doc = $doc:literal])* $name:ident $(($op:path, $command:literal))? = $text:literal;)*
        @errors $($error:ident, $with_shadows:ident = $base:literal, $what:literal;)*
    ) => {
        /// An event that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Counter {
            $(
                $(#[doc = $doc])*
                $(#[doc = concat!("Keys that clients asked `", $command, "` for.")])?
                $name,
            )*
            $(
                #[doc = concat!("Replies of servers to requests: ", $what, ".")]
                $error,
                #[doc = concat!("Replies of servers to requests: ", $what, ", shadows included.")]
                $with_shadows,
            )*
        }

        impl Counter {
            /// All counters, in the order of their discriminants.
            pub(crate) const ALL: &[Counter] =
                &[$(Counter::$name,)* $(Counter::$error, Counter::$with_shadows),*];

            /// The name in statistics.
            #[must_use]
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Counter::$name => $text,)*
                    $(Counter::$error => concat!($base, "_count"),)*
                    $(Counter::$with_shadows => concat!($base, "_all_count"),)*
                }
            }

            /// What it counts.
            #[must_use]
            pub(crate) const fn meaning(self) -> &'static str {
                match self {
                    $(Counter::$name => concat!(
                        $($doc,)* $("Keys that clients asked `", $command, "` for.",)?
                    ),)*
                    $(Counter::$error =>
                        concat!("Replies of servers to requests: ", $what, "."),)*
                    $(Counter::$with_shadows =>
                        concat!("Replies of servers to requests: ", $what, ", shadows included."),)*
                }
            }

            /// The counter of client requests with this command.
            #[must_use]
            pub(crate) const fn of(op: Op) -> Counter {
                match op { $($($op => Counter::$name,)?)* }
            }
        }
    };
}

counters! {
    /// Gets that a `HotCacheRoute`, or a `ClusterRoute` with `hot_cache`, answered itself.
    HotCacheHits = "hot_cache_hits";
    /// Gets that a `HotCacheRoute`, or a `ClusterRoute` with `hot_cache`, passed on.
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
    CmdGet(Op::Get, "get") = "cmd_get_count";
    CmdGets(Op::Gets, "gets") = "cmd_gets_count";
    CmdGat(Op::Gat, "gat") = "cmd_gat_count";
    CmdGats(Op::Gats, "gats") = "cmd_gats_count";
    CmdLeaseGet(Op::LeaseGet, "lease-get") = "cmd_lease_get_count";
    CmdMetaGet(Op::MetaGet, "metaget") = "cmd_metaget_count";
    CmdSet(Op::Set, "set") = "cmd_set_count";
    CmdAdd(Op::Add, "add") = "cmd_add_count";
    CmdReplace(Op::Replace, "replace") = "cmd_replace_count";
    CmdAppend(Op::Append, "append") = "cmd_append_count";
    CmdPrepend(Op::Prepend, "prepend") = "cmd_prepend_count";
    CmdCas(Op::Cas, "cas") = "cmd_cas_count";
    CmdLeaseSet(Op::LeaseSet, "lease-set") = "cmd_lease_set_count";
    CmdDelete(Op::Delete, "delete") = "cmd_delete_count";
    CmdTouch(Op::Touch, "touch") = "cmd_touch_count";
    CmdIncr(Op::Incr, "incr") = "cmd_incr_count";
    CmdDecr(Op::Decr, "decr") = "cmd_decr_count";
    CmdFlushAll(Op::FlushAll, "flushall") = "cmd_flushall_count";
    CmdVersion(Op::Version, "version") = "cmd_version_count";
    /// Requests of clients, a key each.
    RequestSent = "request_sent_count";
    /// Those that were answered.
    RequestReplied = "request_replied_count";
    /// Those that were answered without an error.
    RequestSuccess = "request_success_count";
    /// Those that were answered with an error.
    RequestError = "request_error_count";
    @errors
    ResultAny, ResultAnyAll = "result_error", "errors of all kinds";
    ResultConnectError, ResultConnectErrorAll = "result_connect_error", "connections that failed";
    ResultConnectTimeout, ResultConnectTimeoutAll = "result_connect_timeout", "connections that took too long";
    ResultTimeout, ResultTimeoutAll = "result_data_timeout", "replies that took too long";
    ResultBusy, ResultBusyAll = "result_busy", "servers that were busy";
    ResultTko, ResultTkoAll = "result_tko", "servers that weren't asked";
    ResultClientError, ResultClientErrorAll = "result_client_error", "requests at fault";
    ResultLocalError, ResultLocalErrorAll = "result_local_error", "errors of the router's own";
    ResultRemoteError, ResultRemoteErrorAll = "result_remote_error", "errors of other kinds";
    ResultDeadlineExceeded, ResultDeadlineExceededAll = "result_deadline_exceeded_error", "requests that were late";
}

impl Counter {
    /// The counters of server errors with this outcome: without shadows, and with them.
    #[must_use]
    pub(crate) const fn of_error(outcome: Outcome) -> (Counter, Counter) {
        let counter = match outcome {
            Outcome::ConnectError => Counter::ResultConnectError,
            Outcome::ConnectTimeout => Counter::ResultConnectTimeout,
            Outcome::Timeout => Counter::ResultTimeout,
            Outcome::Busy => Counter::ResultBusy,
            Outcome::Tko => Counter::ResultTko,
            Outcome::LocalError => Counter::ResultLocalError,
            Outcome::DeadlineExceeded => Counter::ResultDeadlineExceeded,
            Outcome::ClientError | Outcome::BadKey | Outcome::BadValue | Outcome::BadCommand => {
                Counter::ResultClientError
            }
            _ => Counter::ResultRemoteError,
        };
        // The counter with shadows follows the one without.
        (counter, Counter::ALL[counter as usize + 1])
    }
}

/// The counters of one thread.
#[derive(Debug)]
pub(crate) struct Counters {
    cells: [AtomicU64; Counter::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self { cells: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Counters {
    /// Adds to a counter. Only the owning thread may call it.
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        let cell = &self.cells[counter as usize];
        cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The current count.
    #[must_use]
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.cells[counter as usize].load(Relaxed)
    }
}
