//! Cas uniques without a field in the item: counters, striped by the key hash.
//!
//! A key's unique derives from its stripe's count. Every change of any key of the stripe advances the count, so an
//! unchanged unique proves an unchanged item. The reverse can fail: another key of the stripe was written in between.
//! The client then needs one more round, as after any lost race. With `S` stripes and `w` writes between `gets` and
//! `cas`, this happens with probability `w / S`.
//!
//! # Invariants
//! 1. A writer advances the stripe after it has put the new item into the index, and before it unlocks the key's
//!    entry.
//! 2. A reader loads the stripe before it looks the key up. By invariant 1 its unique may be too old for the item
//!    (its `cas` then fails, although nothing changed), but never too new.
//! 3. Uniques of one key only grow, and uniques of different stripes differ. A count has 32 bits; wraps are counted
//!    once for all stripes together. A reader between a count's wrap and the increment of the wrap count gets a
//!    unique that the key had 2^32 changes ago. Its `cas` fails, although nothing changed.

use guira_index::Hash;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) struct CasStripes {
    /// Counts since the start. Allocated as zeroes, so that the system provides a page only when a stripe in it first
    /// counts.
    counts: Box<[AtomicU32]>,
    /// How many times any stripe's count has wrapped.
    wraps: AtomicU64,
    floor: u64,
    bits: u32,
}

impl CasStripes {
    /// Makes one stripe per KiB of `memory_bytes`, from 2^10 to 2^20 stripes. Counts start at `floor`, which exceeds
    /// every count of a former process that left its items: so no unique of that process matches.
    pub(crate) fn new(memory_bytes: usize, floor: u64) -> CasStripes {
        let stripes = (memory_bytes / 1024).next_power_of_two().clamp(1 << 10, 1 << 20);
        CasStripes {
            counts: bytemuck::zeroed_slice_box(stripes),
            wraps: AtomicU64::new(0),
            floor,
            bits: stripes.trailing_zeros(),
        }
    }

    /// The current unique of the keys with this hash.
    #[inline]
    pub(crate) fn get(&self, hash: Hash) -> u64 {
        let stripe = self.stripe(hash);
        self.unique(stripe, self.counts[stripe].load(Ordering::Acquire))
    }

    /// Advances the stripe and returns the new unique. The caller holds the key's entry (invariant 1).
    #[inline]
    pub(crate) fn advance(&self, hash: Hash) -> u64 {
        let stripe = self.stripe(hash);
        let count = self.counts[stripe].fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        if count == 0 {
            self.wraps.fetch_add(1, Ordering::AcqRel);
        }
        self.unique(stripe, count)
    }

    /// The highest count of any stripe.
    pub(crate) fn most(&self) -> u64 {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Acquire));
        self.since_start(counts.max().unwrap_or(0))
    }

    /// Prefetches the stripe's cache line, which is rarely in the processor's caches.
    #[inline]
    pub(crate) fn prefetch(&self, hash: Hash) {
        guira_index::prefetch(&self.counts[self.stripe(hash)]);
    }

    fn unique(&self, stripe: usize, count: u32) -> u64 {
        (self.since_start(count) << self.bits) | stripe as u64
    }

    fn since_start(&self, count: u32) -> u64 {
        self.floor + (self.wraps.load(Ordering::Acquire) << u32::BITS | u64::from(count))
    }

    /// The stripe of a hash, by its middle bits: the index uses the lowest (tag) and the highest (bucket).
    fn stripe(&self, hash: Hash) -> usize {
        (hash.0 >> 8) as usize & (self.counts.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_grows_with_each_change_and_no_two_stripes_share_one() {
        let stripes = CasStripes::new(1 << 20, 1);
        let (a, b) = (Hash(0x100), Hash(0x200));
        let before = stripes.get(a);
        let after = stripes.advance(a);
        assert!(after > before);
        assert_eq!(stripes.get(a), after);
        assert_ne!(stripes.get(a), stripes.get(b));
        assert_eq!(stripes.get(Hash(0x100)), stripes.get(Hash(0x1ff)), "the tag plays no part");
    }

    #[test]
    fn uniques_grow_when_a_count_wraps() {
        let stripes = CasStripes::new(1 << 20, 1);
        let (wrapping, other) = (Hash(0x100), Hash(0x200));
        stripes.counts[stripes.stripe(wrapping)].store(u32::MAX, Ordering::Relaxed);
        let before = [wrapping, other].map(|hash| stripes.get(hash));
        let most = stripes.most();
        let after = stripes.advance(wrapping);
        assert_eq!(stripes.get(wrapping), after);
        assert!(after > before[0] && stripes.get(other) > before[1]);
        assert!(stripes.most() > most);
    }
}
