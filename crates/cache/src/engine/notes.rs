//! Notes of evictions, for a thread that asked for them.
//!
//! The thread asks its handle to note evictions, does its work, and takes the notes. Other threads pay one check of a
//! flag per eviction.

use crate::items::ItemRef;
use std::cell::{Cell, RefCell};

/// An evicted item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: Box<[u8]>,
    /// Whether a get had found the item.
    pub was_fetched: bool,
    /// The second at which the item would have expired; 0 for never.
    pub exptime: u32,
    /// Seconds since the item's last access, as precisely as an item records it.
    pub idle_s: u32,
    /// Its slab class.
    pub class: usize,
    /// Length of its value, in bytes.
    pub value_bytes: usize,
}

/// One thread's notes.
#[derive(Default)]
pub(crate) struct Notes {
    /// The current second while evictions are noted; otherwise 0.
    since: Cell<u32>,
    evicted: RefCell<Vec<Evicted>>,
}

impl Notes {
    /// Notes evictions from now on; `now` is the current second.
    pub(crate) fn begin(&self, now: u32) {
        self.since.set(now);
    }

    /// Whether evictions are noted.
    pub(crate) fn is_open(&self) -> bool {
        self.since.get() != 0
    }

    /// Returns the notes, and stops taking notes.
    pub(crate) fn take(&self) -> Vec<Evicted> {
        self.since.set(0);
        self.evicted.take()
    }

    /// Notes an eviction, if evictions are noted.
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

/// Evictions noted at most between two calls of [`Notes::take`]: more than a turn's stores cause, unless a whole page
/// is emptied.
const NOTES_MAX: usize = 4096;
