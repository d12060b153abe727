//! Items that went to storage, for those who watch: noted by whoever stored them, told by the thread that writes buffers.
//!
//! # Invariants
//! 1. While nobody watches, an item that is stored pays a look at a flag, and nothing is held.
//!
//! # Weakness
//! The flag is set a tenth of a second after a watcher has come: what is stored before that isn't told.

use guira_cache::ItemRef;
use guira_flash::Bucket;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// An item that went to storage.
pub(crate) struct Written {
    pub(crate) key: Box<[u8]>,
    pub(crate) was_fetched: bool,
    /// The second at which it expires; 0 for never.
    pub(crate) exptime: u32,
    pub(crate) idle_s: u32,
    /// From 1.
    pub(crate) class: usize,
    pub(crate) bucket: Bucket,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct WrittenNotes {
    is_wanted: AtomicBool,
    notes: Mutex<Vec<Written>>,
}

impl WrittenNotes {
    /// Notes an item that went to `bucket`, if somebody wants to know.
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

    /// What was noted, and whether more is to be.
    pub(crate) fn take(&self, is_wanted: bool) -> Vec<Written> {
        self.is_wanted.store(is_wanted, Relaxed);
        std::mem::take(&mut self.notes.lock())
    }
}

/// Notes between two takings; what comes beyond isn't told.
const NOTES_MAX: usize = 4096;
