//! One filter: a table of buckets, the rule for a fingerprint's buckets, and the hash of items.
//!
//! # Invariants
//! 1. The fingerprint of an item in the filter is in one of its orbit's buckets after every call.
//! 2. `len` is the number of slots that are not empty.
//! 3. A call that fails has changed nothing.
//!
//! # Costs
//! Lookup: k cache lines, independent of each other. Insert: one line while the first bucket has room; otherwise a
//! search for a path, and its moves. Removal: one or two lines.

mod batch;
mod build;
mod store;

use crate::hash::{Keyed, reduce};
use crate::hint;
use crate::layout::{Layout, Slots};
use crate::orbit::{Orbit, Rule};
use crate::path::{self, Buckets, Node};
use crate::plan::{Plan, range_of};
use crate::swar::{address, mask};
use alloc::vec;
use alloc::vec::Vec;
pub use batch::FullAt;
use core::fmt;
use core::hash::{BuildHasher, Hash};
pub use store::LoadError;
pub(crate) use store::checksum;

/// A cuckoo filter of any layout, orbit and hash.
///
/// The aliases [`CuckooFilter`](crate::CuckooFilter), [`FixedCuckooFilter`](crate::FixedCuckooFilter) and
/// [`SortedCuckooFilter`](crate::SortedCuckooFilter) are the usual combinations.
///
/// Callers with their own hashes use the methods with `hash` in their name. All 64 bits must be well mixed: the high
/// bits choose the bucket, and the low 32 the fingerprint.
///
/// **Remove only what was inserted.** Removing anything else may remove the fingerprint of an item in the filter.
#[derive(Clone)]
pub struct Filter<L, O, H = Keyed> {
    layout: L,
    orbit: O,
    hasher: H,
    table: Vec<u8>,
    len: usize,
    /// Memory for path searches.
    nodes: Vec<Node>,
}

/// The error that there is no path to a free slot. The filter is unchanged: nothing was displaced, nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterFull {
    /// The number of fingerprints in the filter.
    pub len: usize,
    /// The number of slots in the filter.
    pub slots: usize,
    /// Slots of the item's buckets that hold this very fingerprint.
    pub copies: u32,
    /// The maximum of `copies`: the slots of all of the item's buckets.
    pub copies_max: u32,
}

impl FilterFull {
    /// Whether the insert failed because the item (or others that look the same) is in the filter as often as
    /// possible: 2b times for k = 2.
    #[must_use]
    pub fn is_of_copies(&self) -> bool {
        self.copies == self.copies_max
    }
}

impl fmt::Display for FilterFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_copies() {
            write!(f, "the item is in {} times; insert it once, or count it elsewhere", self.copies)
        } else {
            write!(f, "{} of {} slots are taken; make a larger filter", self.len, self.slots)
        }
    }
}

impl core::error::Error for FilterFull {}

impl<L: Layout, O: Orbit, H> Filter<L, O, H> {
    /// Makes an empty filter with the buckets of `orbit`.
    ///
    /// # Panics
    /// If the table does not fit the address space.
    pub fn new(layout: L, orbit: O, hasher: H) -> Self {
        let bytes = table_bytes(&layout, &orbit).expect("the table fits the address space");
        let mut table = vec![0; bytes + PADDING];
        hint::advise_huge(&mut table);
        Self { layout, orbit, hasher, table, len: 0, nodes: Vec::new() }
    }

    /// The number of fingerprints in the filter: inserts minus removals.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the filter is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of slots in the table. Not all of them can be filled: see [`Plan`](crate::Plan) for how many.
    pub fn slots(&self) -> usize {
        address(self.orbit.buckets()) * self.layout.slots() as usize
    }

    /// The load factor α: the share of slots that are filled (§4.3).
    pub fn load(&self) -> f64 {
        ratio(self.len, self.slots())
    }

    /// Bytes of the table.
    pub fn table_bytes(&self) -> usize {
        self.table.len()
    }

    /// f: the number of bits of a fingerprint.
    pub fn fingerprint_bits(&self) -> u32 {
        self.layout.fingerprint_bits()
    }

    /// b: the number of slots of a bucket.
    pub fn bucket_slots(&self) -> u32 {
        self.layout.slots()
    }

    /// k: the number of buckets in which an item may be.
    pub fn ways(&self) -> u32 {
        self.orbit.ways()
    }

    /// The share of absent items that are found at the present load. k·b·α fingerprints are compared, and each equals
    /// the item's in one of 2^f - 1 cases (§4.4.1). This is an upper bound of the expected value.
    pub fn rate(&self) -> f64 {
        let compared = f64::from(self.ways() * self.bucket_slots()) * self.load();
        (compared / range_of(self.fingerprint_bits())).min(1.0)
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.table.fill(0);
        self.len = 0;
    }

    /// The hash builder.
    pub fn hasher(&self) -> &H {
        &self.hasher
    }

    /// Like [`Filter::insert`], for the hash of an item.
    ///
    /// # Errors
    /// [`FilterFull`]; the filter is unchanged.
    #[inline]
    pub fn insert_hash(&mut self, hash: u64) -> Result<(), FilterFull> {
        let fingerprint = self.fingerprint(hash);
        self.insert_content(self.home(hash), fingerprint)
    }

    /// Like [`Filter::contains`], for the hash of an item.
    #[inline]
    #[must_use]
    pub fn contains_hash(&self, hash: u64) -> bool {
        self.holds(self.home(hash), self.fingerprint(hash))
    }

    /// Like [`Filter::remove`], for the hash of an item.
    #[inline]
    pub fn remove_hash(&mut self, hash: u64) -> bool {
        self.remove_content(self.home(hash), self.fingerprint(hash))
    }

    /// The first bucket of a hash.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> u64 {
        reduce(hash, self.orbit.buckets())
    }

    /// The fingerprint of a hash: 1 to 2^f - 1, all equally likely.
    #[inline(always)]
    pub(crate) fn fingerprint(&self, hash: u64) -> u64 {
        fingerprint(hash, self.layout.fingerprint_bits())
    }

    /// The buckets of an orbit, starting with `home`.
    #[inline(always)]
    pub(crate) fn orbit(
        &self,
        home: u64,
        content: u64,
    ) -> impl Iterator<Item = u64> + use<L, O, H> {
        let orbit = self.orbit;
        let fingerprint = content & mask(self.layout.fingerprint_bits());
        let others = (1..orbit.ways()).map(move |n| orbit.other(home, fingerprint, n));
        core::iter::once(home).chain(others)
    }

    #[inline(always)]
    pub(crate) fn holds(&self, home: u64, fingerprint: u64) -> bool {
        self.holds_in(home, self.orbit.other(home, fingerprint, 1), fingerprint)
    }

    /// Like [`Filter::holds`], with the second bucket of the orbit given.
    #[inline(always)]
    fn holds_in(&self, home: u64, second: u64, fingerprint: u64) -> bool {
        // No early exit: the loads don't wait for each other, and no branch has to be predicted.
        let mut found = self.layout.holds(&self.table, [home, second], fingerprint);
        for n in 2..self.orbit.ways() {
            let other = self.orbit.other(home, fingerprint, n);
            found |= self.layout.holds(&self.table, [other], fingerprint);
        }
        found
    }

    #[inline]
    pub(crate) fn insert_content(&mut self, home: u64, content: u64) -> Result<(), FilterFull> {
        for bucket in self.orbit(home, content) {
            if self.layout.replace(&mut self.table, bucket, 0, content) {
                self.len += 1;
                return Ok(());
            }
        }
        self.displace(home, content)
    }

    /// Enters a content whose buckets are all full.
    #[cold]
    #[inline(never)]
    pub(crate) fn displace(&mut self, home: u64, content: u64) -> Result<(), FilterFull> {
        let mut nodes = core::mem::take(&mut self.nodes);
        let leaf = path::search(self, self.orbit(home, content), &mut nodes);
        if let Some(leaf) = leaf {
            for step in path::moves(&nodes, leaf, content) {
                let moved = self.layout.replace(&mut self.table, step.bucket, step.old, step.new);
                debug_assert!(moved, "path invariant 1");
            }
            self.len += 1;
        }
        self.nodes = nodes;
        leaf.map(|_| ()).ok_or_else(|| self.full(home, content))
    }

    #[inline]
    pub(crate) fn remove_content(&mut self, home: u64, content: u64) -> bool {
        for bucket in self.orbit(home, content) {
            if self.layout.replace(&mut self.table, bucket, content, 0) {
                self.len -= 1;
                return true;
            }
        }
        false
    }

    pub(crate) fn layout(&self) -> &L {
        &self.layout
    }

    /// Whether a plan results in this filter's shape.
    pub(crate) fn is_of(&self, plan: &Plan) -> bool {
        let shape = (self.fingerprint_bits(), self.bucket_slots(), self.orbit.buckets());
        shape == (plan.fingerprint_bits(), plan.bucket_slots(), plan.buckets())
    }

    /// Calls `visit` with each content of an orbit; 0 is an empty slot.
    pub(crate) fn for_each_in_orbit(&self, home: u64, content: u64, mut visit: impl FnMut(u64)) {
        for bucket in self.orbit(home, content) {
            let contents = self.layout.contents(&self.table, bucket);
            contents[..self.layout.slots() as usize].iter().for_each(|&slot| visit(slot));
        }
    }

    /// Changes one slot of an orbit that holds `old` to hold `new`, which has the same fingerprint.
    pub(crate) fn change_content(&mut self, home: u64, old: u64, new: u64) -> bool {
        self.orbit(home, old).any(|bucket| self.layout.replace(&mut self.table, bucket, old, new))
    }

    #[cold]
    fn full(&self, home: u64, content: u64) -> FilterFull {
        let named = mask(self.layout.fingerprint_bits());
        let mut copies = 0;
        self.for_each_in_orbit(home, content, |slot| {
            copies += u32::from(slot & named == content & named);
        });
        let copies_max = self.ways() * self.bucket_slots();
        FilterFull { len: self.len, slots: self.slots(), copies, copies_max }
    }

    #[inline(always)]
    fn prefetch_bucket(&self, bucket: u64) {
        let at = address(bucket * u64::from(self.layout.bucket_bits()) / 8);
        hint::prefetch(self.table.as_ptr().wrapping_add(at));
    }
}

impl<L: Layout, O: Orbit, H: BuildHasher> Filter<L, O, H> {
    /// Enters an item. An item may be entered again, up to k·b times in total (2b for k = 2).
    ///
    /// Costs one cache line from memory while the filter is half empty, and two to four when it is nearly full
    /// (§4.2).
    ///
    /// # Errors
    /// [`FilterFull`] if no slot can be made free. Nothing was displaced: all items stay, and this one was not
    /// entered.
    #[inline]
    pub fn insert<T: Hash + ?Sized>(&mut self, item: &T) -> Result<(), FilterFull> {
        self.insert_hash(self.hash(item))
    }

    /// Whether the item is in the filter. True for a share of [`Filter::rate`] of absent items. Reads two cache lines
    /// for k = 2 (§4.2).
    #[inline]
    #[must_use]
    pub fn contains<T: Hash + ?Sized>(&self, item: &T) -> bool {
        self.contains_hash(self.hash(item))
    }

    /// Removes one copy of an item that was inserted. Returns false if there is none (§4.2). Reads one or two cache
    /// lines.
    #[inline]
    pub fn remove<T: Hash + ?Sized>(&mut self, item: &T) -> bool {
        self.remove_hash(self.hash(item))
    }

    /// The hash of an item, for the methods that take one.
    #[inline]
    pub fn hash<T: Hash + ?Sized>(&self, item: &T) -> u64 {
        self.hasher.hash_one(item)
    }
}

impl<L: Layout, O: Orbit, H> Buckets for Filter<L, O, H> {
    fn size(&self) -> (u64, u32) {
        (self.orbit.buckets(), self.layout.slots())
    }

    fn is_open(&self, bucket: u64) -> bool {
        self.layout.is_open(&self.table, bucket)
    }

    fn exits(&self, bucket: u64, mut visit: impl FnMut(u64, u64)) {
        let contents = self.layout.contents(&self.table, bucket);
        let named = mask(self.layout.fingerprint_bits());
        for &content in &contents[..self.layout.slots() as usize] {
            for n in 1..self.orbit.ways() {
                visit(content, self.orbit.other(bucket, content & named, n));
            }
        }
    }

    fn prefetch(&self, bucket: u64) {
        self.prefetch_bucket(bucket);
    }
}

/// Prints everything except the table.
impl<L: Layout, O: Orbit, H> fmt::Debug for Filter<L, O, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter")
            .field("fingerprint_bits", &self.fingerprint_bits())
            .field("bucket_slots", &self.bucket_slots())
            .field("ways", &self.ways())
            .field("buckets", &self.orbit.buckets())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Two filters are equal if every item has the same result in both: same shape, same table, same hash.
impl<L: Layout + PartialEq, O: Orbit + PartialEq, H: PartialEq> PartialEq for Filter<L, O, H> {
    fn eq(&self, other: &Self) -> bool {
        self.layout == other.layout
            && self.orbit == other.orbit
            && self.hasher == other.hasher
            && self.table == other.table
    }
}

/// Maps the low half of a hash to one of 2^bits - 1 fingerprints that are not 0. They are counted down from the
/// greatest, since a lookup needs the complement.
#[inline(always)]
pub(crate) fn fingerprint(hash: u64, bits: u32) -> u64 {
    mask(bits) ^ ((hash & mask(32)) * mask(bits)) >> 32
}

/// Bytes of a table without its padding. `None` if it does not fit the address space.
fn table_bytes(layout: &impl Slots, orbit: &impl Rule) -> Option<usize> {
    let bits = orbit.buckets() * u64::from(layout.bucket_bits());
    let bytes = usize::try_from(bits.div_ceil(8)).ok()?;
    (bytes <= isize::MAX.unsigned_abs() - PADDING).then_some(bytes)
}

#[expect(clippy::cast_precision_loss, reason = "a share is told to a few digits")]
pub(crate) fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// A load of 64 bits may start in the table's last byte.
const PADDING: usize = 8;
