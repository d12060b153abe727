//! A filter that keeps a value beside each fingerprint: an approximate map (thesis §4.6).
//!
//! A look-up answers with all values stored under the item's fingerprint in its buckets: the item's own is always
//! among them, an absent item has one in ε of the cases, and a present one has others beside its own as seldom.
//! Values are moved with their fingerprints, and may be changed in place.
//!
//! # Invariants
//! 1. Items with the same fingerprint and buckets are one to the filter: what is removed or changed for one of them is
//!    a pair of this fingerprint and the named value, of which each such item had its own.
//!
//! # Costs
//! As a [`CuckooFilter`](crate::CuckooFilter), with v more bits a slot.

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
    /// For `items` with values of `value_bits`, where at most the share `rate` of absent items has a value.
    ///
    /// # Panics
    /// If there is no such filter (see [`Plan::for_rate`]) or a value has more than 24 bits.
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
    /// [`LoadError`] for everything that `to_bytes` of a `ValueFilter` can't have made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        let filter = Filter::restore_with_key(bytes, true)?;
        Ok(Self { filter })
    }
}

impl<H> ValueFilter<H> {
    /// As [`ValueFilter::with_rate`], with a hash of the caller's.
    ///
    /// # Panics
    /// If there is no such filter (see [`Plan::for_rate`]) or a value has more than 24 bits.
    #[must_use]
    pub fn with_rate_and_hasher(items: usize, rate: f64, value_bits: u32, hasher: H) -> Self {
        let plan = Plan::for_values(items, rate, value_bits);
        let plan =
            plan.expect("a rate above 1e-9, at most 2^32 buckets, values of at most 24 bits");
        let lanes = Lanes::checked(plan.fingerprint_bits(), value_bits, plan.bucket_slots());
        let lanes = lanes.expect("a plan is within bounds");
        Self { filter: Filter::new(lanes, Pair::at_least(plan.buckets()), hasher) }
    }

    /// Pairs in the filter.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    /// If nothing is in.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// v: bits of a value.
    pub fn value_bits(&self) -> u32 {
        self.filter.layout().value_bits()
    }

    /// The filter of fingerprints, for its figures: load, rate, bytes.
    pub fn filter(&self) -> &Filter<Lanes, Pair, H> {
        &self.filter
    }
}

impl<H: BuildHasher> ValueFilter<H> {
    /// Enters an item with a value; again if it was in with this or another, up to 2b times in all. Costs as
    /// [`Filter::insert`].
    ///
    /// # Errors
    /// [`FilterFull`] if no slot can be had; nothing was displaced.
    ///
    /// # Panics
    /// If the value has more bits than the filter's values.
    pub fn insert<T: Hash + ?Sized>(&mut self, item: &T, value: u32) -> Result<(), FilterFull> {
        let (home, fingerprint) = self.find(item);
        let content = self.content(fingerprint, value);
        self.filter.insert_content(home, content)
    }

    /// The values under the item's fingerprint: its own, seldom others beside it; seldom any if it is not in. Two lines.
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

    /// If the item has a value; true for [`Filter::rate`] of those that are not in. Two lines.
    pub fn contains<T: Hash + ?Sized>(&self, item: &T) -> bool {
        let (home, fingerprint) = self.find(item);
        self.filter.holds(home, fingerprint)
    }

    /// Takes out an item that was inserted with this value; false if there is none.
    pub fn remove<T: Hash + ?Sized>(&mut self, item: &T, value: u32) -> bool {
        let (home, fingerprint) = self.find(item);
        let content = self.content(fingerprint, value);
        self.filter.remove_content(home, content)
    }

    /// Changes the value of an item that was inserted with `old`; false if there is none. In place: it can't fail for
    /// lack of room.
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

/// Slots of two buckets of eight.
const CANDIDATES_MAX: usize = 16;
