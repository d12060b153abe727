//! Room near a home: takes the first free slot after it, and brings the slot within reach by displacing keys.

use super::line::{Hop, Locked, Tag};
use super::table::HopscotchTable;
use crate::sync::Mutation;

impl<W: Hop, const SLOTS: usize> HopscotchTable<W, SLOTS> {
    /// Takes a slot within reach of `home`. Returns `None` if there is none and no displacement helps.
    ///
    /// The caller holds the lock of the line `held`; this waits only for the locks of higher lines. Keys of homes
    /// before `lowest` stay where they are.
    #[inline]
    pub(super) fn take_near(
        &self,
        home: usize,
        tag: Tag,
        held: &mut Locked<'_, W, SLOTS>,
        lowest: usize,
    ) -> Option<usize> {
        let slot = self.take_first(home, tag)?;
        if slot - home < W::REACH { Some(slot) } else { self.bring_near(home, slot, held, lowest) }
    }

    /// Linear probing.
    #[inline]
    fn take_first(&self, home: usize, tag: Tag) -> Option<usize> {
        let end = (home + PROBES_MAX).min(self.lines.len() * SLOTS);
        (home..end).find(|&slot| {
            let (line, in_line) = self.place(slot);
            line.take(in_line, tag)
        })
    }

    /// Exchanges a taken slot beyond reach for one within reach.
    #[cold]
    fn bring_near(
        &self,
        home: usize,
        mut slot: usize,
        held: &mut Locked<'_, W, SLOTS>,
        lowest: usize,
    ) -> Option<usize> {
        while slot - home >= W::REACH {
            let Some(nearer) = self.displace_into(slot, held, lowest) else {
                let (line, in_line) = self.place(slot);
                line.free(in_line);
                return None;
            };
            slot = nearer;
        }
        Some(slot)
    }

    /// Moves a key from an earlier slot, as far back as possible, into the taken slot `free`. Returns the earlier
    /// slot, which is now taken instead.
    fn displace_into(
        &self,
        free: usize,
        held: &mut Locked<'_, W, SLOTS>,
        lowest: usize,
    ) -> Option<usize> {
        let farthest = (free + 1).saturating_sub(W::REACH).max(lowest);
        (farthest..free).find_map(|home| {
            let (line, in_line) = self.place(home);
            let seen = before(line.hops(in_line), free - home);
            if seen == 0 {
                None
            } else if std::ptr::eq(line, &raw const **held) {
                self.move_first(home, free, held, seen)
            } else {
                self.move_first(home, free, &mut line.lock(), seen)
            }
        })
    }

    /// Moves the first key of a home into the taken slot `free`, if the key is in an earlier slot. The home's line is
    /// locked.
    fn move_first(
        &self,
        home: usize,
        free: usize,
        line: &mut Locked<'_, W, SLOTS>,
        seen: u64,
    ) -> Option<usize> {
        let now = before(line.hops(home % SLOTS), free - home);
        let bits = if Mutation::BlindMove.is_planted() { seen } else { now };
        let slot = (bits != 0).then(|| home + bits.trailing_zeros() as usize)?;
        let ((from, from_in_line), (to, to_in_line)) = (self.place(slot), self.place(free));
        let (leaving, coming) = (1 << (slot - home), 1 << (free - home));
        let (tag, at) = (from.tag(from_in_line)?, from.location(from_in_line));
        if Mutation::ClearFirst.is_planted() {
            // The source is cleared in one locked step and the destination written in another.
            line.flip(home % SLOTS, leaving);
            line.advance();
            line.relock();
            to.fill(to_in_line, tag, at);
            line.flip(home % SLOTS, coming);
            return Some(slot);
        }
        to.fill(to_in_line, tag, at);
        line.flip(home % SLOTS, leaving | coming);
        if !Mutation::StillMove.is_planted() {
            line.advance();
        }
        Some(slot)
    }
}

/// The bits of a hop word for slots less than `distance` from home.
fn before(hops: u64, distance: usize) -> u64 {
    hops & ((1 << distance) - 1)
}

/// How far from its home a free slot is searched. At the loads at which a table grows, it is a few slots away.
const PROBES_MAX: usize = 4096;
