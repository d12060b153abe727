//! A filter that keeps a value with each fingerprint: an approximate map (thesis §4.6).
//!
//! A lookup returns all values stored under the item's fingerprint in its buckets. A present item's own value is
//! always among them, and other values are with probability ε. An absent item has a value with probability ε. Values
//! move with their fingerprints, and can be changed in place.
//!
//! # Invariants
//! 1. The filter can't distinguish items with the same fingerprint and buckets. A removal or change for one of them
//!    affects a pair of this fingerprint and the given value; each such item has its own pair.
//!
//! # Costs
//! As for a [`CuckooFilter`](crate::CuckooFilter), with v more bits per slot.

use crate::filter::{Filter, FilterFull, LoadError};
use crate::hash::Keyed;
use crate::layout::{Lanes, Slots};
use crate::orbit::Pair;
use crate::plan::Plan;
use crate::swar::mask;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};

/// An approximate map from items to values of up to 24 bits.
///
/// ```
/// use guira_filter::ValueFilter;
///
/// let mut shards = ValueFilter::with_rate(10_000, 0.001, 4);
/// shards.insert("ani", 3)?;
/// assert!(shards.get("ani").any(|shard| shard == 3));
/// shards.replace("ani", 3, 9);
/// assert!(shards.get("ani").any(|shard| shard == 9));
/// # Ok::<(), guira_filter::FilterFull>(())
/// ```
#[derive(Clone, Debug)]
pub struct ValueFilter<H = Keyed> {
    filter: Filter<Lanes, Pair, H>,
}

#[cfg(feature = "std")]
impl ValueFilter<Keyed> {
    /// Makes a filter for `items` with values of `value_bits` bits, in which at most the share `rate` of absent items
    /// has a value.
    ///
    /// # Panics
    /// If there is no such filter (see [`Plan::for_rate`]), or a value has more than 24 bits.
    #[must_use]
    pub fn with_rate(items: usize, rate: f64, value_bits: u32) -> Self {
        Self::with_rate_and_hasher(items, rate, value_bits, Keyed::random())
    }
}

impl ValueFilter<Keyed> {
    /// As [`Filter::to_bytes`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.filter.to_bytes()
    }

    /// As [`Filter::from_bytes`].
    ///
    /// # Errors
    /// [`LoadError`] for any bytes that `to_bytes` of a `ValueFilter` can't have made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        let filter = Filter::restore_with_key(bytes, true)?;
        Ok(Self { filter })
    }
}

impl<H> ValueFilter<H> {
    /// Like [`ValueFilter::with_rate`], with a hash provided by the caller.
    ///
    /// # Panics
    /// If there is no such filter (see [`Plan::for_rate`]), or a value has more than 24 bits.
    #[must_use]
    pub fn with_rate_and_hasher(items: usize, rate: f64, value_bits: u32, hasher: H) -> Self {
        let plan = Plan::for_values(items, rate, value_bits);
        let plan =
            plan.expect("a rate above 1e-9, at most 2^32 buckets, values of at most 24 bits");
        let lanes = Lanes::checked(plan.fingerprint_bits(), value_bits, plan.bucket_slots());
        let lanes = lanes.expect("a plan is within bounds");
        Self { filter: Filter::new(lanes, Pair::at_least(plan.buckets()), hasher) }
    }

    /// The number of pairs in the filter.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    /// Whether the filter is empty.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// v: the number of bits of a value.
    pub fn value_bits(&self) -> u32 {
        self.filter.layout().value_bits()
    }

    /// The underlying filter of fingerprints, for its statistics: load, rate, bytes.
    pub fn filter(&self) -> &Filter<Lanes, Pair, H> {
        &self.filter
    }
}

impl<H: BuildHasher> ValueFilter<H> {
    /// Enters an item with a value. An item may be entered again, with this or another value, up to 2b times in
    /// total. Costs as much as [`Filter::insert`].
    ///
    /// # Errors
    /// [`FilterFull`] if no slot can be made free; nothing was displaced.
    ///
    /// # Panics
    /// If the value has more bits than the filter's values.
    pub fn insert<T: Hash + ?Sized>(&mut self, item: &T, value: u32) -> Result<(), FilterFull> {
        let (home, fingerprint) = self.find(item);
        let content = self.content(fingerprint, value);
        self.filter.insert_content(home, content)
    }

    /// The values under the item's fingerprint: its own, and rarely others as well. An absent item rarely has any.
    /// Reads two cache lines.
    pub fn get<T: Hash + ?Sized>(&self, item: &T) -> impl Iterator<Item = u32> + use<T, H> {
        let (home, fingerprint) = self.find(item);
        let bits = self.filter.fingerprint_bits();
        let mut values = [0; CANDIDATES_MAX];
        let mut len = 0;
        self.filter.for_each_in_orbit(home, fingerprint, |content| {
            if content & mask(bits) == fingerprint {
                values[len] = u32::try_from(content >> bits).expect("at most 24 bits");
                len += 1;
            }
        });
        values.into_iter().take(len)
    }

    /// Whether the item has a value. True for a share of [`Filter::rate`] of absent items. Reads two cache lines.
    pub fn contains<T: Hash + ?Sized>(&self, item: &T) -> bool {
        let (home, fingerprint) = self.find(item);
        self.filter.holds(home, fingerprint)
    }

    /// Removes an item that was inserted with this value. Returns false if there is none.
    pub fn remove<T: Hash + ?Sized>(&mut self, item: &T, value: u32) -> bool {
        let (home, fingerprint) = self.find(item);
        let content = self.content(fingerprint, value);
        self.filter.remove_content(home, content)
    }

    /// Changes the value of an item that was inserted with `old`. Returns false if there is none. The change is made
    /// in place, so it can't fail for lack of room.
    ///
    /// # Panics
    /// If `new` has more bits than the filter's values.
    pub fn replace<T: Hash + ?Sized>(&mut self, item: &T, old: u32, new: u32) -> bool {
        let (home, fingerprint) = self.find(item);
        let (old, new) = (self.content(fingerprint, old), self.content(fingerprint, new));
        self.filter.change_content(home, old, new)
    }

    fn find<T: Hash + ?Sized>(&self, item: &T) -> (u64, u64) {
        let hash = self.filter.hash(item);
        (self.filter.home(hash), self.filter.fingerprint(hash))
    }

    fn content(&self, fingerprint: u64, value: u32) -> u64 {
        let bits = self.value_bits();
        assert!(u64::from(value) <= mask(bits), "{value} has more than {bits} bits");
        u64::from(value) << self.filter.fingerprint_bits() | fingerprint
    }
}

/// The slots of two buckets of eight.
const CANDIDATES_MAX: usize = 16;
