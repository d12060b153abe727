//! A slab over a memory file that a former process left. The words of the file's head determine which pages the
//! classes have; the caller determines which chunks are in use.

use super::{Ledger, Slab};
use crate::memory::head::Head;
use crate::memory::page::{PagePool, PageState};
use guira_index::Location;

impl<O: Ledger> Slab<O> {
    /// Gives each page to its class again, and returns these pages. All chunks that were handed out count as in use.
    pub(crate) fn take_pages_over(&self, head: Head<'_>) -> Vec<u32> {
        let pages = u32::try_from(self.chunks.pages_reserved()).expect("locations have 32 bits");
        let held = (0..pages).filter(|&page| self.take_page_over(page, head)).collect();
        let pool = PagePool::beside(self.chunks.pages().map(PageState::is_held));
        // The first pages of memcached's classes are in addition to the limit.
        let most = if self.chunks.classes.are_memcacheds() { self.chunks.classes.len() } else { 0 };
        self.change_pool(|empty| *empty = pool.with_extra(self.limit.pages(), most));
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

    /// Puts the chunks of a page that were handed out and are not in use on its free list.
    pub(crate) fn list_free_chunks(&self, page: u32, is_in_use: impl Fn(Location) -> bool) {
        let handed_out = self.chunks.slots_used(page);
        self.chunks.page(page).resume(handed_out);
        for slot in (0..handed_out).rev() {
            let chunk = self.chunks.location(page, slot);
            if !is_in_use(chunk) {
                self.chunks.push(chunk);
            }
        }
    }

    /// Counts the chunks in use, of pages taken over whose free chunks are listed. Empty pages go back to the pool.
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
}
