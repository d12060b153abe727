//! Limits on what is under way at once: what comes above them waits for its turn, in order, and what comes when as many
//! wait as may is refused.
//!
//! # Costs
//! Who has no limit has no [`Turns`], and pays a look at that.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// How much may be under way, and how much may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests under way; 0: no limit.
    pub(crate) under_way: usize,
    /// Requests that wait; `usize::MAX`: no limit.
    pub(crate) waiting: usize,
    /// How long one may wait; zero: for ever.
    pub(crate) patience: Duration,
}

/// The turns of one proxy thread, or of one link.
#[derive(Debug)]
pub(crate) struct Turns {
    limits: Limits,
    free: Semaphore,
    waiting: AtomicUsize,
}

impl Turns {
    /// `None`: there is no limit.
    pub(crate) fn new(limits: Limits) -> Option<Self> {
        let most = limits.under_way.min(Semaphore::MAX_PERMITS);
        let turns = || Self { limits, free: Semaphore::new(most), waiting: AtomicUsize::new(0) };
        (most > 0).then(turns)
    }

    /// A turn, until it is dropped; `None`: too many wait already, or it took too long.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(turn) = self.free.try_acquire() {
            return Some(turn);
        }
        if self.waiting() >= self.limits.waiting {
            return None;
        }
        let _waiting = Waiting::begin(&self.waiting);
        let turn = self.free.acquire();
        if self.limits.patience.is_zero() {
            return turn.await.ok();
        }
        tokio::time::timeout(self.limits.patience, turn).await.ok()?.ok()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.limits.under_way.saturating_sub(self.free.available_permits())
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

/// One that waits, until it is dropped.
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
        let limits = Limits { under_way: 2, waiting: 2, patience: Duration::ZERO };
        let turns = Turns::new(limits).expect("a limit");
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
        let limits = Limits { under_way: 1, waiting: usize::MAX, patience: Duration::from_secs(1) };
        let turns = Turns::new(limits).expect("a limit");
        let only = turns.take().await.expect("the only turn");
        assert!(turns.take().await.is_none());
        drop(only);
        assert!(turns.take().await.is_some());
        assert_eq!((turns.under_way(), turns.waiting()), (0, 0));
        assert!(Turns::new(Limits { under_way: 0, ..limits }).is_none());
    }
}
