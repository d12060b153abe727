//! How far the table has grown: which bucket a key is in while they are split one by one.
//!
//! ```text
//! buckets   0 ........ split ........ base ........ base + split
//!           | in two   | not yet       | split off 0..split |
//! bits of a position that count:
//!             k + 1       k              k + 1                    base = 2^k
//! ```
//! # Invariants
//! 1. What is published may be behind: buckets below `split` have been split in this round, others may have been. A
//!    bucket's own ROUND bit tells.
//! 2. The next round is published before any bucket is split in it. So whoever finds the round unchanged after it has
//!    read a bucket's word knows that the bucket has been through that round or the one before, and the bit tells which.

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// `base - 1`.
    mask: u32,
    split: u32,
}

impl Extent {
    /// A table of `base` buckets, a power of four: its bucket's rounds are even in number, as in zeroed memory.
    pub(super) fn new(base: u32) -> Self {
        let is_of_four = base.is_power_of_two() && base.trailing_zeros().is_multiple_of(2);
        assert!(is_of_four, "a power of four");
        Self { mask: base - 1, split: 0 }
    }

    #[inline]
    pub(super) fn from_word(word: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the low half of the word")]
        let split = word as u32;
        Self { mask: (word >> 32) as u32, split }
    }

    /// As one word, to be published at once.
    pub(super) fn to_word(self) -> u64 {
        u64::from(self.mask) << 32 | u64::from(self.split)
    }

    pub(super) fn buckets(self) -> u32 {
        self.base() + self.split
    }

    /// Buckets at the begin of this round.
    pub(super) fn base(self) -> u32 {
        self.mask + 1
    }

    /// The bucket that is split next, and the one that is split off.
    pub(super) fn next_split(self) -> (u32, u32) {
        (self.split, self.base() + self.split)
    }

    /// Splits to go in this round.
    pub(super) fn left(self) -> u32 {
        self.base() - self.split
    }

    /// After so many splits more, of this round.
    pub(super) fn grown(self, splits: u32) -> Self {
        let split = self.split + splits;
        debug_assert!(split <= self.base(), "beyond the round");
        if split == self.base() {
            Self { mask: self.mask << 1 | 1, split: 0 }
        } else {
            Self { split, ..self }
        }
    }

    #[inline]
    pub(super) fn is_same_round(self, other: Self) -> bool {
        self.mask == other.mask
    }

    /// Where a position is, as far as this knows.
    #[inline]
    pub(super) fn home(self, position: u32) -> Home {
        // A coin toss while the table grows, so not a branch.
        let is_split = u32::from(position & self.mask < self.split);
        Home { position, mask: self.mask + (self.base() & is_split.wrapping_neg()) }
    }

    /// Where a position is once its bucket has been split in this round.
    #[inline]
    pub(super) fn home_after_split(self, position: u32) -> Home {
        Home { position, mask: self.mask << 1 | 1 }
    }
}

/// The bucket of a position after so many rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    position: u32,
    mask: u32,
}

impl Home {
    #[inline]
    pub(super) fn address(self) -> u32 {
        self.position & self.mask
    }

    /// Whether the rounds that such a bucket has been through are odd in number.
    #[inline]
    pub(super) fn is_odd(self) -> bool {
        // A mask is `2^k - 1` and k the number of rounds. To count its ones takes a dozen instructions.
        self.mask.wrapping_add(1) & ODD_POWERS != 0
    }
}

/// The powers of two of odd exponents.
const ODD_POWERS: u32 = 0xaaaa_aaaa;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_odd_where_the_ones_of_the_mask_are() {
        for rounds in 0..=32_u32 {
            let home = Home { position: 0, mask: u32::MAX.checked_shr(32 - rounds).unwrap_or(0) };
            assert_eq!(home.mask.count_ones(), rounds);
            assert_eq!(home.is_odd(), rounds % 2 == 1, "{rounds} rounds");
        }
    }
}
