//! Ascending numbers in Elias-Fano coding: about 2 + log2(universe / len) bits each.
//!
//! The low bits of each number are stored verbatim. The high bits are stored in unary: for each possible value of them,
//! a one for each number that has it, then a zero. The numbers whose high part is h follow the h-th zero.
//!
//! # Costs
//! [`Monotone::last_at_most`] reads one sampled position (of every 256th zero), about eight words from there, then the
//! numbers with one high part, two on average. Bad at: many numbers with the same high part, which it scans.

use super::bits::Bits;

/// Ascending numbers below a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Monotone {
    len: u64,
    universe: u64,
    low_bits: u32,
    lows: Bits,
    highs: Bits,
    /// Position in `highs` of each [`SAMPLED`]th zero.
    samples: Vec<u32>,
}

impl Monotone {
    /// Encodes numbers that ascend (equal ones are allowed) and are below `universe`. None for more than 2^32 bits.
    pub(super) fn new(numbers: impl ExactSizeIterator<Item = u64>, universe: u64) -> Option<Self> {
        let len = numbers.len() as u64;
        let low_bits = low_bits(len, universe);
        let (mut lows, mut highs) = (Bits::default(), Bits::default());
        let mut high = 0;
        for number in numbers {
            while high < number >> low_bits {
                highs.push(0, 1);
                high += 1;
            }
            highs.push(1, 1);
            lows.push(number & ((1 << low_bits) - 1), low_bits);
        }
        while highs.len() < high_len(len, universe) {
            highs.push(0, 1);
        }
        Self::assemble(len, universe, lows, highs)
    }

    fn assemble(len: u64, universe: u64, lows: Bits, highs: Bits) -> Option<Self> {
        let mut samples = Vec::new();
        let mut zeros = 0;
        for (at, &word) in (0_u64..).step_by(64).zip(highs.words()) {
            let valid = (highs.len() - at).min(64);
            let mut gaps = !word & (u64::MAX << (64 - valid));
            let count = u64::from(gaps.count_ones());
            let next = samples.len() as u64 * SAMPLED;
            if next < zeros + count {
                (zeros..next).for_each(|_| gaps &= !(1 << (63 - gaps.leading_zeros())));
                samples.push(u32::try_from(at + u64::from(gaps.leading_zeros())).ok()?);
            }
            zeros += count;
        }
        Some(Self { len, universe, low_bits: low_bits(len, universe), lows, highs, samples })
    }

    /// The number of numbers.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// The bound that all numbers are below.
    pub(super) const fn universe(&self) -> u64 {
        self.universe
    }

    /// Finds the last number that is at most `n`. Returns its index and its value; None if all numbers are higher.
    #[inline]
    pub(super) fn last_at_most(&self, n: u64) -> Option<(u64, u64)> {
        let n = n.min(self.universe.checked_sub(1)?);
        let (high, low) = (n >> self.low_bits, n & ((1 << self.low_bits) - 1));
        let mut at = if high == 0 { 0 } else { self.zero(high - 1) + 1 };
        let mut place = at.saturating_sub(high);
        while place < self.len
            && self.highs.read(at, 1) == 1
            && self.lows.read(place * u64::from(self.low_bits), self.low_bits) <= low
        {
            at += 1;
            place += 1;
        }
        let place = place.checked_sub(1)?;
        // The bit of the found number is the last 1 before `at`.
        at -= 1;
        while self.highs.read(at, 1) == 0 {
            at = at.checked_sub(1)?;
        }
        let low = self.lows.read(place * u64::from(self.low_bits), self.low_bits);
        Some((place, (at - place) << self.low_bits | low))
    }

    /// Returns the position of zero number `n`. If there are fewer, it is at or past the end.
    #[inline]
    fn zero(&self, n: u64) -> u64 {
        let sample = usize::try_from(n / SAMPLED).ok().and_then(|it| self.samples.get(it));
        let Some(&from) = sample else { return self.highs.len() };
        let mut left = n % SAMPLED;
        let mut at = u64::from(from);
        loop {
            // Bits past the end count as zeros too.
            let gaps = !self.highs.peek(at);
            let count = u64::from(gaps.count_ones());
            if left < count {
                return at + nth_one(gaps, left);
            }
            left -= count;
            at += 64;
            if at >= self.highs.len() {
                return self.highs.len();
            }
        }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.lows.bytes() + self.highs.bytes() + self.samples.len() * 4
    }

    /// Appends the numbers.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.len.to_le_bytes());
        out.extend(self.universe.to_le_bytes());
        self.lows.encode(out);
        self.highs.encode(out);
    }

    /// Decodes numbers from the front of `bytes`, and advances `bytes` past them. None for bytes that `encode` doesn't
    /// write.
    pub(super) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (taken, rest) = bytes.split_first_chunk::<16>()?;
        *bytes = rest;
        let [len, universe] =
            [0, 8].map(|at| taken[at..].first_chunk().map(|it| u64::from_le_bytes(*it)));
        let (len, universe) = (len?, universe?);
        if universe > 1 << 60 || len > 1 << 32 {
            return None;
        }
        let lows = Bits::decode(bytes, len * u64::from(low_bits(len, universe)))?;
        let highs = Bits::decode(bytes, high_len(len, universe))?;
        let ones: u64 = highs.words().iter().map(|word| u64::from(word.count_ones())).sum();
        let read = Self::assemble(len, universe, lows, highs)?;
        (ones == len && read.ascends()).then_some(read)
    }

    fn ascends(&self) -> bool {
        let mut last = 0;
        let mut high = 0;
        let mut place = 0;
        for at in 0..self.highs.len() {
            if self.highs.read(at, 1) == 0 {
                high += 1;
                continue;
            }
            let low = self.lows.read(place * u64::from(self.low_bits), self.low_bits);
            let number = (high << self.low_bits) | low;
            if number < last || number >= self.universe {
                return false;
            }
            last = number;
            place += 1;
        }
        true
    }
}

/// Bits of each number that are stored verbatim: enough to leave about one number for each high part.
fn low_bits(len: u64, universe: u64) -> u32 {
    (universe / len.max(1)).checked_ilog2().unwrap_or(0)
}

fn high_len(len: u64, universe: u64) -> u64 {
    len + (universe >> low_bits(len, universe)) + 1
}

/// The position, from the highest bit, of the `n`-th 1 (counted from 0) in a word that has more than `n` ones.
#[inline]
fn nth_one(mut word: u64, n: u64) -> u64 {
    (0..n).for_each(|_| word &= !(1 << (63 - word.leading_zeros())));
    u64::from(word.leading_zeros())
}

/// Zeros from one sampled position to the next.
const SAMPLED: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: &[u64], universe: u64, asked: impl Iterator<Item = u64>) {
        let made = Monotone::new(numbers.iter().copied(), universe).unwrap();
        for n in asked {
            let expected = numbers.partition_point(|&it| it <= n).checked_sub(1);
            assert_eq!(
                made.last_at_most(n),
                expected.map(|it| (it as u64, numbers[it])),
                "{n} of {universe}"
            );
        }
        let mut bytes = Vec::new();
        made.encode(&mut bytes);
        assert_eq!(Monotone::decode(&mut &bytes[..]), Some(made));
        for cut in 0..bytes.len() {
            assert_eq!(Monotone::decode(&mut &bytes[..cut]), None);
        }
    }

    #[test]
    fn the_last_at_most_is_found_in_any_numbers() {
        let mut random = fastrand::Rng::with_seed(3);
        check(&[], 0, 0..3);
        check(&[], 10, 0..12);
        check(&[0], 1, 0..3);
        check(&[5; 700], 6, 0..8);
        for (len, universe) in [(3, 10), (100, 100), (100, 12_800), (3000, 40), (2000, 1 << 40)] {
            let mut numbers: Vec<u64> = (0..len).map(|_| random.u64(0..universe)).collect();
            numbers.sort_unstable();
            let asked: Vec<u64> = numbers
                .iter()
                .flat_map(|&n| [n.saturating_sub(1), n, n + 1])
                .chain((0..200).map(|_| random.u64(0..universe + 5)))
                .collect();
            check(&numbers, universe, asked.into_iter());
        }
    }

    #[test]
    fn a_number_takes_two_bits_and_its_low_ones() {
        let len = 100_000_u64;
        let numbers =
            Monotone::new((0..usize::try_from(len).unwrap()).map(|n| n as u64 * 128), len * 128);
        let bits = numbers.unwrap().bytes() as f64 * 8.0 / len as f64;
        assert!((9.0..9.2).contains(&bits), "{bits}");
    }

    #[test]
    fn any_bytes_are_refused_or_numbers_that_ascend() {
        let mut random = fastrand::Rng::with_seed(4);
        let made = Monotone::new([3_u64, 90, 90, 200].into_iter(), 300).unwrap();
        let mut bytes = Vec::new();
        made.encode(&mut bytes);
        for _ in 0..50_000 {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..changed.len());
                changed[at] ^= 1 << random.u32(0..8);
            }
            if let Some(read) = Monotone::decode(&mut &changed[..]) {
                let mut again = Vec::new();
                read.encode(&mut again);
                assert!(changed.starts_with(&again));
                (0..310)
                    .for_each(|n| assert!(read.last_at_most(n).is_none_or(|it| it.0 < read.len())));
            }
        }
    }
}
