//! The only place where the store reads a clock: to measure durations, never to know the time of day.

use std::time::Instant;

/// The current instant.
#[expect(clippy::disallowed_methods, reason = "the durations of syncs and stalls are measured")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
