//! The places of chunks: pages of an arena, each cut into chunks of one class.
//!
//! # Layout
//! ```text
//! arena     | page | page | page | …                pages of 64 KiB … 2 MiB, each of one class
//! page      | chunk | chunk | chunk | … (tail)      chunks of the class's size
//! location  | page number | slot in the page |      32 bits; a slot is the chunk's place in its page
//! ```
//! Small caches have small pages: the page size is the largest power of two up to 1/512 of the memory, but at least
//! 64 KiB and at most 2 MiB (a huge page). So even 64 MB can serve many classes at once. The smallest chunk has 32
//! bytes, so 32-bit locations reach 128 GiB with any page size.
//!
//! # Invariants
//! 1. A page's class changes only under the lock of the class that gets the page, while no chunk of the page is in
//!    use. So a thread that may look at a chunk (as its owner, as a reader within a turn, or with the class locked)
//!    finds it in the same place.
//!
//! # Costs
//! From a location to a word: one load of the page's class, one load of the class's chunk size, and no branch except
//! their bounds checks.

use super::arena::Arena;
use super::classes::{CHUNK_MIN, Class, Classes, Slabs};
use super::head::{Head, PageNote};
use super::page::{PageState, Slot};
use guira_index::Location;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The memory that 32-bit locations reach, minus one page so that no location is all ones.
pub(crate) const MEMORY_MAX: usize = (CHUNK_MIN << 32) - PAGE_MAX;
const PAGE_MIN: usize = 64 << 10;
const PAGE_MAX: usize = 2 << 20;
/// The least number of pages that a cache should have. It keeps the pages of a small cache small.
const PAGES_WANTED: usize = 512;
const MEMCACHED_PAGE: usize = 1 << 20;
const MEMCACHED_GROWTH: f64 = 1.25;

/// The amount of item memory, and how it is cut.
pub(crate) struct Plan {
    pub(crate) memory_bytes: usize,
    /// Address space to reserve: the highest value that the limit may be raised to.
    pub(crate) memory_bytes_reserved: usize,
    pub(crate) slabs: Slabs,
    /// Greater than 1, if given.
    pub(crate) growth_factor: Option<f64>,
    pub(crate) chunk_bytes_min: usize,
    /// Whether to lock all of it into RAM.
    pub(crate) lock: bool,
    /// Whether to touch all of it at once.
    pub(crate) preallocate: bool,
}

impl Plan {
    /// Bytes of a page, and the number of pages within the memory limit.
    fn pages(&self) -> (usize, usize) {
        if self.slabs != Slabs::Fine {
            return (MEMCACHED_PAGE, (self.memory_bytes / MEMCACHED_PAGE).max(1));
        }
        let wanted = (self.memory_bytes / PAGES_WANTED).max(1);
        let page_bytes = (1 << wanted.ilog2()).clamp(PAGE_MIN, PAGE_MAX);
        (page_bytes, self.memory_bytes.div_ceil(page_bytes).max(1))
    }

    /// Bytes of a page, the classes, and the number of pages for which address space is reserved.
    pub(crate) fn cut(&self) -> (usize, Classes, usize) {
        let (page_bytes, pages_max) = self.pages();
        let pages = self.memory_bytes_reserved.div_ceil(page_bytes).max(pages_max);
        (page_bytes, self.classes(page_bytes), pages)
    }

    fn classes(&self, page_bytes: usize) -> Classes {
        match self.slabs {
            Slabs::Fine => Classes::new(page_bytes, self.growth_factor, self.chunk_bytes_min),
            Slabs::Memcached { chunk_bytes_max } => {
                let factor = self.growth_factor.unwrap_or(MEMCACHED_GROWTH);
                Classes::memcacheds(factor, self.chunk_bytes_min, chunk_bytes_max)
            }
        }
    }
}

/// All chunks, regardless of their owner. Aligned to its own cache lines: every access reads it, and its fields don't
/// change.
#[repr(align(64))]
pub(crate) struct Chunks {
    pub(crate) arena: Arena,
    pub(crate) classes: Classes,
    page_class: Box<[AtomicU8]>,
    pages: Box<[PageState]>,
    page_bytes: usize,
    slot_bits: u32,
}

impl Chunks {
    /// Makes item memory as planned: in `file`, which no other process may use, or else in the process's own memory.
    /// Also returns the number of pages within the memory limit.
    ///
    /// # Errors
    /// The system refuses to map the memory, or to lock it.
    pub(crate) fn new(plan: &Plan, file: Option<File>) -> io::Result<(Chunks, usize)> {
        let (_, pages_max) = plan.pages();
        let (page_bytes, classes, pages) = plan.cut();
        let arena = match file {
            Some(file) => Arena::over(file, pages * page_bytes, plan.lock, plan.preallocate)?,
            None => Arena::new(pages * page_bytes, plan.lock, plan.preallocate)?,
        };
        let chunks = Chunks {
            arena,
            classes,
            page_class: (0..pages).map(|_| AtomicU8::new(0)).collect(),
            pages: (0..pages).map(|_| PageState::default()).collect(),
            page_bytes,
            slot_bits: (page_bytes / CHUNK_MIN).trailing_zeros(),
        };
        Ok((chunks, pages_max))
    }

    /// The word at which the chunk starts.
    #[inline]
    pub(crate) fn word_of(&self, chunk: Location) -> usize {
        let (page, slot) = self.split(chunk);
        let class = self.page_class[page as usize].load(Relaxed);
        (page as usize * self.page_bytes + slot as usize * self.classes.bytes(class)) / 4
    }

    /// The class of the chunk's page.
    #[inline]
    pub(crate) fn class_of(&self, chunk: Location) -> Class {
        self.page_class[self.split(chunk).0 as usize].load(Relaxed)
    }

    /// Whether the chunk's page is held by `class`. The caller holds the lock of `class`, so the answer stays valid.
    pub(crate) fn is_of(&self, class: Class, chunk: Location) -> bool {
        let page = self.split(chunk).0 as usize;
        // In this order: a thread that takes a page sets its class before it sets `held`.
        self.pages[page].is_held() && self.page_class[page].load(Relaxed) == class
    }

    /// Chunks per page of `class`.
    #[expect(clippy::cast_possible_truncation, reason = "a page is at most 2 MiB")]
    pub(crate) fn slots(&self, class: Class) -> u32 {
        (self.page_bytes / self.classes.bytes(class)) as u32
    }

    /// The location of a slot of a page.
    pub(crate) fn location(&self, page: u32, slot: u32) -> Location {
        Location((page << self.slot_bits) | slot)
    }

    /// Slots of a page that were ever handed out: those that a sweep must examine.
    pub(crate) fn slots_used(&self, page: u32) -> u32 {
        self.pages[page as usize].handed_out()
    }

    /// Whether a class has handed out the chunk. Accepts any location.
    pub(crate) fn is_handed_out(&self, chunk: Location) -> bool {
        let (page, slot) = self.split(chunk);
        let page = self.pages.get(page as usize);
        page.is_some_and(|page| page.is_held() && slot < page.handed_out())
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// A chunk's page, and its slot there.
    pub(crate) fn split(&self, chunk: Location) -> (u32, u32) {
        (chunk.0 >> self.slot_bits, chunk.0 & ((1 << self.slot_bits) - 1))
    }

    /// The most pages that there can be.
    pub(crate) fn pages_reserved(&self) -> usize {
        self.pages.len()
    }

    /// The state of a page.
    #[inline]
    pub(crate) fn page(&self, page: u32) -> &PageState {
        &self.pages[page as usize]
    }

    /// Every page, held by a class or not.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &PageState> {
        self.pages.iter()
    }

    /// The class that has the page, or had it last.
    #[inline]
    pub(crate) fn class_of_page(&self, page: u32) -> Class {
        self.page_class[page as usize].load(Relaxed)
    }

    /// Gives an empty page to the class, whose lock the caller holds.
    pub(crate) fn enter_page(&self, page: u32, class: Class) {
        self.page_class[page as usize].store(class, Relaxed);
        self.page(page).begin();
        self.note(page, Some(PageNote { class, handed_out: 0 }));
    }

    /// Gives a page back to its class, as a former process recorded it: every chunk handed out counts as in use.
    pub(crate) fn resume_page(&self, page: u32, note: PageNote) {
        self.page_class[page as usize].store(note.class, Relaxed);
        self.page(page).resume(note.handed_out);
    }

    /// Takes an empty page from its class.
    pub(crate) fn leave_page(&self, page: u32) {
        self.page(page).end();
        self.note(page, None);
    }

    /// Takes a chunk of a page that has one. The caller holds the lock of the page's class.
    #[inline]
    pub(crate) fn pop(&self, page: u32) -> Location {
        let held = self.page(page);
        match held.pop() {
            Slot::Fresh(slot) => {
                // The page may have served another class before, so this word may not be a header.
                let chunk = self.location(page, slot);
                self.arena.word(self.word_of(chunk)).store(0, Relaxed);
                let class = self.class_of_page(page);
                self.note(page, Some(PageNote { class, handed_out: slot + 1 }));
                chunk
            }
            Slot::Listed(slot) => {
                let chunk = self.location(page, slot);
                held.set_head(self.arena.word(self.word_of(chunk) + 1).load(Relaxed));
                chunk
            }
        }
    }

    /// Puts a chunk at the head of its page's free list. The caller holds the lock of the page's class.
    #[inline]
    pub(crate) fn push(&self, chunk: Location) {
        let (page, slot) = self.split(chunk);
        let (held, word) = (self.page(page), self.word_of(chunk));
        self.arena.word(word + 1).store(held.head(), Relaxed);
        self.arena.word(word).store(0, Relaxed);
        held.push(slot);
    }

    /// Makes the file system provide a page's memory.
    pub(crate) fn back(&self, page: u32) -> io::Result<()> {
        self.arena.back(page as usize * self.page_bytes, self.page_bytes)
    }

    /// Gives the memory of a page back to the system; no chunk in it may be in use.
    pub(crate) fn release(&self, page: u32) {
        self.arena.release(page as usize * self.page_bytes, self.page_bytes);
    }

    /// Reads what a former process left in a page into memory all at once. A hint only.
    pub(crate) fn fetch(&self, page: u32) {
        self.arena.fetch(page as usize * self.page_bytes, self.page_bytes);
    }

    /// Prefetches the chunk's first cache line.
    pub(crate) fn prefetch(&self, chunk: Location) {
        self.arena.prefetch(self.word_of(chunk));
    }

    /// Records in the file, if there is one, that a class has the page, or that none has.
    #[inline]
    pub(crate) fn note(&self, page: u32, note: Option<PageNote>) {
        if let Some(head) = Head::of(&self.arena) {
            head.set_page(page, note);
        }
    }
}
