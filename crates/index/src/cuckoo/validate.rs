//! The invariants of a table as a function, for tests and debugging.

use super::address::Probe;
use super::{Cuckoo, SLOTS};
use crate::{Index, Items, Location};
use std::collections::HashSet;

/// What [`Cuckoo::validate`] found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The item at this location has another tag than its slot.
    Tag(Location),
    /// The item at this location is in neither of its buckets.
    Bucket(Location),
    /// This location is in two slots.
    Twice(Location),
    /// So many slots are filled, but the counter says otherwise.
    Count {
        /// Slots that hold a location.
        filled: usize,
        /// What [`Index::len`] says.
        counted: usize,
    },
    /// A bucket that is not in use yet holds something.
    Beyond,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tag(at) => write!(f, "the tag of location {} is not that of its item", at.0),
            Self::Bucket(at) => write!(f, "location {} is in neither of its buckets", at.0),
            Self::Twice(at) => write!(f, "location {} is in two slots", at.0),
            Self::Count { filled, counted } => {
                write!(f, "{filled} slots are filled, but {counted} keys counted")
            }
            Self::Beyond => f.write_str("a bucket beyond the table's size is not empty"),
        }
    }
}

impl std::error::Error for Broken {}

impl Cuckoo {
    /// Checks every slot, and the counter; for when nobody writes. Reads all buckets and asks for every hash.
    ///
    /// # Errors
    /// The first thing found [`Broken`].
    pub fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        let size = self.size();
        let mut seen = HashSet::new();
        for address in 0..size.buckets() {
            let bucket = self.bucket(address);
            let tags = bucket.tags();
            for slot in 0..SLOTS {
                let Some(tag) = tags.get(slot) else { continue };
                let at = bucket.location(slot);
                let probe = Probe::new(items.hash(at));
                if probe.tag != tag {
                    return Err(Broken::Tag(at));
                }
                if !probe.has_address(address, size) {
                    return Err(Broken::Bucket(at));
                }
                if !seen.insert(at) {
                    return Err(Broken::Twice(at));
                }
            }
        }
        let is_empty = |address| self.bucket(address).tags().free().count() == SLOTS;
        let next = size.buckets();
        if (next as usize) < self.buckets.len() && !is_empty(next) {
            return Err(Broken::Beyond);
        }
        let (filled, counted) = (seen.len(), self.len());
        if filled == counted { Ok(()) } else { Err(Broken::Count { filled, counted }) }
    }
}
