//! The invariants of a table as a function, for tests and debugging.

use super::address::Probe;
use super::table::Cuckoo;
use crate::bucket::SLOTS;
use crate::{Broken, Index, Items};
use std::collections::HashSet;

impl Cuckoo {
    /// [`Index::validate`]: checks every slot, and the counter.
    pub(super) fn check(&self, items: &impl Items) -> Result<(), Broken> {
        let size = self.size();
        let mut seen = HashSet::new();
        for address in 0..size.buckets() {
            let bucket = self.bucket(address);
            let tags = bucket.tags();
            for slot in 0..SLOTS {
                let Some(tag) = tags.get(slot) else { continue };
                let at = bucket.location(slot);
                let probe = Probe::new(items.hash(at));
                if probe.tag != tag {
                    return Err(Broken::Tag(at));
                }
                if !probe.has_address(address, size) {
                    return Err(Broken::Bucket(at));
                }
                if !seen.insert(at) {
                    return Err(Broken::Twice(at));
                }
            }
        }
        let is_empty = |address| self.bucket(address).tags().free().count() == SLOTS;
        let next = size.buckets();
        if (next as usize) < self.buckets.len() && !is_empty(next) {
            return Err(Broken::Beyond);
        }
        let (filled, counted) = (seen.len(), self.len());
        if filled == counted { Ok(()) } else { Err(Broken::Count { filled, counted }) }
    }
}
