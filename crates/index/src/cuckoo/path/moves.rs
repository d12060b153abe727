//! A path and its execution: the last move is made first, each under the locks of its two buckets.

use crate::bucket::{Bucket, Locked, Tag};
use crate::cuckoo::address::{Probe, Size};
use crate::cuckoo::table::Cuckoo;
use crate::sync::Mutation;
use crate::{Items, Location};

/// Moves from one of two full buckets to a bucket with a free slot.
pub(in crate::cuckoo) struct Path {
    /// The slot that each move empties; the first is a slot of the full bucket.
    sources: [Source; DEPTH_MAX],
    len: usize,
    /// The bucket with the free slot.
    end: u32,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Source {
    pub(super) bucket: u32,
    pub(super) slot: usize,
}

impl Path {
    pub(super) fn new(moves: &[Source], end: u32) -> Self {
        let mut sources = [Source::default(); DEPTH_MAX];
        sources[..moves.len()].copy_from_slice(moves);
        Self { sources, len: moves.len(), end }
    }
}

/// The bucket of an entry, its tag and location.
type Found = (u32, Tag, Location);

impl Cuckoo {
    /// Executes a path, the last move first, until it turns out to be stale.
    pub(in crate::cuckoo) fn displace(&self, path: &Path, items: &impl Items) {
        let mut to = path.end;
        for &source in path.sources[..path.len].iter().rev() {
            if !self.shift(source, to, items) {
                return;
            }
            to = source.bucket;
        }
    }

    /// Moves the entry of one slot to its other bucket, if that is `to` and has room. Returns true if the slot is
    /// free now.
    fn shift(&self, source: Source, to: u32, items: &impl Items) -> bool {
        let (size, slot) = (self.size(), source.slot);
        let entry = |from: &Bucket| Some((from.tags().get(slot)?, from.location(slot)));
        let Some((tag, at)) = entry(self.bucket(source.bucket)) else { return true };
        if self.other_bucket((source.bucket, tag, at), size, items) != Some(to) {
            return false;
        }
        let (from, dest) = self.lock_both(source.bucket, to);
        let now = self.size();
        let is_same_entry = entry(&from) == Some((tag, at)) || Mutation::BlindMove.is_planted();
        // The addresses computed before are still valid if neither bucket was split meanwhile.
        let are_same = [source.bucket, to].iter().all(|&b| now.bits(b) == size.bits(b));
        let Some(free) = dest.tags().free().first() else { return false };
        if is_same_entry && are_same {
            move_entry((from, slot), (dest, free), (tag, at));
        }
        is_same_entry && are_same
    }

    /// The other bucket of an entry. Asks for the item's hash if necessary.
    pub(super) fn other_bucket(
        &self,
        (bucket, tag, at): Found,
        size: Size,
        items: &impl Items,
    ) -> Option<u32> {
        let asked = || Probe::new(items.hash(at)).other_than(bucket, size);
        size.alternate(bucket, tag).or_else(asked)
    }

    pub(in crate::cuckoo) fn has_room(&self, bucket: u32) -> bool {
        !self.bucket(bucket).tags().free().is_empty()
    }
}

/// Writes the target, then clears the source: readers find the entry in one of them at every instant.
fn move_entry(
    (mut from, slot): (Locked<'_>, usize),
    (mut dest, free): (Locked<'_>, usize),
    (tag, at): (Tag, Location),
) {
    if Mutation::ForwardMove.is_planted() {
        from.clear(slot);
        from.advance();
        let to = dest.bucket();
        drop((from, dest));
        let mut dest = to.lock();
        let free = dest.tags().free().first();
        return free.into_iter().for_each(|free| dest.fill(free, tag, at));
    }
    dest.fill(free, tag, at);
    from.clear(slot);
    if !Mutation::StillMove.is_planted() {
        from.advance();
    }
}

/// Moves of the longest path.
pub(super) const DEPTH_MAX: usize = 8;
