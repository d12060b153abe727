//! Items written to storage, for watchers. The thread that stores an item records it; the thread that
//! writes buffers reports it.
//!
//! # Invariants
//! 1. While nothing is watched, storing an item costs one load of a flag, and nothing is kept.
//!
//! # Weaknesses
//! The flag is set up to a tenth of a second after a watcher was added: items stored before that aren't reported.

use guira_cache::ItemRef;
use guira_flash::Bucket;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// An item that was written to storage.
pub(crate) struct Written {
    pub(crate) key: Box<[u8]>,
    pub(crate) was_fetched: bool,
    /// The second at which the item expires; 0: never.
    pub(crate) exptime: u32,
    pub(crate) idle_s: u32,
    /// The slab class, counted from 1.
    pub(crate) class: usize,
    pub(crate) bucket: Bucket,
}

/// The records that wait to be reported; see the module's documentation.
#[derive(Default)]
pub(crate) struct WrittenNotes {
    is_wanted: AtomicBool,
    notes: Mutex<Vec<Written>>,
}

impl WrittenNotes {
    /// Records an item that was stored in `bucket`, if such events are watched.
    #[inline]
    pub(crate) fn add(&self, item: &ItemRef<'_>, bucket: Bucket, now: u32) {
        if self.is_wanted.load(Relaxed) {
            self.note(item, bucket, now);
        }
    }

    #[cold]
    fn note(&self, item: &ItemRef<'_>, bucket: Bucket, now: u32) {
        let mut notes = self.notes.lock();
        if notes.len() < NOTES_MAX {
            notes.push(Written {
                key: item.key().into(),
                was_fetched: item.was_fetched(),
                exptime: item.exptime(),
                idle_s: item.idle_s(now),
                class: item.class() + 1,
                bucket,
            });
        }
    }

    /// Takes the records, and sets whether items are recorded from now on.
    pub(crate) fn take(&self, is_wanted: bool) -> Vec<Written> {
        self.is_wanted.store(is_wanted, Relaxed);
        std::mem::take(&mut self.notes.lock())
    }
}

/// The most records between two calls of [`WrittenNotes::take`]; further items aren't reported.
const NOTES_MAX: usize = 4096;
