//! How long senders pause, how much they set aside, and how they count acknowledgements.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::counts::CourierCounts;

/// Keys or markers that routers refuse and that are set aside; beyond that, a sender takes nothing new.
pub(super) const PARKED_MAX: usize = 1000;
/// The time after which a sender tries again what a router refused.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The pause after the first failure; it doubles with each further one, up to [`PAUSE_MOST`].
pub(super) const PAUSE_LEAST: Duration = Duration::from_millis(50);
pub(super) const PAUSE_MOST: Duration = Duration::from_secs(2);
/// The time that an idle sender waits for entries before it looks after other work.
pub(super) const IDLE: Duration = Duration::from_millis(50);

/// Counts the acknowledgement of a change that was made at `at_s`, in seconds since 1970.
pub(super) fn note_ack(counts: &CourierCounts, at_s: u32) {
    let at = SystemTime::now().duration_since(UNIX_EPOCH);
    let at_ms = at.map_or(0, |at| u64::try_from(at.as_millis()).unwrap_or(0));
    counts.ack_ms.add(at_ms.saturating_sub(u64::from(at_s) * 1000));
    counts.acked.add(1);
}
