//! The term: how long this daemon may act. It is endless without etcd. With etcd it ends before the daemon's lease can
//! end.
//!
//! # Invariants
//! 1. A term ends before its lease can. The lease begins no earlier than the question to etcd. The term begins with the
//!    question, and lasts for nine tenths of the lease's time. No thread is needed for that, so it also holds after the
//!    whole process was stopped.
//! 2. A term that has ended never begins again.
//!
//! # Bad at
//! A machine that is suspended: its monotonic clock stands still. Then only the fence of the position protects.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A period in which this daemon may act.
#[derive(Debug)]
pub(crate) struct Term {
    began: Instant,
    /// The end, in milliseconds after `began`. 0: the term hasn't begun. `u64::MAX`: it is endless.
    until: AtomicU64,
    is_over: AtomicBool,
}

impl Term {
    /// A term that lasts until [`Self::end`].
    pub(crate) fn endless() -> Self {
        Self { began: now(), until: AtomicU64::new(u64::MAX), is_over: AtomicBool::new(false) }
    }

    /// A term that hasn't begun.
    pub(crate) fn to_come() -> Self {
        Self { until: AtomicU64::new(0), ..Self::endless() }
    }

    /// Extends the term by a lease that lasts for `lease` from `asked` on, or from later. Returns whether the term goes
    /// on.
    pub(crate) fn extend(&self, asked: Instant, lease: Duration) -> bool {
        let until = asked.saturating_duration_since(self.began) + lease * 9 / 10;
        // A term that has ended isn't resumed: another thread may have seen its end.
        if self.until.load(Relaxed) > 0 && self.is_over() {
            return false;
        }
        self.until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Relaxed);
        !self.is_over()
    }

    /// Ends the term for good.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Whether this daemon may no longer act, or not yet.
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

/// The clock of this crate.
#[expect(
    clippy::disallowed_methods,
    reason = "leases end in time, and threads wait for real sockets"
)]
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
        // The answer comes so late that the lease has ended.
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
