//! Semi-sorted buckets of four (thesis §4.4.2; `CoNEXT` 2014 §5.2), which save one bit per slot.
//!
//! The order of a bucket's slots has no meaning, so it need not be stored. The four fingerprints are sorted, and
//! their highest four bits are stored together as the rank of that multiset. There are 3876 such multisets, so a rank
//! takes 12 bits instead of 16.
//!
//! # Layout
//! ```text
//! bucket  4(f-1) bits   | rank 12 | low f-4 bits of the least fingerprint | … | of the greatest |
//! ```
//! An empty slot is a fingerprint of 0, so empty slots come first.
//!
//! # Invariants
//! 1. The stored fingerprints ascend: each multiset has exactly one form.
//!
//! # Costs
//! A lookup decodes both buckets through a table of 32 KiB, without a branch. A change sorts and encodes the bucket
//! again. Bad at: changes. Inserts take twice as long as in lanes, removals four times.

use super::{Contents, Layout, SLOTS_MAX, Slots, change, load, load_byte};
use crate::hint;
use crate::swar::{address, mask};

/// Semi-sorted buckets of four fingerprints of 5 to 17 bits, chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorted {
    fingerprint_bits: u32,
}

impl Sorted {
    /// Makes the layout.
    ///
    /// # Panics
    /// If `fingerprint_bits` is not in 5 to 17.
    #[must_use]
    pub const fn new(fingerprint_bits: u32) -> Self {
        assert!(fingerprint_bits >= 5 && fingerprint_bits <= 17, "5 to 17 bits a fingerprint");
        Self { fingerprint_bits }
    }

    /// Bits of a fingerprint that are stored directly.
    #[inline(always)]
    const fn direct(self) -> u32 {
        self.fingerprint_bits - 4
    }

    /// The bucket's bits, followed by whatever comes after the bucket.
    #[inline(always)]
    fn load(self, table: &[u8], bucket: u64) -> u64 {
        if self.bucket_bits().is_multiple_of(8) {
            load_byte(table, bucket * u64::from(self.bucket_bits() / 8))
        } else {
            load(table, bucket * u64::from(self.bucket_bits()))
        }
    }

    #[inline(always)]
    fn word(self, table: &[u8], bucket: u64) -> u64 {
        self.load(table, bucket) & mask(self.bucket_bits())
    }

    /// The differences of the four fingerprints from `fingerprint`, 16 bits each. A difference of 0 means that they
    /// are equal.
    #[inline(always)]
    fn differences(self, word: u64, fingerprint: u64) -> u64 {
        let bits = self.direct();
        let highs = nibbles(word) ^ (fingerprint >> bits).wrapping_mul(LANES);
        let lows = (fingerprint & mask(bits)).wrapping_mul(LANES);
        highs | spread_direct(word >> RANK_BITS, bits) ^ lows
    }

    fn sort_and_encode(self, mut slots: [u64; 4]) -> u64 {
        for (a, b) in [(0, 2), (1, 3), (0, 1), (2, 3), (1, 2)] {
            let (less, more) = (slots[a].min(slots[b]), slots[a].max(slots[b]));
            (slots[a], slots[b]) = (less, more);
        }
        let bits = self.direct();
        let nibble = |slot: u64| usize::try_from(slot >> bits).expect("four bits");
        let rank = (0..4).map(|n| u64::from(CHOICES[n][nibble(slots[n])])).sum::<u64>();
        let direct = |word, &slot: &u64| word << bits | slot & mask(bits);
        rank | slots.iter().rev().fold(0, direct) << RANK_BITS
    }
}

/// The highest four bits of the word's four fingerprints, 16 bits apart.
#[inline(always)]
fn nibbles(word: u64) -> u64 {
    NIBBLES[address(word & mask(RANK_BITS))]
}

/// The four lowest numbers of `bits` bits each, 16 bits apart.
#[inline(always)]
fn spread_direct(word: u64, bits: u32) -> u64 {
    hint::deposit(word, mask(bits) * LANES).unwrap_or_else(|| {
        let pairs = word & mask(2 * bits) | word >> (2 * bits) << 32;
        let one = mask(bits) << 32 | mask(bits);
        pairs & one | (pairs << (16 - bits)) & one << 16
    })
}

impl Layout for Sorted {}

impl Slots for Sorted {
    const KIND: u8 = 2;

    #[inline(always)]
    fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    #[inline(always)]
    fn value_bits(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn slots(&self) -> u32 {
        4
    }

    #[inline(always)]
    fn bucket_bits(&self) -> u32 {
        4 * (self.fingerprint_bits - 1)
    }

    /// A difference is less than 2^13. The addition sets the highest bit of each lane, except of a lane with
    /// difference 0.
    #[inline(always)]
    fn holds<const N: usize>(&self, table: &[u8], buckets: [u64; N], fingerprint: u64) -> bool {
        let mut differ = HIGHS;
        for bucket in buckets {
            differ &= self.differences(self.load(table, bucket), fingerprint) + (HIGHS - LANES);
        }
        differ != HIGHS
    }

    #[inline]
    fn contents(&self, table: &[u8], bucket: u64) -> Contents {
        let fingerprints = self.decode(self.word(table, bucket));
        let mut contents = [0; SLOTS_MAX];
        contents[..4].copy_from_slice(&fingerprints);
        contents
    }

    #[inline]
    fn replace(&self, table: &mut [u8], bucket: u64, old: u64, new: u64) -> bool {
        let word = self.word(table, bucket);
        let mut slots = self.decode(word);
        let Some(at) = slots.iter().position(|&slot| slot == old) else { return false };
        slots[at] = new;
        let changed = self.sort_and_encode(slots) ^ word;
        change(table, bucket * u64::from(self.bucket_bits()), changed);
        true
    }

    #[inline]
    fn is_open(&self, table: &[u8], bucket: u64) -> bool {
        self.decode(self.word(table, bucket))[0] == 0
    }

    fn is_valid(&self, table: &[u8], bucket: u64) -> bool {
        let word = self.word(table, bucket);
        word & mask(RANK_BITS) < MULTISETS && self.sort_and_encode(self.decode(word)) == word
    }

    fn restore(fingerprint_bits: u32, value_bits: u32, slots: u32) -> Option<Self> {
        let fits = (5..=17).contains(&fingerprint_bits) && value_bits == 0 && slots == 4;
        fits.then_some(Self { fingerprint_bits })
    }
}

impl Sorted {
    #[inline(always)]
    fn decode(self, word: u64) -> [u64; 4] {
        let bits = self.direct();
        let nibbles = nibbles(word);
        let direct = word >> RANK_BITS;
        let slot = |n: u32| {
            let nibble = nibbles >> (16 * n) & 0xf;
            nibble << bits | direct >> (n * bits) & mask(bits)
        };
        [slot(0), slot(1), slot(2), slot(3)]
    }
}

/// Like [`Sorted`], with `BITS` bits of fingerprint known to the compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedSorted<const BITS: u32>;

impl<const BITS: u32> FixedSorted<BITS> {
    const SORTED: Sorted = Sorted::new(BITS);
}

impl<const BITS: u32> Layout for FixedSorted<BITS> {}

impl<const BITS: u32> Slots for FixedSorted<BITS> {
    const KIND: u8 = Sorted::KIND;

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
        4
    }

    #[inline(always)]
    fn bucket_bits(&self) -> u32 {
        Self::SORTED.bucket_bits()
    }

    #[inline(always)]
    fn holds<const N: usize>(&self, table: &[u8], buckets: [u64; N], fingerprint: u64) -> bool {
        Self::SORTED.holds(table, buckets, fingerprint)
    }

    #[inline]
    fn contents(&self, table: &[u8], bucket: u64) -> Contents {
        Self::SORTED.contents(table, bucket)
    }

    #[inline]
    fn replace(&self, table: &mut [u8], bucket: u64, old: u64, new: u64) -> bool {
        Self::SORTED.replace(table, bucket, old, new)
    }

    #[inline]
    fn is_open(&self, table: &[u8], bucket: u64) -> bool {
        Self::SORTED.is_open(table, bucket)
    }

    fn is_valid(&self, table: &[u8], bucket: u64) -> bool {
        Self::SORTED.is_valid(table, bucket)
    }

    fn restore(fingerprint_bits: u32, value_bits: u32, slots: u32) -> Option<Self> {
        let sorted = Sorted::restore(fingerprint_bits, value_bits, slots)?;
        (sorted.fingerprint_bits == BITS).then_some(Self)
    }
}

/// The number of multisets of four numbers of four bits.
const MULTISETS: u64 = 3876;
const RANK_BITS: u32 = 12;
/// 1 in each lane of 16 bits.
const LANES: u64 = 0x0001_0001_0001_0001;
/// The highest bit of each lane.
const HIGHS: u64 = LANES << 15;

/// `CHOICES[n][a]` is a + n over n + 1: the number of ranks before those whose n-th least nibble is a (combinatorial
/// number system).
const CHOICES: [[u16; 16]; 4] = choices();
/// The nibbles of each rank, in ascending order, 16 bits apart. Entries of numbers that are no multiset's rank are 0.
static NIBBLES: [u64; 1 << RANK_BITS] = nibbles_of_ranks();

const fn choices() -> [[u16; 16]; 4] {
    let mut table = [[0; 16]; 4];
    let mut n = 0;
    while n < 4 {
        let mut a = 1;
        while a < 16 {
            let above = if n == 0 { 1 } else { table[n - 1][a] };
            table[n][a] = table[n][a - 1] + above;
            a += 1;
        }
        n += 1;
    }
    table
}

const fn nibbles_of_ranks() -> [u64; 1 << RANK_BITS] {
    let mut table = [0; 1 << RANK_BITS];
    let mut packed = 0_u16;
    loop {
        let (a, b, c, d) = (packed & 15, packed >> 4 & 15, packed >> 8 & 15, packed >> 12);
        if a <= b && b <= c && c <= d {
            let rank = CHOICES[0][a as usize]
                + CHOICES[1][b as usize]
                + CHOICES[2][c as usize]
                + CHOICES[3][d as usize];
            table[rank as usize] =
                a as u64 | (b as u64) << 16 | (c as u64) << 32 | (d as u64) << 48;
        }
        if packed == u16::MAX {
            return table;
        }
        packed += 1;
    }
}
