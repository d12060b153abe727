//! How large a filter must be for a number of items and a false positive rate (thesis §4.4.1).
//!
//! A lookup compares 2b fingerprints at load α, and each is equal by chance in one of 2^f - 1 cases: ε ≤ 2bα / (2^f -
//! 1). Larger buckets fill higher but compare more. So for each b there are rates for which it takes the fewest bits,
//! f/α per item: b = 2 above 0.2 %, b = 4 below, depending on which f fits. The loads used are those that a filter
//! reaches in practice with room to spare, not the highest that it may reach.

use crate::layout::{Lanes, Slots, VALUE_BITS_MAX};
use crate::swar::mask;

/// The shape of a filter: bits per fingerprint, slots per bucket, and number of buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    fingerprint_bits: u32,
    bucket_slots: u32,
    buckets: u64,
    rate: f64,
    bits_per_item: f64,
}

impl Plan {
    /// f: bits of a fingerprint.
    #[must_use]
    pub const fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    /// b: slots of a bucket.
    #[must_use]
    pub const fn bucket_slots(&self) -> u32 {
        self.bucket_slots
    }

    /// m: the number of buckets. Even.
    #[must_use]
    pub const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// ε with all items in the filter: at most the rate that was requested.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// C: bits of the table per item, with all items in the filter.
    #[must_use]
    pub const fn bits_per_item(&self) -> f64 {
        self.bits_per_item
    }

    /// Returns the shape in lanes that takes the fewest bits for this many items at a false positive rate of at most
    /// `rate`.
    ///
    /// `None` if no fingerprint of 32 bits is enough (rates below 1e-9), if `rate` is not above 0, or if the table
    /// would have more than 2^32 buckets.
    #[must_use]
    pub fn for_rate(items: usize, rate: f64) -> Option<Self> {
        Self::for_values(items, rate, 0)
    }

    /// Like [`Plan::for_rate`], with a value of this many bits for each fingerprint.
    pub(crate) fn for_values(items: usize, rate: f64, value_bits: u32) -> Option<Self> {
        if value_bits > VALUE_BITS_MAX {
            return None;
        }
        // With few items, two slots are too few: by chance, three items may have the same buckets.
        let slots = if items < 1_000 { 4 } else { 2 };
        let shapes = [slots, 4, 8].into_iter().filter_map(|slots| {
            Self::least(items, rate, slots, 4..=32, |bits| slots * (bits + value_bits))
        });
        shapes.min_by(|a, b| a.bits_per_item.total_cmp(&b.bits_per_item))
    }

    /// Like [`Plan::for_rate`], for semi-sorted buckets of four, whose fingerprints have 5 to 17 bits.
    #[must_use]
    pub fn sorted_for_rate(items: usize, rate: f64) -> Option<Self> {
        Self::least(items, rate, 4, 5..=17, |bits| 4 * (bits - 1))
    }

    /// Returns the shape for this many items with fingerprints of `fingerprint_bits` in buckets of `bucket_slots`.
    ///
    /// # Panics
    /// As [`Lanes::new`], if there would be more than 2^32 buckets, or if buckets have one slot. With two buckets of
    /// one slot per item, a table fills to less than a half, and no size is certain to be enough. See
    /// [`Digits`](crate::Digits).
    #[must_use]
    pub fn for_shape(items: usize, fingerprint_bits: u32, bucket_slots: u32) -> Self {
        assert!(bucket_slots > 1, "a choice of two buckets takes two slots in each");
        let bits = |bits| Lanes::new(bits, bucket_slots).bucket_bits();
        Self::least(items, 1.0, bucket_slots, fingerprint_bits..=fingerprint_bits, bits)
            .expect("at most 2^32 buckets")
    }

    /// The shape with the shortest fingerprint in `range` that keeps `rate`.
    fn least(
        items: usize,
        rate: f64,
        slots: u32,
        range: core::ops::RangeInclusive<u32>,
        bucket_bits: impl Fn(u32) -> u32,
    ) -> Option<Self> {
        let buckets = buckets_for(items, slots)?;
        let load = load(items, buckets, slots);
        let explicit = range.start() == range.end();
        let fits = |&bits: &u32| keeps(rate, bits, slots, load) && spreads(bits, buckets, slots);
        let fingerprint_bits = range.into_iter().find(|bits| explicit || fits(bits))?;
        Some(Self {
            fingerprint_bits,
            bucket_slots: slots,
            buckets,
            rate: (2.0 * f64::from(slots) * load / range_of(fingerprint_bits)).min(1.0),
            bits_per_item: f64::from(bucket_bits(fingerprint_bits)) / (load * f64::from(slots)),
        })
    }
}

/// The number of fingerprints of this many bits.
pub(crate) fn range_of(bits: u32) -> f64 {
    f64::from(u32::try_from(mask(bits)).expect("at most 32 bits"))
}

/// The share of slots, in thousandths, that a large filter with buckets of this many slots certainly reaches.
pub(crate) const fn load_per_mille(slots: u32) -> u64 {
    match slots {
        0..=2 => 840,
        3 => 910,
        4 => 955,
        5 => 965,
        6..=7 => 972,
        _ => 983,
    }
}

/// The number of buckets for this many items, an even number. It is that at the load above, plus √n + 4b slots, since
/// small tables vary. Buckets of fewer than four slots get 128 more slots: in a small table, by chance five items may
/// have the same two buckets. None of a thousand filters of each of many sizes up to 3000 items failed because of
/// this.
pub(crate) fn buckets_for(items: usize, slots: u32) -> Option<u64> {
    let items = u64::try_from(items).ok()?.max(1);
    let wanted = items.checked_mul(1000)?.div_ceil(load_per_mille(slots));
    let spare = items.isqrt() + 4 * u64::from(slots) + if slots < 4 { 128 } else { 0 };
    let buckets = (wanted + spare).div_ceil(slots.into()).next_multiple_of(2);
    (buckets <= 1 << 32).then_some(buckets)
}

/// Whether fingerprints of this many bits lead to enough different buckets for the load above. That takes log2(m) /
/// 2b bits (thesis §4.3) and, as measured, three more for b = 2 and five for larger buckets, whose loads leave less
/// to spare.
pub(crate) fn spreads(bits: u32, buckets: u64, slots: u32) -> bool {
    let spare = if slots <= 2 { 3 } else { 5 };
    bits >= buckets.ilog2().div_ceil(2 * slots) + spare
}

/// Whether two buckets of this many slots at this load, compared with a fingerprint of this many bits, keep a rate.
pub(crate) fn keeps(rate: f64, bits: u32, slots: u32, load: f64) -> bool {
    2.0 * f64::from(slots) * load <= range_of(bits) * rate
}

/// The load: n / (m b).
pub(crate) fn load(items: usize, buckets: u64, slots: u32) -> f64 {
    float(items.max(1) as u64) / (float(buckets) * f64::from(slots))
}

#[expect(clippy::cast_precision_loss, reason = "sizes are told to a few digits")]
const fn float(n: u64) -> f64 {
    n as f64
}
