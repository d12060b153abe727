//! Lanes in a 64-bit word: all slots of a bucket are searched at once, without vector instructions.
//!
//! Lane n holds bits `n * width ..` of the word. A zero lane is found by subtracting 1 from each lane: it borrows.
//!
//! # Invariants
//! 1. `ones` has the lowest bit of each lane, and `highs` the highest. Bits beyond the last lane are in neither.
//! 2. The lowest lane that [`Swar::zeroes`] marks is zero. Lanes above a zero lane may be marked wrongly.

/// Lanes of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swar {
    width: u32,
    ones: u64,
    highs: u64,
}

impl Swar {
    pub(crate) const fn new(width: u32, lanes: u32) -> Self {
        let mut ones = 0;
        let mut lane = 0;
        while lane < lanes {
            ones |= 1 << (lane * width);
            lane += 1;
        }
        Self { width, ones, highs: ones << (width - 1) }
    }

    pub(crate) const fn lanes(self) -> u32 {
        self.ones.count_ones()
    }

    /// A word with `value`, which must be narrower than a lane, in each lane.
    #[inline(always)]
    pub(crate) const fn spread(self, value: u64) -> u64 {
        value.wrapping_mul(self.ones)
    }

    /// A number that is not 0 if and only if a lane of `word` is 0. Bits beyond the last lane are ignored.
    #[inline(always)]
    pub(crate) const fn zeroes(self, word: u64) -> u64 {
        word.wrapping_sub(self.ones) & !word & self.highs
    }

    /// Like [`Swar::zeroes`], for lanes that are all ones. Only the lanes' highest bits of the result have a meaning.
    #[inline(always)]
    pub(crate) const fn full(self, word: u64) -> u64 {
        word & !word.wrapping_add(self.ones)
    }

    /// The highest bit of each lane.
    #[inline(always)]
    pub(crate) const fn highs(self) -> u64 {
        self.highs
    }

    /// The position of the lowest bit of the lowest lane that equals `value`.
    #[inline(always)]
    pub(crate) const fn position(self, word: u64, value: u64) -> Option<u32> {
        let found = self.zeroes(word ^ self.spread(value));
        if found == 0 { None } else { Some(found.trailing_zeros() + 1 - self.width) }
    }

    /// Lane `n` of `word`.
    #[inline(always)]
    pub(crate) const fn lane(self, word: u64, n: u32) -> u64 {
        word >> (n * self.width) & mask(self.width)
    }
}

/// A mask of the lowest `bits` bits, at most 64.
#[inline(always)]
pub(crate) const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// An index into a table. The table's size was checked to fit `usize` when it was made.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below the length of a table in memory")]
pub(crate) const fn address(n: u64) -> usize {
    n as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        #[test]
        fn the_lowest_equal_lane_is_found(width in 3_u32..=32, word: u64, value: u64, at: u32) {
            let lanes = 64 / width;
            let swar = Swar::new(width, lanes);
            let value = value & mask(width);
            let planted = at % (lanes + 1);
            let word = if planted < lanes {
                word & !(mask(width) << (planted * width)) | value << (planted * width)
            } else {
                word
            };
            let first = (0..lanes).find(|&lane| swar.lane(word, lane) == value);
            prop_assert_eq!(swar.position(word, value), first.map(|lane| lane * width));
            prop_assert_eq!(swar.zeroes(word ^ swar.spread(value)) != 0, first.is_some());
            let full = swar.full(word ^ !swar.spread(value)) & swar.highs();
            prop_assert_eq!(full != 0, first.is_some());
        }
    }
}
