//! The invariants of a table as a function, and the cost of lookups: for tests, debugging and measurements.

use super::link::{SLOTS, Word};
use super::lock::BucketLock;
use super::table::{Chained, Probe};
use crate::{Broken, Hash, Index, Items};
use std::collections::HashSet;

impl<L: BucketLock> Chained<L> {
    /// Addresses that a lookup of this key reads: its bucket, and further links. No thread may write meanwhile.
    ///
    /// Together with the items that `get` asks about, these are the memory that a lookup touches.
    #[must_use]
    pub fn read_by(
        &self,
        hash: Hash,
        mut is_key: impl FnMut(crate::Location) -> bool,
    ) -> Vec<usize> {
        let probe = Probe::new(hash);
        let Some((mut link, mut word)) = self.home(self.extent(), probe) else { return Vec::new() };
        let mut read = vec![(&raw const *link).addr()];
        while !word.matching(probe.tag).any(|slot| is_key(link.location(slot))) && word.next() != 0
        {
            link = self.pool.link(word.next());
            word = link.word();
            read.push((&raw const *link).addr());
        }
        read
    }

    /// [`Index::validate`]: checks every chain, every free link, and the counter.
    pub(super) fn check(&self, items: &impl Items) -> Result<(), Broken> {
        let extent = self.extent();
        let (mut seen, mut links) = (HashSet::new(), HashSet::new());
        for address in 0..extent.buckets() {
            let mut link = self.bucket(address);
            let mut word = link.word();
            if word.is_odd() != extent.home(address).is_odd() {
                return Err(Broken::Round(address));
            }
            loop {
                for slot in 0..SLOTS {
                    let Some(tag) = word.tag(slot) else { continue };
                    let at = link.location(slot);
                    let probe = Probe::new(items.hash(at));
                    if probe.tag != tag {
                        return Err(Broken::Tag(at));
                    }
                    if extent.home(probe.position).address() != address {
                        return Err(Broken::Bucket(at));
                    }
                    if !seen.insert(at) {
                        return Err(Broken::Twice(at));
                    }
                }
                let number = word.next();
                if number == 0 {
                    break;
                }
                link = self.pool.link(number);
                word = link.word();
                if !links.insert(number) || !word.has_entries() {
                    return Err(Broken::Link(number));
                }
            }
        }
        if let Some(number) = self.pool.free().find(|&number| !links.insert(number)) {
            return Err(Broken::Link(number));
        }
        let number = |wide| u32::try_from(wide).expect("numbers have 32 bits");
        if let Some(lost) = (1..=number(self.pool.used())).find(|at| !links.contains(at)) {
            return Err(Broken::Link(lost));
        }
        let next = extent.buckets();
        if (next as usize) < self.buckets.len() && self.bucket(next).word() != Word::default() {
            return Err(Broken::Beyond);
        }
        let (filled, counted) = (seen.len(), self.len());
        if filled == counted { Ok(()) } else { Err(Broken::Count { filled, counted }) }
    }
}
