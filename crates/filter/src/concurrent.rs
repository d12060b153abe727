//! A filter that one thread changes while others read it without locks.
//!
//! A bucket is one 64-bit word with as many slots as fit, so that it is read and written atomically. This wastes the
//! bits that are left over, and gives more slots per bucket for short fingerprints.
//!
//! # Layout
//! ```text
//! bucket  64 bits   | slot 0 | slot 1 | … | rest |      ⌊64 / f⌋ slots of f bits, 0 = empty
//! count   64 bits   moves and removals of fingerprints whose lowest six bits are its number
//! ```
//!
//! # Invariants
//! 1. A fingerprint in the filter is at every instant in at least one of its two buckets: a move fills the new one
//!    first.
//! 2. A move adds 1 to the count of its fingerprint, after it filled the new bucket and before it clears the old one.
//!    A removal also adds 1 before it clears: of two items with equal fingerprints and buckets, it may leave the copy
//!    of the other item.
//!
//! # Orderings
//! All stores release, and a reader's first three loads acquire. A reader loads the count, then reads both buckets,
//! and accepts a miss if the count is still the same. Suppose that it missed a fingerprint that was in the filter.
//! Then a move (or a removal, after an insert of its twin) emptied one bucket before the reader read it, and filled
//! the other after the reader had read that one. From the emptied bucket the reader acquired the increment of the
//! count, so its second load of the count sees the increment. Its first load did not see it, because then the reader
//! would also have seen the filled bucket. So the counts differ, and the reader looks again.
//!
//! # Costs
//! A lookup: two cache lines of the table and one of the counts. The counts stay in the cache, except for a line that
//! a move changed. Bad at: several writers (put a lock around the writer), and bits per item for fingerprint lengths
//! that leave many bits of the word unused, such as 13 (52 of 64 bits used).

use crate::filter::{FilterFull, fingerprint};
use crate::hash::{Keyed, reduce};
use crate::hint;
use crate::orbit::{Pair, Rule};
use crate::path::{self, Buckets, Node};
use crate::plan::{buckets_for, keeps, load, spreads};
use crate::swar::{Swar, address};
use crate::sync::{Acquire, AtomicU64, Mutation, Ordering, Relaxed, Release};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// The writing end of a concurrent filter. There is only one, and it need not be shared.
///
/// ```
/// use guira_filter::ConcurrentCuckooFilter;
///
/// let mut filter = ConcurrentCuckooFilter::with_rate(10_000, 0.003);
/// let reader = filter.reader();
/// let other = std::thread::spawn(move || while !reader.contains("ani") {});
/// filter.insert("ani")?;
/// other.join().unwrap();
/// # Ok::<(), guira_filter::FilterFull>(())
/// ```
pub struct ConcurrentCuckooFilter<H = Keyed> {
    shared: Arc<Shared<H>>,
    len: usize,
    /// Memory for path searches.
    nodes: Vec<Node>,
}

/// A reading end. There may be any number of them, in any thread.
pub struct FilterReader<H = Keyed> {
    shared: Arc<Shared<H>>,
}

struct Shared<H> {
    words: Vec<AtomicU64>,
    moves: [AtomicU64; COUNTS],
    orbit: Pair,
    fingerprint_bits: u32,
    swar: Swar,
    hasher: H,
}

#[cfg(feature = "std")]
impl ConcurrentCuckooFilter<Keyed> {
    /// Makes a filter for `items`, which finds at most the share `rate` of absent items.
    ///
    /// # Panics
    /// If `rate` is below 1e-9, or there would be more than 2^32 buckets.
    #[must_use]
    pub fn with_rate(items: usize, rate: f64) -> Self {
        Self::with_rate_and_hasher(items, rate, Keyed::random())
    }
}

impl<H> ConcurrentCuckooFilter<H> {
    /// Like [`ConcurrentCuckooFilter::with_rate`], with a hash provided by the caller.
    ///
    /// # Panics
    /// If `rate` is below 1e-9, or there would be more than 2^32 buckets.
    #[must_use]
    pub fn with_rate_and_hasher(items: usize, rate: f64, hasher: H) -> Self {
        let shape = |bits: u32| {
            let slots = 64 / bits;
            let buckets = buckets_for(items, slots)?;
            let load = load(items, buckets, slots);
            (keeps(rate, bits, slots, load) && spreads(bits, buckets, slots))
                .then_some((bits, buckets))
        };
        let (bits, buckets) = (4..=32).find_map(shape).expect("a rate above 1e-9, 2^32 buckets");
        Self::new(bits, Pair::at_least(buckets), hasher)
    }

    /// Makes an empty filter with fingerprints of 4 to 32 bits, in the buckets of `orbit`.
    ///
    /// # Panics
    /// If `fingerprint_bits` is not in 4 to 32.
    #[must_use]
    pub fn new(fingerprint_bits: u32, orbit: Pair, hasher: H) -> Self {
        assert!((4..=32).contains(&fingerprint_bits), "4 to 32 bits a fingerprint");
        let mut words = Vec::with_capacity(address(orbit.buckets()));
        hint::advise_huge(words.spare_capacity_mut());
        words.extend((0..orbit.buckets()).map(|_| AtomicU64::new(0)));
        let moves = [(); COUNTS].map(|()| AtomicU64::new(0));
        let swar = Swar::new(fingerprint_bits, 64 / fingerprint_bits);
        let shared = Shared { words, moves, orbit, fingerprint_bits, swar, hasher };
        Self { shared: Arc::new(shared), len: 0, nodes: Vec::new() }
    }

    /// Makes another reading end.
    #[must_use]
    pub fn reader(&self) -> FilterReader<H> {
        FilterReader { shared: Arc::clone(&self.shared) }
    }

    /// The number of fingerprints in the filter.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the filter is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of slots in the table.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.shared.words.len() * self.shared.swar.lanes() as usize
    }

    /// Bytes of the table.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.shared.words.len() * size_of::<u64>()
    }

    /// Like [`ConcurrentCuckooFilter::insert`], for the hash of an item.
    ///
    /// # Errors
    /// [`FilterFull`]; the filter is unchanged.
    pub fn insert_hash(&mut self, hash: u64) -> Result<(), FilterFull> {
        let (home, fingerprint) = self.shared.find(hash);
        let roots = [home, self.shared.orbit.other(home, fingerprint, 1)];
        let mut nodes = core::mem::take(&mut self.nodes);
        let leaf = path::search(&*self.shared, roots.into_iter(), &mut nodes);
        if let Some(leaf) = leaf {
            self.len += 1;
            for step in path::moves(&nodes, leaf, fingerprint) {
                self.shared.change(step);
            }
        }
        self.nodes = nodes;
        leaf.map(|_| ()).ok_or_else(|| self.full(roots, fingerprint))
    }

    /// Like [`ConcurrentCuckooFilter::remove`], for the hash of an item.
    pub fn remove_hash(&mut self, hash: u64) -> bool {
        let (home, fingerprint) = self.shared.find(hash);
        let roots = [home, self.shared.orbit.other(home, fingerprint, 1)];
        let removed = roots.into_iter().any(|bucket| self.shared.take(bucket, fingerprint));
        self.len -= usize::from(removed);
        removed
    }

    #[cold]
    fn full(&self, roots: [u64; 2], fingerprint: u64) -> FilterFull {
        let mut copies = 0;
        for bucket in roots {
            self.shared.exits(bucket, |content, _| copies += u32::from(content == fingerprint));
        }
        let copies_max = 2 * self.shared.swar.lanes();
        FilterFull { len: self.len, slots: self.slots(), copies, copies_max }
    }
}

impl<H: BuildHasher> ConcurrentCuckooFilter<H> {
    /// Enters an item, again if it was in the filter. Readers find every other item while fingerprints are moved.
    ///
    /// # Errors
    /// [`FilterFull`] if no slot can be made free; nothing was displaced.
    pub fn insert<T: Hash + ?Sized>(&mut self, item: &T) -> Result<(), FilterFull> {
        self.insert_hash(self.shared.hasher.hash_one(item))
    }

    /// Removes one copy of an item that was inserted. Returns false if there is none.
    pub fn remove<T: Hash + ?Sized>(&mut self, item: &T) -> bool {
        self.remove_hash(self.shared.hasher.hash_one(item))
    }

    /// Like [`FilterReader::contains`].
    #[must_use]
    pub fn contains<T: Hash + ?Sized>(&self, item: &T) -> bool {
        self.shared.contains(self.shared.hasher.hash_one(item))
    }
}

impl<H> FilterReader<H> {
    /// Like [`FilterReader::contains`], for the hash of an item.
    #[inline]
    #[must_use]
    pub fn contains_hash(&self, hash: u64) -> bool {
        self.shared.contains(hash)
    }

    /// Like [`FilterReader::contains_many`], for hashes of items.
    ///
    /// # Panics
    /// If `found` is shorter than `hashes`.
    pub fn contains_hashes(&self, hashes: &[u64], found: &mut [bool]) {
        let found = &mut found[..hashes.len()];
        for (hashes, found) in hashes.chunks(RUN).zip(found.chunks_mut(RUN)) {
            for &hash in hashes {
                let (home, fingerprint) = self.shared.find(hash);
                self.shared.prefetch(home);
                self.shared.prefetch(self.shared.orbit.other(home, fingerprint, 1));
            }
            for (&hash, found) in hashes.iter().zip(found) {
                *found = self.shared.contains(hash);
            }
        }
    }
}

impl<H: BuildHasher> FilterReader<H> {
    /// Whether the item is in the filter. Always true if the item was in it during the whole call; otherwise true for
    /// a share of ε.
    ///
    /// Takes no locks. It looks again if a fingerprint with the same lowest six bits was moved or removed meanwhile.
    #[inline]
    #[must_use]
    pub fn contains<T: Hash + ?Sized>(&self, item: &T) -> bool {
        self.shared.contains(self.shared.hasher.hash_one(item))
    }

    /// [`FilterReader::contains`] for each item, with memory prefetched.
    ///
    /// # Panics
    /// If `found` is shorter than `items`.
    pub fn contains_many<T: Hash>(&self, items: &[T], found: &mut [bool]) {
        let found = &mut found[..items.len()];
        for (items, found) in items.chunks(RUN).zip(found.chunks_mut(RUN)) {
            let mut hashes = [0; RUN];
            for (hash, item) in hashes.iter_mut().zip(items) {
                *hash = self.shared.hasher.hash_one(item);
            }
            self.contains_hashes(&hashes[..items.len()], found);
        }
    }
}

impl<H> Clone for FilterReader<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// Prints everything except the table.
impl<H> fmt::Debug for ConcurrentCuckooFilter<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentCuckooFilter")
            .field("fingerprint_bits", &self.shared.fingerprint_bits)
            .field("buckets", &self.shared.words.len())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Prints everything except the table.
impl<H> fmt::Debug for FilterReader<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterReader")
            .field("fingerprint_bits", &self.shared.fingerprint_bits)
            .field("buckets", &self.shared.words.len())
            .finish_non_exhaustive()
    }
}

impl<H> Shared<H> {
    #[inline(always)]
    fn find(&self, hash: u64) -> (u64, u64) {
        (reduce(hash, self.orbit.buckets()), fingerprint(hash, self.fingerprint_bits))
    }

    #[inline]
    fn contains(&self, hash: u64) -> bool {
        let (home, fingerprint) = self.find(hash);
        let other = self.orbit.other(home, fingerprint, 1);
        let (first, second) = (&self.words[address(home)], &self.words[address(other)]);
        let count = self.count_of(fingerprint);
        let wanted = self.swar.spread(fingerprint);
        loop {
            let mut stamp = count.load(Acquire);
            let mut found = self.swar.zeroes(first.load(Acquire) ^ wanted);
            if Mutation::LateStamp.is_planted() {
                stamp = count.load(Acquire);
            }
            found |= self.swar.zeroes(second.load(Acquire) ^ wanted);
            if found != 0 {
                return true;
            }
            if count.load(Relaxed) == stamp || Mutation::UnvalidatedMiss.is_planted() {
                return false;
            }
        }
    }

    /// Makes one step of a path. The content that it takes out of a slot was put elsewhere by the step before.
    fn change(&self, step: path::Move) {
        let is_early = Mutation::EarlyCount.is_planted();
        let counted = if is_early { step.new } else { step.old };
        if counted != 0 && !Mutation::LateCount.is_planted() {
            self.count(counted);
        }
        let replaced = self.replace(step.bucket, step.old, step.new);
        debug_assert!(replaced, "path invariant 1");
        if counted != 0 && Mutation::LateCount.is_planted() {
            self.count(counted);
        }
    }

    /// Clears a slot that holds the fingerprint. Returns false if no slot does.
    fn take(&self, bucket: u64, fingerprint: u64) -> bool {
        let word = self.words[address(bucket)].load(Relaxed);
        let is_there = self.swar.position(word, fingerprint).is_some();
        if is_there && !Mutation::StillRemove.is_planted() {
            self.count(fingerprint);
        }
        is_there && self.replace(bucket, fingerprint, 0)
    }

    fn count(&self, fingerprint: u64) {
        if !Mutation::StillMove.is_planted() {
            let count = self.count_of(fingerprint);
            count.store(count.load(Relaxed).wrapping_add(1), release());
        }
    }

    #[inline(always)]
    fn count_of(&self, fingerprint: u64) -> &AtomicU64 {
        &self.moves[address(fingerprint) % COUNTS]
    }

    fn replace(&self, bucket: u64, old: u64, new: u64) -> bool {
        let word = &self.words[address(bucket)];
        let before = word.load(Relaxed);
        let Some(lane) = self.swar.position(before, old) else { return false };
        word.store(before ^ (old ^ new) << lane, release());
        true
    }
}

/// The writer's view. Only the writer stores, so its loads need no ordering.
impl<H> Buckets for Shared<H> {
    fn size(&self) -> (u64, u32) {
        (self.orbit.buckets(), self.swar.lanes())
    }

    fn is_open(&self, bucket: u64) -> bool {
        self.swar.zeroes(self.words[address(bucket)].load(Relaxed)) != 0
    }

    fn exits(&self, bucket: u64, mut visit: impl FnMut(u64, u64)) {
        let word = self.words[address(bucket)].load(Relaxed);
        for lane in 0..self.swar.lanes() {
            let content = self.swar.lane(word, lane);
            visit(content, self.orbit.other(bucket, content, 1));
        }
    }

    #[inline(always)]
    fn prefetch(&self, bucket: u64) {
        hint::prefetch(self.words.as_ptr().wrapping_add(address(bucket)));
    }
}

#[inline(always)]
fn release() -> Ordering {
    if Mutation::UnorderedStores.is_planted() { Relaxed } else { Release }
}

/// The number of counts of moves.
const COUNTS: usize = if cfg!(loom) { 2 } else { 64 };
/// Items of a batch whose cache lines are prefetched together.
const RUN: usize = 32;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
