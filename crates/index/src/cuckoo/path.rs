//! Displacement: a free slot is found some moves away, and brought to where it is needed.
//!
//! The search is breadth-first and takes no locks (Li et al. 2014, section 4.3.2), so a path is short: at 95 % load
//! mostly one move, hardly ever more than three. What it saw may be outdated when it is executed, so each move looks
//! again under the two locks it takes. The last move comes first, so each leaves a legal table, and a path that turns
//! out stale is dropped where it stands.
//!
//! Two things come from growing bucket by bucket (`address.rs`). Nearly all free slots are where a split was not long
//! ago, and buckets that wait for theirs are full; so before the search proper the youngest buckets within two moves
//! are tried, whose ages follow from tags alone (`path/near.rs`). And where an entry's other bucket doesn't follow from
//! bucket and tag, the item's hash is asked for; but only if no other entry of the bucket leads to a free slot.

mod near;

use super::Cuckoo;
use super::address::{Probe, Size};
use crate::bucket::{Locked, SLOTS, Tag};
use crate::memory::prefetch;
use crate::sync::Mutation;
use crate::{Items, Location};

/// Moves from one of two full buckets to a bucket with a free slot.
pub(super) struct Path {
    /// What each move empties, first a slot of the full bucket.
    sources: [Source; DEPTH_MAX],
    len: usize,
    /// The bucket with the free slot.
    end: u32,
}

#[derive(Clone, Copy, Default)]
struct Source {
    bucket: u32,
    slot: usize,
}

impl Path {
    /// A path from either of `roots`, `None` if none is among [`NODES_MAX`] buckets.
    pub(super) fn find(table: &Cuckoo, roots: [u32; 2], items: &impl Items) -> Option<Self> {
        let size = table.size();
        near::path(table, size, roots, items).or_else(|| {
            let mut nodes = [Node::default(); NODES_MAX];
            for (node, bucket) in nodes.iter_mut().zip(roots) {
                node.bucket = bucket;
            }
            Search { table, size, nodes: &mut nodes, len: roots.len() }.run(items)
        })
    }

    fn new(moves: &[Source], end: u32) -> Self {
        let mut sources = [Source::default(); DEPTH_MAX];
        sources[..moves.len()].copy_from_slice(moves);
        Self { sources, len: moves.len(), end }
    }
}

/// Buckets seen, in order.
struct Search<'a> {
    table: &'a Cuckoo,
    size: Size,
    nodes: &'a mut [Node; NODES_MAX],
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct Node {
    bucket: u32,
    /// The node that leads here, through its slot.
    parent: u16,
    slot: u8,
    depth: u8,
}

impl Search<'_> {
    fn run(mut self, items: &impl Items) -> Option<Path> {
        let mut next = 0;
        while next < self.len && usize::from(self.nodes[next].depth) < DEPTH_MAX {
            if let Some(path) = self.expand(next, items) {
                return Some(path);
            }
            next += 1;
        }
        None
    }

    /// Follows each entry of a full bucket to its other bucket: the path, if one of those has room.
    fn expand(&mut self, from: usize, items: &impl Items) -> Option<Path> {
        let address = self.nodes[from].bucket;
        let bucket = self.table.bucket(address);
        let tags = bucket.tags();
        let known: [Option<u32>; SLOTS] =
            std::array::from_fn(|slot| self.size.alternate(address, tags.get(slot)?));
        known.iter().flatten().for_each(|&to| prefetch(self.table.bucket(to)));
        // Not always slot 0 first, so that two searches from one bucket take different ways.
        let start = (address / 2) as usize + from;
        let slots = (start..start + SLOTS).map(|slot| slot % SLOTS);
        let found = slots.clone().find_map(|slot| self.visit(from, slot, known[slot]?));
        if found.is_some() {
            return found;
        }
        let unknown: [Option<Location>; SLOTS] = std::array::from_fn(|slot| {
            (known[slot].is_none() && tags.get(slot).is_some()).then(|| bucket.location(slot))
        });
        unknown.iter().flatten().for_each(|&at| items.prefetch(at));
        let asked = unknown.map(|at| {
            let to = Probe::new(items.hash(at?)).other_than(address, self.size)?;
            prefetch(self.table.bucket(to));
            Some(to)
        });
        slots.into_iter().find_map(|slot| self.visit(from, slot, asked[slot]?))
    }

    /// Looks whether `to` has room, and remembers it for later if not.
    fn visit(&mut self, parent: usize, slot: usize, to: u32) -> Option<Path> {
        // A way that comes back to where it began is longer than need be, and stale once executed.
        if to == self.nodes[0].bucket || to == self.nodes[1].bucket {
            return None;
        }
        if self.table.has_room(to) {
            return Some(self.path(parent, slot, to));
        }
        if self.len < NODES_MAX {
            self.nodes[self.len] = Node {
                bucket: to,
                parent: u16::try_from(parent).expect("fewer nodes than that"),
                slot: u8::try_from(slot).expect("fewer slots than that"),
                depth: self.nodes[parent].depth + 1,
            };
            self.len += 1;
        }
        None
    }

    fn path(&self, last: usize, slot: usize, end: u32) -> Path {
        let len = usize::from(self.nodes[last].depth) + 1;
        let mut path = Path { sources: [Source::default(); DEPTH_MAX], len, end };
        let (mut node, mut slot) = (self.nodes[last], slot);
        for source in path.sources[..len].iter_mut().rev() {
            *source = Source { bucket: node.bucket, slot };
            slot = usize::from(node.slot);
            node = self.nodes[usize::from(node.parent)];
        }
        path
    }
}

/// The bucket of an entry, its tag and location.
type Found = (u32, Tag, Location);

impl Cuckoo {
    /// Executes a path, the last move first, as far as it is not stale.
    pub(super) fn displace(&self, path: &Path, items: &impl Items) {
        let mut to = path.end;
        for &source in path.sources[..path.len].iter().rev() {
            if !self.shift(source, to, items) {
                return;
            }
            to = source.bucket;
        }
    }

    /// Moves the entry of one slot to its other bucket, if that is `to` and has room. True if the slot is free now.
    fn shift(&self, source: Source, to: u32, items: &impl Items) -> bool {
        let (size, slot) = (self.size(), source.slot);
        let entry =
            |from: &crate::bucket::Bucket| Some((from.tags().get(slot)?, from.location(slot)));
        let Some((tag, at)) = entry(self.bucket(source.bucket)) else { return true };
        if self.other_bucket((source.bucket, tag, at), size, items) != Some(to) {
            return false;
        }
        let (from, dest) = self.lock_both(source.bucket, to);
        let now = self.size();
        let is_same_entry = entry(&from) == Some((tag, at)) || Mutation::BlindMove.is_planted();
        // What was true of the two addresses holds if neither bucket was split meanwhile.
        let are_same = [source.bucket, to].iter().all(|&b| now.bits(b) == size.bits(b));
        let Some(free) = dest.tags().free().first() else { return false };
        if is_same_entry && are_same {
            move_entry((from, slot), (dest, free), (tag, at));
        }
        is_same_entry && are_same
    }

    /// The other bucket of an entry. Asks for the item's hash if it must.
    fn other_bucket(
        &self,
        (bucket, tag, at): Found,
        size: Size,
        items: &impl Items,
    ) -> Option<u32> {
        let asked = || Probe::new(items.hash(at)).other_than(bucket, size);
        size.alternate(bucket, tag).or_else(asked)
    }

    pub(super) fn has_room(&self, bucket: u32) -> bool {
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

/// Buckets that a search looks at before it gives up.
const NODES_MAX: usize = if cfg!(loom) { 8 } else { 512 };
/// Moves of the longest path.
const DEPTH_MAX: usize = 8;
