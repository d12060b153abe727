//! The buckets in which a fingerprint may be: its *orbit*, k buckets, each of which leads to the others with the
//! fingerprint.
//!
//! [`Pair`] is the rule that a filter should use: k = 2, and any even number of buckets. [`Xor`] and [`Digits`] are
//! the generalizations of thesis §4.5. They fill smaller buckets higher, at the price of more cache lines per lookup.
//!
//! # Invariants
//! 1. The orbit of a fingerprint is the same set from any of its buckets, and has exactly k buckets.

use crate::hash::{reduce, scramble, scramble_short};

/// A rule for the k buckets of a fingerprint. It can't be implemented outside this crate.
pub trait Orbit: Rule {}

/// The operations that a filter needs of an orbit.
pub trait Rule: Copy {
    /// The rule's number in a stored filter.
    const KIND: u8;

    /// k: the number of buckets in which a fingerprint may be.
    fn ways(&self) -> u32;

    /// The number of buckets in the table.
    fn buckets(&self) -> u64;

    /// The `n`-th other bucket of a fingerprint that may be in `bucket`, for n from 1 to k - 1.
    fn other(&self, bucket: u64, fingerprint: u64, n: u32) -> u64;

    /// The rule's parameter in a stored filter.
    fn parameter(&self) -> u8;

    /// The rule of a stored filter, if this type can represent it.
    fn restore(parameter: u8, buckets: u64) -> Option<Self>;
}

/// Two buckets out of any even number of them: the other bucket of i is `r - i`, where r is odd and depends on the
/// fingerprint.
///
/// The sum of both buckets is r, so each leads to the other; one is even, the other odd. The rule is that of
/// `CuckooFilterStable` in `FastFilter`. The thesis (§4.2) uses exclusive or, which needs a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Half the number of buckets. With 32 bits, the compiler can tell that no bucket's address overflows.
    half: u32,
}

impl Pair {
    /// Makes a rule for at least this many buckets.
    ///
    /// # Panics
    /// If `buckets` is more than 2^32.
    #[must_use]
    pub fn at_least(buckets: u64) -> Self {
        assert!(buckets <= BUCKETS_MAX, "at most {BUCKETS_MAX} buckets");
        Self { half: u32::try_from(buckets.div_ceil(2).max(1)).expect("at most 2^31") }
    }
}

impl Orbit for Pair {}

impl Rule for Pair {
    const KIND: u8 = 1;

    #[inline(always)]
    fn ways(&self) -> u32 {
        2
    }

    #[inline(always)]
    fn buckets(&self) -> u64 {
        2 * u64::from(self.half)
    }

    /// Computes modulo 2^32. So the largest table needs nothing added if the difference is negative.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "bucket and sum are below 2^32")]
    fn other(&self, bucket: u64, fingerprint: u64, _n: u32) -> u64 {
        let sum = ((scramble_short(fingerprint) * u64::from(self.half)) >> 31) as u32 | 1;
        let (other, below) = sum.overflowing_sub(bucket as u32);
        let above = other.wrapping_add(self.half.wrapping_mul(2));
        (if below { above } else { other }).into()
    }

    fn parameter(&self) -> u8 {
        0
    }

    fn restore(parameter: u8, buckets: u64) -> Option<Self> {
        let fits =
            parameter == 0 && buckets.is_multiple_of(2) && (2..=BUCKETS_MAX).contains(&buckets);
        fits.then(|| Self::at_least(buckets))
    }
}

/// 2, 4 or 16 buckets out of a power of two: those reached by exclusive or with any subset of 1, 2 or 4 hashes.
///
/// With no random bit, this is the rule of thesis §4.2. With one bit (two hashes, `H(fp ∥ 0)` and `H(fp ∥ 1)`) it is
/// that of §4.5 for k = 4, and with two bits for k = 16. There one kick takes either hash; here a search tries the
/// whole orbit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xor {
    buckets: u64,
    random_bits: u8,
}

impl Xor {
    /// Makes a rule for at least this many buckets, and 2^2^`random_bits` ways.
    ///
    /// # Panics
    /// If there are more than 2^32 buckets, or more than 2 random bits.
    #[must_use]
    pub fn at_least(buckets: u64, random_bits: u8) -> Self {
        assert!(buckets <= BUCKETS_MAX, "at most {BUCKETS_MAX} buckets");
        assert!(random_bits <= 2, "at most two random bits");
        let ways = 1 << (1 << random_bits);
        Self { buckets: buckets.next_power_of_two().max(ways), random_bits }
    }
}

impl Orbit for Xor {}

impl Rule for Xor {
    const KIND: u8 = 2;

    #[inline(always)]
    fn ways(&self) -> u32 {
        1 << (1 << self.random_bits)
    }

    #[inline(always)]
    fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The hashes of a fingerprint end in different single bits, so that no combination of them is 0.
    #[inline(always)]
    fn other(&self, bucket: u64, fingerprint: u64, n: u32) -> u64 {
        let hashes = 1 << self.random_bits;
        let high = (0..hashes).filter(|hash| n >> hash & 1 == 1).fold(0, |sum, hash| {
            sum ^ reduce(scramble(fingerprint << 2 | hash), self.buckets >> hashes)
        });
        bucket ^ (high << hashes | u64::from(n))
    }

    fn parameter(&self) -> u8 {
        self.random_bits
    }

    fn restore(parameter: u8, buckets: u64) -> Option<Self> {
        if parameter > 2 || !buckets.is_power_of_two() || buckets > BUCKETS_MAX {
            return None;
        }
        let rule = Self { buckets, random_bits: parameter };
        (buckets >= rule.ways().into()).then_some(rule)
    }
}

/// `K` buckets out of a power of `K`: digits in base `K`, added without carry (thesis §4.5, general k).
///
/// The orbit of bucket i is i, i + v, …, i + (K - 1)v. The digits of v are random, except the lowest, which is 1, so
/// that the K buckets are distinct. Each digit costs divisions by a constant, for each bucket of the orbit, so this
/// rule is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits<const K: u64> {
    buckets: u64,
}

impl<const K: u64> Digits<K> {
    const IN_RANGE: () = assert!(K >= 2 && K <= 16, "2 to 16 ways");

    /// Makes a rule for at least this many buckets.
    ///
    /// # Panics
    /// If there would be more than 2^32 buckets.
    #[must_use]
    pub fn at_least(buckets: u64) -> Self {
        assert!(buckets <= BUCKETS_MAX, "at most {BUCKETS_MAX} buckets");
        let power = Self::power(buckets);
        assert!(power <= BUCKETS_MAX, "at most {BUCKETS_MAX} buckets");
        Self { buckets: power }
    }

    /// The least power of `K`, from the first power on, that is not below `n`. `n` is at most `BUCKETS_MAX`.
    fn power(n: u64) -> u64 {
        let () = Self::IN_RANGE;
        let mut power = K;
        while power < n {
            power *= K;
        }
        power
    }
}

impl<const K: u64> Orbit for Digits<K> {}

impl<const K: u64> Rule for Digits<K> {
    const KIND: u8 = 3;

    #[inline(always)]
    fn ways(&self) -> u32 {
        u32::try_from(K).expect("at most 16")
    }

    #[inline(always)]
    fn buckets(&self) -> u64 {
        self.buckets
    }

    #[inline]
    fn other(&self, bucket: u64, fingerprint: u64, n: u32) -> u64 {
        let (mut place, mut sum) = (1, 0);
        let (mut left, mut step) =
            (bucket, K * reduce(scramble(fingerprint), self.buckets / K) + 1);
        while place < self.buckets {
            sum += (left % K + step % K * u64::from(n)) % K * place;
            left /= K;
            step /= K;
            place *= K;
        }
        sum
    }

    fn parameter(&self) -> u8 {
        u8::try_from(K).expect("at most 16")
    }

    fn restore(parameter: u8, buckets: u64) -> Option<Self> {
        if u64::from(parameter) != K || !(K..=BUCKETS_MAX).contains(&buckets) {
            return None;
        }
        (Self::power(buckets) == buckets).then_some(Self { buckets })
    }
}

/// The maximum number of buckets: a search stores a bucket's number in 32 bits.
const BUCKETS_MAX: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn orbit(rule: &impl Rule, bucket: u64, fingerprint: u64) -> Vec<u64> {
        let others = (1..rule.ways()).map(|n| rule.other(bucket, fingerprint, n));
        let mut orbit: Vec<u64> = others.chain([bucket]).collect();
        orbit.sort_unstable();
        orbit.dedup();
        orbit
    }

    /// Checks invariant 1.
    fn is_closed(rule: impl Rule, bucket: u64, fingerprint: u64) {
        let bucket = bucket % rule.buckets();
        let from_here = orbit(&rule, bucket, fingerprint);
        assert_eq!(from_here.len(), rule.ways() as usize);
        for &other in &from_here {
            assert!(other < rule.buckets());
            assert_eq!(orbit(&rule, other, fingerprint), from_here, "{other} leads elsewhere");
        }
        assert!(rule.buckets() <= BUCKETS_MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

        #[test]
        fn each_bucket_of_an_orbit_leads_to_the_others(
            buckets in prop_oneof![1_u64..40, 1_u64..1 << 31],
            bucket: u64,
            fingerprint in 1_u64..1 << 32,
        ) {
            is_closed(Pair::at_least(buckets), bucket, fingerprint);
            for random_bits in 0..=2 {
                is_closed(Xor::at_least(buckets, random_bits), bucket, fingerprint);
            }
            is_closed(Digits::<2>::at_least(buckets), bucket, fingerprint);
            is_closed(Digits::<3>::at_least(buckets % (1 << 30)), bucket, fingerprint);
            is_closed(Digits::<4>::at_least(buckets), bucket, fingerprint);
            is_closed(Digits::<5>::at_least(buckets % (1 << 30)), bucket, fingerprint);
            is_closed(Digits::<6>::at_least(buckets % (1 << 30)), bucket, fingerprint);
        }
    }

    /// Each rule refuses at once, with the same message.
    #[test]
    fn too_many_buckets_are_refused() {
        fn refuses<R>(at_least: impl Fn(u64) -> R) {
            for buckets in [BUCKETS_MAX + 1, 1 << 62, (1 << 63) + 1, u64::MAX] {
                let made = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
                    at_least(buckets);
                }));
                let words = made.expect_err("more than there can be");
                let words = words.downcast_ref::<std::string::String>().expect("formatted");
                assert_eq!(words, "at most 4294967296 buckets", "{buckets}");
            }
        }
        refuses(Pair::at_least);
        refuses(|buckets| Xor::at_least(buckets, 1));
        refuses(Digits::<2>::at_least);
        refuses(Digits::<3>::at_least);
        refuses(Digits::<16>::at_least);
    }

    #[test]
    fn a_rule_is_restored_from_what_it_says_of_itself() {
        fn again<R: Rule + PartialEq + core::fmt::Debug>(rule: R) {
            assert_eq!(R::restore(rule.parameter(), rule.buckets()), Some(rule));
            assert_eq!(R::restore(rule.parameter(), rule.buckets() + 1), None);
            assert_eq!(R::restore(rule.parameter() + 17, rule.buckets()), None);
            assert_eq!(R::restore(rule.parameter(), 0), None);
        }
        again(Pair::at_least(1234));
        again(Xor::at_least(1000, 0));
        again(Xor::at_least(1, 2));
        again(Digits::<3>::at_least(1000));
        assert_eq!(
            Digits::<3>::restore(3, 1 << 32),
            None,
            "between 3^20 and 3^21, which are too many"
        );
        assert_eq!(Digits::<3>::at_least(1000).buckets, 2187);
    }
}
