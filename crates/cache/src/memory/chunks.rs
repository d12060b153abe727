//! Where chunks are: pages of an arena, each cut into chunks of one class.
//!
//! # Layout
//! ```text
//! arena     | page | page | page | …                pages of 64 KiB … 2 MiB, each of one class
//! page      | chunk | chunk | chunk | … (tail)      chunks of the class's size
//! location  | page number | slot in the page |      32 bits; a slot is the chunk's place in its page
//! ```
//! Small caches have small pages: the page size is the power of two next below 1/512 of the
//! memory, at least 64 KiB and at most 2 MiB (a huge page), so that even 64 MB can serve many
//! classes at once. The smallest chunk has 32 bytes, so 32 bits reach 128 GiB whatever the page.
//!
//! # Invariants
//! 1. A page's class changes only under the lock of the class that gets the page, while no chunk of it is in use. So who
//!    may look at a chunk (as its owner, as a reader within a turn, with the class locked) finds it where it was.
//!
//! # Costs
//! From a location to a word: a load of the page's class, a load of the class's chunk size, no branch but their bounds.

use super::arena::Arena;
use super::classes::{CHUNK_MIN, Class, Classes, Slabs};
use super::head::{Head, PageNote};
use super::page::{PageState, Slot};
use guira_index::Location;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What 32-bit references reach, less a page so that no location is all ones.
pub(crate) const MEMORY_MAX: usize = (CHUNK_MIN << 32) - PAGE_MAX;
const PAGE_MIN: usize = 64 << 10;
const PAGE_MAX: usize = 2 << 20;
/// How many pages a cache should have at least: what keeps the pages of a small one small.
const PAGES_WANTED: usize = 512;
const MEMCACHED_PAGE: usize = 1 << 20;
const MEMCACHED_GROWTH: f64 = 1.25;

/// How much item memory there is, and how it is cut.
pub(crate) struct Plan {
    pub(crate) memory_bytes: usize,
    /// Address space: what the limit may be raised to.
    pub(crate) memory_bytes_reserved: usize,
    pub(crate) slabs: Slabs,
    /// Greater than 1, if given.
    pub(crate) growth_factor: Option<f64>,
    pub(crate) chunk_bytes_min: usize,
    /// Locks all of it into RAM.
    pub(crate) lock: bool,
    /// Touches all of it at once.
    pub(crate) preallocate: bool,
}

impl Plan {
    /// Bytes of a page, and how many there may be.
    fn pages(&self) -> (usize, usize) {
        if self.slabs != Slabs::Fine {
            return (MEMCACHED_PAGE, (self.memory_bytes / MEMCACHED_PAGE).max(1));
        }
        let wanted = (self.memory_bytes / PAGES_WANTED).max(1);
        let page_bytes = (1 << wanted.ilog2()).clamp(PAGE_MIN, PAGE_MAX);
        (page_bytes, self.memory_bytes.div_ceil(page_bytes).max(1))
    }

    /// Bytes of a page, how pages are cut, and for how many of them there are addresses.
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

/// All chunks, whoever has them. On lines of its own: every access reads it, and no field changes.
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
    /// Item memory as planned: in `file`, which nobody else uses, or else in the process's own memory. With it, how many
    /// pages there may be for now.
    ///
    /// # Errors
    /// The system refuses the mapping, or to lock it.
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

    /// Whether the chunk's page is one of `class`, whose lock the caller holds: then it stays so.
    pub(crate) fn is_of(&self, class: Class, chunk: Location) -> bool {
        let page = self.split(chunk).0 as usize;
        // In this order: who takes a page says whose it is before it says that it's held.
        self.pages[page].is_held() && self.page_class[page].load(Relaxed) == class
    }

    /// Chunks of a page of `class`.
    #[expect(clippy::cast_possible_truncation, reason = "a page is at most 2 MiB")]
    pub(crate) fn slots(&self, class: Class) -> u32 {
        (self.page_bytes / self.classes.bytes(class)) as u32
    }

    /// The location of a slot of a page.
    pub(crate) fn location(&self, page: u32, slot: u32) -> Location {
        Location((page << self.slot_bits) | slot)
    }

    /// Slots of a page that were ever handed out: what a sweep has to look at.
    pub(crate) fn slots_used(&self, page: u32) -> u32 {
        self.pages[page as usize].handed_out()
    }

    /// Whether a class has handed out the chunk. May be any location.
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

    /// Pages that there may be at most.
    pub(crate) fn pages_reserved(&self) -> usize {
        self.pages.len()
    }

    /// What is known of a page.
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

    /// Makes an empty page one of the class, whose lock the caller holds.
    pub(crate) fn enter_page(&self, page: u32, class: Class) {
        self.page_class[page as usize].store(class, Relaxed);
        self.page(page).begin();
        self.note(page, Some(PageNote { class, handed_out: 0 }));
    }

    /// Makes a page one of the class again, as a former process noted it: every chunk handed out is in use.
    pub(crate) fn resume_page(&self, page: u32, note: PageNote) {
        self.page_class[page as usize].store(note.class, Relaxed);
        self.page(page).resume(note.handed_out);
    }

    /// Makes an empty page no class's.
    pub(crate) fn leave_page(&self, page: u32) {
        self.page(page).end();
        self.note(page, None);
    }

    /// Takes a chunk of a page that has one, of a class with the lock held.
    #[inline]
    pub(crate) fn pop(&self, page: u32) -> Location {
        let held = self.page(page);
        match held.pop() {
            Slot::Fresh(slot) => {
                // The page may have served another class: what stands here is no header.
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

    /// Puts a chunk at the head of its page's free list; the class's lock is held.
    #[inline]
    pub(crate) fn push(&self, chunk: Location) {
        let (page, slot) = self.split(chunk);
        let (held, word) = (self.page(page), self.word_of(chunk));
        self.arena.word(word + 1).store(held.head(), Relaxed);
        self.arena.word(word).store(0, Relaxed);
        held.push(slot);
    }

    /// Has the file system provide a page's memory.
    pub(crate) fn back(&self, page: u32) -> io::Result<()> {
        self.arena.back(page as usize * self.page_bytes, self.page_bytes)
    }

    /// Gives the memory of a page without a chunk in use back to the system.
    pub(crate) fn release(&self, page: u32) {
        self.arena.release(page as usize * self.page_bytes, self.page_bytes);
    }

    /// Asks for what a former process left in a page, all at once. A hint only.
    pub(crate) fn fetch(&self, page: u32) {
        self.arena.fetch(page as usize * self.page_bytes, self.page_bytes);
    }

    /// Asks the processor for the chunk's first line.
    pub(crate) fn prefetch(&self, chunk: Location) {
        self.arena.prefetch(self.word_of(chunk));
    }

    /// Notes in the file, if there is one, that a class has the page, or none.
    #[inline]
    pub(crate) fn note(&self, page: u32, note: Option<PageNote>) {
        if let Some(head) = Head::of(&self.arena) {
            head.set_page(page, note);
        }
    }
}
