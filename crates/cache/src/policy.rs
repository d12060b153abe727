//! Eviction policies: which item of a full class goes. A closed set, chosen when the cache is made.
//!
//! | policy | a hit | kept for it | who goes |
//! |---|---|---|---|
//! | S3-CLOCK | counts to 3 in the header | a ring of probationers, a ghost | `s3clock.rs` |
//! | CLOCK | sets a bit in the header | nothing | `clock.rs` |
//! | SIEVE | sets a bit in the header | a list beside the items | `list.rs` |
//! | LRU | moves the item to the list's head, under its class's lock | a list beside the items | `list.rs` |
//!
//! Hits take no lock but under LRU, and write nothing once the count is at its most.
//!
//! Orders are kept by class, under the class's lock. An item comes into its class's order when its turn ends
//! ([`Handle::settle`](crate::Handle)), so that a batch of stores takes the lock once.

use crate::item::Header;
use crate::list::List;
use crate::s3clock::Probation;
use guira_index::Location;
use std::fmt;
use std::str::FromStr;

/// Which item a full class gives up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// New items on probation before a CLOCK that counts to three, with parameters that follow the workload.
    #[default]
    S3Clock,
    /// MemC3's: one bit, clear on insertion, and a hand.
    Clock,
    /// One bit, and a hand that goes from the oldest item to the newest.
    Sieve,
    /// The item used least recently, strictly: hits take the class's lock.
    Lru,
}

impl Eviction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::S3Clock, Self::Clock, Self::Sieve, Self::Lru];

    /// Its name, which [`Eviction::from_str`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::S3Clock => "s3-clock",
            Self::Clock => "clock",
            Self::Sieve => "sieve",
            Self::Lru => "lru",
        }
    }

    /// Up to what hits are counted in an item's header.
    pub(crate) fn hits_max(self) -> u32 {
        match self {
            Self::S3Clock => 3,
            Self::Clock | Self::Sieve => 1,
            Self::Lru => 0,
        }
    }

    /// Whether classes keep their items in a list.
    pub(crate) fn keeps_list(self) -> bool {
        matches!(self, Self::Sieve | Self::Lru)
    }

    /// The order that a class keeps.
    pub(crate) fn order(self) -> Order {
        match self {
            Self::S3Clock => Order::S3Clock(Probation::default()),
            Self::Clock => Order::Clock,
            Self::Sieve | Self::Lru => Order::List(List::default()),
        }
    }

    /// What a new item begins with, in place of `live`, if that was there. `evicts` says whether any class did so far.
    #[inline]
    pub(crate) fn admitted(
        self,
        new: Header,
        on_probation: bool,
        live: Option<Header>,
        evicts: bool,
    ) -> Header {
        match (self, live) {
            // Who replaces a value says nothing about who will ask for it: the item keeps its standing. While there is
            // room for all it leaves probation, which then serves nobody and costs another entry in the ring.
            (Self::S3Clock, Some(live)) => {
                new.with_hits(live.hits()).with_probation(live.is_on_probation() && evicts)
            }
            (Self::S3Clock, None) => new.with_probation(on_probation),
            _ => new,
        }
    }

    /// Whether an item with this header has a place in an order beside the items.
    pub(crate) fn orders(self, header: Header) -> bool {
        match self {
            Self::S3Clock => header.is_on_probation(),
            Self::Clock => false,
            Self::Sieve | Self::Lru => true,
        }
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Eviction {
    type Err = UnknownEviction;

    fn from_str(name: &str) -> Result<Self, UnknownEviction> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownEviction(name.to_owned()))
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEviction(String);

impl fmt::Display for UnknownEviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Eviction::ALL.map(Eviction::name).join(", ");
        write!(f, "there is no eviction policy {:?}: take one of {names}", self.0)
    }
}

impl std::error::Error for UnknownEviction {}

/// What a class keeps beside its items to tell who goes. Under the class's lock.
pub(crate) enum Order {
    /// Nothing: the hand goes over the chunks.
    Clock,
    S3Clock(Probation),
    List(List),
}

/// An item to evict.
#[derive(Clone, Copy)]
pub(crate) struct Victim {
    pub(crate) at: Location,
    /// It failed its probation, so the ghost shall remember it.
    pub(crate) failed: bool,
}
