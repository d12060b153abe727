//! How many pages classes may hold, and how that limit falls when a memory file's file system has no room.
//!
//! A page of a file is backed before a class gets it (memory/arena.rs, invariant 5). If the file system refuses, the
//! limit falls to the pages that classes hold: they evict as if that were all the memory. The requested limit is kept
//! separately. Once per second the sweeper asks the file system for one more page; if it gets one, the requested
//! limit applies again.
//!
//! # Costs
//! Stores: none, since they only use the current limit. The sweeper: one load, and during a shortage one system call
//! per second.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// See the module's head.
pub(crate) struct Limit {
    /// The pages that classes may hold now: the requested limit, or less if the memory file has no room for it.
    pages: AtomicUsize,
    asked: AtomicUsize,
    /// The system's error number; 0: no shortage.
    refusal: AtomicI32,
    /// The second of the last attempt to get more.
    tried_at: AtomicU32,
}

impl Limit {
    /// Makes a limit of this many pages.
    pub(crate) fn new(pages: usize) -> Limit {
        Limit {
            pages: AtomicUsize::new(pages),
            asked: AtomicUsize::new(pages),
            refusal: AtomicI32::new(0),
            tried_at: AtomicU32::new(0),
        }
    }

    /// Pages that classes may hold now.
    #[inline]
    pub(crate) fn pages(&self) -> usize {
        self.pages.load(Relaxed)
    }

    /// The requested limit, which applies as far as the file system has room.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }

    /// Requests a limit of this many pages.
    pub(crate) fn ask(&self, pages: usize) {
        self.asked.store(pages, Relaxed);
        self.allow_all();
    }

    /// Whether the file system has refused a page.
    pub(crate) fn is_short(&self) -> bool {
        self.refusal.load(Relaxed) != 0
    }

    /// Why classes may hold less than was requested, if so.
    pub(crate) fn shortage(&self) -> Option<io::Error> {
        let refusal = self.refusal.load(Relaxed);
        (refusal != 0).then(|| io::Error::from_raw_os_error(refusal))
    }

    /// Lowers the limit to the pages that classes hold: the file system has refused more.
    #[cold]
    pub(crate) fn make_do(&self, held: usize, error: &io::Error) {
        self.refusal.store(error.raw_os_error().unwrap_or(UNKNOWN), Relaxed);
        self.pages.fetch_min(held.max(1), Relaxed);
    }

    /// Whether to ask the file system again: during a shortage, once in each second `now`.
    pub(crate) fn is_due(&self, now: u32) -> bool {
        self.is_short() && self.tried_at.swap(now, Relaxed) != now
    }

    /// Restores the requested limit: the file system gave a page, so it may have room for more.
    pub(crate) fn allow_all(&self) {
        self.refusal.store(0, Relaxed);
        self.pages.store(self.asked(), Relaxed);
    }
}

/// The number used for an error without one. The system never returns it.
const UNKNOWN: i32 = -1;
