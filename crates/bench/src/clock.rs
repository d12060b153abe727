//! The clock of the load generator: nanoseconds since its start.
//!
//! Only this module of the crate reads the time; the others pass numbers around.

use std::time::Instant;

/// A monotonic clock that starts at zero; copies show the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    /// Starts a clock.
    #[expect(clippy::disallowed_methods, reason = "a load generator is what measures time")]
    pub(crate) fn start() -> Self {
        Self { zero: Instant::now() }
    }

    /// Nanoseconds since the start; they last for 584 years.
    pub(crate) fn now_ns(self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
