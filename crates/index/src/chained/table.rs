//! The table itself: its parts, how a reader looks a key up, and how a writer locks its bucket.

use super::extent::{Extent, Home};
use super::link::{ChainLink, Locked, SLOTS, Tag, Word};
use super::lock::{BucketLock, Tas};
use super::pool::LinkPool;
use crate::count::Count;
use crate::mapping::Zeroed;
use crate::sync::{Acquire, AtomicU64, Backoff, Baton, Mutation, Padded};
use crate::{Entry as _, Hash, Index as _, Location};

/// See the head of `chained.rs`. `L` is how buckets are locked: [`Tas`], unless other locks are to be measured.
pub struct Chained<L: BucketLock = Tas> {
    pub(super) buckets: Zeroed<ChainLink>,
    /// How far the table has grown. Aligned to its own cache line: every lookup reads it.
    pub(super) extent: Padded<AtomicU64>,
    pub(super) pool: LinkPool,
    pub(super) count: Count,
    /// How many times any bucket's version has wrapped (invariant 2).
    pub(super) wraps: Padded<AtomicU64>,
    pub(super) is_growing: Padded<Baton>,
    pub(super) lock: L,
}

impl Chained {
    /// Makes a table that starts small and may grow until it holds at least `items_max` keys.
    ///
    /// Reserves 24 bytes of address space per key; memory is taken as the table grows.
    ///
    /// # Panics
    /// If the address space can't be reserved.
    #[must_use]
    pub fn with_max(items_max: usize) -> Self {
        Self::with_lock(items_max)
    }

    /// Like [`Chained::with_max`], with at least a quarter of `slots` slots from the start.
    pub(crate) fn with_room(items_max: usize, slots: usize) -> Self {
        let max = Self::buckets_max(items_max);
        let wanted = (slots / SLOTS).clamp(BUCKETS_MIN as usize, max);
        // Rounds of growth come in pairs: a table starts with a power of four (extent.rs).
        Self::with_buckets(1 << (wanted.ilog2() & !1), max, items_max)
    }
}

impl<L: BucketLock> Chained<L> {
    /// Like [`Chained::with_max`], with another lock.
    #[must_use]
    pub fn with_lock(items_max: usize) -> Self {
        Self::with_buckets(BUCKETS_MIN, Self::buckets_max(items_max), items_max)
    }

    fn buckets_max(items_max: usize) -> usize {
        let slots = items_max.saturating_mul(100).div_ceil(LOAD_PERCENT);
        slots.div_ceil(SLOTS).clamp(BUCKETS_MIN as usize, 1 << 31)
    }

    /// Makes a table of `start` buckets that may grow to `max`, with this many links in addition.
    ///
    /// As many links as keys are enough for any hashes, since each link in a chain holds at least one key.
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

    /// Tries once to find a key: see invariant 2.
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

    /// Continues a lookup in the links that a bucket's word leads to. It is a separate function because most keys are
    /// in their buckets: a get of such a key keeps no state for the links.
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
        // The word is read first: if a version wrapped and the word is as before, the count shows that.
        let is_unchanged = self.is_unchanged(bucket, word) && self.wraps.0.load(Acquire) == wraps;
        self.missed(is_unchanged, extent)
    }

    /// Whether a bucket wasn't locked when its word was read, and still has that word.
    #[inline(always)]
    fn is_unchanged(&self, bucket: &ChainLink, word: Word) -> bool {
        let was_free = !word.is_locked() || Mutation::OneIncrement.is_planted();
        was_free && bucket.word() == word
    }

    /// The outcome of not having found a key.
    #[inline(always)]
    fn missed(&self, is_unchanged: bool, extent: Extent) -> Look {
        if Mutation::UnvalidatedMiss.is_planted() || is_unchanged && self.is_round_of(extent) {
            Look::Absent
        } else {
            Look::Disturbed
        }
    }

    /// The bucket of a key, and its word. `None` if the table has grown by a round since `extent` was read.
    #[inline(always)]
    pub(super) fn home(&self, extent: Extent, probe: Probe) -> Option<(&ChainLink, Word)> {
        let read = |home: Home| {
            let bucket = self.bucket(home.address());
            let word = bucket.word();
            let is_of = word.is_odd() == home.is_odd();
            (is_of || Mutation::StaleReader.is_planted()).then_some((bucket, word))
        };
        // The bucket was split, but that is not yet published: the key has moved.
        read(extent.home(probe.position)).or_else(|| read(extent.home_after_split(probe.position)))
    }

    /// Retries a lookup that was disturbed. As a last resort, it looks the key up under the lock, as a writer does.
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

/// The parts of a hash that the table uses.
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

    /// Whether entering this key helps with growth. One key in [`HELPER_EVERY`] does, which needs no counter.
    #[inline]
    pub(super) fn is_helper(self) -> bool {
        self.helper.is_multiple_of(HELPER_EVERY)
    }
}

/// The outcome of one try of a reader.
pub(super) enum Look {
    Found(Location),
    Absent,
    /// Nothing was found, but something was moved or removed meanwhile.
    Disturbed,
}

/// Tries of a reader before it takes the lock.
const TRIES: u32 = if cfg!(loom) { 2 } else { 64 };
/// Links that a reader walks before it checks that it is still in its own chain.
pub(super) const STEPS_BETWEEN_CHECKS: u32 = if cfg!(loom) { 2 } else { 32 };
/// The table grows above this many keys per 100 slots of buckets: load 1, as in the paper.
pub(super) const LOAD_PERCENT: usize = 100;
/// Buckets of a new table, a power of four: a quarter of a page. Slow test environments use fewer, so that growth is
/// tested too.
pub(super) const BUCKETS_MIN: u32 = if cfg!(any(miri, loom)) { 4 } else { 64 };
/// One insert in this many checks whether the table must grow.
const HELPER_EVERY: u8 = if cfg!(any(miri, loom)) { 1 } else { 16 };
/// Links that threads may keep in their lists and reserve while other threads find none.
pub(super) const LINKS_SPARE: usize = if cfg!(loom) { 2 } else { 64 };
