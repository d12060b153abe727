//! The state of a page, and the pool of pages that no class holds.
//!
//! The fields are atomics only because a page belongs to different classes at different times:
//! they change under the lock of the class that holds the page, never concurrently.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// A relaxed counter that only the holder of a class's lock changes.
type Guarded = AtomicU32;

/// The end of a page's free list.
const NONE: u32 = u32::MAX;

/// A page's chunks that are not in use: a free list through the chunks, and those never handed out yet.
pub(crate) struct PageState {
    head: Guarded,
    listed: Guarded,
    handed_out: Guarded,
    draining: AtomicBool,
    /// Whether a class has the page. Threads without that class's lock may read it.
    held: AtomicBool,
}

/// A chunk to hand out.
pub(crate) enum Slot {
    /// Never used before.
    Fresh(u32),
    /// From the head of the free list. The caller reads the link in the chunk and calls [`PageState::set_head`].
    Listed(u32),
}

impl Default for PageState {
    fn default() -> Self {
        PageState {
            head: Guarded::new(NONE),
            listed: Guarded::new(0),
            handed_out: Guarded::new(0),
            draining: AtomicBool::new(false),
            held: AtomicBool::new(false),
        }
    }
}

impl PageState {
    /// Makes the page empty for a new class. The caller has set the page's class already.
    pub(crate) fn begin(&self) {
        self.head.store(NONE, Relaxed);
        self.listed.store(0, Relaxed);
        self.handed_out.store(0, Relaxed);
        self.draining.store(false, Relaxed);
        self.held.store(true, Release);
    }

    /// Makes the first `handed_out` chunks count as handed out, none of them free.
    pub(crate) fn resume(&self, handed_out: u32) {
        self.begin();
        self.handed_out.store(handed_out, Relaxed);
    }

    /// Marks the page as held by no class.
    pub(crate) fn end(&self) {
        self.held.store(false, Relaxed);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Acquire)
    }

    /// Takes a chunk. The page must have one ([`PageState::available`] > 0).
    pub(crate) fn pop(&self) -> Slot {
        let head = self.head.load(Relaxed);
        if head == NONE {
            let slot = self.handed_out.load(Relaxed);
            self.handed_out.store(slot + 1, Relaxed);
            return Slot::Fresh(slot);
        }
        self.listed.store(self.listed.load(Relaxed) - 1, Relaxed);
        Slot::Listed(head)
    }

    /// Puts a chunk at the head of the free list. The caller has stored the old head in the chunk.
    pub(crate) fn push(&self, slot: u32) {
        self.head.store(slot, Relaxed);
        self.listed.store(self.listed.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn head(&self) -> u32 {
        self.head.load(Relaxed)
    }

    pub(crate) fn set_head(&self, slot: u32) {
        self.head.store(slot, Relaxed);
    }

    /// Chunks that the page can hand out, of the `slots` that it has.
    pub(crate) fn available(&self, slots: u32) -> u32 {
        self.listed.load(Relaxed) + (slots - self.handed_out.load(Relaxed))
    }

    pub(crate) fn handed_out(&self) -> u32 {
        self.handed_out.load(Relaxed)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Relaxed);
    }

    pub(crate) fn stop_draining(&self) {
        self.draining.store(false, Relaxed);
    }
}

/// Pages without a class. The pool gives returned pages first, then released ones (the system has their memory), then
/// pages never used.
#[derive(Default)]
pub(crate) struct PagePool {
    returned: Vec<u32>,
    released: Vec<u32>,
    next_fresh: u32,
    /// Pages that were given in addition to the limit.
    extra: usize,
    /// The page that the mover empties for a class. Only the mover may take it.
    moving: Option<Moving>,
}

/// A page that is moved between classes, and whether its old class has left it.
#[derive(Clone, Copy)]
struct Moving {
    page: u32,
    is_empty: bool,
}

impl PagePool {
    /// Takes a page, if the classes hold fewer than `max`.
    pub(crate) fn take(&mut self, max: usize) -> Option<u32> {
        if self.room().saturating_add_unsigned(max) <= 0 {
            return None;
        }
        Some(self.next())
    }

    /// Takes a page in addition to the limit, if fewer than `pages` are held. The extra page raises the limit by one
    /// for good.
    pub(crate) fn take_extra(&mut self, pages: usize) -> Option<u32> {
        if self.held() >= pages {
            return None;
        }
        self.extra += 1;
        Some(self.next())
    }

    /// The page that the pool would give next. If it has none left, this is one past the last page.
    pub(crate) fn next_to_give(&mut self) -> u32 {
        let again = self.returned.last().or(self.released.last());
        again.copied().unwrap_or(self.next_fresh)
    }

    fn next(&mut self) -> u32 {
        let again = self.returned.pop().or_else(|| self.released.pop());
        again.unwrap_or_else(|| {
            self.next_fresh += 1;
            self.next_fresh - 1
        })
    }

    /// Takes a page back. If classes hold more than `max`, this applies even to the page that is being moved. Returns
    /// whether the caller must release the page's memory.
    #[must_use]
    pub(crate) fn give(&mut self, page: u32, max: usize) -> bool {
        let is_over = self.is_over(max);
        if self.is_moving(page) {
            if !is_over {
                self.moving = Some(Moving { page, is_empty: true });
                return false;
            }
            self.moving = None;
        }
        if is_over {
            self.released.push(page);
        } else {
            self.returned.push(page);
        }
        is_over
    }

    /// Takes back a page for which the system had no memory.
    pub(crate) fn give_unbacked(&mut self, page: u32) {
        self.released.push(page);
    }

    /// Takes a returned page out, if more than `max` pages have memory. The caller must release the page's memory.
    pub(crate) fn release_one(&mut self, max: usize) -> Option<u32> {
        if self.backed() <= max.saturating_add(self.extra) {
            return None;
        }
        let page = self.returned.pop()?;
        self.released.push(page);
        Some(page)
    }

    /// Reserves `page` for [`PagePool::take_moved`].
    pub(crate) fn start_moving(&mut self, page: u32) {
        self.moving = Some(Moving { page, is_empty: false });
    }

    pub(crate) fn is_moving(&self, page: u32) -> bool {
        self.moving.is_some_and(|moving| moving.page == page)
    }

    /// Takes the moved page for the caller, if it is empty. Returns whether it was.
    pub(crate) fn take_moved(&mut self) -> bool {
        self.moving.take_if(|moving| moving.is_empty).is_some()
    }

    /// Cancels the move: the page stays in its class.
    pub(crate) fn stop_moving(&mut self) {
        self.moving = None;
    }

    /// Makes the pool for pages of which classes hold some.
    pub(crate) fn beside(is_held: impl Iterator<Item = bool>) -> PagePool {
        let mut pool = PagePool::default();
        for (page, is_held) in (0..).zip(is_held) {
            if is_held {
                pool.returned.extend(pool.next_fresh..page);
                pool.next_fresh = page + 1;
            }
        }
        pool
    }

    /// Counts the pages that classes hold beyond `max` as extra, at most `most`.
    pub(crate) fn with_extra(mut self, max: usize, most: usize) -> PagePool {
        self.extra = self.held().saturating_sub(max).min(most);
        self
    }

    /// The number of pages that classes hold.
    pub(crate) fn held(&self) -> usize {
        self.backed() - self.returned.len()
    }

    /// The number of pages that have memory: those that classes hold, and returned ones.
    pub(crate) fn backed(&self) -> usize {
        self.next_fresh as usize - self.released.len()
    }

    /// The number of pages that were held before and are not now, and still have their memory.
    pub(crate) fn returned(&self) -> usize {
        self.returned.len()
    }

    /// Whether classes hold more than `max`.
    pub(crate) fn is_over(&self, max: usize) -> bool {
        self.room().saturating_add_unsigned(max) < 0
    }

    /// The extra pages minus the held ones. Added to the limit, this is the number of pages that may still be taken.
    pub(crate) fn room(&self) -> isize {
        self.extra.cast_signed() - self.held().cast_signed()
    }
}
