//! A set of slots and its text form: `0-191,9000`.
//!
//! # Invariants
//! 1. Ranges are sorted, none is empty, and no two touch. So equal sets are equal values and have one text form.
//! 2. No slot is [`SLOTS`] or greater.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The number of slots of a cluster, whatever its size.
pub const SLOTS: u16 = 1 << SLOT_BITS;

const SLOT_BITS: u32 = 14;

/// Returns the slot of a key with this keyed hash: its top 14 bits. So a slot is one range of a store that is sorted by
/// hash.
#[must_use]
pub(crate) fn slot_of(hash: u128) -> u16 {
    (hash >> (u128::BITS - SLOT_BITS)) as u16
}

/// A set of slots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Ranges(Vec<(u16, u16)>);

impl Ranges {
    /// Creates the set of all slots from `first` to `last`, both included. It is empty if `last` is smaller. Slots that
    /// don't exist are left out.
    #[must_use]
    pub fn of(first: u16, last: u16) -> Self {
        let last = last.min(SLOTS - 1);
        Self(if first <= last { vec![(first, last)] } else { Vec::new() })
    }

    /// Whether `slot` is in the set. Cost: a binary search.
    #[must_use]
    pub fn contains(&self, slot: u16) -> bool {
        let at = self.0.partition_point(|&(_, last)| last < slot);
        self.0.get(at).is_some_and(|&(first, _)| first <= slot)
    }

    /// The set's ranges, ascending, both ends included.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.0.iter().copied()
    }

    /// Iterates over the slots of the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }

    /// The number of slots in the set. Cost: a step per range.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|(first, last)| usize::from(last - first) + 1).sum()
    }

    /// Returns the slots that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all: Vec<(u16, u16)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut ranges: Vec<(u16, u16)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self(ranges)
    }

    /// Returns the slots that aren't in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut ranges = Vec::with_capacity(self.0.len());
        for &(start, last) in &self.0 {
            let (mut first, mut is_left) = (start, true);
            let near = other.0.iter().filter(|it| it.1 >= start && it.0 <= last);
            for &(without, upto) in near {
                if without > first {
                    ranges.push((first, without - 1));
                }
                is_left = upto < last;
                first = upto + 1;
            }
            if is_left {
                ranges.push((first, last));
            }
        }
        Self(ranges)
    }

    /// Keeps the first `most` slots, and returns the others.
    #[must_use]
    pub(crate) fn split_off(&mut self, most: usize) -> Self {
        let mut left = most;
        for at in 0..self.0.len() {
            let (first, last) = self.0[at];
            let size = usize::from(last - first) + 1;
            if left < size {
                let mut rest = self.0.split_off(at);
                if let Some(kept) = u16::try_from(left).ok().filter(|kept| *kept > 0) {
                    self.0.push((first, first + kept - 1));
                    rest[0].0 = first + kept;
                }
                return Self(rest);
            }
            left -= size;
        }
        Self::default()
    }

    /// Whether no slot is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Collects slots in any order.
impl FromIterator<u16> for Ranges {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> Self {
        let mut slots: Vec<u16> = slots.into_iter().filter(|slot| *slot < SLOTS).collect();
        slots.sort_unstable();
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in slots {
            match ranges.last_mut() {
                Some((_, last)) if slot <= *last + 1 => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        Self(ranges)
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Parses the form that `Display` writes, and no other. The error names the faulty part.
impl FromStr for Ranges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |digits: &str| {
                let slot = digits.parse::<u16>().ok().filter(|slot| *slot < SLOTS);
                slot.ok_or_else(|| format!("{part:?}: slots are numbers from 0 to {}", SLOTS - 1))
            };
            let (first, last) = (number(first)?, number(last)?);
            let is_after = ranges.last().is_none_or(|&(_, before)| first > before + 1);
            if first > last || !is_after {
                return Err(format!("{part:?}: write ranges ascending, and touching ones as one"));
            }
            ranges.push((first, last));
        }
        Ok(Self(ranges))
    }
}

impl Serialize for Ranges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ranges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
