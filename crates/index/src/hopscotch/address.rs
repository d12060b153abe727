//! Homes in a table that grows by spreading its keys further apart.
//!
//! A key has a *position* that never changes: the high bits of its hash, taken as a fraction of the whole range. Its
//! home is that fraction of the homes in use, so keys are always in the order of their positions, whatever the size.
//! To grow by an eighth, each key moves up to 9/8 of its old place, the last line of homes first:
//! ```text
//! lines 0 ............ boundary ......... lines .... 9/8 lines
//!       | not moved   | (left)             | moved keys here and below, from boundary*9/8 on |
//! ```
//! At every instant of the growth, all homes are equally full except for that difference. The sweep reads and writes
//! memory in order.
//!
//! # Invariants
//! 1. The home of a position never decreases. So if it is equal at two instants, it was the same in between.
//! 2. A home and the low 15 bits of a position determine the position: growth never asks for an item's hash.

use super::line::{TAG_BITS, Tag};

/// The lines in use: how many lines of homes there are, and the boundary before which they are not yet moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Lines of homes before the current growth.
    pub(super) lines: u32,
    /// Lines before this one, of `lines`, still hold their keys. [`Extent::IDLE`]: no growth is in progress.
    pub(super) boundary: u32,
}

impl Extent {
    /// The boundary while the table does not grow.
    pub(super) const IDLE: u32 = u32::MAX;

    pub(super) fn to_word(self) -> u64 {
        u64::from(self.lines) << 32 | u64::from(self.boundary)
    }

    #[inline]
    pub(super) fn from_word(word: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the low half of the word")]
        let boundary = word as u32;
        Self { lines: (word >> 32) as u32, boundary }
    }

    #[inline]
    pub(super) fn is_growing(self) -> bool {
        self.boundary != Self::IDLE
    }
}

/// How positions map to homes in one table. It is fixed when the table is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Low bits of a hash that are not part of the position.
    unused: u32,
    /// The maximum number of lines of homes.
    pub(super) lines_max: u32,
    /// Homes in a line.
    slots: u32,
}

impl Plan {
    pub(super) fn new(lines_max: u32, slots: u32) -> Self {
        let homes = u64::from(lines_max) * u64::from(slots);
        let bits = homes.next_power_of_two().trailing_zeros() + SPARE_BITS;
        Self { unused: u64::BITS - bits.max(TAG_BITS + 1), lines_max, slots }
    }

    /// The fewest lines with which invariant 2 holds.
    pub(super) fn lines_min(self) -> u32 {
        let homes = (1u64 << (u64::BITS - self.unused - TAG_BITS)).div_ceil(u64::from(self.slots));
        u32::try_from(homes).unwrap_or(self.lines_max).min(self.lines_max)
    }

    /// Lines of homes after the next growth.
    #[inline]
    pub(super) fn grown(self, lines: u32) -> u32 {
        lines.saturating_add(lines / GROWTH + 1).min(self.lines_max)
    }

    #[inline]
    pub(super) fn position(self, hash: u64) -> u64 {
        hash >> self.unused
    }

    #[inline]
    pub(super) fn tag(self, hash: u64) -> Tag {
        Tag::new(self.position(hash))
    }

    /// The home of a hash.
    #[inline]
    pub(super) fn home(self, hash: u64, extent: Extent) -> usize {
        let position = self.position(hash) << self.unused;
        let home = self.fraction(position, extent.lines);
        if home < self.homes(extent.boundary) {
            return home;
        }
        self.fraction(position, self.grown(extent.lines))
    }

    /// The hash of a key in this home with this tag, when this many lines are in use. Bits that are not part of the
    /// position are 0.
    pub(super) fn hash(self, home: usize, tag: Tag, lines: u32) -> u64 {
        let bits = u64::BITS - self.unused;
        let first = ((home as u128) << bits).div_ceil(self.homes(lines) as u128);
        let first = u64::try_from(first).expect("a position");
        tag.position_from(first) << self.unused
    }

    #[inline]
    fn homes(self, lines: u32) -> usize {
        lines as usize * self.slots as usize
    }

    #[inline]
    fn fraction(self, position: u64, lines: u32) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "less than the homes")]
        let home = ((u128::from(position) * self.homes(lines) as u128) >> 64) as usize;
        home
    }
}

/// Growth adds one line per this many lines. A higher number would move each key more often; a lower one would leave
/// more slots empty.
const GROWTH: u32 = 8;
/// Bits of a position beyond those that number the homes of the largest table. They distinguish a home's keys, and
/// spread keys evenly although 2^bits is not a multiple of the number of homes. The fewer they are, the smaller a
/// table may start.
const SPARE_BITS: u32 = 6;
