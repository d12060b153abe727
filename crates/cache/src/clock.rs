//! CLOCK: one recency bit an item, one hand a slab class (MemC3 §3.3).
//!
//! A hit sets the bit unless it is set; an item starts with it clear. The hand goes round the
//! class's chunks: it clears a set bit and passes on, and takes the item whose bit is clear. What is
//! expired or flushed it takes in any case.
//!
//! The bits are in the items' headers. A hit has that line at hand anyway, and the hand reads the
//! headers in memory order, which the processor fetches ahead.
//!
//! # Costs
//! A hit: at most one compare-and-swap, none when the bit is set. An eviction: one or two headers
//! examined on the average. Bad at: scans, which push out everything not hit since the last round.

use crate::item::{Header, ItemRef};
use crate::memory::Class;
use crate::policy::{Eviction, Victim};
use crate::s3clock::Shares;
use crate::slab::{ClassState, Slab};
use crate::time::Now;
use guira_index::Location;
use std::sync::atomic::Ordering::Acquire;

/// Chunks that a hand examines at most before it takes items whose bit is set: what bounds the
/// time under the class's lock when everything was hit since the last round.
pub(crate) const PATIENCE: usize = 16 << 10;

/// Where the hand of a class stands: the index of a page in the class's list, and a slot of it.
#[derive(Default)]
pub(crate) struct Hand {
    page: usize,
    slot: u32,
}

impl Hand {
    /// The page, of `pages`, that comes after the hand's: what a thief takes. Its items were
    /// examined longest ago.
    pub(crate) fn next_page(&self, pages: usize) -> Option<usize> {
        (pages > 0).then(|| (self.page + 1) % pages)
    }

    /// The chunk under the hand, which moves on.
    pub(crate) fn advance(&mut self, slab: &Slab, pages: &[u32]) -> Location {
        if self.page >= pages.len() {
            self.page = 0;
            self.slot = 0;
        }
        if self.slot >= slab.chunks.slots_used(pages[self.page]) {
            self.page = (self.page + 1) % pages.len();
            self.slot = 0;
        }
        let chunk = slab.chunks.location(pages[self.page], self.slot);
        self.slot += 1;
        chunk
    }
}

impl Slab {
    /// Up to `want` items of `class` to evict, added to `victims`; how many passed their probation meanwhile. The caller
    /// is online, and unlinks each by its location: it may be gone already, or come up twice.
    pub(crate) fn victims(
        &self,
        class: Class,
        want: usize,
        (moment, shares): (Now, Shares),
        victims: &mut Vec<Victim>,
    ) -> usize {
        let mut state = self.lock(class);
        if state.pages.is_empty() || state.used == 0 {
            return 0;
        }
        let want = if self.chunks.classes.are_memcacheds() {
            want.min(self.reserve(state.pages.len() * self.chunks.slots(class) as usize)).max(1)
        } else {
            want
        };
        let wanted = victims.len() + want;
        match self.eviction {
            Eviction::S3Clock => {
                return self.s3_victims(&mut state, class, wanted, (moment, shares), victims);
            }
            Eviction::Clock => self.clock_victims(&mut state, class, wanted, moment, victims),
            Eviction::Sieve | Eviction::Lru => {
                self.list_victims(&mut state, self.eviction, wanted, moment, victims);
            }
        }
        0
    }

    fn clock_victims(
        &self,
        state: &mut ClassState,
        class: Class,
        wanted: usize,
        moment: Now,
        victims: &mut Vec<Victim>,
    ) {
        let round = state.pages.len() * self.chunks.slots(class) as usize;
        let mut examined = 0;
        while victims.len() < wanted && examined < 2 * round.min(PATIENCE) + wanted {
            let chunk = state.hand.advance(self, &state.pages);
            examined += 1;
            let Some(item) = ItemRef::of_chunk(&self.chunks, chunk) else { continue };
            let header = item.header();
            if header.hits() > 0 && !item.is_past(moment) && examined < PATIENCE {
                item.mark(header.with_hits(0));
                continue;
            }
            state.note_victim(item.idle_s(moment.second), item.is_past(moment));
            victims.push(Victim { at: item.location(), failed: false });
        }
    }

    /// The items that have a chunk in some slots of a page, if the page is the class's: as their
    /// head or first link, or, `whole`, as any link. The caller is online.
    ///
    /// Looks with the class locked: a page may leave its class, and what stands in its chunks then
    /// is no header.
    pub(crate) fn items_in(
        &self,
        class: Class,
        page: u32,
        slots: std::ops::Range<u32>,
        whole: bool,
    ) -> Vec<ItemRef<'_>> {
        let state = self.lock(class);
        if !state.pages.contains(&page) && !state.draining.contains(&page) {
            return Vec::new();
        }
        let end = slots.end.min(self.chunks.slots_used(page));
        (slots.start..end)
            .filter_map(|slot| {
                let chunk = self.chunks.location(page, slot);
                let word = self.chunks.word_of(chunk);
                if whole && Header(self.chunks.arena.word(word).load(Acquire)).is_link() {
                    return ItemRef::of_chunk(
                        &self.chunks,
                        Location(self.chunks.arena.word(word + 1).load(Acquire)),
                    );
                }
                ItemRef::of_chunk(&self.chunks, chunk)
            })
            .collect()
    }
}
