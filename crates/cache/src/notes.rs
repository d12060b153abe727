//! Evictions, for whoever wants to be told of them.
//!
//! A thread that wants to know asks its handle to note them, does its work, and takes the notes. The others pay a look
//! at a flag in each eviction.

use crate::evict::BATCH;
use crate::handle::Handle;
use crate::items::ItemRef;
use guira_index::Index;
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

/// A handle's notes.
#[derive(Default)]
pub(crate) struct Notes {
    /// The second it is, while evictions are noted; else 0.
    since: Cell<u32>,
    evicted: RefCell<Vec<Evicted>>,
}

impl Notes {
    /// How many chunks more than else a class keeps free: while evictions are noted a batch, so that whoever waits
    /// for one sees it with the next store into a full class.
    pub(crate) fn ahead(&self) -> usize {
        if self.since.get() == 0 { 0 } else { BATCH }
    }
}

impl<I: Index> Handle<'_, I> {
    /// Notes this handle's evictions from now on, 4096 at most.
    pub fn note_evictions(&self, now: u32) {
        self.notes.since.set(now);
    }

    /// The evictions noted; no more are.
    pub fn take_evictions(&self) -> Vec<Evicted> {
        self.notes.since.set(0);
        self.notes.evicted.take()
    }

    /// Notes an eviction if that is wanted.
    pub(crate) fn note_eviction(&self, item: &ItemRef<'_>) {
        let now = self.notes.since.get();
        if now == 0 {
            return;
        }
        let mut evicted = self.notes.evicted.borrow_mut();
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
