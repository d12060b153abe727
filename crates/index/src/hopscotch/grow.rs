//! Growth: a sweep that moves the keys of one line after another to their homes in a table that is an eighth larger.
//!
//! # Costs
//! A line takes 0.2 us without reading the items, and memory is read and written in order. During a growth every
//! insert moves eight lines, so the growth ends before the table is 1/48 fuller than when it began (H = 64: 1/32).
//! Each key is moved eight times in total, which is half the cost of an insert into a growing table. A thread that
//! calls [`maintain`](crate::Index::maintain) takes this work from the inserts.

use super::address::Extent;
use super::line::{Hop, Locked, Tag};
use super::table::{HopscotchTable, slots};
use crate::mapping::prefetch;
use crate::sync::{Acquire, Backoff, Mutation, Relaxed, Release};
use crate::{Full, Index};
use std::ops::Range;

/// A key of the line that is being moved.
struct Move {
    from: usize,
    /// The key's home in the larger table, and a slot taken for the key near it.
    home: usize,
    to: usize,
    tag: Tag,
}

impl<W: Hop, const SLOTS: usize> HopscotchTable<W, SLOTS> {
    /// [`Index::maintain`]: begins a growth if it is due, and moves up to `budget` lines. Returns true if there is
    /// more to do. Also returns false if there is currently no room for the next line's keys, or if another thread is
    /// moving lines.
    pub(super) fn grow(&self, budget: usize) -> bool {
        self.start_growth_if_loaded();
        if !self.try_lock_moving() {
            return false;
        }
        let moved = self.move_lines(budget);
        self.unlock_moving();
        moved == budget && self.extent().is_growing()
    }

    /// An insert's share of the growth in progress. While another thread is moving lines, the share is recorded as
    /// owed, up to a limit. That thread may have lost its processor, and inserts that only continue would fill the
    /// table.
    #[cold]
    pub(super) fn help_growth(&self) {
        let owed = self.owed.0.fetch_add(LINES_AN_INSERT, Relaxed);
        if !self.try_lock_moving() {
            if owed < self.extent().lines as usize / OWED_SHARE {
                return;
            }
            self.lock_moving();
        }
        let owed = self.owed.0.swap(0, Relaxed);
        let now = owed.min(LINES_AT_ONCE);
        if self.move_lines(now) == now {
            self.owed.0.fetch_add(owed - now, Relaxed);
        }
        self.unlock_moving();
    }

    /// Called after an insert found no slot for its key: advances the growth, so that the insert can try again.
    #[cold]
    pub(super) fn make_room(&self, tries: u32) -> Result<(), Full> {
        // In a table with much room elsewhere the keys have equal hashes: growth would not separate them.
        let is_crowded = self.is_loaded(CROWDED_PERCENT) && tries < TRIES;
        if !is_crowded {
            return Err(Full);
        }
        self.lock_moving();
        if !self.extent().is_growing() {
            self.start_growth();
        }
        let moved = self.move_lines(LINES_AT_ONCE);
        self.unlock_moving();
        if moved > 0 { Ok(()) } else { Err(Full) }
    }

    /// Begins a growth if the load is reached. Never waits.
    pub(super) fn start_growth_if_loaded(&self) {
        if !self.extent().is_growing()
            && self.is_loaded(Self::START_PERCENT)
            && self.try_lock_moving()
        {
            if !self.extent().is_growing() {
                self.start_growth();
            }
            self.unlock_moving();
        }
    }

    /// [`Index::touch_ahead`]: prepares the lines into which the table would grow within this many inserts.
    pub(super) fn touch_lines_ahead(&self, items: usize) {
        let in_use = self.lines_in_use();
        let mut lines = in_use;
        while self.len().saturating_add(items).saturating_mul(100)
            > lines * SLOTS * Self::START_PERCENT
        {
            let grown = self.plan.grown(u32::try_from(lines - Self::TAIL).unwrap_or(u32::MAX));
            if grown as usize + Self::TAIL == lines {
                break;
            }
            lines = grown as usize + Self::TAIL;
        }
        self.lines.prepare(in_use, lines - in_use);
    }

    fn is_loaded(&self, percent: usize) -> bool {
        self.len() * 100 > self.extent().lines as usize * SLOTS * percent
    }

    /// Waits for the lock of moving lines. The caller must not hold a line's lock.
    fn lock_moving(&self) {
        let mut backoff = Backoff::default();
        while !self.try_lock_moving() {
            backoff.pause();
        }
    }

    pub(super) fn try_lock_moving(&self) -> bool {
        self.is_moving.0.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    pub(super) fn unlock_moving(&self) {
        self.is_moving.0.store(false, Release);
    }

    /// Begins a growth; the caller holds the lock of moving lines. Homes do not change until their lines move.
    pub(super) fn start_growth(&self) {
        let lines = self.extent().lines;
        if self.plan.grown(lines) > lines {
            self.owed.0.store(0, Relaxed);
            self.publish(Extent { lines, boundary: lines });
        }
    }

    /// Moves up to `budget` lines; the caller holds the lock of moving lines. Moves fewer at the end, or if there is
    /// no room for a line's keys, which is then left for later. Returns how many lines were moved.
    fn move_lines(&self, budget: usize) -> usize {
        let mut moves = Vec::new();
        for moved in 0..budget {
            let extent = self.extent();
            if !extent.is_growing() || !self.move_line(extent, &mut moves) {
                return moved;
            }
        }
        budget
    }

    /// Moves the keys of the last line that is not yet moved: see the module's invariant 4.
    fn move_line(&self, extent: Extent, moves: &mut Vec<Move>) -> bool {
        let number = extent.boundary - 1;
        let homes = number as usize * SLOTS..(number as usize + 1) * SLOTS;
        let after = if number > 0 {
            Extent { lines: extent.lines, boundary: number }
        } else {
            Extent { lines: self.plan.grown(extent.lines), boundary: Extent::IDLE }
        };
        let mut line = self.lines.get(number as usize).lock();
        self.prefetch_before(number as usize, extent);
        if !self.plan_moves(extent.lines, after, &homes, &mut line, moves) {
            moves.iter().filter(|m| !is_from(moves, m.to)).for_each(|m| self.free(m.to));
            return false;
        }
        let old: [u64; SLOTS] = std::array::from_fn(|home| line.hops(home));
        self.enter_copies(moves, &homes, &line);
        if !Mutation::LatePublish.is_planted() {
            self.publish(after);
        }
        (0..SLOTS).for_each(|home| line.flip(home, old[home]));
        let is_left = |m: &&Move| !is_to(moves, m.from) || Mutation::FreeKept.is_planted();
        moves.iter().filter(is_left).for_each(|m| self.free(m.from));
        line.advance();
        drop(line);
        if Mutation::LatePublish.is_planted() {
            self.publish(after);
        }
        true
    }

    /// Finds for each key of a locked line a slot within reach of its new home, the last home's first. Returns false
    /// if a key has none.
    ///
    /// A key whose slot is also within reach of its new home keeps that slot. Another key may get a slot that an
    /// earlier key leaves. So a line's keys need few slots beyond their own, however full the table is.
    fn plan_moves(
        &self,
        lines: u32,
        after: Extent,
        homes: &Range<usize>,
        line: &mut Locked<'_, W, SLOTS>,
        moves: &mut Vec<Move>,
    ) -> bool {
        moves.clear();
        for home in homes.clone().rev() {
            for from in slots(home, line.hops(home % SLOTS)) {
                let (slots_line, in_line) = self.place(from);
                let tag = slots_line.tag(in_line).expect("a slot that is named is filled");
                let new = self.plan.home(self.plan.hash(home, tag, lines), after);
                let reach = new..new + W::REACH;
                let own = if reach.contains(&from) {
                    Some(from)
                } else if new < homes.end + W::REACH {
                    let left = moves.iter().map(|m| m.from).filter(|slot| reach.contains(slot));
                    left.filter(|&slot| !is_to(moves, slot)).min()
                } else {
                    None
                };
                let to = own.or_else(|| self.take_near(new, tag, line, homes.end));
                let Some(to) = to else { return false };
                moves.push(Move { from, home: new, to, tag });
            }
        }
        true
    }

    /// Enters the copies in the hop words of their new homes.
    fn enter_copies(&self, moves: &[Move], held_homes: &Range<usize>, held: &Locked<'_, W, SLOTS>) {
        let mut there: Option<(usize, Locked<'_, W, SLOTS>)> = None;
        for m in moves {
            let (slots_line, in_line) = self.place(m.to);
            slots_line.fill(in_line, m.tag, self.location(m.from));
            let (bit, number) = (1 << (m.to - m.home), m.home / SLOTS);
            if held_homes.contains(&m.home) {
                held.flip(m.home % SLOTS, bit);
                continue;
            }
            if there.as_ref().is_none_or(|(locked, _)| *locked != number) {
                drop(there.take());
                there = Some((number, self.lines.get(number).lock()));
            }
            if let Some((_, line)) = &there {
                line.flip(m.home % SLOTS, bit);
            }
        }
    }

    /// The load at which a growth begins, which is also the load of a full table of the largest size. During a
    /// growth, the inserts fill one slot in one of every eight lines.
    pub(super) const START_PERCENT: usize =
        Self::LOAD_PERCENT - 100 / (SLOTS * LINES_AN_INSERT) - 1;

    /// Prefetches the line that is moved a few lines later, and the line to which its keys go.
    fn prefetch_before(&self, number: usize, extent: Extent) {
        let soon = number.saturating_sub(LINES_AN_INSERT);
        prefetch(self.lines.get(soon));
        let (from, to) = (extent.lines as usize, self.plan.grown(extent.lines) as usize);
        prefetch(self.lines.get(soon * to / from));
    }

    fn free(&self, slot: usize) {
        let (line, in_line) = self.place(slot);
        line.free(in_line);
    }

    fn publish(&self, extent: Extent) {
        self.extent.0.store(extent.to_word(), Release);
    }
}

/// Whether a key of the line moves to this slot, or stays in it.
fn is_to(moves: &[Move], slot: usize) -> bool {
    moves.iter().any(|m| m.to == slot)
}

/// Whether a key of the line is in this slot before it moves.
fn is_from(moves: &[Move], slot: usize) -> bool {
    moves.iter().any(|m| m.from == slot)
}

/// The load below which no room means that hashes collide, not that the table is small.
const CROWDED_PERCENT: usize = 50;
/// Lines moved by each insert during a growth.
const LINES_AN_INSERT: usize = 8;
/// The share of all lines that may be owed: one in this many. The inserts that owe it fill 1/512 of a slot per line.
const OWED_SHARE: usize = 64;
/// Lines moved at once, which takes 0.1 ms. An insert that finds no slot moves this many per try, for [`TRIES`]
/// tries.
const LINES_AT_ONCE: usize = 512;
const TRIES: u32 = 4;
