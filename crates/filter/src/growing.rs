//! A filter that grows: a chain of filters, each for twice as many items as the one before.
//!
//! A filter can't be enlarged without its items, so a full one stays and a larger one is added to the chain. The n-th
//! filter has a rate of 6/π² · ε/n², and these rates sum to ε for any number of filters. This costs 2 log2(n) more
//! bits per item than a filter of known size needs: 6.6 for the tenth.
//!
//! # Invariants
//! 1. A removal takes a fingerprint only out of the single filter that has it. If several filters seem to have it,
//!    then all except one are mistaken, and which one is right is unknown. Removing from a wrong filter would lose
//!    another item, so no filter is changed.
//! 2. No filter holds more items than it was planned for, so that its rate holds.
//!
//! # Costs
//! A lookup searches every filter of the chain, the youngest first. Bad at: absent items, if the first estimate of
//! the size was much too low; 2 cache lines per filter.

use crate::CuckooFilter;
use crate::filter::{FilterFull, LoadError, checksum};
use crate::hash::Keyed;
use crate::plan::Plan;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};

/// An approximate set of any size, with a bounded false positive rate.
///
/// ```
/// use guira_filter::{GrowingCuckooFilter, Removal};
///
/// let mut seen = GrowingCuckooFilter::with_rate(100, 0.01);
/// (0..10_000).try_for_each(|n| seen.insert(&n))?;
/// assert!((0..10_000).all(|n| seen.contains(&n)));
/// assert_ne!(seen.remove(&17), Removal::Absent);
/// # Ok::<(), guira_filter::FilterFull>(())
/// ```
#[derive(Clone, Debug)]
pub struct GrowingCuckooFilter<H = Keyed> {
    links: Vec<Link<H>>,
    hasher: H,
    first_items: usize,
    rate: f64,
}

#[derive(Clone, Debug)]
struct Link<H> {
    filter: CuckooFilter<H>,
    items_max: usize,
}

/// The result of [`GrowingCuckooFilter::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// One copy was removed.
    Removed,
    /// More than one filter of the chain seems to have the item, so nothing was removed: removing a wrong fingerprint
    /// would lose another item. The item is still found. This happens to at most a share of ε of the items, and to
    /// items that were inserted more than once into different filters.
    Ambiguous,
    /// The item is not in the chain.
    Absent,
}

#[cfg(feature = "std")]
impl GrowingCuckooFilter<Keyed> {
    /// Makes a chain that starts with a filter for `first_items`, and never finds more than the share `rate` of
    /// absent items.
    ///
    /// # Panics
    /// If `rate` is not between 1e-5 and 1, or the first filter would have more than 2^32 buckets.
    #[must_use]
    pub fn with_rate(first_items: usize, rate: f64) -> Self {
        Self::with_rate_and_hasher(first_items, rate, Keyed::random())
    }
}

impl<H: BuildHasher + Clone> GrowingCuckooFilter<H> {
    /// Like [`GrowingCuckooFilter::with_rate`], with a hash provided by the caller.
    ///
    /// # Panics
    /// If `rate` is not between 1e-5 and 1, or the first filter would have more than 2^32 buckets.
    #[must_use]
    pub fn with_rate_and_hasher(first_items: usize, rate: f64, hasher: H) -> Self {
        assert!(is_possible(first_items, rate), "a rate between 1e-5 and 1, 2^32 buckets");
        Self { links: Vec::new(), hasher, first_items: first_items.max(64), rate }
    }

    /// Enters an item. The chain grows if there is no room.
    ///
    /// # Errors
    /// [`FilterFull`] if the item is in a filter as often as possible ([`FilterFull::is_of_copies`]), or if the chain
    /// can't grow further, because the next filter would have more than 2^32 buckets. The item was not entered.
    pub fn insert<T: Hash + ?Sized>(&mut self, item: &T) -> Result<(), FilterFull> {
        let hash = self.hasher.hash_one(item);
        for link in self.links.iter_mut().rev() {
            if link.filter.len() < link.items_max {
                match link.filter.insert_hash(hash) {
                    Err(full) if !full.is_of_copies() => {}
                    done => return done,
                }
            }
        }
        match self.grow() {
            Some(filter) => filter.insert_hash(hash),
            None => Err(self.full()),
        }
    }

    /// Whether the item is in the set. True for at most a share of [`GrowingCuckooFilter::rate`] of absent items.
    pub fn contains<T: Hash + ?Sized>(&self, item: &T) -> bool {
        let hash = self.hasher.hash_one(item);
        self.links.iter().rev().any(|link| link.filter.contains_hash(hash))
    }

    /// Removes one copy of an item that was inserted, if only one filter seems to have it.
    pub fn remove<T: Hash + ?Sized>(&mut self, item: &T) -> Removal {
        let hash = self.hasher.hash_one(item);
        let mut having = self.links.iter_mut().filter(|link| link.filter.contains_hash(hash));
        match (having.next(), having.next()) {
            (None, _) => Removal::Absent,
            (Some(_), Some(_)) => Removal::Ambiguous,
            (Some(link), None) => {
                link.filter.remove_hash(hash);
                Removal::Removed
            }
        }
    }

    /// Adds another filter to the chain. Returns `None` if there can be no such filter.
    #[cold]
    fn grow(&mut self) -> Option<&mut CuckooFilter<H>> {
        let number = self.links.len();
        let items_max = items_of(self.first_items, number)?;
        let plan = Plan::for_rate(items_max, rate_of(self.rate, number))?;
        let filter = CuckooFilter::with_plan(&plan, self.hasher.clone());
        self.links.push(Link { filter, items_max });
        Some(&mut self.links[number].filter)
    }

    fn full(&self) -> FilterFull {
        let slots = self.links.iter().map(|link| link.filter.slots()).sum();
        FilterFull { len: self.len(), slots, copies: 0, copies_max: 2 }
    }
}

impl<H> GrowingCuckooFilter<H> {
    /// The number of fingerprints in all filters.
    pub fn len(&self) -> usize {
        self.links.iter().map(|link| link.filter.len()).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of filters in the chain.
    pub fn chain_len(&self) -> usize {
        self.links.len()
    }

    /// Bytes of all tables.
    pub fn table_bytes(&self) -> usize {
        self.links.iter().map(|link| link.filter.table_bytes()).sum()
    }

    /// The bound on the share of absent items that are found.
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

impl GrowingCuckooFilter<Keyed> {
    /// The chain as bytes, its hash key among them.
    ///
    /// ```text
    ///  0  magic "guirachn"   16  rate, as the bits of an f64    40  checksum of bytes 0..40, 8 bytes
    ///  8  version, 2 bytes   24  items of the first, 8 bytes    48  filters, each its length in 8 bytes, then
    /// 10  zeroes, 6 bytes    32  filters, 8 bytes                   as Filter::to_bytes; an empty one comes first
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::from(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(self.rate.to_bits().to_le_bytes());
        bytes.extend((self.first_items as u64).to_le_bytes());
        bytes.extend((self.links.len() as u64).to_le_bytes());
        bytes.extend(checksum(&bytes, &[]).to_le_bytes());
        // A chain without filters has a key too: that of an empty filter.
        let empty = [CuckooFilter::with_rate_and_hasher(1, 0.5, self.hasher)];
        for filter in empty.iter().chain(self.links.iter().map(|link| &link.filter)) {
            let stored = filter.to_bytes();
            bytes.extend((stored.len() as u64).to_le_bytes());
            bytes.extend(stored);
        }
        bytes
    }

    /// Loads the chain that [`GrowingCuckooFilter::to_bytes`] stored.
    ///
    /// # Errors
    /// [`LoadError`] for any bytes that `to_bytes` can't have made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(LoadError::NotAFilter)?;
        let (version, mut rest) = take(rest)?;
        if version != u64::from(VERSION) {
            return Err(LoadError::Version(u16::from_le_bytes([bytes[8], bytes[9]])));
        }
        let mut integer = || take(rest).map(|(n, left)| (rest = left, n).1);
        let rate = f64::from_bits(integer()?);
        let (first_items, links, written) = (integer()?, integer()?, integer()?);
        if checksum(&bytes[..40], &[]) != written && !cfg!(fuzzing) {
            return Err(LoadError::Checksum);
        }
        let first_items = usize::try_from(first_items).map_err(|_| LoadError::Shape)?;
        if !is_possible(first_items, rate) || first_items < 64 {
            return Err(LoadError::Shape);
        }
        let (empty, mut rest) = take_filter(rest)?;
        let mut chain = Self::with_rate_and_hasher(first_items, rate, *empty.hasher());
        for number in 0..links {
            let (filter, left) = take_filter(rest)?;
            let number = usize::try_from(number).map_err(|_| LoadError::Shape)?;
            let items_max = items_of(first_items, number).ok_or(LoadError::Shape)?;
            let plan = Plan::for_rate(items_max, rate_of(rate, number));
            let is_planned = plan.is_some_and(|plan| filter.is_of(&plan));
            if !is_planned || filter.hasher() != empty.hasher() || filter.len() > items_max {
                return Err(LoadError::Shape);
            }
            chain.links.push(Link { filter, items_max });
            rest = left;
        }
        if rest.is_empty() && empty.is_empty() { Ok(chain) } else { Err(LoadError::Contents) }
    }
}

fn take_filter(bytes: &[u8]) -> Result<(CuckooFilter, &[u8]), LoadError> {
    let (len, rest) = take(bytes)?;
    let stored = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    let (stored, rest) = stored.ok_or(LoadError::Length(len))?;
    Ok((CuckooFilter::from_bytes(stored)?, rest))
}

fn take(bytes: &[u8]) -> Result<(u64, &[u8]), LoadError> {
    let (first, rest) = bytes.split_first_chunk().ok_or(LoadError::Length(8))?;
    Ok((u64::from_le_bytes(*first), rest))
}

/// The number of items planned for the filter with this number, from 0.
fn items_of(first_items: usize, number: usize) -> Option<usize> {
    let factor = 1_usize.checked_shl(u32::try_from(number).ok()?)?;
    first_items.checked_mul(factor)
}

/// The rate of the filter with this number, from 0. The rates of all filters sum to `rate`.
fn rate_of(rate: f64, number: usize) -> f64 {
    let place = f64::from(u32::try_from(number + 1).unwrap_or(u32::MAX));
    rate * BASEL_INVERSE / (place * place)
}

fn is_possible(first_items: usize, rate: f64) -> bool {
    (1e-5..1.0).contains(&rate) && Plan::for_rate(first_items, rate_of(rate, 0)).is_some()
}

/// 6/π²: one over the sum of all 1/n².
const BASEL_INVERSE: f64 = 0.607_927_101_854_026_6;
const MAGIC: [u8; 8] = *b"guirachn";
const VERSION: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses full filters in place of the same number of filters of doubling sizes: 64 · 2^40 items are too many.
    #[test]
    fn a_chain_that_may_not_grow_further_is_full() {
        let mut chain = GrowingCuckooFilter::with_rate_and_hasher(64, 0.01, Keyed::from_seed(1));
        let filter = || CuckooFilter::with_rate_and_hasher(1, 0.5, Keyed::from_seed(1));
        chain.links.extend((0..40).map(|_| Link { filter: filter(), items_max: 0 }));
        let full = chain.insert(&1).expect_err("2^46 items");
        assert!(!full.is_of_copies() && !chain.contains(&1));
        assert_eq!(chain.chain_len(), 40);
    }
}
