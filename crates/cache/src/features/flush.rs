//! `flush_all` in constant time: which flush takes place when.
//!
//! Each item carries the parity of the generation in which it was stored. A flush begins the next generation, and
//! every item of the other parity is a miss from that instant on. A sweep then unlinks the dead items step by step.
//! The generation may change again only when the sweep has finished; otherwise dead items would become live again. A
//! flush that comes earlier waits, turn by turn, for the sweep. All waiting flushes are served by the next flush that
//! takes place, so none of them removes items stored after it.
//!
//! The sweep starts after every handle has ended the turn in which the flush came: until then a store may still
//! publish an item of the old generation.

use crate::locks::{FLUSH, Lock};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The flushes that took place, and the planned one.
#[derive(Default)]
pub(crate) struct Flush {
    /// The second at which a flush is due; 0 for none.
    due: AtomicU32,
    behind: Lock<Behind, FLUSH>,
}

/// How far the sweep is behind the flushes.
#[derive(Default)]
struct Behind {
    /// Flushes that took place.
    flushes: u64,
    /// The stamp of the last flush, until the sweep behind it has finished.
    unswept: Option<u64>,
}

/// A pending flush: how many flushes had taken place when it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct FlushAsked(u64);

impl Flush {
    /// Makes a flush take place, or finds that one has since this one was asked for. Returns `false` if the sweep
    /// behind the last flush has not finished. `begin` begins the next generation, and returns a stamp taken after
    /// that.
    pub(crate) fn ask(&self, asked: &mut Option<FlushAsked>, begin: impl FnOnce() -> u64) -> bool {
        let mut behind = self.behind.lock();
        if asked.take_if(|asked| asked.0 < behind.flushes).is_some() {
            return true;
        }
        if behind.unswept.is_some() {
            asked.get_or_insert(FlushAsked(behind.flushes));
            return false;
        }
        *behind = Behind { flushes: behind.flushes + 1, unswept: Some(begin()) };
        *asked = None;
        true
    }

    /// The stamp of the last flush, if the sweep behind it has not finished.
    pub(crate) fn unswept(&self) -> Option<u64> {
        self.behind.lock().unswept
    }

    /// Records that the sweep behind the last flush has finished.
    pub(crate) fn swept(&self) {
        self.behind.lock().unswept = None;
    }

    /// Plans a flush for second `at`, instead of any planned before. 0 plans none.
    pub(crate) fn plan(&self, at: u32) {
        self.due.store(at, Relaxed);
    }

    /// Takes the flush that was planned for `now` or before; the caller carries it out. Cost: one load.
    #[inline]
    pub(crate) fn take_due(&self, now: u32) -> Option<u32> {
        let at = self.due.load(Relaxed);
        let is_ours = || self.due.compare_exchange(at, 0, Relaxed, Relaxed).is_ok();
        (at != 0 && at <= now && is_ours()).then_some(at)
    }

    /// Plans a flush that was taken again, unless another was planned meanwhile.
    pub(crate) fn put_back(&self, at: u32) {
        let _ = self.due.compare_exchange(0, at, Relaxed, Relaxed);
    }
}
