//! Pseudo-random numbers for workloads: fast, seeded, and the same on every machine.
//!
//! `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014): one addition and two multiplications per number, and
//! any seed is a good seed. Bad at: secrets.

use rand_core::TryRng;
use std::convert::Infallible;

/// A stream of 64-bit numbers, determined by its seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound`, which must be at least 1. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.number()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// Returns a number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// For the distributions of `rand_distr`.
impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.number() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.number())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        rand_core::utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
    }
}

/// A bijection of 64-bit numbers that leaves no visible pattern.
pub fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_stream() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.number() == b.number()));
        assert_ne!(Rng::new(7).number(), Rng::new(8).number());
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[usize::try_from(rng.below(10)).unwrap()] += 1;
        }
        // Five standard deviations of a binomial with n = 100 000 and p = 0.1 are 474.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 474), "{seen:?}");
    }
}
