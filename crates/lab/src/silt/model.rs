//! The paper's analysis: the memory, reads and writes that a SILT must take.
//!
//! ```text
//! N  keys     d  keys of the HashStores when they are merged     i  bits of a bucket's number, 2^i buckets of 4 slots
//! H  HashStores    o  share of the slots that is taken when a table refuses a key
//! ```
//! All is of one of the paper's instances, each of which has its own stages and its share of the keys.

use crate::figures::check;
use crate::{Bound, Check};

/// `HashStores` on average, between none and so many that `per_merge` keys are in them.
pub(super) fn mean_stores(per_merge: f64, slots: f64, occupancy: f64) -> f64 {
    per_merge / 2.0 / (occupancy * slots)
}

/// Bytes of memory per key: a `LogStore`'s slots with tag, mark and place, the `HashStores`' slots with their tags, and the
/// trie. The paper counts 15 bits of a `HashStore`'s tag, and not the one that marks a slot as taken.
pub(super) fn memory(keys: f64, slots: f64, stores: f64) -> f64 {
    let log = (TAG_BITS + 1.0) / 8.0 + PLACE_BYTES;
    let hash = TAG_BITS / 8.0;
    (log * slots + hash * slots * stores) / keys + TRIE_BYTES
}

/// Reads of a get that ends in the `SortedStore`, whether the key is there or not: one, and one for each tag of another key
/// in `LogStore` and `HashStores` that is the wanted one's.
pub(super) fn reads(stores: f64, buckets: f64) -> f64 {
    1.0 + (1.0 + stores) * SLOTS_SEEN / buckets
}

/// Reads before that of the `SortedStore`, from tables of which these shares of the slots are taken: the sum of the shares.
pub(super) fn reads_before(shares: f64, buckets: f64) -> f64 {
    shares * SLOTS_SEEN / buckets
}

/// Bytes written per byte put, up to the merge: to the log, and to a `HashStore`, whose free slots are written too.
pub(super) fn written_young(occupancy: f64) -> f64 {
    1.0 + 1.0 / occupancy
}

/// Bytes that merges write, per byte put: each writes all keys.
pub(super) fn written_merging(keys: f64, per_merge: f64) -> f64 {
    keys / per_merge
}

/// The check of the one measured figure that all formulas take: how full a `HashStore` is.
pub(super) fn occupancy_check(claim: &'static str, share: f64) -> Check {
    let bound = || Bound::Between(0.91, 0.97);
    let reason = "buckets of four, filled until 128 displacements don't suffice";
    check(claim, share, bound(), reason).paper_exactly("0.93", bound())
}

/// Whatever the table's size, a slot has room for the paper's tag.
const TAG_BITS: f64 = 15.0;
const PLACE_BYTES: f64 = 4.0;
const TRIE_BYTES: f64 = 0.4;
/// Two buckets of four.
const SLOTS_SEEN: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 M keys in four instances, 7.5 M of each instance's in `HashStores` before a merge, tables 0.93 full.
    #[test]
    fn the_papers_example_comes_out() {
        let (keys, per_merge, buckets) = (25e6, 7.5e6, f64::from(1 << 15));
        let slots = 4.0 * buckets;
        let stores = mean_stores(per_merge, slots, 0.93);
        let written = written_young(0.93) + written_merging(keys, per_merge);
        for (found, papers, within) in [
            (stores, 30.7, 0.1),
            (memory(keys, slots, stores), 0.733, 0.002),
            (reads(stores, buckets), 1.0077, 0.0001),
            (written, 5.408, 0.002),
        ] {
            assert!((found - papers).abs() < within, "{found}, in the paper {papers}");
        }
        let full = 1.0 + reads_before(1.0 + stores, buckets);
        assert!((full - reads(stores, buckets)).abs() < 1e-12, "{full}");
    }
}
