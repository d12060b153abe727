//! Retired chunks that wait until nobody can look at them any more.
//!
//! # Invariants
//! 1. A retired chunk is in exactly one limbo (a handle's or the orphans') until it is freed.
//! 2. [`Orphans::bytes`] are those of all retired chunks, as of each thread's last turn. A thread that has much rewritten
//!    (an append to a large value retires all of it) retires faster than turns end: what is stored next waits while these
//!    are many ([`Local::is_behind`](super::Local)), or else they would take the place of items.

use crate::locks::{LEAF, Lock};
use crate::memory::{Chunks, Class};
use guira_index::Location;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

/// Retired chunks that wait for their grace period, oldest first.
pub(crate) struct Limbo {
    /// Retired in this turn: no stamp yet.
    pub(crate) open: Vec<Location>,
    pub(crate) closed: VecDeque<(u64, Location)>,
    /// How many of a class wait here.
    pub(crate) waiting: Vec<u32>,
    /// Bytes retired, less those freed, that the orphans' count has yet to know of.
    bytes: isize,
}

impl Limbo {
    /// Nothing waits, of so many classes.
    pub(crate) fn new(classes: usize) -> Limbo {
        Limbo { open: Vec::new(), closed: VecDeque::new(), waiting: vec![0; classes], bytes: 0 }
    }

    /// A chunk of `class` is retired.
    #[inline]
    pub(crate) fn enter(&mut self, class: Class, at: Location, chunks: &Chunks) {
        self.waiting[usize::from(class)] += 1;
        self.bytes = self.bytes.wrapping_add_unsigned(chunks.classes.bytes(class));
        self.open.push(at);
    }

    /// Chunks of so many bytes are free, from here or from among the orphans.
    pub(crate) fn freed(&mut self, bytes: usize) {
        self.bytes = self.bytes.wrapping_sub_unsigned(bytes);
    }

    /// Lets the other threads know. Cost: nothing, where as much was freed as retired.
    pub(crate) fn tell(&mut self, orphans: &Orphans) {
        if self.bytes != 0 {
            orphans.bytes.fetch_add(std::mem::take(&mut self.bytes), Relaxed);
        }
    }

    /// Bytes of all threads' retired chunks, with this thread's of this turn.
    pub(crate) fn bytes(&self, orphans: &Orphans) -> usize {
        let bytes = orphans.bytes.load(Relaxed).wrapping_add(self.bytes);
        usize::try_from(bytes).unwrap_or(0)
    }
}

/// Retired chunks whose handle went to sleep or away: any handle frees them.
#[derive(Default)]
pub(crate) struct Orphans {
    pub(crate) chunks: Lock<Vec<(u64, Location)>, LEAF>,
    pub(crate) count: AtomicUsize,
    /// Bytes of all retired chunks, orphans or not (invariant 2). Between two threads' turns it may be below 0.
    bytes: AtomicIsize,
}
