//! The search for a path to a free slot, breadth first, before anything is moved.
//!
//! # Invariants
//! 1. A path visits no bucket twice. So each entry on it is still where its node says when its turn to move comes.
//! 2. Entries move from the end of the path backwards, each into a slot that is empty by then. So all entries can be
//!    found at all times.

use super::table::{Slot, Table, WAYS};

/// A bucket that can be reached by moving the entry of a slot to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    bucket: usize,
    /// The node of the bucket where that entry is, and its way in that bucket. `None`: this is a bucket of the new key.
    from: Option<(usize, usize)>,
}

/// Frees a slot in one of the two buckets of `hash`, both full. `None` if no path of moves leads to a free slot.
pub(super) fn make_room(table: &Table, hash: u64, nodes: &mut Vec<Node>) -> Option<Slot> {
    let (mut at, mut free) = search(table, hash, nodes)?;
    while let Some((before, way)) = nodes[at].from {
        let source = Slot { bucket: nodes[before].bucket, way };
        table.shift(source, free);
        (at, free) = (before, source);
    }
    Some(free)
}

/// Returns the last node of the shortest path, and a free slot in its bucket.
fn search(table: &Table, hash: u64, nodes: &mut Vec<Node>) -> Option<(usize, Slot)> {
    nodes.clear();
    nodes.extend(table.homes(hash).map(|bucket| Node { bucket, from: None }));
    let mut at = 0;
    while at < nodes.len() {
        let bucket = nodes[at].bucket;
        for way in 0..WAYS {
            let Some(exit) = table.exit(Slot { bucket, way }) else { continue };
            if nodes.len() >= NODES_MAX || is_on_path(nodes, at, exit) {
                continue;
            }
            nodes.push(Node { bucket: exit, from: Some((at, way)) });
            if let Some(free) = table.free_slot(exit) {
                return Some((nodes.len() - 1, free));
            }
        }
        at += 1;
    }
    None
}

fn is_on_path(nodes: &[Node], mut at: usize, bucket: usize) -> bool {
    loop {
        if nodes[at].bucket == bucket {
            return true;
        }
        let Some((before, _)) = nodes[at].from else { return false };
        at = before;
    }
}

/// The most buckets that a search looks at: 500 of 4 slots, the thesis' limit of moves.
const NODES_MAX: usize = 500;
