//! The clock of a node's slots.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of a clock that nobody sets, and that goes on while the machine is suspended.
pub(super) fn clock() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000 + nanos.unwrap_or(0) / 1000
}
