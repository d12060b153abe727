//! What can be wrong with a table: the answer of `validate()`, the invariants as a function.

use crate::Location;

/// What [`Index::validate`](crate::Index::validate) found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The item at this location has another tag than its slot.
    Tag(Location),
    /// The item at this location is where no look-up for it comes by.
    Bucket(Location),
    /// This location is entered twice.
    Twice(Location),
    /// So many slots are filled, but the counter says otherwise.
    Count {
        /// Slots that hold a location.
        filled: usize,
        /// What [`Index::len`](crate::Index::len) says.
        counted: usize,
    },
    /// This slot is named by so many homes; one if it is filled, none if it is free, would be right.
    Slot {
        /// Its number in the table.
        slot: usize,
        /// Hop words that name it.
        homes: usize,
    },
    /// What is not in use yet holds something.
    Beyond,
    /// A chained table's link of this number is in no chain and not free, or in two places.
    Link(u32),
    /// This bucket says of itself that it was split more often, or less, than the table says.
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
