//! Retired chunks, which wait until no thread can look at them any more.
//!
//! # Invariants
//! 1. A retired chunk is in exactly one limbo (a handle's or the orphans') until it is freed.
//! 2. [`Orphans::bytes`] is the size of all retired chunks, as of each thread's last turn. A thread that rewrites
//!    much (an append to a large value retires all of it) retires faster than turns end. Stores then wait while this
//!    is large ([`Local::is_behind`](super::Local)); otherwise the retired chunks would take the place of items.

use crate::locks::{LEAF, Lock};
use crate::memory::{Chunks, Class};
use guira_index::Location;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

/// Retired chunks that wait for their grace period, oldest first.
pub(crate) struct Limbo {
    /// Retired in this turn, and not stamped yet.
    pub(crate) open: Vec<Location>,
    pub(crate) closed: VecDeque<(u64, Location)>,
    /// How many chunks of each class wait here.
    pub(crate) waiting: Vec<u32>,
    /// Bytes retired minus bytes freed that are not yet added to the orphans' count.
    bytes: isize,
}

impl Limbo {
    /// An empty limbo for this many classes.
    pub(crate) fn new(classes: usize) -> Limbo {
        Limbo { open: Vec::new(), closed: VecDeque::new(), waiting: vec![0; classes], bytes: 0 }
    }

    /// Adds a retired chunk of `class`.
    #[inline]
    pub(crate) fn enter(&mut self, class: Class, at: Location, chunks: &Chunks) {
        self.waiting[usize::from(class)] += 1;
        self.bytes = self.bytes.wrapping_add_unsigned(chunks.classes.bytes(class));
        self.open.push(at);
    }

    /// Subtracts the bytes of chunks that were freed, whether from this limbo or from the orphans.
    pub(crate) fn freed(&mut self, bytes: usize) {
        self.bytes = self.bytes.wrapping_sub_unsigned(bytes);
    }

    /// Publishes the bytes to the other threads. Cost: nothing, if as much was freed as retired.
    pub(crate) fn tell(&mut self, orphans: &Orphans) {
        if self.bytes != 0 {
            orphans.bytes.fetch_add(std::mem::take(&mut self.bytes), Relaxed);
        }
    }

    /// Bytes of all threads' retired chunks, including those that this thread retired in this turn.
    pub(crate) fn bytes(&self, orphans: &Orphans) -> usize {
        let bytes = orphans.bytes.load(Relaxed).wrapping_add(self.bytes);
        usize::try_from(bytes).unwrap_or(0)
    }
}

/// Retired chunks whose handle went to sleep or was dropped. Any handle frees them.
#[derive(Default)]
pub(crate) struct Orphans {
    pub(crate) chunks: Lock<Vec<(u64, Location)>, LEAF>,
    pub(crate) count: AtomicUsize,
    /// Bytes of all retired chunks, orphans or not (invariant 2). It may be negative between two threads' turns.
    bytes: AtomicIsize,
}
