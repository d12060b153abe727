//! What can be wrong with a table: the result of `validate()`, which expresses the invariants as a function.

use crate::Location;

/// A fault found by [`Index::validate`](crate::Index::validate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The tag of this location's slot is not that of its item.
    Tag(Location),
    /// The item at this location is in a place where no lookup finds it.
    Bucket(Location),
    /// This location is entered twice.
    Twice(Location),
    /// The number of filled slots differs from the counter.
    Count {
        /// Slots that hold a location.
        filled: usize,
        /// What [`Index::len`](crate::Index::len) returns.
        counted: usize,
    },
    /// The number of homes whose hop words name this slot is wrong. It must be one if the slot is filled, and none if
    /// it is free.
    Slot {
        /// The slot's number in the table.
        slot: usize,
        /// The number of hop words that name it.
        homes: usize,
    },
    /// Memory that is not yet in use holds something.
    Beyond,
    /// The chained table's link of this number is in no chain and not free, or is in two places.
    Link(u32),
    /// This bucket's ROUND bit differs from the number of times that the bucket was split according to the table.
    Round(u32),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tag(at) => write!(f, "the tag of location {} is not that of its item", at.0),
            Self::Bucket(at) => {
                write!(f, "location {} is where no look-up for its key comes by", at.0)
            }
            Self::Twice(at) => write!(f, "location {} is entered twice", at.0),
            Self::Count { filled, counted } => {
                write!(f, "{filled} slots are filled, but {counted} keys counted")
            }
            Self::Slot { slot, homes } => write!(f, "slot {slot} is named by {homes} hop words"),
            Self::Beyond => f.write_str("a slot beyond the table's size is not empty"),
            Self::Link(number) => write!(f, "link {number} is lost, or in two places"),
            Self::Round(bucket) => write!(f, "bucket {bucket} is of another round of splitting"),
        }
    }
}

impl std::error::Error for Broken {}
