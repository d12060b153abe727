//! Concurrent hopscotch table: a key is within H slots of its home, and the home's hop word says in which.
//!
//! Hopscotch hashing (Herlihy, Shavit, Tzafrir 2008) as Dharmapuram et al. put it to use in memcached, sections 3 and 6.
//! Ours differs in: several writers, a lock for each line of homes; one version guards a key, not three; 15-bit tags;
//! growth in place, by an eighth at a time, while everybody goes on.
//!
//! # Layout
//! ```text
//! reserved | line 0 | line 1 | ... | line n-1 | H slots without homes | untouched zero pages ... |
//! line     | version | hop words of 6 homes | 6 locations | 6 tags |     (H = 64: 4 of each)
//! ```
//! # Invariants
//! 1. Bit d of home h's word is set if and only if slot h + d holds a key whose home is h. A filled slot has one such
//!    bit. Hop words change under the lock of the home's line.
//! 2. To find a key takes its home's hop word and the slots that it names. A key that leaves a slot does so under that
//!    lock, which then advances the version. So a miss stands if the home's line was not locked, its version is as it
//!    was, and the home is still the key's.
//! 3. A displaced key is in its new slot before one store to the hop word changes the bits, and in its old slot
//!    until the displacer uses that.
//! 4. A line's keys move to their homes in the larger table like so: copies are entered; the new boundary is published;
//!    the old are cleared and the line is unlocked. So whoever saw that they had left sees the boundary too, and
//!    whoever holds a line's lock knows which positions are its own.
//! 5. Who waits for a line's lock while holding another waits for one of higher number, and nobody who holds a line's
//!    lock waits for growth. So there is no deadlock.
//!
//! # Costs
//! get: the home's line and the next, which are fetched together, and the item; no store. 10.7 bytes a slot, so 15.5 to
//! 17.5 bytes a key while it grows; H = 64 takes 16 bytes a slot, 19 to 21.5 a key. While a growth is under way, one
//! insert in six, each insert also moves eight lines' keys: two microseconds.
//! Load: growth begins at 66 % (H = 64: 80 %) and ends before 69 % (84 %); a table of the largest size is 66 % (80 %) full
//! with as many keys as it was made for. Up to there no key of a well mixed hash is refused: `tests/room.rs`. Beyond, more
//! keys than slots come together by chance now and then: at 72 % in one table of 100 000 keys in a thousand.
//! Bad at: memory, beside [`Cuckoo`](crate::Cuckoo); more than H keys with equal hashes ([`Full`]).

mod entry;
mod grow;
mod address;
mod room;
mod validate;
mod line;

pub use entry::HopscotchEntry;
pub(crate) use line::{Hop, Line};
use line::{Hop32, Hop64};

use crate::count::Count;
use crate::memory::{Zeroed, prefetch};
use crate::sync::{Acquire, AtomicBool, AtomicU64, AtomicUsize, Backoff, Mutation, Padded};
use crate::{Broken, Full, Hash, Index, Items, Location};
use address::{Extent, Plan};

/// The hopscotch table with H = 32, as published. See the module's head.
pub type Hopscotch = HopscotchTable<Hop32, 6>;

/// The hopscotch table with H = 64, which fills further.
pub type Hopscotch64 = HopscotchTable<Hop64, 4>;

/// A hopscotch table with hop words of type `W`, of which `SLOTS` fit in a line: [`Hopscotch`] or [`Hopscotch64`].
pub struct HopscotchTable<W: Hop, const SLOTS: usize> {
    lines: Zeroed<Line<W, SLOTS>>,
    plan: Plan,
    /// In a line of its own: every look-up reads it.
    extent: Padded<AtomicU64>,
    count: Count,
    /// The lock of who moves lines.
    is_moving: Padded<AtomicBool>,
    /// Lines that inserts should have moved while another thread was at it.
    owed: Padded<AtomicUsize>,
}

impl<W: Hop, const SLOTS: usize> HopscotchTable<W, SLOTS> {
    /// A table that starts small and may grow until it holds at least `items_max` keys.
    ///
    /// Starts with about 1/500 of the slots that takes. Reserves address space for all; memory is taken as it grows.
    ///
    /// # Panics
    /// If the address space cannot be had.
    #[must_use]
    pub fn with_max(items_max: usize) -> Self {
        Self::with_room(items_max, 0)
    }

    /// As [`HopscotchTable::with_max`], with about `slots` slots from the start if it may have so many.
    pub(crate) fn with_room(items_max: usize, slots: usize) -> Self {
        let plan = Self::plan(items_max.saturating_mul(100).div_ceil(Self::START_PERCENT));
        let wanted = u32::try_from(slots / SLOTS).unwrap_or(u32::MAX).max(LINES_MIN);
        Self::new(plan, plan.lines_min().max(wanted.min(plan.lines_max)))
    }

    /// A table of at least this many slots, which never grows: keys are refused when no displacement helps.
    ///
    /// # Panics
    /// If the address space cannot be had.
    #[must_use]
    pub fn with_slots(slots: usize) -> Self {
        let plan = Self::plan(slots.saturating_sub(W::REACH));
        Self::new(plan, plan.lines_max)
    }

    fn plan(homes: usize) -> Plan {
        let lines = u32::try_from(homes.div_ceil(SLOTS).max(1)).expect("line numbers have 32 bits");
        Plan::new(lines, u32::try_from(SLOTS).expect("a few"))
    }

    fn new(plan: Plan, lines: u32) -> Self {
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

    /// One try to find a key: see invariant 2.
    #[inline(always)]
    fn look(&self, hash: Hash, is_key: &mut impl FnMut(Location) -> bool) -> Look {
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

    /// A reader that was disturbed: tries again, and as last resort does it as a writer would, without a change.
    #[cold]
    fn get_again(&self, hash: Hash, is_key: &mut impl FnMut(Location) -> bool) -> Option<Location> {
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

    fn location(&self, slot: usize) -> Location {
        let (line, in_line) = self.place(slot);
        line.location(in_line)
    }

    /// The line of a home or slot, and its number there.
    #[inline(always)]
    fn place(&self, slot: usize) -> (&Line<W, SLOTS>, usize) {
        (self.lines.get(slot / SLOTS), slot % SLOTS)
    }

    #[inline]
    fn extent(&self) -> Extent {
        Extent::from_word(self.extent.0.load(Acquire))
    }

    /// Lines that may have something in them.
    fn lines_in_use(&self) -> usize {
        let extent = self.extent();
        let homes = if extent.is_growing() { self.plan.grown(extent.lines) } else { extent.lines };
        homes as usize + Self::TAIL
    }

    /// Lines after the last home, for its keys.
    const TAIL: usize = W::REACH.div_ceil(SLOTS);
    /// While it grows, the table is at most so full: see the module's head.
    const LOAD_PERCENT: usize = if W::REACH < 64 { 69 } else { 84 };
}

/// The slots that a hop word names.
#[inline(always)]
fn slots(home: usize, mut hops: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = home + hops.trailing_zeros() as usize;
        let rest = hops & hops.wrapping_sub(1);
        (std::mem::replace(&mut hops, rest) != 0).then_some(slot)
    })
}

impl<W: Hop, const SLOTS: usize> Index for HopscotchTable<W, SLOTS> {
    type Entry<'a>
        = HopscotchEntry<'a, W, SLOTS>
    where
        Self: 'a;

    #[inline]
    fn get(&self, hash: Hash, mut is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        match self.look(hash, &mut is_key) {
            Look::Found(at) => Some(at),
            Look::Absent => None,
            Look::Disturbed => self.get_again(hash, &mut is_key),
        }
    }

    #[inline]
    fn prefetch(&self, hash: Hash) {
        let line = self.plan.home(hash.0, self.extent()) / SLOTS;
        prefetch(self.lines.get(line));
        prefetch(self.lines.get(line + 1));
    }

    #[inline]
    fn candidate(&self, hash: Hash) -> Option<Location> {
        let tag = self.plan.tag(hash.0);
        let home = self.plan.home(hash.0, self.extent());
        let (line, in_line) = self.place(home);
        slots(home, line.hops(in_line)).find_map(|slot| {
            let (line, in_line) = self.place(slot);
            (line.tag(in_line) == Some(tag)).then(|| line.location(in_line))
        })
    }

    fn entry(
        &self,
        hash: Hash,
        _: &impl Items,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Result<HopscotchEntry<'_, W, SLOTS>, Full> {
        let extent = self.extent();
        if extent.is_growing() {
            self.help_growth();
        } else if extent.lines < LINES_WATCHED || hash.0.is_multiple_of(LOOKS_EVERY) {
            self.start_growth_if_loaded();
        }
        let mut tries = 0;
        loop {
            if let Some(entry) = self.lock_entry(hash, &mut is_key) {
                return Ok(entry);
            }
            self.make_room(tries)?;
            tries += 1;
        }
    }

    fn find_entry(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<HopscotchEntry<'_, W, SLOTS>> {
        let (home, line) = self.lock_home(hash);
        let (slot, at) = self.find(home, &line, self.plan.tag(hash.0), &mut is_key)?;
        Some(self.present(home, line, slot, at))
    }

    fn touch_ahead(&self, items: usize) {
        self.touch_lines_ahead(items);
    }

    fn maintain(&self, _: &impl Items, budget: usize) -> bool {
        self.grow(budget)
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        self.check(items)
    }

    fn len(&self) -> usize {
        self.count.sum()
    }

    fn capacity(&self) -> usize {
        self.lines_in_use() * SLOTS
    }

    fn bytes(&self) -> usize {
        self.lines_in_use() * size_of::<Line<W, SLOTS>>() + size_of::<Self>()
    }
}

impl<W: Hop, const SLOTS: usize> std::fmt::Debug for HopscotchTable<W, SLOTS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hopscotch")
            .field("reach", &W::REACH)
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("lines_max", &self.plan.lines_max)
            .finish()
    }
}

/// What one try of a reader came to.
enum Look {
    Found(Location),
    Absent,
    /// Nothing found, but a key left a home of the line, or the line was locked, meanwhile.
    Disturbed,
}

/// Tries of a reader before it takes the lock.
const TRIES: u32 = if cfg!(loom) { 2 } else { 64 };
/// One entry in so many looks whether it is time to grow: to count the keys takes a look at 16 lines.
const LOOKS_EVERY: u64 = 64;
/// In a table of fewer lines each entry looks: chance may let a thousand pass that don't, which is 4 % of this.
const LINES_WATCHED: u32 = 4096;
/// Lines of a new table, if so many are allowed: four pages. Miri, which is slow, begins with fewer so as to see growth.
const LINES_MIN: u32 = if cfg!(miri) { 12 } else { 256 };

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
