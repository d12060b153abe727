//! Evictions, noted for a thread that asked for it.
//!
//! The thread asks its handle to note them, does its work, and takes the notes. The others pay a look at a flag in each
//! eviction.

use crate::items::ItemRef;
use std::cell::{Cell, RefCell};

/// An item that had to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: Box<[u8]>,
    /// Whether a get had found it.
    pub was_fetched: bool,
    /// The second at which it would have expired; 0 for never.
    pub exptime: u32,
    /// Seconds since its last access, as far as an item can tell.
    pub idle_s: u32,
    /// Its slab class.
    pub class: usize,
    /// Length of its value, in bytes.
    pub value_bytes: usize,
}

/// One thread's notes.
#[derive(Default)]
pub(crate) struct Notes {
    /// The second it is, while evictions are noted; else 0.
    since: Cell<u32>,
    evicted: RefCell<Vec<Evicted>>,
}

impl Notes {
    /// Notes evictions from the second `now` on.
    pub(crate) fn begin(&self, now: u32) {
        self.since.set(now);
    }

    /// Whether evictions are noted.
    pub(crate) fn is_open(&self) -> bool {
        self.since.get() != 0
    }

    /// What was noted; no more is.
    pub(crate) fn take(&self) -> Vec<Evicted> {
        self.since.set(0);
        self.evicted.take()
    }

    /// Notes an eviction if that is wanted.
    pub(crate) fn add(&self, item: &ItemRef<'_>) {
        let now = self.since.get();
        if now == 0 {
            return;
        }
        let mut evicted = self.evicted.borrow_mut();
        if evicted.len() < NOTES_MAX {
            evicted.push(Evicted {
                key: item.key().into(),
                was_fetched: item.was_fetched(),
                exptime: item.exptime(),
                idle_s: item.idle_s(now),
                class: item.class(),
                value_bytes: item.value_bytes(),
            });
        }
    }
}

/// Evictions noted between two takings: more than a turn's stores cause, unless a whole page goes.
const NOTES_MAX: usize = 4096;
