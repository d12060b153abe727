//! How many pages classes may hold, and what becomes of that where a memory file's file system has no room for them.
//!
//! A page of a file is backed before a class has it (memory/arena.rs, invariant 5). When the file system refuses, the limit
//! falls to what classes hold: they evict as if that were all there is. What was asked for stands beside it. Once a second the
//! sweeper asks the file system for one page more; when it gives one, the limit is again what was asked for.
//!
//! # Costs
//! Stores: nothing, they go by the limit as it is. The sweeper: a load, and in need a system call a second.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// See the module's head.
pub(crate) struct Limit {
    /// What classes may hold now: what is asked for, or less where the memory file has no room for it.
    pages: AtomicUsize,
    asked: AtomicUsize,
    /// The system's number of the error; 0: it gave all that was asked for.
    refusal: AtomicI32,
    /// The second of the last try to get more.
    tried_at: AtomicU32,
}

impl Limit {
    /// A limit of so many pages.
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

    /// Pages that classes may hold as far as the file system has them.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }

    /// Lets classes hold so many pages.
    pub(crate) fn ask(&self, pages: usize) {
        self.asked.store(pages, Relaxed);
        self.allow_all();
    }

    /// Whether the file system refuses a page.
    pub(crate) fn is_short(&self) -> bool {
        self.refusal.load(Relaxed) != 0
    }

    /// Why classes may hold less than was asked for, if so.
    pub(crate) fn shortage(&self) -> Option<io::Error> {
        let refusal = self.refusal.load(Relaxed);
        (refusal != 0).then(|| io::Error::from_raw_os_error(refusal))
    }

    /// The file system refuses: the pages that classes hold are all that there is for now.
    #[cold]
    pub(crate) fn make_do(&self, held: usize, error: &io::Error) {
        self.refusal.store(error.raw_os_error().unwrap_or(UNKNOWN), Relaxed);
        self.pages.fetch_min(held.max(1), Relaxed);
    }

    /// Whether to ask the file system again: in a shortage, once in each second `now`.
    pub(crate) fn is_due(&self, now: u32) -> bool {
        self.is_short() && self.tried_at.swap(now, Relaxed) != now
    }

    /// The file system gave a page: what one has, others may have.
    pub(crate) fn allow_all(&self) {
        self.refusal.store(0, Relaxed);
        self.pages.store(self.asked(), Relaxed);
    }
}

/// An error without a number, of which the system has none.
const UNKNOWN: i32 = -1;
