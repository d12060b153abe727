//! One filter: a table of buckets, the rule for a fingerprint's buckets, and the hash of items.
//!
//! # Invariants
//! 1. The fingerprint of an item that is in the filter is in one of its orbit's buckets after every call.
//! 2. `len` is the number of slots that are not empty.
//! 3. A call that fails has changed nothing.
//!
//! # Costs
//! Look-up: k lines, independent of each other. Insert: one line while there is room in the first bucket, else a
//! search for a path and its moves. Removal: one or two lines.

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
/// Whoever hashes by other means uses the forms with `hash` in their name: all 64 bits must be well mixed, the high
/// ones choose the bucket and the low 32 the fingerprint.
///
/// **Remove only what was inserted.** Removing anything else may remove the fingerprint of an item that is in.
#[derive(Clone)]
pub struct Filter<L, O, H = Keyed> {
    layout: L,
    orbit: O,
    hasher: H,
    table: Vec<u8>,
    len: usize,
    /// Memory of the search for a path.
    nodes: Vec<Node>,
}

/// There is no way to a free slot. The filter is as it was: nothing was displaced, nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterFull {
    /// Fingerprints in the filter.
    pub len: usize,
    /// Slots of the filter.
    pub slots: usize,
    /// Slots of the item's buckets that hold this very fingerprint.
    pub copies: u32,
    /// As many as there can be: slots of all its buckets.
    pub copies_max: u32,
}

impl FilterFull {
    /// If it failed because the item (or others that look the same) is in as often as can be: 2b times for k = 2.
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
    /// An empty filter with the buckets of `orbit`.
    ///
    /// # Panics
    /// If the table does not fit the address space.
    pub fn new(layout: L, orbit: O, hasher: H) -> Self {
        let bytes = table_bytes(&layout, &orbit).expect("the table fits the address space");
        let mut table = vec![0; bytes + PADDING];
        hint::advise_huge(&mut table);
        Self { layout, orbit, hasher, table, len: 0, nodes: Vec::new() }
    }

    /// Fingerprints in the filter: inserts less removals.
    pub fn len(&self) -> usize {
        self.len
    }

    /// If nothing is in.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slots of the table. Not all can be taken: see [`Plan`](crate::Plan) for how many.
    pub fn slots(&self) -> usize {
        address(self.orbit.buckets()) * self.layout.slots() as usize
    }

    /// The load factor α: the share of slots that are taken (§4.3).
    pub fn load(&self) -> f64 {
        ratio(self.len, self.slots())
    }

    /// Bytes of the table.
    pub fn table_bytes(&self) -> usize {
        self.table.len()
    }

    /// f: bits of a fingerprint.
    pub fn fingerprint_bits(&self) -> u32 {
        self.layout.fingerprint_bits()
    }

    /// b: slots of a bucket.
    pub fn bucket_slots(&self) -> u32 {
        self.layout.slots()
    }

    /// k: buckets in which an item may be.
    pub fn ways(&self) -> u32 {
        self.orbit.ways()
    }

    /// The share of absent items that are found at the present load: k·b·α fingerprints are compared, and each equals
    /// the wanted one in one of 2^f - 1 cases (§4.4.1). An upper bound of the expected value.
    pub fn rate(&self) -> f64 {
        let compared = f64::from(self.ways() * self.bucket_slots()) * self.load();
        (compared / range_of(self.fingerprint_bits())).min(1.0)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.table.fill(0);
        self.len = 0;
    }

    /// The hash builder.
    pub fn hasher(&self) -> &H {
        &self.hasher
    }

    /// As [`Filter::insert`], for the hash of an item.
    ///
    /// # Errors
    /// [`FilterFull`]; the filter is as it was.
    #[inline]
    pub fn insert_hash(&mut self, hash: u64) -> Result<(), FilterFull> {
        let fingerprint = self.fingerprint(hash);
        self.insert_content(self.home(hash), fingerprint)
    }

    /// As [`Filter::contains`], for the hash of an item.
    #[inline]
    #[must_use]
    pub fn contains_hash(&self, hash: u64) -> bool {
        self.holds(self.home(hash), self.fingerprint(hash))
    }

    /// As [`Filter::remove`], for the hash of an item.
    #[inline]
    pub fn remove_hash(&mut self, hash: u64) -> bool {
        self.remove_content(self.home(hash), self.fingerprint(hash))
    }

    /// The bucket that a hash names first.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> u64 {
        reduce(hash, self.orbit.buckets())
    }

    /// 1 to 2^f - 1, each as likely.
    #[inline(always)]
    pub(crate) fn fingerprint(&self, hash: u64) -> u64 {
        fingerprint(hash, self.layout.fingerprint_bits())
    }

    /// The buckets of an orbit, `home` first.
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

    /// As [`Filter::holds`], where the second bucket of the orbit is known.
    #[inline(always)]
    fn holds_in(&self, home: u64, second: u64, fingerprint: u64) -> bool {
        // No early end: the loads don't wait for each other, and no branch has to be guessed.
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

    /// Enters a content that finds all its buckets full.
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

    /// If a plan leads to this shape.
    pub(crate) fn is_of(&self, plan: &Plan) -> bool {
        let shape = (self.fingerprint_bits(), self.bucket_slots(), self.orbit.buckets());
        shape == (plan.fingerprint_bits(), plan.bucket_slots(), plan.buckets())
    }

    /// Calls `visit` with each content of an orbit, 0 for an empty slot.
    pub(crate) fn for_each_in_orbit(&self, home: u64, content: u64, mut visit: impl FnMut(u64)) {
        for bucket in self.orbit(home, content) {
            let contents = self.layout.contents(&self.table, bucket);
            contents[..self.layout.slots() as usize].iter().for_each(|&slot| visit(slot));
        }
    }

    /// Makes one slot of an orbit that holds `old` hold `new`, which has the same fingerprint.
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
    /// Enters an item; again if it was in, up to k·b times in all (2b for k = 2).
    ///
    /// Costs one line from memory while the filter is half empty, two to four when it is nearly full (§4.2).
    ///
    /// # Errors
    /// [`FilterFull`] if no slot can be had. Nothing was displaced: all that was in still is, the item is not.
    #[inline]
    pub fn insert<T: Hash + ?Sized>(&mut self, item: &T) -> Result<(), FilterFull> {
        self.insert_hash(self.hash(item))
    }

    /// If the item is in; true for [`Filter::rate`] of those that are not. Two lines from memory for k = 2 (§4.2).
    #[inline]
    #[must_use]
    pub fn contains<T: Hash + ?Sized>(&self, item: &T) -> bool {
        self.contains_hash(self.hash(item))
    }

    /// Takes out one copy of an item that was inserted; false if there is none (§4.2). One or two lines from memory.
    #[inline]
    pub fn remove<T: Hash + ?Sized>(&mut self, item: &T) -> bool {
        self.remove_hash(self.hash(item))
    }

    /// The hash of an item, for the forms that take one.
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

/// Without the table.
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

/// Two filters are equal if every item has the same answer in both: same shape, same table, same hash.
impl<L: Layout + PartialEq, O: Orbit + PartialEq, H: PartialEq> PartialEq for Filter<L, O, H> {
    fn eq(&self, other: &Self) -> bool {
        self.layout == other.layout
            && self.orbit == other.orbit
            && self.hasher == other.hasher
            && self.table == other.table
    }
}

/// The low half of a hash, as one of 2^bits - 1 fingerprints that are not 0. Counted from the greatest down, since a
/// look-up wants the complement.
#[inline(always)]
pub(crate) fn fingerprint(hash: u64, bits: u32) -> u64 {
    mask(bits) ^ ((hash & mask(32)) * mask(bits)) >> 32
}

/// Bytes of a table without its padding, if it fits the address space.
fn table_bytes(layout: &impl Slots, orbit: &impl Rule) -> Option<usize> {
    let bits = orbit.buckets() * u64::from(layout.bucket_bits());
    let bytes = usize::try_from(bits.div_ceil(8)).ok()?;
    (bytes <= isize::MAX.unsigned_abs() - PADDING).then_some(bytes)
}

#[expect(clippy::cast_precision_loss, reason = "a share is told to a few digits")]
pub(crate) fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// A load of 64 bits may begin in the table's last byte.
const PADDING: usize = 8;
