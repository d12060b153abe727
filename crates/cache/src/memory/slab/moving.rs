//! The slab's part of a page move (upkeep/mover.rs): taking a page out of a class, giving it to another, or calling
//! the move off.

use super::{Ledger, Owned, Slab};
use crate::memory::classes::Class;

impl<O: Ledger> Slab<O> {
    /// Takes the page with the most free chunks out of the class's service, to be emptied and moved. `None` if the
    /// class has fewer than two pages. Only one page is moved at a time.
    pub(crate) fn set_out(&self, class: Class) -> Option<u32> {
        let mut state = self.lock(class);
        if state.pages.len() < 2 {
            return None;
        }
        let slots = self.chunks.slots(class);
        // Ties go to the page behind the hand: its items were examined longest ago.
        let behind = state.order.behind_hand(state.pages.len())?;
        let available = |at: usize| self.chunks.page(state.pages[at]).available(slots);
        let at = (0..state.pages.len()).max_by_key(|&at| (available(at), at == behind))?;
        let page = state.pages.swap_remove(at);
        state.partial.retain(|&p| p != page);
        state.draining.push(page);
        self.chunks.page(page).start_draining();
        self.pool.lock().start_moving(page);
        if self.chunks.page(page).available(slots) == slots {
            self.give_page_back(&mut state, page);
        }
        Some(page)
    }

    /// Takes a free chunk outside the page that is being moved.
    pub(crate) fn alloc_spare(&self, class: Class) -> Option<Owned> {
        let mut state = self.lock(class);
        let page = match state.partial.last() {
            Some(&page) => page,
            None => self.take_page(&mut state, class)?,
        };
        Some(self.pop(&mut state, page, self.chunks.slots(class)))
    }

    /// Whether the page is the one that is being moved.
    pub(crate) fn is_moving(&self, page: u32) -> bool {
        self.pool.lock().is_moving(page)
    }

    /// Gives the moved page to its new class, or to the pool, if it is empty by now. Returns whether it was.
    pub(crate) fn arrive(&self, page: u32, to: Option<Class>) -> bool {
        let Some(class) = to else {
            return self.change_pool(|pool| {
                let has_moved = pool.take_moved();
                if has_moved {
                    self.give(pool, page);
                }
                has_moved
            });
        };
        let mut state = self.lock(class);
        let has_moved = self.pool.lock().take_moved();
        if has_moved {
            self.enter_page(&mut state, class, page);
        }
        has_moved
    }

    /// Returns the page to its class instead of moving it. Returns `false` if the page has left the class already,
    /// because it is empty.
    pub(crate) fn call_off(&self, class: Class, page: u32) -> bool {
        let mut state = self.lock(class);
        let Some(at) = state.draining.iter().position(|&p| p == page) else { return false };
        self.pool.lock().stop_moving();
        state.draining.swap_remove(at);
        state.pages.push(page);
        self.chunks.page(page).stop_draining();
        if self.chunks.page(page).available(self.chunks.slots(class)) > 0 {
            state.partial.push(page);
        }
        true
    }
}
