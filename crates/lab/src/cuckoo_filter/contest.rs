//! The filters that are compared. All have the same size: the bytes of so many slots of twelve bits.

use crate::baseline::filter::{Blocked, Bloom, Counting, DLeft, Quotient, Removing, Set};
use crate::data::{Data, Line};
use guira_filter::{Filter, Fixed, FixedSorted, Keyed, Pair};

/// A kind of filter.
pub(super) struct Kind {
    pub(super) name: &'static str,
    make: Make,
    /// The items of a full filter, per slot of twelve bits.
    load: f64,
    /// Whether it accepts more items than that, until an insert fails.
    pub(super) fails: bool,
}

/// A constructor of a filter of 2^n slots.
enum Make {
    Lasting(fn(u32) -> Box<dyn Set>),
    Removing(fn(u32) -> Box<dyn Removing>),
}

impl Kind {
    /// Creates a filter of as many bytes as 2^`slots_log2` slots of twelve bits.
    pub(super) fn make(&self, slots_log2: u32) -> Box<dyn Set> {
        match self.make {
            Make::Lasting(make) => make(slots_log2),
            Make::Removing(make) => make(slots_log2),
        }
    }

    /// Like `make`, if items can be removed from the filter.
    pub(super) fn make_removing(&self, slots_log2: u32) -> Option<Box<dyn Removing>> {
        match self.make {
            Make::Lasting(_) => None,
            Make::Removing(make) => Some(make(slots_log2)),
        }
    }

    /// Returns the number of items that fill a share of the filter.
    pub(super) fn items(&self, slots_log2: u32, share: f64) -> u64 {
        let items = (f64::from(slots_log2).exp2() * self.load * share).round();
        #[expect(clippy::cast_possible_truncation, reason = "a number of items")]
        let items = items as i64;
        items.unsigned_abs()
    }
}

/// Returns the line of a kind, by its index in [`KINDS`].
pub(super) fn line(data: &Data, kind: usize) -> &Line {
    data.line(KINDS[kind].name)
}

fn cuckoo(slots_log2: u32) -> Box<dyn Removing> {
    let buckets = Pair::at_least(1 << (slots_log2 - 2));
    Box::new(Filter::new(Fixed::<12, 4>, buckets, Keyed::from_seed(0)))
}

fn semi_sorted(slots_log2: u32) -> Box<dyn Removing> {
    let buckets = Pair::at_least(1 << (slots_log2 - 2));
    Box::new(Filter::new(FixedSorted::<13>, buckets, Keyed::from_seed(0)))
}

fn bytes(slots_log2: u32) -> usize {
    (12 << slots_log2) / 8
}

/// In the order of the thesis' table, which doesn't have the last one.
pub(super) const KINDS: [Kind; 7] = [
    Kind { name: "cuckoo", make: Make::Removing(cuckoo), load: 0.95, fails: true },
    Kind { name: "semi-sorted cuckoo", make: Make::Removing(semi_sorted), load: 0.95, fails: true },
    Kind {
        name: "Bloom",
        make: Make::Lasting(|slots_log2| Box::new(Bloom::new(bytes(slots_log2), HASHES))),
        load: 12.0 / 13.0,
        fails: false,
    },
    Kind {
        name: "blocked Bloom",
        make: Make::Lasting(|slots_log2| Box::new(Blocked::new(bytes(slots_log2), HASHES))),
        load: 12.0 / 13.0,
        fails: false,
    },
    Kind {
        name: "quotient",
        make: Make::Removing(|slots_log2| Box::new(Quotient::new(slots_log2, 9))),
        load: 0.9,
        fails: false,
    },
    Kind {
        name: "d-left counting Bloom",
        make: Make::Removing(|slots_log2| Box::new(DLeft::new(slots_log2 - 4))),
        load: 0.75,
        fails: true,
    },
    Kind {
        name: "counting Bloom",
        make: Make::Removing(|slots_log2| Box::new(Counting::new(bytes(slots_log2), HASHES))),
        load: 3.0 / 13.0,
        fails: false,
    },
];
/// Indexes of the kinds above, for checks.
pub(super) const CUCKOO: usize = 0;
pub(super) const SORTED: usize = 1;
pub(super) const BLOOM: usize = 2;
pub(super) const BLOCKED: usize = 3;
pub(super) const QUOTIENT: usize = 4;
pub(super) const D_LEFT: usize = 5;
pub(super) const COUNTING: usize = 6;
/// k of Bloom filters, the best for 13 bits per item.
const HASHES: u32 = 9;
