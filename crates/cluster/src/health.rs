//! Whether etcd has answered this process in time of late.
//!
//! If etcd hangs, leases end though their nodes live. Their keys are missing until the nodes notice that. So a missing key
//! says nothing until etcd has been well for as long as a lease lasts.
//!
//! # Invariants
//! 1. etcd counts as ill at the start, and from a renewal of a lease that failed, took long, or is overdue.
//! 2. A lease that etcd's hanging ended was not renewed for two thirds of its time. A process that renews one as often has
//!    waited for a renewal meanwhile, or knows that it is overdue.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Health(Mutex<Renewals>);

#[derive(Debug)]
struct Renewals {
    /// When the last of them was sent that etcd answered.
    sent: Instant,
    well_since: Instant,
}

impl Health {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Renewals { sent: now, well_since: now }))
    }

    /// Records a renewal that was sent at `sent` and ended at `now`. `is_done`: the lease lasts.
    pub(crate) fn renewed(&self, (sent, now): (Instant, Instant), is_done: bool) {
        let mut it = self.0.lock();
        let is_overdue = sent.saturating_duration_since(it.sent) > OVERDUE;
        if !is_done || is_overdue || now.saturating_duration_since(sent) > SLOW {
            it.well_since = now;
        }
        if is_done {
            it.sent = it.sent.max(sent);
        }
    }

    /// Records another sign that keys may be missing whose nodes live.
    pub(crate) fn suspect(&self, now: Instant) {
        self.0.lock().well_since = now;
    }

    /// For how long etcd has been well.
    pub(crate) fn well_for(&self, now: Instant) -> Duration {
        let it = self.0.lock();
        if now.saturating_duration_since(it.sent) > OVERDUE {
            return Duration::ZERO;
        }
        now.saturating_duration_since(it.well_since)
    }
}

/// A renewal that takes longer may have met an etcd that hung.
const SLOW: Duration = Duration::from_millis(500);
/// After one renewal the next is sent within a second, and answered within [`SLOW`].
const OVERDUE: Duration = Duration::from_millis(1700);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_is_well_while_each_renewal_is_answered_in_time_and_comes_in_time() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let ms = Duration::from_millis;
        let health = Health::new(start);
        for second in 0..4 {
            health.renewed((at(second * 1000), at(second * 1000 + 20)), true);
        }
        assert_eq!(health.well_for(at(3500)), ms(3500));
        // The next one is under way: nobody knows for how long etcd has been hanging.
        assert_eq!(health.well_for(at(4701)), ms(0));
        health.renewed((at(4000), at(4400)), true);
        assert_eq!(health.well_for(at(4701)), ms(4701), "it was answered in time");
        health.renewed((at(5000), at(5501)), true);
        assert_eq!(health.well_for(at(6000)), ms(499), "it took long");
        health.renewed((at(6000), at(6010)), false);
        assert_eq!(health.well_for(at(6500)), ms(490), "the lease had ended, or etcd was away");
        health.renewed((at(7000), at(7010)), true);
        health.renewed((at(9000), at(9010)), true);
        assert_eq!(health.well_for(at(9500)), ms(490), "this process itself was stopped");
        health.suspect(at(9600));
        assert_eq!(health.well_for(at(10_000)), ms(400));
    }
}
