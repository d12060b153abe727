//! The buckets of pages: they separate kinds of items, so that the items of a page die together.

use std::str::FromStr;

/// The kind of items that a page is written with. The numbers are memcached's, shown by `stats extstore`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bucket {
    /// Items as they leave memory.
    #[default]
    Default,
    /// Items that were moved once because their page had become sparse.
    Compact,
    /// Items that have several chunks.
    Chunked,
    /// Items that expire soon.
    LowTtl,
    /// Moved items that no get has found on flash.
    ColdCompact,
    /// Moved items from the oldest pages.
    Old,
}

impl Bucket {
    /// All buckets, in the order of their numbers.
    pub const ALL: [Bucket; 6] =
        [Self::Default, Self::Compact, Self::Chunked, Self::LowTtl, Self::ColdCompact, Self::Old];

    /// Its name in `ext_path`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Compact => "compact",
            Self::Chunked => "chunked",
            Self::LowTtl => "lowttl",
            Self::ColdCompact => "coldcompact",
            Self::Old => "old",
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> usize {
        self as usize
    }
}

impl FromStr for Bucket {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|bucket| bucket.name() == name).ok_or(())
    }
}
