//! Lines about a lasting state that the source checks many times a second: one is logged now and then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Admits a line once per minute. Use one as a `static` for each event.
#[derive(Debug, Default)]
pub struct Seldom {
    /// The second of the process's life of the last line, counted from 1; 0: there was none.
    told_s: AtomicU64,
}

impl Seldom {
    /// The least time between two lines.
    const EVERY: Duration = Duration::from_secs(60);

    /// Creates one that has admitted no line.
    #[must_use]
    pub const fn new() -> Seldom {
        Seldom { told_s: AtomicU64::new(0) }
    }

    /// Whether to log a line now.
    pub fn admits(&self) -> bool {
        static BEGAN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        self.admits_at(BEGAN.elapsed().as_secs() + 1)
    }

    fn admits_at(&self, now_s: u64) -> bool {
        let told_s = self.told_s.load(Relaxed);
        let is_due = told_s == 0 || now_s >= told_s + Seldom::EVERY.as_secs();
        is_due && self.told_s.compare_exchange(told_s, now_s, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_line_at_once_and_another_a_minute_later() {
        let told = Seldom::new();
        let lines = (1..200).filter(|&now_s| told.admits_at(now_s)).collect::<Vec<_>>();
        assert_eq!(lines, [1, 61, 121, 181]);
    }
}
