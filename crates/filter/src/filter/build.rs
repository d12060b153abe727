//! Construction of filters: from a plan, from a rate, or from the items themselves.

use super::Filter;
#[cfg(feature = "std")]
use crate::hash::Keyed;
use crate::layout::{Fixed, FixedSorted, Lanes, Sorted};
use crate::orbit::Pair;
use crate::plan::Plan;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};

impl<H> Filter<Lanes, Pair, H> {
    /// Makes a filter of a plan's shape.
    ///
    /// # Panics
    /// If the table does not fit the address space.
    #[must_use]
    pub fn with_plan(plan: &Plan, hasher: H) -> Self {
        let lanes = Lanes::new(plan.fingerprint_bits(), plan.bucket_slots());
        Self::new(lanes, Pair::at_least(plan.buckets()), hasher)
    }

    /// Makes a filter for `items`, which finds at most the share `rate` of absent items, with a hash provided by the
    /// caller.
    ///
    /// # Panics
    /// If there is no such filter: see [`Plan::for_rate`].
    #[must_use]
    pub fn with_rate_and_hasher(items: usize, rate: f64, hasher: H) -> Self {
        let plan = Plan::for_rate(items, rate).expect("a rate above 1e-9 and at most 2^32 buckets");
        Self::with_plan(&plan, hasher)
    }
}

impl<H: BuildHasher + Clone> Filter<Lanes, Pair, H> {
    /// Makes a filter of a set: duplicate items are entered once.
    ///
    /// It is built in the order of buckets. This takes a sort, and 8 bytes per item while building, and saves most of
    /// the waiting for memory.
    ///
    /// # Panics
    /// If there is no such filter: see [`Plan::for_rate`].
    pub fn from_items<T: Hash>(items: impl IntoIterator<Item = T>, rate: f64, hasher: &H) -> Self {
        let mut hashes: Vec<u64> = items.into_iter().map(|item| hasher.hash_one(item)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut room = hashes.len();
        loop {
            let mut filter = Self::with_rate_and_hasher(room, rate, hasher.clone());
            if filter.insert_hashes(&hashes).is_ok() {
                return filter;
            }
            room += room / 32 + 8;
        }
    }
}

#[cfg(feature = "std")]
impl Filter<Lanes, Pair, Keyed> {
    /// Makes a filter for `items`, which finds at most the share `rate` of absent items, with a random hash key.
    ///
    /// Fingerprint and bucket size are those that take the fewest bits (§4.4.1): 12.6 per item at 0.19 %.
    ///
    /// # Panics
    /// If there is no such filter: see [`Plan::for_rate`].
    #[must_use]
    pub fn with_rate(items: usize, rate: f64) -> Self {
        Self::with_rate_and_hasher(items, rate, Keyed::random())
    }
}

/// Makes a filter with a rate of 0.1 %. For other rates see [`Filter::from_items`].
#[cfg(feature = "std")]
impl<T: Hash> FromIterator<T> for Filter<Lanes, Pair, Keyed> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::from_items(items, 0.001, &Keyed::random())
    }
}

impl<H> Filter<Sorted, Pair, H> {
    /// Like [`Filter::with_rate_and_hasher`], semi-sorted: half the rate with the same bits.
    ///
    /// # Panics
    /// If there is no such filter: see [`Plan::sorted_for_rate`].
    #[must_use]
    pub fn sorted_with_rate_and_hasher(items: usize, rate: f64, hasher: H) -> Self {
        let plan = Plan::sorted_for_rate(items, rate);
        let plan = plan.expect("a rate above 0.006 % and at most 2^32 buckets");
        let sorted = Sorted::new(plan.fingerprint_bits());
        Self::new(sorted, Pair::at_least(plan.buckets()), hasher)
    }
}

#[cfg(feature = "std")]
impl Filter<Sorted, Pair, Keyed> {
    /// Like [`Filter::with_rate`] of [`CuckooFilter`](crate::CuckooFilter), semi-sorted: half the rate with the same
    /// bits.
    ///
    /// # Panics
    /// If there is no such filter: see [`Plan::sorted_for_rate`].
    #[must_use]
    pub fn with_rate(items: usize, rate: f64) -> Self {
        Self::sorted_with_rate_and_hasher(items, rate, Keyed::random())
    }
}

impl<const BITS: u32, const SLOTS: u32, H> Filter<Fixed<BITS, SLOTS>, Pair, H> {
    /// Makes a filter for `items`, at the load that its bucket size allows.
    ///
    /// # Panics
    /// If there would be more than 2^32 buckets, or if buckets have one slot: see [`Plan::for_shape`].
    #[must_use]
    pub fn with_items(items: usize, hasher: H) -> Self {
        let plan = Plan::for_shape(items, BITS, SLOTS);
        Self::new(Fixed, Pair::at_least(plan.buckets()), hasher)
    }
}

impl<const BITS: u32, H> Filter<FixedSorted<BITS>, Pair, H> {
    /// Makes a filter for `items`, at the load that buckets of four allow.
    ///
    /// # Panics
    /// If there would be more than 2^32 buckets.
    #[must_use]
    pub fn with_items(items: usize, hasher: H) -> Self {
        let plan = Plan::for_shape(items, BITS, 4);
        Self::new(FixedSorted, Pair::at_least(plan.buckets()), hasher)
    }
}
