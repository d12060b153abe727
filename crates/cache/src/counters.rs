//! Counters: one array per handle, written only by the handle's thread and summed when they are read.
//!
//! Counting is a plain load and store on a cache line that only this thread writes. A reset keeps the current sums
//! and subtracts them from then on, so it never races with a counting thread.

use crate::histogram::{Distribution, Histogram};
use crate::items::IDLE_MAX_S;
use crate::locks::{LEAF, Lock};
use crate::memory::Class;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of the whole cache. The names are memcached's where memcached has the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "each is the statistic of that name in memcached's `stats`")]
pub enum Counter {
    CmdGet,
    CmdTouch,
    CmdFlush,
    CmdMeta,
    GetMisses,
    GetExpired,
    GetFlushed,
    DeleteMisses,
    IncrMisses,
    DecrMisses,
    CasMisses,
    TouchMisses,
    StoreTooLarge,
    StoreNoMemory,
    TotalItems,
    ConnYields,
    BytesRead,
    BytesWritten,
    AuthCmds,
    AuthErrors,
    LeaseTokens,
    LeaseWaits,
    LeaseSets,
    LeaseRefusals,
    LeaseStaleHits,
    LeaseStaleDropped,
    HoldoffDeletes,
    HoldoffRefusals,
}

/// Counters per slab class. The last three are gauges: they survive a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(
    missing_docs,
    reason = "each is the statistic of that name in memcached's `stats`, or in ours"
)]
pub enum ClassCounter {
    GetHits,
    CmdSet,
    DeleteHits,
    /// Items that moved below memory instead of being evicted.
    Sunk,
    IncrHits,
    DecrHits,
    CasHits,
    CasBadval,
    TouchHits,
    Evicted,
    EvictedNonzero,
    EvictedUnfetched,
    Reclaimed,
    ExpiredUnfetched,
    OutOfMemory,
    CrawlerReclaimed,
    CrawlerItemsChecked,
    Promoted,
    Items,
    Bytes,
    OnProbation,
}

const COUNTERS: usize = Counter::HoldoffRefusals as usize + 1;
const CLASS_COUNTERS: usize = ClassCounter::OnProbation as usize + 1;

/// The counters of one handle.
pub(crate) struct Counts {
    numbers: Box<[AtomicU64]>,
    /// How long evicted items had been idle, in seconds.
    pub(crate) evicted_idle_s: Histogram,
}

impl Counts {
    fn new(classes: usize) -> Counts {
        // Allocated as zeroes, so that the system provides a page only when a class in it first counts.
        let numbers = bytemuck::zeroed_slice_box(COUNTERS + classes * CLASS_COUNTERS);
        // Items record their last access to 2 seconds; anything longer than IDLE_MAX_S is beyond the steps.
        Counts { numbers, evicted_idle_s: Histogram::new(1, IDLE_MAX_S.ilog2()) }
    }

    /// Adds to a counter. Only the owning thread calls this. `n` may be a wrapped negative number.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        Self::bump(&self.numbers[counter as usize], n);
    }

    /// Like [`Counts::add`], for a class.
    #[inline]
    pub(crate) fn add_class(&self, counter: ClassCounter, class: Class, n: u64) {
        let at = COUNTERS + usize::from(class) * CLASS_COUNTERS + counter as usize;
        Self::bump(&self.numbers[at], n);
    }

    #[inline]
    fn bump(count: &AtomicU64, n: u64) {
        count.store(count.load(Relaxed).wrapping_add(n), Relaxed);
    }
}

/// Every handle's counters, and the sums at the last reset.
pub(crate) struct Registry {
    slots: Box<[OnceLock<Counts>]>,
    classes: usize,
    reset: Lock<Totals, LEAF>,
}

impl Registry {
    pub(crate) fn new(handles: usize, classes: usize) -> Registry {
        Registry {
            slots: (0..handles).map(|_| OnceLock::new()).collect(),
            classes,
            reset: Lock::new(Totals(vec![0; COUNTERS + classes * CLASS_COUNTERS])),
        }
    }

    /// How many handles may exist at a time.
    pub(crate) fn handles_max(&self) -> usize {
        self.slots.len()
    }

    /// The counters of slot `slot`. A later handle that takes the slot over continues them.
    pub(crate) fn counts(&self, slot: usize) -> &Counts {
        self.slots[slot].get_or_init(|| Counts::new(self.classes))
    }

    fn raw(&self) -> Totals {
        let mut sums = vec![0u64; COUNTERS + self.classes * CLASS_COUNTERS];
        for counts in self.slots.iter().filter_map(OnceLock::get) {
            for (sum, count) in sums.iter_mut().zip(&counts.numbers) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
        Totals(sums)
    }

    /// How long evicted items had been idle, over all handles.
    pub(crate) fn evicted_idle_s(&self) -> Option<Distribution> {
        let counts = self.slots.iter().filter_map(OnceLock::get);
        Histogram::total(counts.map(|counts| &counts.evicted_idle_s))
    }

    /// One gauge of a class, summed over all handles. Cost: one cache line per handle.
    pub(crate) fn gauge(&self, gauge: ClassCounter, class: Class) -> usize {
        let at = COUNTERS + usize::from(class) * CLASS_COUNTERS + gauge as usize;
        let counts = self.slots.iter().filter_map(OnceLock::get);
        let sum =
            counts.fold(0u64, |sum, counts| sum.wrapping_add(counts.numbers[at].load(Relaxed)));
        // May be negative for an instant, if one thread has subtracted what another has not yet added.
        usize::try_from(sum.cast_signed()).unwrap_or(0)
    }

    /// Sums since the last reset. Gauges are absolute.
    pub(crate) fn totals(&self) -> Totals {
        let Totals(mut sums) = self.raw();
        let reset = self.reset.lock();
        for (at, (sum, before)) in sums.iter_mut().zip(&reset.0).enumerate() {
            if !is_gauge(at) {
                *sum = sum.wrapping_sub(*before);
            }
        }
        Totals(sums)
    }

    /// Resets every counter to 0.
    pub(crate) fn reset(&self) {
        *self.reset.lock() = self.raw();
    }
}

fn is_gauge(at: usize) -> bool {
    at >= COUNTERS && (at - COUNTERS) % CLASS_COUNTERS >= ClassCounter::Items as usize
}

/// Sums over all handles. They are not an atomic snapshot: each counter is read at a slightly different time.
#[derive(Clone, Debug)]
pub struct Totals(Vec<u64>);

impl Totals {
    /// A counter of the whole cache.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// A counter of one class.
    pub fn class(&self, counter: ClassCounter, class: usize) -> u64 {
        self.0[COUNTERS + class * CLASS_COUNTERS + counter as usize]
    }

    /// A class counter summed over all classes.
    pub fn all(&self, counter: ClassCounter) -> u64 {
        let each = self.0[COUNTERS..].iter().skip(counter as usize).step_by(CLASS_COUNTERS);
        each.fold(0, |sum, n| sum.wrapping_add(*n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_zeroes_counters_and_keeps_gauges() {
        let registry = Registry::new(2, 3);
        registry.counts(0).add(Counter::CmdGet, 2);
        registry.counts(1).add(Counter::CmdGet, 3);
        registry.counts(1).add_class(ClassCounter::Items, 2, 7);
        registry.counts(0).add_class(ClassCounter::Items, 2, 1u64.wrapping_neg());
        registry.counts(0).add_class(ClassCounter::GetHits, 1, 4);
        let totals = registry.totals();
        assert_eq!((totals.get(Counter::CmdGet), totals.class(ClassCounter::Items, 2)), (5, 6));
        assert_eq!(totals.all(ClassCounter::GetHits), 4);
        registry.reset();
        registry.counts(0).add(Counter::CmdGet, 1);
        let totals = registry.totals();
        assert_eq!((totals.get(Counter::CmdGet), totals.all(ClassCounter::Items)), (1, 6));
        assert_eq!(totals.all(ClassCounter::GetHits), 0);
    }
}
