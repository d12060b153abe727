//! Optimistic concurrent cuckoo table: twelve slots in either of two buckets, readers without locks.
//!
//! MemC3 (Fan, Andersen, Kaminsky, NSDI 2013), section 3. Ours differs in: twelve slots a bucket, one line with the
//! version in it; several writers, each locking at most two buckets at a time; breadth-first paths, found without
//! locks (Li et al. 2014); growth by one bucket at a time, in place.
//!
//! # Layout
//! ```text
//! reserved | bucket 0 | bucket 1 | ... | bucket size-1 | untouched zero pages ... | bucket max-1 |
//! ```
//! # Invariants
//! 1. A present key is at every instant in one of its two buckets: a move writes the target, then clears the source.
//!    Twice only while both are locked.
//! 2. A move and a split lock both buckets and advance the version of the one that keys leave. A reader takes both
//!    stamps first. If it missed a key that moved, it read the source after the key had left, so it finds that version
//!    changed; unless it had stamped the source after the move, and then it finds the key in the target. So a miss
//!    stands if neither bucket was locked, both versions are as they were, and both addresses are.
//! 3. `size` is published before a split unlocks the old bucket. So whoever saw the bucket without the keys that
//!    left it sees the new size too, and whoever holds a bucket's lock knows which positions are its own.
//! 4. Writers that wait for a bucket while they hold another wait for one of higher address only; and nobody
//!    waits for growth. So there is no deadlock.
//!
//! # Costs
//! get: two bucket lines, which arrive together, and the item's; no store. Disturbed 64 times it takes the locks, but a
//! hit is never disturbed. One look-up of an absent key in 22 reads an item in vain. insert while growing: 0.9 moves
//! and a twelfth of a split; into a table with free slots, none. 5.61 bytes a key while it grows (load 95 %), 5.4 once
//! it may not grow further.
//! Bad at: more than 24 keys with equal tag and buckets (see [`Full`]), of which each that is refused may split eight
//! buckets in vain; shrinking (it doesn't).

mod entry;
mod grow;
mod path;
mod validate;
mod address;

pub use entry::CuckooEntry;

use crate::bucket::{Bucket, Locked, SLOTS, Slots};
use crate::count::Count;
use crate::memory::{Zeroed, prefetch};
use crate::sync::{Acquire, AtomicU64, Backoff, Baton, Mutation, Padded};
use crate::{Broken, Full, Hash, Index, Items, Location};
use address::{Probe, Size};
use std::hint::select_unpredictable;

/// See the module's head.
pub struct Cuckoo {
    buckets: Zeroed<Bucket>,
    /// Buckets in use. In a line of its own: every look-up reads it.
    size: Padded<AtomicU64>,
    count: Count,
    is_growing: Padded<Baton>,
}

impl Cuckoo {
    /// A table that starts small and may grow until it holds at least `items_max` keys.
    ///
    /// Reserves 5.7 bytes of address space a key; memory is taken as it grows.
    ///
    /// # Panics
    /// If the address space cannot be had.
    #[must_use]
    pub fn with_max(items_max: usize) -> Self {
        Self::with_room(items_max, 0)
    }

    /// As [`Cuckoo::with_max`], with `slots` slots from the start if it may have so many.
    pub(crate) fn with_room(items_max: usize, slots: usize) -> Self {
        // Small tables differ: in a few thousand slots, chance may leave no path though there is room.
        let spare = items_max.isqrt() + 2 * SLOTS;
        let slots_max = items_max.saturating_mul(100).div_ceil(LOAD_PERCENT).saturating_add(spare);
        let max = slots_max.div_ceil(SLOTS).max(BUCKETS_MIN as usize);
        let start = slots.div_ceil(SLOTS).clamp(BUCKETS_MIN as usize, max);
        Self::with_buckets(u32::try_from(start).expect("positions have 32 bits"), max)
    }

    /// A table of `start` buckets that may become `max`.
    pub(crate) fn with_buckets(start: u32, max: usize) -> Self {
        assert!(start >= 2, "a key needs two buckets that differ");
        assert!(max <= 1 << 31, "positions have 32 bits");
        Self {
            buckets: Zeroed::reserve(max),
            size: Padded(AtomicU64::new(Size::new(start).to_word())),
            count: Count::default(),
            is_growing: Padded(Baton::default()),
        }
    }

    /// One try to find a key: see invariant 2.
    #[inline(always)]
    fn look(&self, probe: Probe, is_key: &mut impl FnMut(Location) -> bool) -> Look {
        let size = self.size();
        let addresses = size.addresses(probe);
        let buckets @ [first, second] = addresses.map(|address| self.bucket(address));
        // Both are read before any branch, so that the two lines arrive together.
        let tags = Bucket::tags_of_both(buckets);
        for (slot, is_second) in Slots::of_both(tags.map(|tags| tags.matching(probe.tag))) {
            // Which of the two is a coin toss, so not a branch: to guess wrong costs more than the look-up.
            let at = select_unpredictable(is_second, second, first).location(slot);
            if is_key(at) {
                return Look::Found(at);
            }
        }
        if Mutation::UnvalidatedMiss.is_planted() {
            return Look::Absent;
        }
        let is_unmoved = first.is_unchanged(tags[0]) && second.is_unchanged(tags[1]);
        let now = if Mutation::StaleReader.is_planted() { size } else { self.size() };
        let is_there_still = now == size || now.addresses(probe) == addresses;
        if is_unmoved && is_there_still { Look::Absent } else { Look::Disturbed }
    }

    /// A reader that was disturbed: tries again, and as last resort does it as a writer would, without a change.
    #[cold]
    fn get_again(&self, hash: Hash, is_key: &mut impl FnMut(Location) -> bool) -> Option<Location> {
        use crate::Entry as _;
        let mut backoff = Backoff::default();
        for _ in 0..TRIES {
            match self.look(Probe::new(hash), is_key) {
                Look::Found(at) => return Some(at),
                Look::Absent => return None,
                Look::Disturbed => backoff.pause(),
            }
        }
        self.find_entry(hash, is_key).and_then(|entry| entry.location())
    }

    /// Locks two buckets, the lower address first (invariant 4); returns them in the order asked for.
    fn lock_both(&self, one: u32, two: u32) -> (Locked<'_>, Locked<'_>) {
        debug_assert_ne!(one, two, "a bucket is locked once");
        if one < two {
            let first = self.bucket(one).lock();
            (first, self.bucket(two).lock())
        } else {
            let second = self.bucket(two).lock();
            (self.bucket(one).lock(), second)
        }
    }

    #[inline]
    fn bucket(&self, address: u32) -> &Bucket {
        self.buckets.get(address as usize)
    }

    #[inline]
    fn size(&self) -> Size {
        Size::from_word(self.size.0.load(Acquire))
    }
}

impl Index for Cuckoo {
    type Entry<'a> = CuckooEntry<'a>;

    #[inline]
    fn get(&self, hash: Hash, mut is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        match self.look(Probe::new(hash), &mut is_key) {
            Look::Found(at) => Some(at),
            Look::Absent => None,
            Look::Disturbed => self.get_again(hash, &mut is_key),
        }
    }

    #[inline]
    fn prefetch(&self, hash: Hash) {
        let (probe, size) = (Probe::new(hash), self.size());
        prefetch(self.bucket(size.address(probe.first)));
        prefetch(self.bucket(size.address(probe.second)));
    }

    #[inline]
    fn candidate(&self, hash: Hash) -> Option<Location> {
        let (probe, size) = (Probe::new(hash), self.size());
        let likely = |position| {
            let bucket = self.bucket(size.address(position));
            bucket.tags().matching(probe.tag).first().map(|slot| bucket.location(slot))
        };
        likely(probe.first).or_else(|| likely(probe.second))
    }

    #[inline]
    fn entry(
        &self,
        hash: Hash,
        items: &impl Items,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Result<CuckooEntry<'_>, Full> {
        let mut splits_left = grow::SPLITS_AN_INSERT;
        loop {
            let (size, entry) = self.lock_entry(hash, &mut is_key);
            match entry {
                Some(entry) => return Ok(entry),
                None => self.make_room(hash, size, &mut splits_left, items)?,
            }
        }
    }

    /// One line while the first bucket has room: nobody looks for the key in the second.
    #[inline]
    fn enter_absent(&self, hash: Hash, at: Location, items: &impl Items) -> Result<(), Full> {
        use crate::Entry as _;
        if self.enter_first(Probe::new(hash), at) {
            return Ok(());
        }
        self.entry(hash, items, |_| false)?.put(at);
        Ok(())
    }

    #[inline]
    fn prefetch_absent(&self, hash: Hash) {
        prefetch(self.bucket(self.size().address(Probe::new(hash).first)));
    }

    fn find_entry(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(Location) -> bool,
    ) -> Option<CuckooEntry<'_>> {
        use crate::Entry as _;
        let (_, entry) = self.lock_entry(hash, &mut is_key);
        entry.filter(|entry| entry.location().is_some())
    }

    fn touch_ahead(&self, items: usize) {
        self.buckets.prepare(self.size().buckets() as usize, items.div_ceil(SLOTS));
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        self.check(items)
    }

    fn len(&self) -> usize {
        self.count.sum()
    }

    fn capacity(&self) -> usize {
        self.size().buckets() as usize * SLOTS
    }

    fn bytes(&self) -> usize {
        self.size().buckets() as usize * size_of::<Bucket>() + size_of::<Self>()
    }
}

impl std::fmt::Debug for Cuckoo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuckoo")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("buckets_max", &self.buckets.len())
            .finish()
    }
}

/// What one try of a reader came to.
enum Look {
    Found(Location),
    Absent,
    /// Nothing found, but something moved or was removed meanwhile.
    Disturbed,
}

/// Tries of a reader before it takes the locks.
const TRIES: u32 = if cfg!(loom) { 2 } else { 64 };
/// Buckets of a new table: a page. Miri, which is slow, begins with fewer so as to see growth too.
const BUCKETS_MIN: u32 = if cfg!(any(miri, loom)) { 2 } else { 64 };
/// The table grows when an insert finds both its buckets full and more than this share of all slots in use. Twelve
/// slots in either of two buckets would reach 99 %, at a price that rises steeply from here.
const LOAD_PERCENT: usize = 95;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
