//! What is known of a page, and the pool of pages that no class holds.
//!
//! The fields are atomics only because a page belongs to different classes at different times:
//! they change under the lock of the class that holds the page, never concurrently.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// A relaxed counter that only the holder of a class's lock changes.
type Guarded = AtomicU32;

/// The end of a page's free list.
const NONE: u32 = u32::MAX;

/// Free chunks of one page: a list through the chunks, and those never handed out yet.
pub(crate) struct PageState {
    head: Guarded,
    listed: Guarded,
    handed_out: Guarded,
    draining: AtomicBool,
    /// Whether a class has the page. Others than that class's may look.
    held: AtomicBool,
}

/// A chunk to hand out.
pub(crate) enum Slot {
    /// Never used before.
    Fresh(u32),
    /// From the head of the free list: the caller reads the link in it and calls [`PageState::set_head`].
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
    /// Makes the page empty, for a new class, which it tells already.
    pub(crate) fn begin(&self) {
        self.head.store(NONE, Relaxed);
        self.listed.store(0, Relaxed);
        self.handed_out.store(0, Relaxed);
        self.draining.store(false, Relaxed);
        self.held.store(true, Release);
    }

    /// Makes the page one of which `handed_out` chunks have been handed out, none of them free.
    pub(crate) fn resume(&self, handed_out: u32) {
        self.begin();
        self.handed_out.store(handed_out, Relaxed);
    }

    /// No class has the page from here on.
    pub(crate) fn end(&self) {
        self.held.store(false, Relaxed);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Acquire)
    }

    /// Takes a chunk; the page has one ([`PageState::available`] > 0).
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

    /// Puts a chunk at the head of the free list; the caller has stored the old head in it.
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

    /// Chunks that the page, of `slots`, can hand out.
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

/// Pages without a class: those given back, then those whose memory the system has again, then those never used.
#[derive(Default)]
pub(crate) struct PagePool {
    returned: Vec<u32>,
    released: Vec<u32>,
    next_fresh: u32,
    /// Pages that were given beyond the limit.
    extra: usize,
    /// The page that the mover empties for a class: it comes to none but the mover.
    moving: Option<Moving>,
}

/// A page that is moved from class to class, and whether the first one has left it.
#[derive(Clone, Copy)]
struct Moving {
    page: u32,
    is_empty: bool,
}

impl PagePool {
    /// A page, as long as the classes hold fewer than `max`.
    pub(crate) fn take(&mut self, max: usize) -> Option<u32> {
        if self.room().saturating_add_unsigned(max) <= 0 {
            return None;
        }
        Some(self.next())
    }

    /// A page beyond the limit, of `pages` that there are: the limit counts one more from here on.
    pub(crate) fn take_extra(&mut self, pages: usize) -> Option<u32> {
        if self.held() >= pages {
            return None;
        }
        self.extra += 1;
        Some(self.next())
    }

    /// The page that the pool would give next; one beyond the last where it has none.
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

    /// Takes a page back; where classes hold more than `max`, also one that was to be moved. Whether the caller is to
    /// release its memory.
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

    /// A page that nobody holds, whose memory the caller is to release, where there are more than `max` with memory.
    pub(crate) fn release_one(&mut self, max: usize) -> Option<u32> {
        if self.backed() <= max.saturating_add(self.extra) {
            return None;
        }
        let page = self.returned.pop()?;
        self.released.push(page);
        Some(page)
    }

    /// Lets `page` come to nobody but who asks for it by [`PagePool::take_moved`].
    pub(crate) fn start_moving(&mut self, page: u32) {
        self.moving = Some(Moving { page, is_empty: false });
    }

    pub(crate) fn is_moving(&self, page: u32) -> bool {
        self.moving.is_some_and(|moving| moving.page == page)
    }

    /// Whether the page that is moved is empty, and then nobody's but the caller's.
    pub(crate) fn take_moved(&mut self) -> bool {
        self.moving.take_if(|moving| moving.is_empty).is_some()
    }

    /// The page that is moved stays where it is.
    pub(crate) fn stop_moving(&mut self) {
        self.moving = None;
    }

    /// The pool beside pages of which classes hold some.
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

    /// The pool, with what classes hold beyond `max` given as extra, up to `most`.
    pub(crate) fn with_extra(mut self, max: usize, most: usize) -> PagePool {
        self.extra = self.held().saturating_sub(max).min(most);
        self
    }

    /// Pages that classes hold.
    pub(crate) fn held(&self) -> usize {
        self.backed() - self.returned.len()
    }

    /// Pages that have memory: those that classes hold, and those given back.
    pub(crate) fn backed(&self) -> usize {
        self.next_fresh as usize - self.released.len()
    }

    /// Pages that were held once and are not now, and still have their memory.
    pub(crate) fn returned(&self) -> usize {
        self.returned.len()
    }

    /// Whether classes hold more than `max`.
    pub(crate) fn is_over(&self, max: usize) -> bool {
        self.room().saturating_add_unsigned(max) < 0
    }

    /// By how much more than the limit there are pages to take: less than nothing where classes hold some.
    pub(crate) fn room(&self) -> isize {
        self.extra.cast_signed() - self.held().cast_signed()
    }
}
