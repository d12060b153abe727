//! The layout of a bucket's slots in memory: in lanes ([`Lanes`], [`Fixed`]) or semi-sorted ([`Sorted`],
//! [`FixedSorted`]).
//!
//! # Layout
//! ```text
//! table        | bucket 0 | bucket 1 | … | 8 bytes of padding      buckets without gaps, not even to a byte
//! bucket       | slot 0 | slot 1 | …                               lanes
//! slot         | fingerprint f bits | value v bits |               0 = empty; v = 0 but in a filter with values
//! ```
//! A bucket is read by the fewest unaligned 64-bit loads that hold whole slots. One load is enough for a bucket of up
//! to 57 bits, or of 64 bits if it starts at a byte.
//!
//! # Invariants
//! 1. The content of a slot is 0, or its fingerprint is not 0.
//! 2. A load of a bucket stays in the table: 8 bytes of padding follow the last bucket.

mod sorted;

use crate::swar::{Swar, address, mask};
pub use sorted::{FixedSorted, Sorted};

/// The contents of a bucket's slots. Elements after its last slot are 0.
pub(crate) type Contents = [u64; SLOTS_MAX];

/// The maximum number of slots of a bucket.
pub(crate) const SLOTS_MAX: usize = 8;

/// How the slots of a bucket are stored. It can't be implemented outside this crate.
pub trait Layout: Slots {}

/// The operations that a filter needs of a layout. `table` is the table's bytes, `bucket` a bucket's number.
pub trait Slots: Copy {
    /// Bits of a fingerprint.
    fn fingerprint_bits(&self) -> u32;

    /// Bits of the value stored with each fingerprint.
    fn value_bits(&self) -> u32;

    /// Slots of a bucket.
    fn slots(&self) -> u32;

    /// Bits of a bucket.
    fn bucket_bits(&self) -> u32;

    /// Whether a slot of one of the buckets has this fingerprint. Loads from all buckets before it tests the result.
    fn holds<const N: usize>(&self, table: &[u8], buckets: [u64; N], fingerprint: u64) -> bool;

    /// The contents of all slots.
    fn contents(&self, table: &[u8], bucket: u64) -> Contents;

    /// Changes one slot that holds `old` to hold `new`. Returns false if no slot holds `old`. 0 is an empty slot.
    fn replace(&self, table: &mut [u8], bucket: u64, old: u64, new: u64) -> bool;

    /// Whether any slot is empty.
    fn is_open(&self, table: &[u8], bucket: u64) -> bool;

    /// Whether the bucket's bits are what [`Slots::replace`] could have left.
    fn is_valid(&self, table: &[u8], bucket: u64) -> bool;

    /// The layout's number in a stored filter.
    const KIND: u8;

    /// The layout of a stored filter, if this type can represent it.
    fn restore(fingerprint_bits: u32, value_bits: u32, slots: u32) -> Option<Self>;
}

/// Fingerprints of 4 to 32 bits in buckets of 1, 2, 4 or 8 slots, chosen at run time.
///
/// Buckets of one slot need a choice of more than two buckets to fill well: see [`Digits`](crate::Digits).
///
/// Lookups take as long as with [`Fixed`], inserts a quarter longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    fingerprint_bits: u32,
    slot_bits: u32,
    slots: u32,
    bucket_bits: u32,
    /// Groups per bucket. A group is the slots that one load reads.
    groups: u32,
    group_bits: u32,
    /// Bytes of a bucket, if it is one group, starts at a byte, and has no values; otherwise 0.
    bucket_bytes: u32,
    swar: Swar,
    /// The bits of a group that belong to fingerprints.
    fingerprints: u64,
}

impl Lanes {
    /// Makes the layout.
    ///
    /// # Panics
    /// If `fingerprint_bits` is not in 4 to 32, or `slots` is not 1, 2, 4 or 8.
    #[must_use]
    pub const fn new(fingerprint_bits: u32, slots: u32) -> Self {
        match Self::checked(fingerprint_bits, 0, slots) {
            Some(lanes) => lanes,
            None => panic!("fingerprints have 4 to 32 bits, buckets 1, 2, 4 or 8 slots"),
        }
    }

    /// Like [`Lanes::new`], with a value of up to 24 bits for each fingerprint. `None` if a number is out of range.
    pub(crate) const fn checked(bits: u32, value_bits: u32, slots: u32) -> Option<Self> {
        let is_narrow = bits >= 4 && bits <= 32 && value_bits <= VALUE_BITS_MAX;
        let is_small = slots.is_power_of_two() && slots <= 8;
        if !is_narrow || !is_small {
            return None;
        }
        let slot_bits = bits + value_bits;
        let mut group = slots;
        while group > 1 && group * slot_bits + shift_max(group * slot_bits) > 64 {
            group /= 2;
        }
        let swar = Swar::new(slot_bits, group);
        let bucket_bits = slots * slot_bits;
        let is_plain = group == slots && value_bits == 0 && bucket_bits.is_multiple_of(8);
        Some(Self {
            fingerprint_bits: bits,
            slot_bits,
            slots,
            bucket_bits,
            groups: slots / group,
            group_bits: group * slot_bits,
            bucket_bytes: if is_plain { bucket_bits / 8 } else { 0 },
            swar,
            fingerprints: swar.spread(mask(bits)),
        })
    }

    /// The complement of a fingerprint, in each lane.
    #[inline(always)]
    const fn complement(&self, fingerprint: u64) -> u64 {
        self.swar.spread(fingerprint ^ mask(self.fingerprint_bits))
    }

    /// Sets the highest bit of a lane if its fingerprint differs from the complement in every bit. Other bits mean
    /// nothing.
    #[inline(always)]
    const fn marks(&self, word: u64, complement: u64) -> u64 {
        self.swar.full((word ^ complement) | !self.fingerprints)
    }

    /// [`Slots::holds`], for buckets of more than two groups.
    #[inline(never)]
    fn holds_in_groups(&self, table: &[u8], buckets: &[u64], complement: u64) -> bool {
        let mut found = 0;
        for bit in buckets.iter().flat_map(|&bucket| self.groups(bucket)) {
            found |= self.marks(load(table, bit), complement);
        }
        found & self.swar.highs() != 0
    }

    /// [`Slots::replace`], in all groups except the first.
    #[inline(never)]
    fn replace_in_groups(&self, table: &mut [u8], bucket: u64, old: u64, new: u64) -> bool {
        self.groups(bucket).skip(1).any(|bit| {
            let lane = self.swar.position(load(table, bit), old);
            lane.inspect(|lane| change(table, bit, (old ^ new) << lane)).is_some()
        })
    }

    /// The positions of the first bits of the bucket's groups.
    #[inline(always)]
    fn groups(&self, bucket: u64) -> impl Iterator<Item = u64> + use<> {
        let (start, step) = (bucket * u64::from(self.bucket_bits), self.group_bits);
        (0..self.groups).map(move |n| start + u64::from(n * step))
    }
}

/// The highest bit offset in a byte at which a group may start.
const fn shift_max(group_bits: u32) -> u32 {
    let step = 1 << group_bits.trailing_zeros();
    8_u32.saturating_sub(step)
}

impl Layout for Lanes {}

impl Slots for Lanes {
    const KIND: u8 = 1;

    #[inline(always)]
    fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    #[inline(always)]
    fn value_bits(&self) -> u32 {
        self.slot_bits - self.fingerprint_bits
    }

    #[inline(always)]
    fn slots(&self) -> u32 {
        self.slots
    }

    #[inline(always)]
    fn bucket_bits(&self) -> u32 {
        self.bucket_bits
    }

    /// The branches go the same way for each lookup in a filter: they are predicted well, or moved out of a loop.
    #[inline(always)]
    fn holds<const N: usize>(&self, table: &[u8], buckets: [u64; N], fingerprint: u64) -> bool {
        let complement = self.complement(fingerprint);
        let mut found = 0;
        if self.bucket_bytes > 0 {
            for bucket in buckets {
                let word = load_byte(table, bucket * u64::from(self.bucket_bytes));
                found |= self.swar.full(word ^ complement);
            }
        } else if self.groups == 1 {
            for bucket in buckets {
                let word = load(table, bucket * u64::from(self.bucket_bits));
                found |= self.marks(word, complement);
            }
        } else if self.groups == 2 {
            for bucket in buckets {
                let start = bucket * u64::from(self.bucket_bits);
                let behind = load(table, start + u64::from(self.group_bits));
                found |= self.marks(load(table, start), complement);
                found |= self.marks(behind, complement);
            }
        } else {
            return self.holds_in_groups(table, &buckets, complement);
        }
        found & self.swar.highs() != 0
    }

    #[inline]
    fn contents(&self, table: &[u8], bucket: u64) -> Contents {
        let mut contents = [0; SLOTS_MAX];
        let mut slots = contents.iter_mut();
        for bit in self.groups(bucket) {
            let word = load(table, bit);
            for (lane, slot) in (0..self.swar.lanes()).zip(&mut slots) {
                *slot = self.swar.lane(word, lane);
            }
        }
        contents
    }

    #[inline]
    fn replace(&self, table: &mut [u8], bucket: u64, old: u64, new: u64) -> bool {
        let start = bucket * u64::from(self.bucket_bits);
        if let Some(lane) = self.swar.position(load(table, start), old) {
            change(table, start, (old ^ new) << lane);
            return true;
        }
        self.groups > 1 && self.replace_in_groups(table, bucket, old, new)
    }

    #[inline]
    fn is_open(&self, table: &[u8], bucket: u64) -> bool {
        let is_open = |bit| self.swar.zeroes(load(table, bit)) != 0;
        is_open(bucket * u64::from(self.bucket_bits))
            || self.groups > 1 && self.groups(bucket).skip(1).any(is_open)
    }

    fn is_valid(&self, table: &[u8], bucket: u64) -> bool {
        let named = mask(self.fingerprint_bits);
        self.contents(table, bucket).iter().all(|&slot| slot == 0 || slot & named != 0)
    }

    fn restore(fingerprint_bits: u32, value_bits: u32, slots: u32) -> Option<Self> {
        Self::checked(fingerprint_bits, value_bits, slots)
    }
}

/// Like [`Lanes`], with `BITS` bits of fingerprint and `SLOTS` slots per bucket known to the compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed<const BITS: u32, const SLOTS: u32>;

impl<const BITS: u32, const SLOTS: u32> Fixed<BITS, SLOTS> {
    const LANES: Lanes = Lanes::new(BITS, SLOTS);
}

impl<const BITS: u32, const SLOTS: u32> Layout for Fixed<BITS, SLOTS> {}

impl<const BITS: u32, const SLOTS: u32> Slots for Fixed<BITS, SLOTS> {
    const KIND: u8 = Lanes::KIND;

    #[inline(always)]
    fn fingerprint_bits(&self) -> u32 {
        BITS
    }

    #[inline(always)]
    fn value_bits(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn slots(&self) -> u32 {
        SLOTS
    }

    #[inline(always)]
    fn bucket_bits(&self) -> u32 {
        Self::LANES.bucket_bits()
    }

    #[inline(always)]
    fn holds<const N: usize>(&self, table: &[u8], buckets: [u64; N], fingerprint: u64) -> bool {
        Self::LANES.holds(table, buckets, fingerprint)
    }

    #[inline]
    fn contents(&self, table: &[u8], bucket: u64) -> Contents {
        Self::LANES.contents(table, bucket)
    }

    #[inline]
    fn replace(&self, table: &mut [u8], bucket: u64, old: u64, new: u64) -> bool {
        Self::LANES.replace(table, bucket, old, new)
    }

    #[inline]
    fn is_open(&self, table: &[u8], bucket: u64) -> bool {
        Self::LANES.is_open(table, bucket)
    }

    fn is_valid(&self, table: &[u8], bucket: u64) -> bool {
        Self::LANES.is_valid(table, bucket)
    }

    fn restore(fingerprint_bits: u32, value_bits: u32, slots: u32) -> Option<Self> {
        ((fingerprint_bits, value_bits, slots) == (BITS, 0, SLOTS)).then_some(Self)
    }
}

/// Loads 64 bits from bit `bit` on. Bits above the 57th may be missing.
#[inline(always)]
fn load(table: &[u8], bit: u64) -> u64 {
    load_byte(table, bit >> 3) >> (bit & 7)
}

/// Loads 64 bits from byte `byte` on.
#[inline(always)]
fn load_byte(table: &[u8], byte: u64) -> u64 {
    let at = address(byte);
    u64::from_le_bytes(table[at..at + 8].try_into().expect("eight bytes"))
}

/// Flips the bits that are set in `bits`, from bit `bit` on.
#[inline(always)]
fn change(table: &mut [u8], bit: u64, bits: u64) {
    let at = address(bit >> 3);
    let bytes: &mut [u8; 8] = (&mut table[at..at + 8]).try_into().expect("eight bytes");
    *bytes = (u64::from_le_bytes(*bytes) ^ bits << (bit & 7)).to_le_bytes();
}

/// The maximum number of bits of a value.
pub(crate) const VALUE_BITS_MAX: u32 = 24;

#[cfg(test)]
mod tests;
