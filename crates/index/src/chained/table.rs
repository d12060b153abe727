//! The table itself: what it consists of, how a reader looks for a key, how a writer locks its bucket.

use super::extent::{Extent, Home};
use super::link::{ChainLink, Locked, SLOTS, Tag, Word};
use super::lock::{BucketLock, Tas};
use super::pool::LinkPool;
use crate::count::Count;
use crate::mapping::Zeroed;
use crate::sync::{Acquire, AtomicU64, Backoff, Baton, Mutation, Padded};
use crate::{Entry as _, Hash, Index as _, Location};

/// See the head of `chained.rs`. `L` is how buckets are locked; [`Tas`] unless that is to be measured.
pub struct Chained<L: BucketLock = Tas> {
    pub(super) buckets: Zeroed<ChainLink>,
    /// How far the table has grown. In a line of its own: every look-up reads it.
    pub(super) extent: Padded<AtomicU64>,
    pub(super) pool: LinkPool,
    pub(super) count: Count,
    /// How often the version of any bucket has wrapped: invariant 2.
    pub(super) wraps: Padded<AtomicU64>,
    pub(super) is_growing: Padded<Baton>,
    pub(super) lock: L,
}

impl Chained {
    /// A table that starts small and may grow until it holds at least `items_max` keys.
    ///
    /// Reserves 24 bytes of address space a key; memory is taken as it grows.
    ///
    /// # Panics
    /// If the address space cannot be had.
    #[must_use]
    pub fn with_max(items_max: usize) -> Self {
        Self::with_lock(items_max)
    }

    /// As [`Chained::with_max`], with a quarter of `slots` slots from the start, or more.
    pub(crate) fn with_room(items_max: usize, slots: usize) -> Self {
        let max = Self::buckets_max(items_max);
        let wanted = (slots / SLOTS).clamp(BUCKETS_MIN as usize, max);
        // Rounds of growth come in pairs: a table begins with a power of four (extent.rs).
        Self::with_buckets(1 << (wanted.ilog2() & !1), max, items_max)
    }
}

impl<L: BucketLock> Chained<L> {
    /// As [`Chained::with_max`], with another lock.
    #[must_use]
    pub fn with_lock(items_max: usize) -> Self {
        Self::with_buckets(BUCKETS_MIN, Self::buckets_max(items_max), items_max)
    }

    fn buckets_max(items_max: usize) -> usize {
        let slots = items_max.saturating_mul(100).div_ceil(LOAD_PERCENT);
        slots.div_ceil(SLOTS).clamp(BUCKETS_MIN as usize, 1 << 31)
    }

    /// A table of `start` buckets that may become `max`, with so many links beside them.
    ///
    /// As many links as keys are enough whatever the hashes, since a link in a chain holds a key at least.
    pub(crate) fn with_buckets(start: u32, max: usize, links: usize) -> Self {
        Self {
            buckets: Zeroed::reserve(max),
            extent: Padded(AtomicU64::new(Extent::new(start).to_word())),
            pool: LinkPool::new(links.saturating_add(LINKS_SPARE).min(u32::MAX as usize - 1)),
            count: Count::default(),
            wraps: Padded(AtomicU64::new(0)),
            is_growing: Padded(Baton::default()),
            lock: L::for_buckets(max),
        }
    }

    /// One try to find a key: see invariant 2.
    #[inline(always)]
    pub(super) fn look(&self, probe: Probe, is_key: &mut impl FnMut(Location) -> bool) -> Look {
        let extent = self.extent();
        let Some((bucket, word)) = self.home(extent, probe) else { return Look::Disturbed };
        for slot in word.matching(probe.tag) {
            let at = bucket.location(slot);
            if is_key(at) {
                return Look::Found(at);
            }
        }
        if word.next() != 0 {
            return self.look_in_links(probe, extent, (bucket, word), is_key);
        }
        self.missed(self.is_unchanged(bucket, word), extent)
    }

    /// Goes on behind a bucket, in the links that its word leads to. By itself, since most keys are in their buckets: a
    /// get of such a one keeps nothing for the links.
    #[inline(always)]
    fn look_in_links(
        &self,
        probe: Probe,
        extent: Extent,
        (bucket, word): (&ChainLink, Word),
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Look {
        let wraps = self.wraps.0.load(Acquire);
        let (mut next, mut steps) = (word.next(), 0_u32);
        while next != 0 {
            let is_due = steps.is_multiple_of(STEPS_BETWEEN_CHECKS);
            if is_due && bucket.word() != word && !Mutation::EarlyWord.is_planted() {
                return Look::Disturbed;
            }
            let link = self.pool.link(next);
            let now = link.word();
            for slot in now.matching(probe.tag) {
                let at = link.location(slot);
                if is_key(at) {
                    return Look::Found(at);
                }
            }
            next = now.next();
            steps += 1;
        }
        // The word first: whoever finds it as it was since its version has wrapped sees that in the count.
        let is_unchanged = self.is_unchanged(bucket, word) && self.wraps.0.load(Acquire) == wraps;
        self.missed(is_unchanged, extent)
    }

    /// Whether a bucket wasn't locked when its word was read, and has that word still.
    #[inline(always)]
    fn is_unchanged(&self, bucket: &ChainLink, word: Word) -> bool {
        let was_free = !word.is_locked() || Mutation::OneIncrement.is_planted();
        was_free && bucket.word() == word
    }

    /// What it means not to have found a key.
    #[inline(always)]
    fn missed(&self, is_unchanged: bool, extent: Extent) -> Look {
        if Mutation::UnvalidatedMiss.is_planted() || is_unchanged && self.is_round_of(extent) {
            Look::Absent
        } else {
            Look::Disturbed
        }
    }

    /// The bucket of a key and its word; `None` if the table has grown a round since `extent` was read.
    #[inline(always)]
    pub(super) fn home(&self, extent: Extent, probe: Probe) -> Option<(&ChainLink, Word)> {
        let read = |home: Home| {
            let bucket = self.bucket(home.address());
            let word = bucket.word();
            let is_of = word.is_odd() == home.is_odd();
            (is_of || Mutation::StaleReader.is_planted()).then_some((bucket, word))
        };
        // Split, but not yet published: it has moved.
        read(extent.home(probe.position)).or_else(|| read(extent.home_after_split(probe.position)))
    }

    /// A reader that was disturbed: tries again, and as last resort does it as a writer would, without a change.
    #[cold]
    pub(super) fn get_again(
        &self,
        hash: Hash,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<Location> {
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

    /// Locks the bucket of a key.
    #[inline]
    pub(super) fn lock_home(&self, probe: Probe) -> Locked<'_, L> {
        loop {
            let extent = self.extent();
            for home in [extent.home(probe.position), extent.home_after_split(probe.position)] {
                let locked = self.lock_bucket(home.address());
                let is_of = locked.held.is_odd() == home.is_odd() && self.is_round_of(extent);
                if is_of || Mutation::StaleWriter.is_planted() {
                    return locked;
                }
            }
        }
    }

    #[inline]
    pub(super) fn lock_bucket(&self, address: u32) -> Locked<'_, L> {
        self.bucket(address).lock(&self.lock, address)
    }

    #[inline]
    pub(super) fn bucket(&self, address: u32) -> &ChainLink {
        self.buckets.get(address as usize)
    }

    #[inline]
    pub(super) fn extent(&self) -> Extent {
        Extent::from_word(self.extent.0.load(Acquire))
    }

    #[inline]
    fn is_round_of(&self, extent: Extent) -> bool {
        self.extent().is_same_round(extent) || Mutation::StaleRound.is_planted()
    }
}

/// What the table uses of a hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) tag: Tag,
    pub(super) position: u32,
    pub(super) helper: u8,
}

impl Probe {
    #[inline]
    pub(super) fn new(hash: Hash) -> Self {
        let [_, helper, ..] = hash.0.to_le_bytes();
        Self { tag: Tag::new(hash), position: (hash.0 >> 32) as u32, helper }
    }

    /// Whether to enter this key is to help growth along: so is one in [`HELPER_EVERY`], without a counter.
    #[inline]
    pub(super) fn is_helper(self) -> bool {
        self.helper.is_multiple_of(HELPER_EVERY)
    }
}

/// What one try of a reader came to.
pub(super) enum Look {
    Found(Location),
    Absent,
    /// Nothing found, but something moved or was removed meanwhile.
    Disturbed,
}

/// Tries of a reader before it takes the lock.
const TRIES: u32 = if cfg!(loom) { 2 } else { 64 };
/// Links that a reader walks before it looks whether it still is in its own chain.
pub(super) const STEPS_BETWEEN_CHECKS: u32 = if cfg!(loom) { 2 } else { 32 };
/// The table grows above so many keys in 100 slots of buckets: load 1, as the paper has it.
pub(super) const LOAD_PERCENT: usize = 100;
/// Buckets of a new table, a power of four: a quarter of a page. Fewer where it is slow, so as to see growth too.
pub(super) const BUCKETS_MIN: u32 = if cfg!(any(miri, loom)) { 4 } else { 64 };
/// One insert in so many looks whether the table is to grow.
const HELPER_EVERY: u8 = if cfg!(any(miri, loom)) { 1 } else { 16 };
/// Links that threads may keep in their lists and reserve while others find none.
pub(super) const LINKS_SPARE: usize = if cfg!(loom) { 2 } else { 64 };
