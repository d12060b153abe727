//! CLOCK: one recency bit per item, one hand per slab class (MemC3 §3.3).
//!
//! A hit sets the bit unless it is set; a new item starts with a clear bit. The hand goes round the class's chunks.
//! It clears a set bit and moves on, and evicts an item whose bit is clear. It evicts expired and flushed items in
//! any case.
//!
//! The bits are in the items' headers. A hit has that cache line loaded anyway. The hand reads the headers in memory
//! order, which the processor prefetches.
//!
//! # Costs
//! A hit: at most one compare-and-swap, none if the bit is set. An eviction: one or two headers examined on average.
//! Bad at: scans, which evict everything that was not hit since the last round.

use super::victims::{PATIENCE, Search};
use crate::items::ItemRef;
use crate::memory::Chunks;
use guira_index::Location;

/// The position of a class's hand: the index of a page in the class's list, and a slot of that page.
#[derive(Default)]
pub(crate) struct Hand {
    page: usize,
    slot: u32,
}

impl Hand {
    /// The index of the page after the hand's, of `pages` pages: the one to give up. Its items were examined longest
    /// ago.
    pub(crate) fn next_page(&self, pages: usize) -> Option<usize> {
        (pages > 0).then(|| (self.page + 1) % pages)
    }

    /// Returns the chunk under the hand, and advances the hand.
    pub(crate) fn advance(&mut self, chunks: &Chunks, pages: &[u32]) -> Location {
        if self.page >= pages.len() {
            self.page = 0;
            self.slot = 0;
        }
        if self.slot >= chunks.slots_used(pages[self.page]) {
            self.page = (self.page + 1) % pages.len();
            self.slot = 0;
        }
        let chunk = chunks.location(pages[self.page], self.slot);
        self.slot += 1;
        chunk
    }
}

/// Finds victims: the next items from the hand on whose bit is clear.
pub(crate) fn search(hand: &mut Hand, search: &mut Search<'_>) {
    let mut examined = 0;
    while search.is_short() && examined < search.examined_max() {
        let chunk = hand.advance(search.chunks, search.pages);
        examined += 1;
        let Some(item) = ItemRef::of_chunk(search.chunks, chunk) else { continue };
        let header = item.header();
        if header.hits() > 0 && !item.is_past(search.now) && examined < PATIENCE {
            item.mark(header.with_hits(0));
            continue;
        }
        search.take(&item, false);
    }
}
