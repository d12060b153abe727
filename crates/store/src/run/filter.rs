//! A run's filter over the hashes of its keys: a ribbon filter for a young run, the cuckoo filter of chapter 4 for the
//! last level.
//!
//! All young runs have filters, so their memory matters most there. In the last level a merge writes millions of
//! entries, so time matters most. Young runs of the previous format had cuckoo filters, which can still be read.

use crate::file::SectionKind;
use crate::hash::KeyHash;
use crate::ribbon::Ribbon;
use guira_filter::{CuckooFilter, Keyed};

/// The filter to build for a run. It lets at most about this share of absent keys through.
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
    /// Builds the filter of these folded hashes.
    pub(super) fn of(folded: Vec<u64>, rate: FilterRate) -> Self {
        match rate {
            FilterRate::Ribbon(rate) => Self::Ribbon(Ribbon::of(&folded, rate)),
            FilterRate::Cuckoo(rate) => {
                Self::Cuckoo(CuckooFilter::from_items(folded, rate, &keyed()))
            }
        }
    }

    /// Returns false if no entry has this hash.
    pub(super) fn may_hold(&self, hash: KeyHash) -> bool {
        match self {
            Self::Ribbon(filter) => filter.may_hold(hash.folded()),
            Self::Cuckoo(filter) => filter.contains(&hash.folded()),
        }
    }

    /// Encodes the filter as a section of a file.
    pub(super) fn encode(&self) -> (SectionKind, Vec<u8>) {
        match self {
            Self::Ribbon(filter) => (SectionKind::Ribbon, filter.encode()),
            Self::Cuckoo(filter) => (SectionKind::Filter, filter.to_bytes_without_key()),
        }
    }

    /// Decodes such a section. None for bytes that `encode` doesn't write.
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

/// The hashes are keyed already, so this key needn't be secret.
fn keyed() -> Keyed {
    Keyed::from_seed(0)
}
