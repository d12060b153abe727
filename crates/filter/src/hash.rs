//! The default hash: fast, keyed, and the same on every machine, so that a stored filter can be read elsewhere.
//!
//! An integer is multiplied by the key to 128 bits and folded to 64 bits; the final state is folded once more with a
//! constant. Bytes are taken in sixteen at a time. Strangers who choose items but don't know the key can't target
//! buckets. The hash is not a cryptographic function. To withstand attackers who observe the filter's answers, use a
//! `BuildHasher` of `SipHash` (`std::hash::RandomState` for a filter that is never stored).
//!
//! # Invariants
//! 1. Every integer is hashed in little-endian order, and `usize` as 64 bits: the result depends only on the key and
//!    the input.
//! 2. The function is part of the stored format: changing it requires a new version of that format
//!    (`filter/store.rs`).

use core::hash::{BuildHasher, Hasher};

/// Builds [`KeyedHasher`]s. With feature `std`, [`Keyed::random`] (and `default`) takes a key from the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keyed {
    key: [u64; 2],
}

impl Keyed {
    /// Makes a key that differs in each call and process.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn random() -> Self {
        let state = std::hash::RandomState::new();
        Self::from_key([state.hash_one(0), state.hash_one(1)])
    }

    /// Derives the key from a seed, for tests and figures that must be repeatable. Filters that share a seed agree on
    /// all hashes.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self::from_key([scramble(seed), scramble(seed ^ GOLDEN)])
    }

    /// Uses the key that [`Keyed::key`] returned.
    #[must_use]
    pub const fn from_key(key: [u64; 2]) -> Self {
        Self { key }
    }

    /// Returns the key itself. Anyone who knows it can make items that share buckets.
    #[must_use]
    pub const fn key(&self) -> [u64; 2] {
        self.key
    }
}

#[cfg(feature = "std")]
impl Default for Keyed {
    fn default() -> Self {
        Self::random()
    }
}

/// Does not print the key.
impl core::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Keyed").finish_non_exhaustive()
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    #[inline]
    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { state: self.key[0], key: self.key[1] | 1 }
    }
}

/// See the module's head. Two multiplications for an integer, one for each 16 bytes of a string.
#[derive(Clone, Debug)]
pub struct KeyedHasher {
    state: u64,
    /// Odd, so that no integer is multiplied by 0.
    key: u64,
}

impl Hasher for KeyedHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (blocks, tail) = bytes.as_chunks::<16>();
        for block in blocks {
            self.mix(u128::from_le_bytes(*block));
        }
        let mut last = [0; 16];
        last[..tail.len()].copy_from_slice(tail);
        self.mix(u128::from_le_bytes(last));
        self.write_u64(bytes.len() as u64);
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    #[inline]
    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.state = fold(self.state ^ n, self.key);
    }

    #[inline]
    fn write_u128(&mut self, n: u128) {
        self.mix(n);
    }

    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        fold(self.state ^ self.key.rotate_left(32), GOLDEN)
    }
}

impl KeyedHasher {
    #[inline]
    fn mix(&mut self, n: u128) {
        self.state = fold(low(n) ^ self.state, low(n >> 64) ^ self.key);
    }
}

/// Folds the 128 bits of a product to 64.
#[inline]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    low(product) ^ low(product >> 64)
}

/// Spreads a small number over 64 bits. It is not linear, so that sums of fingerprints don't give sums of addresses.
#[inline]
pub(crate) const fn scramble(n: u64) -> u64 {
    let n = n.wrapping_mul(GOLDEN);
    (n ^ n >> 32).wrapping_mul(ODD)
}

/// Like [`scramble`], to 32 bits, for a third of the work. Squares are not linear either.
#[inline]
pub(crate) const fn scramble_short(n: u64) -> u64 {
    (n * n).wrapping_mul(GOLDEN) & 0xffff_ffff
}

/// Maps a well mixed `n` to a number below `range`: the number of the part of the 64-bit range in which `n` falls.
#[inline]
pub(crate) const fn reduce(n: u64, range: u64) -> u64 {
    low((n as u128 * range as u128) >> 64)
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
const fn low(n: u128) -> u64 {
    n as u64
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// The multiplier of Steele and Vigna's 64-bit MCG (Computationally easy, spectrally good multipliers, 2021).
const ODD: u64 = 0xd134_2543_de82_ef95;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_bit_of_the_input_changes_half_of_the_output() {
        let hasher = Keyed::from_seed(7);
        for bit in 0..64 {
            let samples = if cfg!(miri) { 4 } else { 2_000 };
            let flipped: u32 = (0..samples)
                .map(|n: u64| (hasher.hash_one(n) ^ hasher.hash_one(n ^ 1 << bit)).count_ones())
                .sum();
            let mean = f64::from(flipped) / f64::from(u32::try_from(samples).unwrap());
            assert!((28.0..36.0).contains(&mean) || cfg!(miri), "bit {bit}: {mean}");
        }
    }

    #[test]
    fn strings_of_zeroes_and_their_lengths_differ() {
        let hasher = Keyed::from_seed(7);
        let zeroes = [0; 70];
        let mut hashes: Vec<u64> = (0..70).map(|len| hasher.hash_one(&zeroes[..len])).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 70);
    }

    /// The stored format depends on this: a later version must find the items of a filter written before.
    #[test]
    fn the_function_stays_what_it_is() {
        let hasher = Keyed::from_key([1, 2]);
        assert_eq!(hasher.hash_one(3_u64), 0x332c_4e96_2118_854e);
        assert_eq!(hasher.hash_one("guira"), 0x73b4_136e_a6b3_1621);
        assert_eq!(hasher.hash_one([0_u8; 40]), 0xccdc_ab79_e646_5f80);
    }
}
