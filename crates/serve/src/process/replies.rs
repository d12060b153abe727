//! One budget of bytes for replies that clients have yet to take, over all connections: `-o unsent_limit`.
//!
//! What a socket doesn't take is kept by its connection, which isn't read from meanwhile. That is charged, but for what
//! is free ([`FREE_BYTES`]): all that is free is bounded by the number of connections (`-c`).
//!
//! # When half of the budget is used up
//! Connections keep less: they queue [`QUEUED_SCARCE_MAX`] and one reply before they send, and of a large value the rest
//! stays in the cache (`output/held.rs`). Which client doesn't read plays no part, so whoever reads gets its replies at
//! any time. The other half is for what can be done with neither: long `stats`, pieces of listings, stale values of leases, and
//! what workers were about to send as the first half was used up.
//!
//! # When all of it is used up
//! Of the connections that are charged (of the worker that notices) the one that began last is closed; the first one
//! instead where that has kept what it has for [`STALLED_S`](crate::process::budget::STALLED_S).
//!
//! # Costs
//! A load and a comparison for each time that a connection is served. Nothing more where the socket takes all.

use crate::process::budget::ByteBudget;
use crate::settings::ServerSettings;

/// The budget that these settings mean.
pub(crate) fn budget(settings: &ServerSettings) -> ByteBudget {
    let wanted = match settings.extended.unsent_limit_bytes {
        0 => settings.memory_bytes / MEMORY_SHARE,
        given => given,
    };
    // Half of it holds some of the largest values, and what each worker may be about to send.
    let least = (4 * settings.item_bytes_max).max(settings.threads * WORKER_BYTES);
    ByteBudget::new(wanted.max(least))
}

/// Whether replies are to be kept sparingly, once `more` bytes are kept.
#[inline]
pub(crate) fn is_scarce(budget: &ByteBudget, more: usize) -> bool {
    budget.bytes() + more > budget.bytes_max() / 2
}

/// Of so many bytes for items one more may be kept of replies.
const MEMORY_SHARE: usize = 10;
/// A budget has this for each worker: what one connection keeps at most, and as much for others.
const WORKER_BYTES: usize = 2 << 20;
/// What each connection may keep beside the budget: what it queues while memory is scarce, and over TLS a record on top.
pub(crate) const FREE_BYTES: usize = 36 << 10;
/// Replies are sent from this size on while memory for them is scarce.
pub(crate) const QUEUED_SCARCE_MAX: usize = 8 << 10;
