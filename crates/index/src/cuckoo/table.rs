//! The table itself: its parts, how a reader looks a key up, and how a writer locks two buckets.

use super::address::{Probe, Size};
use crate::bucket::{Bucket, Locked, SLOTS, Slots};
use crate::count::Count;
use crate::mapping::Zeroed;
use crate::sync::{Acquire, AtomicU64, Backoff, Baton, Mutation, Padded};
use crate::{Hash, Index as _, Location};
use std::hint::select_unpredictable;

/// See the head of `cuckoo.rs`.
pub struct Cuckoo {
    pub(super) buckets: Zeroed<Bucket>,
    /// Buckets in use. Aligned to its own cache line: every lookup reads it.
    pub(super) size: Padded<AtomicU64>,
    pub(super) count: Count,
    pub(super) is_growing: Padded<Baton>,
}

impl Cuckoo {
    /// Makes a table that starts small and may grow until it holds at least `items_max` keys.
    ///
    /// Reserves 5.7 bytes of address space per key; memory is taken as the table grows.
    ///
    /// # Panics
    /// If the address space can't be reserved.
    #[must_use]
    pub fn with_max(items_max: usize) -> Self {
        Self::with_room(items_max, 0)
    }

    /// Like [`Cuckoo::with_max`], with `slots` slots from the start, as far as the maximum allows.
    pub(crate) fn with_room(items_max: usize, slots: usize) -> Self {
        // Extra slots for small tables: with a few thousand slots, by chance there may be no path though there is
        // room.
        let spare = items_max.isqrt() + 2 * SLOTS;
        let slots_max = items_max.saturating_mul(100).div_ceil(LOAD_PERCENT).saturating_add(spare);
        let max = slots_max.div_ceil(SLOTS).max(BUCKETS_MIN as usize);
        let start = slots.div_ceil(SLOTS).clamp(BUCKETS_MIN as usize, max);
        Self::with_buckets(u32::try_from(start).expect("positions have 32 bits"), max)
    }

    /// Makes a table of `start` buckets that may grow to `max`.
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

    /// Tries once to find a key: see invariant 2.
    #[inline(always)]
    pub(super) fn look(&self, probe: Probe, is_key: &mut impl FnMut(Location) -> bool) -> Look {
        let size = self.size();
        let addresses = size.addresses(probe);
        let buckets @ [first, second] = addresses.map(|address| self.bucket(address));
        // Both are read before any branch, so that the two cache lines are fetched in parallel.
        let tags = Bucket::tags_of_both(buckets);
        for (slot, is_second) in Slots::of_both(tags.map(|tags| tags.matching(probe.tag))) {
            // Which of the two is random, so it is selected without a branch: a misprediction costs more than the
            // lookup.
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

    /// Retries a lookup that was disturbed. As a last resort, it looks the key up under the locks, as a writer does.
    #[cold]
    pub(super) fn get_again(
        &self,
        hash: Hash,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<Location> {
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

    /// Locks two buckets, the lower address first (invariant 4). Returns them in the order of the arguments.
    pub(super) fn lock_both(&self, one: u32, two: u32) -> (Locked<'_>, Locked<'_>) {
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
    pub(super) fn bucket(&self, address: u32) -> &Bucket {
        self.buckets.get(address as usize)
    }

    #[inline]
    pub(super) fn size(&self) -> Size {
        Size::from_word(self.size.0.load(Acquire))
    }
}

/// The outcome of one try of a reader.
pub(super) enum Look {
    Found(Location),
    Absent,
    /// Nothing was found, but something was moved or removed meanwhile.
    Disturbed,
}

/// Tries of a reader before it takes the locks.
const TRIES: u32 = if cfg!(loom) { 2 } else { 64 };
/// Buckets of a new table: a page. Miri, which is slow, starts with fewer, so that growth is tested too.
const BUCKETS_MIN: u32 = if cfg!(any(miri, loom)) { 2 } else { 64 };
/// The table grows when an insert finds both its buckets full and more than this share of all slots is in use. Twelve
/// slots in either of two buckets would reach 99 %, at a cost that rises steeply from here.
pub(super) const LOAD_PERCENT: usize = 95;
