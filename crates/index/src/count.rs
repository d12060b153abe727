//! The number of keys, counted in stripes, so that writers on different processors don't share a cache line.

use crate::sync::{AtomicIsize, Padded, Relaxed};

/// See the module's head. A single stripe may be negative: one thread enters, another removes.
#[derive(Default)]
pub(crate) struct Count([Padded<AtomicIsize>; STRIPES]);

impl Count {
    #[inline]
    pub(crate) fn add(&self, change: isize) {
        self.0[stripe()].0.fetch_add(change, Relaxed);
    }

    pub(crate) fn sum(&self) -> usize {
        let sum = self.0.iter().map(|stripe| stripe.0.load(Relaxed)).sum::<isize>();
        usize::try_from(sum).unwrap_or(0)
    }
}

/// The calling thread's stripe.
#[cfg(not(loom))]
pub(crate) fn stripe() -> usize {
    use std::sync::atomic::AtomicUsize;
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static STRIPE: usize = THREADS.fetch_add(1, Relaxed) % STRIPES;
    }
    STRIPE.with(|&stripe| stripe)
}

#[cfg(loom)]
pub(crate) fn stripe() -> usize {
    0
}

pub(crate) const STRIPES: usize = if cfg!(loom) { 1 } else { 16 };
