//! The index that is chosen when the program starts. The set is closed, so it is an enum.
//!
//! # Costs
//! A call branches on the kind of table. The branch is always the same, so it is predicted well; a batch branches
//! once. The tables' own code is compiled into each branch, as it is where a type names the table.

use crate::{
    Broken, Chained, ChainedEntry, Cuckoo, CuckooEntry, Entry, Full, Hash, Hopscotch, Index, Items,
    Location,
};
use std::fmt;
use std::str::FromStr;

/// The kinds of index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// [`Cuckoo`].
    #[default]
    Cuckoo,
    /// [`Hopscotch`].
    Hopscotch,
    /// [`Chained`].
    Chained,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cuckoo, Self::Hopscotch, Self::Chained];

    /// The kind's name, which [`IndexKind::from_str`] parses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuckoo => "cuckoo",
            Self::Hopscotch => "hopscotch",
            Self::Chained => "chained",
        }
    }

    /// Makes an index of this kind, which starts small and may grow until it holds at least `items_max` keys.
    ///
    /// # Panics
    /// If the address space can't be reserved.
    #[must_use]
    pub fn with_max(self, items_max: usize) -> AnyIndex {
        self.with_room(items_max, 0)
    }

    /// Like [`IndexKind::with_max`], with about `slots` slots from the start, so that keys entered soon need not wait
    /// for growth. A chained table may start with a quarter of them.
    ///
    /// # Panics
    /// If the address space can't be reserved.
    #[must_use]
    pub fn with_room(self, items_max: usize, slots: usize) -> AnyIndex {
        match self {
            Self::Cuckoo => AnyIndex::Cuckoo(Cuckoo::with_room(items_max, slots)),
            Self::Hopscotch => AnyIndex::Hopscotch(Hopscotch::with_room(items_max, slots)),
            Self::Chained => AnyIndex::Chained(Chained::with_room(items_max, slots)),
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for IndexKind {
    type Err = UnknownIndex;

    fn from_str(name: &str) -> Result<Self, UnknownIndex> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownIndex(name.to_owned()))
    }
}

/// The error for a name that no index has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIndex(String);

impl fmt::Display for UnknownIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = IndexKind::ALL.map(IndexKind::name).join(", ");
        write!(f, "there is no index {:?}: take one of {names}", self.0)
    }
}

impl std::error::Error for UnknownIndex {}

/// An index of any kind.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a process has one, and a box would be one more line a look-up"
)]
pub enum AnyIndex {
    /// See [`Cuckoo`].
    Cuckoo(Cuckoo),
    /// See [`Hopscotch`].
    Hopscotch(Hopscotch),
    /// See [`Chained`].
    Chained(Chained),
}

impl AnyIndex {
    /// The kind of this index.
    #[must_use]
    pub fn kind(&self) -> IndexKind {
        match self {
            Self::Cuckoo(_) => IndexKind::Cuckoo,
            Self::Hopscotch(_) => IndexKind::Hopscotch,
            Self::Chained(_) => IndexKind::Chained,
        }
    }
}

/// The place of a key in an [`AnyIndex`], locked until dropped.
#[derive(Debug)]
pub enum AnyEntry<'a> {
    /// See [`CuckooEntry`].
    Cuckoo(CuckooEntry<'a>),
    /// See [`HopscotchEntry`](crate::HopscotchEntry).
    Hopscotch(<Hopscotch as Index>::Entry<'a>),
    /// See [`ChainedEntry`].
    Chained(ChainedEntry<'a>),
}

/// Evaluates the same expression for each kind of table.
macro_rules! each {
    ($any:expr, $one:ident => $do:expr) => {
        match $any {
            Self::Cuckoo($one) => $do,
            Self::Hopscotch($one) => $do,
            Self::Chained($one) => $do,
        }
    };
}

/// Makes the same call for each kind of table, and wraps its entry by `map`.
macro_rules! entry_of {
    ($any:expr, $one:ident => $do:expr) => {
        match $any {
            Self::Cuckoo($one) => $do.map(AnyEntry::Cuckoo),
            Self::Hopscotch($one) => $do.map(AnyEntry::Hopscotch),
            Self::Chained($one) => $do.map(AnyEntry::Chained),
        }
    };
}

impl Index for AnyIndex {
    type Entry<'a> = AnyEntry<'a>;

    #[inline]
    fn get(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<Location> {
        each!(self, index => index.get(hash, is_key))
    }

    #[inline]
    fn prefetch(&self, hash: Hash) {
        each!(self, index => index.prefetch(hash));
    }

    #[inline]
    fn candidate(&self, hash: Hash) -> Option<Location> {
        each!(self, index => index.candidate(hash))
    }

    fn get_batch(
        &self,
        hashes: &[Hash],
        items: &impl Items,
        is_key: impl FnMut(usize, Location) -> bool,
        found: &mut [Option<Location>],
    ) {
        each!(self, index => index.get_batch(hashes, items, is_key, found));
    }

    #[inline]
    fn entry(
        &self,
        hash: Hash,
        items: &impl Items,
        is_key: impl FnMut(Location) -> bool,
    ) -> Result<AnyEntry<'_>, Full> {
        entry_of!(self, index => index.entry(hash, items, is_key))
    }

    #[inline]
    fn enter_absent(&self, hash: Hash, at: Location, items: &impl Items) -> Result<(), Full> {
        each!(self, index => index.enter_absent(hash, at, items))
    }

    #[inline]
    fn prefetch_absent(&self, hash: Hash) {
        each!(self, index => index.prefetch_absent(hash));
    }

    #[inline]
    fn find_entry(&self, hash: Hash, is_key: impl FnMut(Location) -> bool) -> Option<AnyEntry<'_>> {
        entry_of!(self, index => index.find_entry(hash, is_key))
    }

    fn touch_ahead(&self, items: usize) {
        each!(self, index => index.touch_ahead(items));
    }

    fn maintain(&self, items: &impl Items, budget: usize) -> bool {
        each!(self, index => index.maintain(items, budget))
    }

    fn validate(&self, items: &impl Items) -> Result<(), Broken> {
        each!(self, index => index.validate(items))
    }

    fn len(&self) -> usize {
        each!(self, index => index.len())
    }

    fn capacity(&self) -> usize {
        each!(self, index => index.capacity())
    }

    fn bytes(&self) -> usize {
        each!(self, index => index.bytes())
    }
}

impl Entry for AnyEntry<'_> {
    #[inline]
    fn location(&self) -> Option<Location> {
        each!(self, entry => entry.location())
    }

    #[inline]
    fn put(&mut self, new: Location) -> Option<Location> {
        each!(self, entry => entry.put(new))
    }

    #[inline]
    fn remove(&mut self) -> Option<Location> {
        each!(self, entry => entry.remove())
    }
}
