//! Which blocks a get reads together with the next one: those whose last entry continues there, if the key may be that
//! entry.
//!
//! # Costs
//! Four bits per unit, in a run that has such entries. They hold the distance of the last entry's hash from the unit's
//! first hash, in eighths of a mean unit. One get in ten reads the second block needlessly, and none needs a second
//! read.

use crate::block_index::{AnyBlockIndex, BlockIndex, Located};
use crate::hash::KeyHash;

/// Half a byte for each unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Splits(Vec<u8>);

impl Splits {
    /// Builds the list from the units whose last entry continues in the next block, and the hashes of these entries.
    /// None if there are none.
    pub(super) fn new(index: &AnyBlockIndex, split: &[(u64, KeyHash)]) -> Option<Self> {
        if split.is_empty() {
            return None;
        }
        let units = usize::try_from(index.blocks()).ok()?;
        let mut halves = vec![NEVER << 4 | NEVER; units.div_ceil(2)];
        for &(unit, hash) in split {
            let located = index.locate(hash);
            // If the index returns a later unit for the hash, the get comes back from there and reads both blocks anyway.
            let steps = if located.block == unit { located.steps } else { u64::MAX };
            let steps = u8::try_from(steps).unwrap_or(FARTHEST).min(FARTHEST);
            let (at, shift) = place(unit)?;
            let half = halves.get_mut(at)?;
            *half = *half & !(0xf << shift) | steps << shift;
        }
        Some(Self(halves))
    }

    /// Whether an entry with this position may continue in the next block.
    pub(super) fn may_split(&self, located: Located) -> bool {
        let steps = self.steps(located.block);
        steps != NEVER && located.steps >= u64::from(steps)
    }

    /// Whether the unit has such an entry.
    pub(super) fn is_split(&self, unit: u64) -> bool {
        self.steps(unit) != NEVER
    }

    fn steps(&self, unit: u64) -> u8 {
        let half = place(unit).and_then(|(at, shift)| Some(self.0.get(at)? >> shift & 0xf));
        half.unwrap_or(NEVER)
    }

    /// Encodes the list as a section of a file.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.0.clone()
    }

    /// Decodes such a section for `units` units. None for bytes that `encode` doesn't write.
    pub(super) fn decode(section: &[u8], units: u64) -> Option<Self> {
        (section.len() as u64 == units.div_ceil(2)).then(|| Self(section.to_vec()))
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// The byte of a unit's half, and the shift in it.
fn place(unit: u64) -> Option<(usize, u32)> {
    Some((usize::try_from(unit / 2).ok()?, if unit.is_multiple_of(2) { 0 } else { 4 }))
}

/// No entry continues in the next block.
const NEVER: u8 = 15;
/// This distance, or a greater one.
const FARTHEST: u8 = 14;
