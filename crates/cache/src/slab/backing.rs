//! The limit of what classes hold, and what becomes of it where a memory file's file system has no room for it.
//!
//! A page of a file is backed before a class has it (arena.rs, invariant 5). When the file system refuses, the limit falls
//! to what classes hold: they evict as if that were all there is. What was asked for stands beside it. Once a second the
//! sweeper asks the file system for one page more; when it gives one, the limit is again what was asked for.
//!
//! # Costs
//! Stores: nothing, they go by the limit as it is. The sweeper: a load, and in need a system call a second.

use super::{Ledger, Slab};
use crate::memory::Pool;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// What is asked for, and what the file system said last.
pub(super) struct Backing {
    pages_asked: AtomicUsize,
    /// The system's number of the error; 0: it gave all that was asked for.
    refusal: AtomicI32,
    /// The second of the last try to get more.
    tried_at: AtomicU32,
}

impl Backing {
    pub(super) fn new(pages_asked: usize) -> Backing {
        Backing {
            pages_asked: AtomicUsize::new(pages_asked),
            refusal: AtomicI32::new(0),
            tried_at: AtomicU32::new(0),
        }
    }
}

impl<O: Ledger> Slab<O> {
    /// Lets classes hold at most `bytes`; `false` if that is more than was reserved. Pages beyond
    /// a lower limit come back one by one ([`Slab::is_over`]).
    pub(crate) fn set_limit(&self, bytes: usize) -> bool {
        let pages = bytes.div_ceil(self.chunks.page_bytes()).max(1);
        if pages > self.chunks.pages_reserved() {
            return false;
        }
        self.backing.pages_asked.store(pages, Relaxed);
        self.allow_all();
        true
    }

    /// What classes may hold, in bytes, as far as the file system has it.
    pub(crate) fn limit(&self) -> usize {
        self.backing.pages_asked.load(Relaxed) * self.chunks.page_bytes()
    }

    /// What classes may hold now, in pages.
    pub(crate) fn pages_limit(&self) -> usize {
        self.pages_max.load(Relaxed)
    }

    /// Why classes may hold less than was asked for, if so.
    pub(crate) fn shortage(&self) -> Option<io::Error> {
        let refusal = self.backing.refusal.load(Relaxed);
        (refusal != 0).then(|| io::Error::from_raw_os_error(refusal))
    }

    /// Whether the file system refuses, and there is no page that a class could give to another.
    pub(crate) fn has_nothing_to_give(&self) -> bool {
        self.backing.refusal.load(Relaxed) != 0 && self.pool.lock().held() == 0
    }

    /// Puts a page back for which the file system has no memory: what classes hold is all that there is for now.
    #[cold]
    pub(super) fn make_do(&self, page: u32, error: &io::Error) {
        let held = self.change_pool(|pool| {
            pool.give(page, usize::MAX);
            pool.held()
        });
        self.backing.refusal.store(error.raw_os_error().unwrap_or(UNKNOWN), Relaxed);
        self.pages_max.fetch_min(held.max(1), Relaxed);
    }

    /// In a shortage, asks the file system for a page, once in each second `now`: what one has, others may have.
    pub(crate) fn seek_room(&self, now: u32) {
        let is_short = self.backing.refusal.load(Relaxed) != 0;
        if !is_short || self.backing.tried_at.swap(now, Relaxed) == now {
            return;
        }
        // Whoever takes the page meanwhile finds it backed.
        let page = self.change_pool(Pool::next_to_give);
        if (page as usize) < self.chunks.pages_reserved() && self.chunks.back(page).is_ok() {
            self.allow_all();
        }
    }

    fn allow_all(&self) {
        self.backing.refusal.store(0, Relaxed);
        self.pages_max.store(self.backing.pages_asked.load(Relaxed), Relaxed);
    }
}

/// An error without a number, of which the system has none.
const UNKNOWN: i32 = -1;
