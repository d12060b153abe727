//! Wakes whoever waits for a change of the store: the background's threads, and writers that stall.
//!
//! # Invariants
//! 1. A ring between [`Bell::heard`] and [`Bell::wait`] isn't missed: `wait` returns at once.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// A count of changes, and a way to wait for the next.
#[derive(Default)]
pub(crate) struct Bell {
    rings: Mutex<u64>,
    changed: Condvar,
}

impl Bell {
    /// Something changed.
    pub(crate) fn ring(&self) {
        *self.rings.lock() += 1;
        self.changed.notify_all();
    }

    /// The changes so far. Take it before looking at what may change.
    pub(crate) fn heard(&self) -> u64 {
        *self.rings.lock()
    }

    /// Waits until there were more changes than `heard`, or this long.
    pub(crate) fn wait(&self, heard: u64, longest: Duration) {
        let mut rings = self.rings.lock();
        if *rings == heard {
            self.changed.wait_for(&mut rings, longest);
        }
    }
}
