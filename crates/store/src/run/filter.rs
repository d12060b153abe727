//! A run's filter, over hashes of keys: a ribbon filter for a young run, the cuckoo filter of chapter 4 for the last level.
//!
//! Memory is dear where all young runs have filters, and time where a merge writes millions of entries. Young runs of the
//! format before had cuckoo filters, too, and are read on.

use crate::file::SectionKind;
use crate::hash::KeyHash;
use crate::ribbon::Ribbon;
use guira_filter::{CuckooFilter, Keyed};

/// Which filter a run is given. Of keys that aren't there, it lets at most about this share through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FilterRate {
    /// A ribbon filter.
    Ribbon(f64),
    /// A cuckoo filter.
    Cuckoo(f64),
}

/// See the module's head.
pub(super) enum RunFilter {
    Ribbon(Ribbon),
    Cuckoo(CuckooFilter),
}

impl RunFilter {
    /// The filter of these folded hashes.
    pub(super) fn of(folded: Vec<u64>, rate: FilterRate) -> Self {
        match rate {
            FilterRate::Ribbon(rate) => Self::Ribbon(Ribbon::of(&folded, rate)),
            FilterRate::Cuckoo(rate) => {
                Self::Cuckoo(CuckooFilter::from_items(folded, rate, &keyed()))
            }
        }
    }

    /// False if no entry has this hash.
    pub(super) fn may_hold(&self, hash: KeyHash) -> bool {
        match self {
            Self::Ribbon(filter) => filter.may_hold(hash.folded()),
            Self::Cuckoo(filter) => filter.contains(&hash.folded()),
        }
    }

    /// As a section of a file.
    pub(super) fn encode(&self) -> (SectionKind, Vec<u8>) {
        match self {
            Self::Ribbon(filter) => (SectionKind::Ribbon, filter.encode()),
            Self::Cuckoo(filter) => (SectionKind::Filter, filter.to_bytes_without_key()),
        }
    }

    /// The filter in such a section. None for what `encode` doesn't write.
    pub(super) fn decode(kind: SectionKind, section: &[u8]) -> Option<Self> {
        match kind {
            SectionKind::Ribbon => Ribbon::decode(section).map(Self::Ribbon),
            _ => CuckooFilter::from_bytes_with_hasher(section, keyed()).ok().map(Self::Cuckoo),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Ribbon(filter) => filter.bytes(),
            Self::Cuckoo(filter) => filter.table_bytes(),
        }
    }
}

/// The hashes are keyed already; this key may be known.
fn keyed() -> Keyed {
    Keyed::from_seed(0)
}
