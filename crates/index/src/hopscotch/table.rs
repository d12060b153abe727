//! The table itself: its parts, and how a reader looks a key up.

use super::address::{Extent, Plan};
use super::line::{Hop, Hop32, Hop64, Line};
use crate::count::Count;
use crate::mapping::{Zeroed, prefetch};
use crate::sync::{Acquire, AtomicBool, AtomicU64, AtomicUsize, Backoff, Mutation, Padded};
use crate::{Hash, Index as _, Location};

/// The hopscotch table with H = 32, as published. See the head of `hopscotch.rs`.
pub type Hopscotch = HopscotchTable<Hop32, 6>;

/// The hopscotch table with H = 64, which can be filled further.
pub type Hopscotch64 = HopscotchTable<Hop64, 4>;

/// A hopscotch table with hop words of type `W`, of which `SLOTS` fit in a line: [`Hopscotch`] or [`Hopscotch64`].
pub struct HopscotchTable<W: Hop, const SLOTS: usize> {
    pub(super) lines: Zeroed<Line<W, SLOTS>>,
    pub(super) plan: Plan,
    /// Aligned to its own cache line: every lookup reads it.
    pub(super) extent: Padded<AtomicU64>,
    pub(super) count: Count,
    /// The lock of moving lines.
    pub(super) is_moving: Padded<AtomicBool>,
    /// Lines that inserts should have moved while another thread was moving lines.
    pub(super) owed: Padded<AtomicUsize>,
}

impl<W: Hop, const SLOTS: usize> HopscotchTable<W, SLOTS> {
    /// Makes a table that starts small and may grow until it holds at least `items_max` keys.
    ///
    /// It starts with about 1/500 of the slots needed for these. It reserves address space for all of them; memory is
    /// taken as the table grows.
    ///
    /// # Panics
    /// If the address space can't be reserved.
    #[must_use]
    pub fn with_max(items_max: usize) -> Self {
        Self::with_room(items_max, 0)
    }

    /// Like [`HopscotchTable::with_max`], with about `slots` slots from the start, as far as the maximum allows.
    pub(crate) fn with_room(items_max: usize, slots: usize) -> Self {
        let plan = Self::plan(items_max.saturating_mul(100).div_ceil(Self::START_PERCENT));
        let wanted = u32::try_from(slots / SLOTS).unwrap_or(u32::MAX).max(LINES_MIN);
        Self::new(plan, plan.lines_min().max(wanted.min(plan.lines_max)))
    }

    /// Makes a table of at least this many slots, which never grows: keys are refused when no displacement helps.
    ///
    /// # Panics
    /// If the address space can't be reserved.
    #[must_use]
    pub fn with_slots(slots: usize) -> Self {
        let plan = Self::plan(slots.saturating_sub(W::REACH));
        Self::new(plan, plan.lines_max)
    }

    pub(super) fn plan(homes: usize) -> Plan {
        let lines = u32::try_from(homes.div_ceil(SLOTS).max(1)).expect("line numbers have 32 bits");
        Plan::new(lines, u32::try_from(SLOTS).expect("a few"))
    }

    pub(super) fn new(plan: Plan, lines: u32) -> Self {
        let extent = Extent { lines, boundary: Extent::IDLE };
        Self {
            lines: Zeroed::reserve(plan.lines_max as usize + Self::TAIL),
            plan,
            extent: Padded(AtomicU64::new(extent.to_word())),
            count: Count::default(),
            is_moving: Padded(AtomicBool::new(false)),
            owed: Padded(AtomicUsize::new(0)),
        }
    }

    /// Tries once to find a key: see invariant 2.
    #[inline(always)]
    pub(super) fn look(&self, hash: Hash, is_key: &mut impl FnMut(Location) -> bool) -> Look {
        let tag = self.plan.tag(hash.0);
        let extent = self.extent();
        let home = self.plan.home(hash.0, extent);
        let (line, in_line) = self.place(home);
        prefetch(self.lines.get(home / SLOTS + 1));
        let early = Mutation::EarlyHops.is_planted().then(|| line.hops(in_line));
        let stamp = line.stamp();
        let hops = early.unwrap_or_else(|| line.hops(in_line));
        for slot in slots(home, hops) {
            let (line, in_line) = self.place(slot);
            if line.tag(in_line) == Some(tag) {
                let at = line.location(in_line);
                if is_key(at) {
                    return Look::Found(if Mutation::HomesItem.is_planted() {
                        self.location(home)
                    } else {
                        at
                    });
                }
            }
        }
        if Mutation::UnvalidatedMiss.is_planted() {
            return Look::Absent;
        }
        let is_unmoved = line.is_unchanged(stamp);
        let now = if Mutation::StaleReader.is_planted() { extent } else { self.extent() };
        let is_there_still = now == extent || self.plan.home(hash.0, now) == home;
        if is_unmoved && is_there_still { Look::Absent } else { Look::Disturbed }
    }

    /// Retries a lookup that was disturbed. As a last resort, it looks the key up under the lock, as a writer does.
    #[cold]
    pub(super) fn get_again(
        &self,
        hash: Hash,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        use crate::Entry as _;
        let mut backoff = Backoff::default();
        for _ in 0..TRIES {
            match self.look(hash, is_key) {
                Look::Found(at) => return Some(at),
                Look::Absent => return None,
                Look::Disturbed => backoff.pause(),
            }
        }
        self.find_entry(hash, is_key).and_then(|entry| entry.location())
    }

    pub(super) fn location(&self, slot: usize) -> Location {
        let (line, in_line) = self.place(slot);
        line.location(in_line)
    }

    /// The line of a home or slot, and its number in the line.
    #[inline(always)]
    pub(super) fn place(&self, slot: usize) -> (&Line<W, SLOTS>, usize) {
        (self.lines.get(slot / SLOTS), slot % SLOTS)
    }

    #[inline]
    pub(super) fn extent(&self) -> Extent {
        Extent::from_word(self.extent.0.load(Acquire))
    }

    /// The number of lines that may hold anything.
    pub(super) fn lines_in_use(&self) -> usize {
        let extent = self.extent();
        let homes = if extent.is_growing() { self.plan.grown(extent.lines) } else { extent.lines };
        homes as usize + Self::TAIL
    }

    /// Lines after the last home, for its keys.
    pub(super) const TAIL: usize = W::REACH.div_ceil(SLOTS);
    /// The highest load, in percent, while the table grows: see the module's head.
    pub(super) const LOAD_PERCENT: usize = if W::REACH < 64 { 69 } else { 84 };
}

/// The slots that a hop word names.
#[inline(always)]
pub(super) fn slots(home: usize, mut hops: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = home + hops.trailing_zeros() as usize;
        let rest = hops & hops.wrapping_sub(1);
        (std::mem::replace(&mut hops, rest) != 0).then_some(slot)
    })
}

/// The outcome of one try of a reader.
pub(super) enum Look {
    Found(Location),
    Absent,
    /// Nothing was found, but meanwhile a key left a home of the line, or the line was locked.
    Disturbed,
}

/// Tries of a reader before it takes the lock.
const TRIES: u32 = if cfg!(loom) { 2 } else { 64 };
/// One entry in this many checks whether growth is due: counting the keys reads 16 cache lines.
pub(super) const LOOKS_EVERY: u64 = 64;
/// With fewer lines than this, each entry checks: by chance a thousand entries may pass without a check, which is 4 %
/// of this.
pub(super) const LINES_WATCHED: u32 = 4096;
/// Lines of a new table, if the maximum allows as many: four pages. Miri, which is slow, starts with fewer, so that
/// growth is tested too.
const LINES_MIN: u32 = if cfg!(miri) { 12 } else { 256 };
