//! The extent of the table: which bucket a key is in while buckets are split one by one.
//!
//! ```text
//! buckets   0 ........ split ........ base ........ base + split
//!           | in two   | not yet       | split off 0..split |
//! bits of a position that count:
//!             k + 1       k              k + 1                    base = 2^k
//! ```
//! # Invariants
//! 1. The published extent may be behind: buckets below `split` have been split in this round, and others may have
//!    been. A bucket's own ROUND bit shows whether it has.
//! 2. The next round is published before any bucket is split in it. So a thread that finds the round unchanged after
//!    reading a bucket's word knows that the bucket's last split was in this round or the one before. The ROUND bit
//!    shows which.

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// `base - 1`.
    mask: u32,
    split: u32,
}

impl Extent {
    /// The extent of a table of `base` buckets, a power of four. So the number of its buckets' rounds is even, as in
    /// zeroed memory.
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

    /// Packs the extent into one word, to be published atomically.
    pub(super) fn to_word(self) -> u64 {
        u64::from(self.mask) << 32 | u64::from(self.split)
    }

    pub(super) fn buckets(self) -> u32 {
        self.base() + self.split
    }

    /// Buckets at the beginning of this round.
    pub(super) fn base(self) -> u32 {
        self.mask + 1
    }

    /// The bucket that is split next, and the new bucket split off from it.
    pub(super) fn next_split(self) -> (u32, u32) {
        (self.split, self.base() + self.split)
    }

    /// Splits left in this round.
    pub(super) fn left(self) -> u32 {
        self.base() - self.split
    }

    /// The extent after this many more splits of this round.
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

    /// The bucket of a position, according to this extent.
    #[inline]
    pub(super) fn home(self, position: u32) -> Home {
        // Random while the table grows, so it is computed without a branch.
        let is_split = u32::from(position & self.mask < self.split);
        Home { position, mask: self.mask + (self.base() & is_split.wrapping_neg()) }
    }

    /// The bucket of a position once its bucket has been split in this round.
    #[inline]
    pub(super) fn home_after_split(self, position: u32) -> Home {
        Home { position, mask: self.mask << 1 | 1 }
    }
}

/// The bucket of a position after some number of rounds.
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

    /// Whether such a bucket has been through an odd number of rounds.
    #[inline]
    pub(super) fn is_odd(self) -> bool {
        // A mask is `2^k - 1`, and k is the number of rounds. Counting its ones would take a dozen instructions.
        self.mask.wrapping_add(1) & ODD_POWERS != 0
    }
}

/// All powers of two with odd exponents.
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
