//! A slab over a memory file that a former process left: which chunks are in use follows from the pages' words and the
//! chunks' headers.

use super::Slab;
use crate::item::{Header, ItemRef};
use crate::memory::{Head, PageState, Pool};
use guira_index::Location;
use std::sync::atomic::Ordering::Relaxed;

impl Slab {
    /// Gives each page to its class again; which pages those are. Chunks that were handed out count as in use.
    pub(crate) fn take_pages_over(&self, head: Head<'_>) -> Vec<u32> {
        let pages = u32::try_from(self.chunks.pages_reserved()).expect("locations have 32 bits");
        let held = (0..pages).filter(|&page| self.take_page_over(page, head)).collect();
        let pool = Pool::beside(self.chunks.pages().map(PageState::is_held));
        // The first pages of memcached's classes come on top of the limit.
        let most = if self.chunks.classes.are_memcacheds() { self.chunks.classes.len() } else { 0 };
        self.change_pool(|empty| *empty = pool.with_extra(self.pages_limit(), most));
        held
    }

    fn take_page_over(&self, page: u32, head: Head<'_>) -> bool {
        let Some(note) = head.page(page) else { return false };
        let is_possible = usize::from(note.class) < self.chunks.classes.len()
            && note.handed_out <= self.chunks.slots(note.class)
            && self.chunks.back(page).is_ok();
        if !is_possible {
            self.chunks.note(page, None);
            return false;
        }
        self.chunks.resume_page(page, note);
        let mut state = self.lock(note.class);
        state.pages.push(page);
        state.had_page = true;
        true
    }

    /// Lists the chunks of a page that are handed out, and hold neither an item nor a link of one.
    pub(crate) fn list_free_chunks(&self, page: u32) {
        let handed_out = self.chunks.slots_used(page);
        self.chunks.page(page).resume(handed_out);
        for slot in (0..handed_out).rev() {
            let chunk = self.chunks.location(page, slot);
            if !self.is_in_use(chunk) {
                self.chunks.push(chunk);
            }
        }
    }

    /// Counts the chunks of pages taken over whose free chunks are listed. Empty pages go back to the pool.
    pub(crate) fn count_chunks(&self, held: &[u32]) {
        for &page in held {
            let class = self.chunks.class_of_page(page);
            let mut state = self.lock(class);
            let slots = self.chunks.slots(class);
            let available = self.chunks.page(page).available(slots);
            state.used += (slots - available) as usize;
            if available == slots {
                self.give_page_back(&mut state, page);
            } else if available > 0 {
                state.partial.push(page);
            }
        }
    }

    fn is_in_use(&self, chunk: Location) -> bool {
        let word = self.chunks.word_of(chunk);
        let header = Header(self.chunks.arena.word(word).load(Relaxed));
        if !header.is_link() {
            return header.is_published();
        }
        let head = Location(self.chunks.arena.word(word + 1).load(Relaxed));
        let is_head = self.chunks.is_handed_out(head)
            && Header(self.chunks.arena.word(self.chunks.word_of(head)).load(Relaxed))
                .is_published();
        // Whoever is published by now was found whole.
        is_head && ItemRef::new(&self.chunks, head).links().any(|link| link == chunk)
    }

    /// Whether `chunk` is marked as a link of the item at `head`. May be any location.
    pub(crate) fn is_link_of(&self, chunk: Location, head: Location) -> bool {
        if !self.chunks.is_handed_out(chunk)
            || self.chunks.class_of(chunk) != self.chunks.classes.largest()
        {
            return false;
        }
        let word = self.chunks.word_of(chunk);
        Header(self.chunks.arena.word(word).load(Relaxed)).is_link()
            && self.chunks.arena.word(word + 1).load(Relaxed) == head.0
    }
}
