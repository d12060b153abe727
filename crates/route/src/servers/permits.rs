//! Limits of requests under way. A request above the limit waits in a queue, and is refused if the queue is full.
//!
//! # Costs
//! Without a limit there are no [`Permits`]: one branch.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// The limits of requests under way and of waiting requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PermitLimits {
    /// Requests under way; 0: no limit.
    pub(crate) under_way: usize,
    /// Waiting requests; `usize::MAX`: no limit.
    pub(crate) waiting: usize,
    /// The longest wait of a request; zero: forever.
    pub(crate) patience: Duration,
}

/// The permits of one proxy thread, or of one link.
#[derive(Debug)]
pub(crate) struct Permits {
    limits: PermitLimits,
    free: Semaphore,
    waiting: AtomicUsize,
}

impl Permits {
    /// `None`: there is no limit.
    pub(crate) fn new(limits: PermitLimits) -> Option<Self> {
        let most = limits.under_way.min(Semaphore::MAX_PERMITS);
        let permits = || Self { limits, free: Semaphore::new(most), waiting: AtomicUsize::new(0) };
        (most > 0).then(permits)
    }

    /// Takes a permit, which is returned when it is dropped. `None`: the queue is full, or the wait took too long.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(permit) = self.free.try_acquire() {
            return Some(permit);
        }
        if self.waiting() >= self.limits.waiting {
            return None;
        }
        let _waiting = Waiting::begin(&self.waiting);
        let permit = self.free.acquire();
        if self.limits.patience.is_zero() {
            return permit.await.ok();
        }
        tokio::time::timeout(self.limits.patience, permit).await.ok()?.ok()
    }

    /// The limit of waiting requests.
    pub(crate) fn waiting_max(&self) -> usize {
        self.limits.waiting
    }

    pub(crate) fn under_way(&self) -> usize {
        self.limits.under_way.saturating_sub(self.free.available_permits())
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

/// Counts as a waiting request until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_above_the_limit_waits_in_order_and_who_is_above_both_is_refused() {
        let limits = PermitLimits { under_way: 2, waiting: 2, patience: Duration::ZERO };
        let turns = Permits::new(limits).expect("a limit");
        let [first, _second] = [turns.take().await, turns.take().await];
        let mut third = Box::pin(turns.take());
        let mut fourth = Box::pin(turns.take());
        assert!((&mut third).now_or_never().is_none() && (&mut fourth).now_or_never().is_none());
        assert_eq!((turns.under_way(), turns.waiting()), (2, 2));
        assert!(turns.take().await.is_none(), "nobody may wait any more");
        drop(first);
        assert!((&mut fourth).now_or_never().is_none(), "the third is before it");
        assert!(third.await.is_some());
        assert!(fourth.await.is_some());
        assert_eq!((turns.under_way(), turns.waiting()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_refused() {
        let limits =
            PermitLimits { under_way: 1, waiting: usize::MAX, patience: Duration::from_secs(1) };
        let turns = Permits::new(limits).expect("a limit");
        let only = turns.take().await.expect("the only permit");
        assert!(turns.take().await.is_none());
        drop(only);
        assert!(turns.take().await.is_some());
        assert_eq!((turns.under_way(), turns.waiting()), (0, 0));
        assert!(Permits::new(PermitLimits { under_way: 0, ..limits }).is_none());
    }
}
