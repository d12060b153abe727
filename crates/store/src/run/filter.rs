//! A run's filter: the cuckoo filter of chapter 4, over hashes of keys.

use crate::hash::KeyHash;
use guira_filter::{CuckooFilter, Keyed};

/// See the module's head.
pub(super) struct RunFilter(CuckooFilter);

impl RunFilter {
    /// The filter of these folded hashes, that finds about `rate` of all others.
    pub(super) fn of(folded: Vec<u64>, rate: f64) -> Self {
        Self(CuckooFilter::from_items(folded, rate, &keyed()))
    }

    /// False if no entry has this hash.
    pub(super) fn may_hold(&self, hash: KeyHash) -> bool {
        self.0.contains(&hash.folded())
    }

    /// As a section of a file.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.0.to_bytes_without_key()
    }

    /// The filter in such a section. None for what `encode` doesn't write.
    pub(super) fn decode(section: &[u8]) -> Option<Self> {
        CuckooFilter::from_bytes_with_hasher(section, keyed()).ok().map(Self)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.table_bytes()
    }
}

/// The hashes are keyed already; this key may be known.
fn keyed() -> Keyed {
    Keyed::from_seed(0)
}
