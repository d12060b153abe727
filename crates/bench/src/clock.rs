//! The clock of the load generator: nanoseconds since it was started.
//!
//! The one place of this crate that reads the time; the rest passes numbers around.

use std::time::Instant;

/// A monotonic clock whose zero is its own creation; copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    /// Starts a clock at zero.
    #[expect(clippy::disallowed_methods, reason = "a load generator is what measures time")]
    pub(crate) fn start() -> Self {
        Self { zero: Instant::now() }
    }

    /// Nanoseconds since the start (enough for 584 years).
    pub(crate) fn now_ns(self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
