//! Displacement: finds a free slot some moves away, and moves keys so that the slot becomes free where it is needed.
//!
//! The search is breadth-first and takes no locks (Li et al. 2014, section 4.3.2), so paths are short: at 95 % load
//! mostly one move, rarely more than three. What the search saw may be out of date when the path is executed. So each
//! move checks again, under the locks of its two buckets. The last move is made first, so each move leaves a valid
//! table, and a path that turns out stale is abandoned at that point.
//!
//! Growth bucket by bucket (`address.rs`) has two consequences. First, nearly all free slots are in buckets split
//! recently, and buckets that wait for their split are full. So before the main search, the youngest buckets within
//! two moves are tried, whose ages follow from tags alone (`path/near.rs`). Second, if an entry's other bucket
//! doesn't follow from bucket and tag, the item's hash is asked for, but only if no other entry of the bucket leads
//! to a free slot.

mod near;
mod moves;

use super::address::{Probe, Size};
use super::table::Cuckoo;
use crate::bucket::SLOTS;
use crate::mapping::prefetch;
use crate::{Items, Location};
use moves::{DEPTH_MAX, Path, Source};

/// Finds a path from either of `roots`. Returns `None` if there is none among [`NODES_MAX`] buckets.
pub(super) fn find_path(table: &Cuckoo, roots: [u32; 2], items: &impl Items) -> Option<Path> {
    let size = table.size();
    near::path(table, size, roots, items).or_else(|| {
        let mut nodes = [Node::default(); NODES_MAX];
        for (node, bucket) in nodes.iter_mut().zip(roots) {
            node.bucket = bucket;
        }
        Search { table, size, nodes: &mut nodes, len: roots.len() }.run(items)
    })
}

/// The buckets seen, in order.
struct Search<'a> {
    table: &'a Cuckoo,
    size: Size,
    nodes: &'a mut [Node; NODES_MAX],
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct Node {
    bucket: u32,
    /// The node before this one, and the slot in it that leads here.
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

    /// Follows each entry of a full bucket to its other bucket. Returns the path if one of those has room.
    fn expand(&mut self, from: usize, items: &impl Items) -> Option<Path> {
        let address = self.nodes[from].bucket;
        let bucket = self.table.bucket(address);
        let tags = bucket.tags();
        let known: [Option<u32>; SLOTS] =
            std::array::from_fn(|slot| self.size.alternate(address, tags.get(slot)?));
        known.iter().flatten().for_each(|&to| prefetch(self.table.bucket(to)));
        // Starts at different slots, so that two searches from one bucket take different paths.
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

    /// Checks whether `to` has room. If not, remembers it for later.
    fn visit(&mut self, parent: usize, slot: usize, to: u32) -> Option<Path> {
        // A path that returns to its start is longer than necessary, and stale once executed.
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
        let mut sources = [Source::default(); DEPTH_MAX];
        let (mut node, mut slot) = (self.nodes[last], slot);
        for source in sources[..len].iter_mut().rev() {
            *source = Source { bucket: node.bucket, slot };
            slot = usize::from(node.slot);
            node = self.nodes[usize::from(node.parent)];
        }
        Path::new(&sources[..len], end)
    }
}

/// Buckets that a search examines before it gives up.
const NODES_MAX: usize = if cfg!(loom) { 8 } else { 512 };
