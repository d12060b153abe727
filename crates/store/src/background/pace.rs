//! A token bucket that limits how many bytes per second the background threads write.
//!
//! The bucket holds at most the tokens of a fifth of a second. A caller that finds too few tokens sleeps until they
//! have accumulated. It does so in short naps, so that a closing store doesn't wait long. Without a rate no caller
//! sleeps.

use crate::clock;
use std::time::{Duration, Instant};

/// The tokens of one thread.
pub(super) struct Pace {
    bytes_per_second: u64,
    tokens: f64,
    filled: Instant,
}

impl Pace {
    /// Creates a bucket with this rate; 0: no limit.
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, tokens: 0.0, filled: clock::now() }
    }

    /// Takes tokens for `bytes`, and returns how long to sleep before going on.
    pub(super) fn take(&mut self, bytes: u64) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let now = clock::now();
        let gained = now.duration_since(self.filled);
        self.filled = now;
        self.take_after(gained, bytes)
    }

    fn take_after(&mut self, gained: Duration, bytes: u64) -> Duration {
        let rate = self.bytes_per_second as f64;
        self.tokens = (self.tokens + gained.as_secs_f64() * rate).min(rate / 5.0) - bytes as f64;
        Duration::from_secs_f64((-self.tokens / rate).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_time_the_rate_is_kept_and_a_pause_saves_a_fifth_of_a_second() {
        let mut pace = Pace::new(1000);
        let second = Duration::from_secs(1);
        assert_eq!(pace.take_after(second * 100, 200), Duration::ZERO);
        assert_eq!(pace.take_after(Duration::ZERO, 1000), second);
        assert_eq!(pace.take_after(second, 500), second / 2);
        let mut slept = second / 2;
        for _ in 0..10 {
            slept = pace.take_after(slept, 300);
            assert_eq!(slept, second * 3 / 10);
        }
        assert_eq!(Pace::new(0).take(u64::MAX), Duration::ZERO);
    }
}
