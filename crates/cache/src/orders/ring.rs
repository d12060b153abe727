//! A queue of places in item memory, for the items that S3-CLOCK has on probation. Some entries are out of date.
//!
//! An item that leaves probation other than from the front (replaced or deleted) leaves its entry behind. A sweep
//! goes through the ring from the newest entry to the oldest. It drops dead entries, and all but the newest entry of
//! a place. It processes two blocks each time that a block fills up, so that no store waits for a scan of the whole
//! ring.
//!
//! # Layout
//! ```text
//! blocks   | oldest … | … | … newest |      a block has up to 960 places, in order
//!           ^ unswept blocks: the sweep has still to come to so many at the front
//!            of a long ring all between the first and the last are packed, each in the order of places
//! seen     a bit a chunk, by page, of the places met in this sweep; gone when it ends
//! ```
//! # Invariants
//! 1. Live entries stay in the order in which they were pushed, except among the entries of one packed block.
//! 2. A sweep drops no live place: its newest entry stays.
//! 3. With two blocks swept for each that fills, n / 2 blocks arrive during a sweep of n. If a sweep begins whenever
//!    the ring is s times as long as its live entries, the ring stays below s + s / 2 times that, plus a few blocks.
//!
//! # Costs
//! 4 bytes per entry. In a long ring: 1 byte while memory fills, then 2 to 2.7 in caches of up to 1 GB (block.rs). A
//! push examines one or two entries, amortized. They are examined in bulk: two whole blocks once in 960 pushes, when
//! the full block is also sorted, which takes 10 µs.

mod block;

use block::Block;
use guira_index::Location;
use std::collections::VecDeque;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Ring {
    blocks: VecDeque<Block>,
    entries: usize,
    unswept: usize,
    seen: Vec<Vec<u64>>,
}

/// What a ring needs to know about places.
pub(crate) trait Places {
    /// Prefetches what [`Places::is_live`] will read.
    fn prefetch(&self, at: Location);
    /// Whether an entry of this place must be kept.
    fn is_live(&self, at: Location) -> bool;
    /// The place as a page and a slot in it.
    fn split(&self, at: Location) -> (u32, u32);
}

impl Ring {
    /// The number of entries, including dead ones.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Adds a place at the back. Returns whether this filled a block.
    pub(crate) fn push(&mut self, at: Location) -> bool {
        if self.blocks.back().is_none_or(|block| block.len() >= BLOCK) {
            self.blocks.push_back(Block::with_room(BLOCK_FIRST));
        }
        let is_long = self.is_long();
        let block = self.blocks.back_mut().expect("there is one");
        block.open().push_back(at);
        self.entries += 1;
        let is_full = block.len() == BLOCK;
        if is_full && is_long {
            block.pack();
        }
        is_full
    }

    /// Adds a place that was just taken at the front again.
    pub(crate) fn push_front(&mut self, at: Location) {
        if self.blocks.is_empty() {
            self.blocks.push_front(Block::with_room(0));
        }
        self.blocks[0].open().push_front(at);
        self.entries += 1;
    }

    /// Takes the oldest entry out.
    pub(crate) fn pop(&mut self) -> Option<Location> {
        loop {
            let block = self.blocks.front_mut()?;
            if let Some(at) = block.open().pop_front() {
                self.entries -= 1;
                return Some(at);
            }
            self.blocks.pop_front();
            self.unswept = self.unswept.saturating_sub(1);
        }
    }

    /// Whether the ring is long: its blocks are then packed, which saves memory and loses the order within a block.
    fn is_long(&self) -> bool {
        self.blocks.len() >= LONG
    }

    /// Whether a sweep is in progress.
    pub(crate) fn is_swept(&self) -> bool {
        self.unswept > 0
    }

    /// Begins a sweep over the present entries.
    pub(crate) fn begin_sweep(&mut self) {
        self.unswept = self.blocks.len();
        // The last sweep may have ended because its blocks were taken from the front. Places that it saw may have
        // come back since.
        self.seen = Vec::new();
    }

    /// Continues the sweep by `blocks` blocks.
    pub(crate) fn sweep(&mut self, blocks: usize, places: &impl Places) {
        for _ in 0..blocks.min(self.unswept) {
            self.unswept -= 1;
            self.sweep_block(self.unswept, places);
        }
        if self.unswept == 0 {
            self.seen = Vec::new();
        }
    }

    fn sweep_block(&mut self, number: usize, places: &impl Places) {
        let block = self.blocks[number].open().make_contiguous();
        let before = block.len();
        let mut kept = VecDeque::with_capacity(before);
        for (n, &at) in block.iter().enumerate().rev() {
            if let Some(&ahead) = n.checked_sub(LOOK_AHEAD).and_then(|n| block.get(n)) {
                places.prefetch(ahead);
            }
            if places.is_live(at) && is_new(&mut self.seen, places.split(at)) {
                kept.push_front(at);
            }
        }
        self.entries -= before - kept.len();
        match self.blocks.get_mut(number + 1) {
            Some(next) if next.len() + kept.len() <= BLOCK => {
                kept.extend(next.open().drain(..));
                self.blocks.remove(number + 1);
            }
            _ => kept.shrink_to_fit(),
        }
        let mut kept = Block::Open(kept);
        // The last block is still being filled.
        if self.is_long() && number + 1 < self.blocks.len() {
            kept.pack();
        }
        self.blocks[number] = kept;
    }
}

/// Marks a place as seen. Returns whether it was not seen before.
fn is_new(seen: &mut Vec<Vec<u64>>, (page, slot): (u32, u32)) -> bool {
    let (page, word, bit) = (page as usize, slot as usize / 64, 1u64 << (slot % 64));
    if seen.len() <= page {
        seen.resize_with(page + 1, Vec::new);
    }
    let words = &mut seen[page];
    if words.len() <= word {
        words.resize(word + 1, 0);
    }
    let is_new = words[word] & bit == 0;
    words[word] |= bit;
    is_new
}

/// Entries per block. A block of this size takes a little less than a power of two in bytes when packed. The
/// allocator has no size between 2,048 bytes and 2,560, and a block of 1,024 entries takes a few bytes more than
/// 2,048.
pub(crate) const BLOCK: usize = 960;
/// The number of blocks from which a ring is long: the order within one block then matters less than chance.
const LONG: usize = 32;
/// Initial capacity of a new block: most classes never fill one.
const BLOCK_FIRST: usize = 16;
/// Entries between the one examined and the one prefetched.
const LOOK_AHEAD: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashSet;

    /// Places that are live while they are in the set.
    #[derive(Default)]
    struct Live(RefCell<HashSet<u32>>);

    impl Places for Live {
        fn prefetch(&self, _at: Location) {}
        fn is_live(&self, at: Location) -> bool {
            self.0.borrow().contains(&at.0)
        }
        fn split(&self, at: Location) -> (u32, u32) {
            (at.0 >> 8, at.0 & 0xff)
        }
    }

    fn enter(ring: &mut Ring, live: &Live, at: u32) {
        live.0.borrow_mut().insert(at);
        if ring.push(Location(at)) {
            let is_due = ring.len() > 2 * live.0.borrow().len() + BLOCK;
            if is_due && !ring.is_swept() {
                ring.begin_sweep();
            }
            ring.sweep(2, live);
        }
    }

    fn drained(ring: &mut Ring, live: &Live) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some(at) = ring.pop() {
            if live.is_live(at) {
                order.push(at.0);
            }
        }
        order
    }

    #[test]
    fn live_entries_come_out_in_the_order_they_went_in_while_others_die() {
        let (mut ring, live) = (Ring::default(), Live::default());
        let count = if cfg!(miri) { 4_000 } else { 40_000 };
        for at in 0..count {
            enter(&mut ring, &live, at);
            // All but one in a hundred die soon after they arrive.
            if at >= 50 && (at - 50) % 100 != 0 {
                live.0.borrow_mut().remove(&(at - 50));
            }
        }
        let expected: Vec<u32> = (0..count).filter(|at| live.0.borrow().contains(at)).collect();
        assert!(ring.len() < 2 * expected.len() + 4 * BLOCK, "{} entries", ring.len());
        assert_eq!(drained(&mut ring, &live), expected);
        assert_eq!(ring.len(), 0);
    }

    #[test]
    fn places_used_again_and_again_stay_in_the_ring_about_once() {
        let (mut ring, live) = (Ring::default(), Live::default());
        for n in 0..if cfg!(miri) { 5_000 } else { 100_000 } {
            enter(&mut ring, &live, n * 7919 % 500);
            assert!(ring.len() <= 2 * 500 + 4 * BLOCK, "{} entries after {n}", ring.len());
        }
        let order: HashSet<u32> = drained(&mut ring, &live).into_iter().collect();
        assert_eq!(order.len(), 500, "each has an entry");
    }

    #[test]
    fn a_ring_that_is_emptied_while_it_is_swept_goes_on() {
        let (mut ring, live) = (Ring::default(), Live::default());
        // More than two blocks.
        let count = if cfg!(miri) { 2000 } else { 5000 };
        for at in 0..count {
            live.0.borrow_mut().insert(at);
            ring.push(Location(at));
        }
        live.0.borrow_mut().retain(|at| at % 3 == 0);
        ring.begin_sweep();
        let mut order = Vec::new();
        while let Some(at) = ring.pop() {
            if ring.len().is_multiple_of(500) {
                ring.sweep(1, &live);
            }
            if live.is_live(at) {
                order.push(at.0);
            }
        }
        assert_eq!(order, (0..count).filter(|at| at % 3 == 0).collect::<Vec<_>>());
        assert!(ring.pop().is_none());
        ring.push_front(Location(7));
        assert_eq!(ring.pop(), Some(Location(7)));
    }

    #[test]
    fn a_sweep_that_was_overtaken_leaves_nothing_to_the_next() {
        let (mut ring, live) = (Ring::default(), Live::default());
        let count = if cfg!(miri) { 1500 } else { 3000 };
        for at in 0..count {
            live.0.borrow_mut().insert(at);
            ring.push(Location(at));
        }
        ring.begin_sweep();
        ring.sweep(1, &live);
        while ring.pop().is_some() {}
        let back = count - 1;
        ring.push(Location(back));
        ring.begin_sweep();
        ring.sweep(9, &live);
        assert_eq!(drained(&mut ring, &live), [back]);
    }

    #[test]
    fn a_sweep_keeps_the_newest_entry_of_a_place() {
        let (mut ring, live) = (Ring::default(), Live::default());
        for at in [1, 2, 1, 3, 2] {
            live.0.borrow_mut().insert(at);
            ring.push(Location(at));
        }
        ring.begin_sweep();
        ring.sweep(9, &live);
        assert_eq!(drained(&mut ring, &live), [1, 3, 2]);
    }
}
