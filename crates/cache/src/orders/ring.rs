//! A queue of places in item memory, some of them out of date: for the items that S3-CLOCK has on probation.
//!
//! Who leaves probation otherwise than from the front, replaced or deleted, leaves its entry behind. A sweep goes
//! through the ring from the newest entry to the oldest and drops those that are dead, and all but the newest entry of a
//! place. It takes two blocks each time that a block is full, so that no store waits for a whole ring to be looked through.
//!
//! # Layout
//! ```text
//! blocks   | oldest … | … | … newest |      a block has up to 960 places, in order
//!           ^ unswept blocks: the sweep has still to come to so many at the front
//!            of a long ring all between the first and the last are packed, each in the order of places
//! seen     a bit a chunk, by page, of the places met in this sweep; gone when it ends
//! ```
//! # Invariants
//! 1. Live entries stay in the order in which they were pushed, but for those of one packed block among each other.
//! 2. A sweep drops no place that is live: its newest entry stays.
//! 3. With two blocks swept for each that fills, n / 2 blocks come during a sweep of n: whoever begins one where a ring
//!    is s times as long as what is live keeps it below s + s / 2 times, and a few blocks.
//!
//! # Costs
//! 4 bytes an entry; of a long ring 1 while memory fills, then 2 to 2.7 in up to 1 GB (block.rs). A push: amortized, one or
//! two entries looked at, side by side; all of them, two blocks, once in 960 pushes, and then the full block is sorted: 10 µs.

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

/// What a ring asks about places.
pub(crate) trait Places {
    /// Asks the processor for what [`Places::is_live`] will look at.
    fn prefetch(&self, at: Location);
    /// Whether an entry of this place is worth keeping.
    fn is_live(&self, at: Location) -> bool;
    /// The place as a page and a slot of it.
    fn split(&self, at: Location) -> (u32, u32);
}

impl Ring {
    /// How many entries there are, dead ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Puts a place behind all others; whether a block is full with it.
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

    /// Puts a place that was just taken back before all others.
    pub(crate) fn push_front(&mut self, at: Location) {
        if self.blocks.is_empty() {
            self.blocks.push_front(Block::with_room(0));
        }
        self.blocks[0].open().push_front(at);
        self.entries += 1;
    }

    /// Takes the oldest entry.
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

    /// Whether the order within a block is of no account, but its memory is.
    fn is_long(&self) -> bool {
        self.blocks.len() >= LONG
    }

    /// Whether a sweep is on its way.
    pub(crate) fn is_swept(&self) -> bool {
        self.unswept > 0
    }

    /// Begins a sweep over what is in the ring now.
    pub(crate) fn begin_sweep(&mut self) {
        self.unswept = self.blocks.len();
        // The last one may have ended by what was taken from the front, and what it saw has come back since.
        self.seen = Vec::new();
    }

    /// Goes on with the sweep, for `blocks` blocks.
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
        // The last one goes on being filled.
        if self.is_long() && number + 1 < self.blocks.len() {
            kept.pack();
        }
        self.blocks[number] = kept;
    }
}

/// Marks a place as seen; whether it was not before.
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

/// Entries of a block: packed, it is a little smaller than a power of two. The allocator has no size between 2,048 bytes
/// and 2,560, and a block of 1,024 entries takes a few bytes more than 2,048.
pub(crate) const BLOCK: usize = 960;
/// From so many blocks on a ring is long: the order within one then matters less than chance does.
const LONG: usize = 32;
/// Room that a new block begins with: most classes never fill one.
const BLOCK_FIRST: usize = 16;
/// Entries between the one that is looked at and the one that is asked for.
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
            // All but every hundredth die soon after they came.
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
