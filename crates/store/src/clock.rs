//! The one place where the store reads a clock: for how long something took, never for what time it is.

use std::time::Instant;

/// This moment.
#[expect(clippy::disallowed_methods, reason = "the durations of syncs and stalls are measured")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
