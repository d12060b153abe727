//! Until when this daemon may act: for ever by itself, or as long as its lease in etcd is sure to last.
//!
//! # Invariants
//! 1. A term ends before its lease can: the lease lasts from no earlier than the question, and the term from the question, for nine
//!    tenths of its time. No thread is needed for that, so it holds after a stop of the whole process, too.
//! 2. A term that is over stays over.
//!
//! Bad at: a machine that is suspended. Its monotonic clock stands still meanwhile; then only the fence of the position holds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A term.
#[derive(Debug)]
pub(crate) struct Term {
    began: Instant,
    /// Milliseconds after `began`.
    until: AtomicU64,
    is_over: AtomicBool,
}

impl Term {
    /// One that ends when it is told to.
    pub(crate) fn endless() -> Self {
        Self { began: now(), until: AtomicU64::new(u64::MAX), is_over: AtomicBool::new(false) }
    }

    /// One that hasn't begun.
    pub(crate) fn to_come() -> Self {
        Self { until: AtomicU64::new(0), ..Self::endless() }
    }

    /// A lease lasts so long, from `asked` on or later. True: the term goes on.
    pub(crate) fn extend(&self, asked: Instant, lease: Duration) -> bool {
        let until = asked.saturating_duration_since(self.began) + lease * 9 / 10;
        // What was over isn't taken up: somebody may have seen it.
        if self.until.load(Relaxed) > 0 && self.is_over() {
            return false;
        }
        self.until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Relaxed);
        !self.is_over()
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Whether this daemon may act no more, or not yet.
    pub(crate) fn is_over(&self) -> bool {
        let until = self.until.load(Relaxed);
        if !self.is_over.load(Relaxed) && (until == u64::MAX || self.at() < u128::from(until)) {
            return false;
        }
        if until > 0 {
            self.end();
        }
        true
    }

    fn at(&self) -> u128 {
        self.began.elapsed().as_millis()
    }
}

#[expect(clippy::disallowed_methods, reason = "leases end in time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_ends_before_its_lease_and_never_begins_again() {
        let term = Term::to_come();
        assert!(term.is_over(), "nobody was elected");
        let lease = Duration::from_millis(400);
        assert!(term.extend(now(), lease) && !term.is_over());
        std::thread::sleep(lease * 9 / 10 + Duration::from_millis(5));
        assert!(term.is_over(), "its lease may end any moment");
        assert!(!term.extend(now(), lease) && term.is_over(), "it was seen to be over");
        // An answer that came so late that the lease is gone.
        let late = Term::to_come();
        let asked = now();
        std::thread::sleep(Duration::from_millis(20));
        assert!(!late.extend(asked, Duration::from_millis(10)));
        let endless = Term::endless();
        assert!(!endless.is_over());
        endless.end();
        assert!(endless.is_over());
    }
}
