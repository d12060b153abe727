//! Wakes threads that wait for a change of the store: the background threads, and stalled writers.
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
    /// Announces a change.
    pub(crate) fn ring(&self) {
        *self.rings.lock() += 1;
        self.changed.notify_all();
    }

    /// Returns the number of changes so far. Read it before looking at the state that may change.
    pub(crate) fn heard(&self) -> u64 {
        *self.rings.lock()
    }

    /// Waits until there were more changes than `heard`, or until `longest` has passed.
    pub(crate) fn wait(&self, heard: u64, longest: Duration) {
        let mut rings = self.rings.lock();
        if *rings == heard {
            self.changed.wait_for(&mut rings, longest);
        }
    }
}
