//! The server's clock: whole seconds since the start, and the meaning of an exptime on that clock.
//!
//! The clock is read once per turn, for all requests of the turn, from the system's coarse monotonic
//! clock (no system call, a resolution of 4 ms). Absolute exptimes are measured from the wall clock as it
//! was at the start, so setting the machine's clock doesn't move them.
//!
//! `debugtime` (only with `-o relaxed_privileges`) shifts, stops and resumes the clock for tests.

use guira_cache::{EXPIRED, START_S};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicI64, Ordering};

/// The clock. It counts seconds since the start, from [`START_S`].
pub(crate) struct ServerTime {
    /// Monotonic seconds at second 0 of the cache's clock.
    origin_monotonic_s: i64,
    /// Unix time at second 0 of the cache's clock.
    origin_unix_s: i64,
    shift_s: AtomicI64,
    /// The second at which `debugtime p` stopped the clock; [`RUNNING`] while it runs.
    stopped_at_s: AtomicI64,
}

impl ServerTime {
    /// Returns a clock that now shows `second`: [`START_S`], or the second that a former process had reached.
    pub(crate) fn start(second: u32) -> ServerTime {
        let start = i64::from(second);
        ServerTime {
            origin_monotonic_s: clock_gettime(ClockId::MonotonicCoarse).tv_sec - start,
            origin_unix_s: unix_now() - start,
            shift_s: AtomicI64::new(0),
            stopped_at_s: AtomicI64::new(RUNNING),
        }
    }

    /// The current second.
    pub(crate) fn now(&self) -> u32 {
        let stopped = self.stopped_at_s.load(Ordering::Relaxed);
        let elapsed = if stopped == RUNNING { self.elapsed() } else { stopped };
        seconds((elapsed + self.shift_s.load(Ordering::Relaxed)).max(i64::from(START_S)))
    }

    /// The Unix time of second `s`.
    pub(crate) fn unix(&self, s: u32) -> i64 {
        self.origin_unix_s + i64::from(s)
    }

    /// Returns the second at which an item with this exptime, given at `now`, expires; 0: never.
    ///
    /// An exptime of 1 to 2,592,000 means seconds from now, a larger one a Unix time. The past is [`EXPIRED`].
    pub(crate) fn expiry(&self, exptime: i64, now: u32) -> u32 {
        match exptime {
            0 => 0,
            ..0 => EXPIRED,
            1..=RELATIVE_MAX_S => seconds(i64::from(now) + exptime),
            _ if exptime <= self.origin_unix_s + i64::from(EXPIRED) => EXPIRED,
            _ => seconds(exptime - self.origin_unix_s),
        }
    }

    /// Moves the clock by `by` seconds, whether it is stopped or not.
    pub(crate) fn shift(&self, by: i64) {
        self.shift_s.fetch_add(by, Ordering::Relaxed);
    }

    /// Stops the clock.
    pub(crate) fn stop(&self) {
        self.stopped_at_s.store(self.elapsed(), Ordering::Relaxed);
    }

    /// Lets the clock run again, with the time that it would show if it hadn't been stopped.
    pub(crate) fn resume(&self) {
        self.stopped_at_s.store(RUNNING, Ordering::Relaxed);
    }

    fn elapsed(&self) -> i64 {
        clock_gettime(ClockId::MonotonicCoarse).tv_sec - self.origin_monotonic_s
    }
}

/// The current Unix time in seconds.
pub(crate) fn unix_now() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

/// The system's coarse clock in milliseconds, exact to a few; it costs one read of shared memory.
pub(crate) fn clock_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// The monotonic clock in milliseconds, for measuring durations.
pub(crate) fn monotonic_ms() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// Converts to the clock's 32 bits, which last for 136 years.
fn seconds(s: i64) -> u32 {
    u32::try_from(s).unwrap_or(u32::MAX)
}

/// The longest exptime that is relative to now: 30 days.
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;
const RUNNING: i64 = -1;

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_started_at_unix(start: i64) -> ServerTime {
        ServerTime { origin_unix_s: start - i64::from(START_S), ..ServerTime::start(START_S) }
    }

    #[test]
    fn exptimes_are_relative_up_to_thirty_days_and_unix_times_beyond() {
        let clock = clock_started_at_unix(1_700_000_000);
        for (exptime, at) in [
            (0, 0),
            (-1, EXPIRED),
            (i64::MIN, EXPIRED),
            (1, 101),
            (2_592_000, 2_592_100),
            (2_592_001, EXPIRED),
            (1_700_000_000 - 1, EXPIRED),
            (1_700_000_000 + 50, START_S + 50),
            (i64::MAX / 2, u32::MAX),
        ] {
            assert_eq!(clock.expiry(exptime, 100), at, "exptime {exptime}");
        }
        assert_eq!(clock.unix(START_S), 1_700_000_000);
    }

    #[test]
    fn a_shift_moves_the_clock_and_never_before_its_start() {
        let clock = ServerTime::start(START_S);
        clock.stop();
        let now = clock.now();
        clock.shift(30);
        assert_eq!(clock.now(), now + 30);
        clock.shift(-1000);
        assert_eq!(clock.now(), START_S);
        clock.resume();
        assert_eq!(clock.now(), START_S);
    }
}
