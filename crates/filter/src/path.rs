//! The search for a free slot: breadth-first over buckets, before anything is moved.
//!
//! A random walk (thesis §4.2) displaces up to 500 fingerprints one after the other, and is left with a homeless
//! fingerprint when it gives up. Searching first finds the shortest path. It examines many buckets in parallel, since
//! they are prefetched, and changes nothing if there is no path.
//!
//! # Invariants
//! 1. A path visits no bucket twice: so each content on it is still where its node states when it is to be moved.

use alloc::vec::Vec;

/// A table whose buckets can be searched.
pub(crate) trait Buckets {
    /// The number of buckets, and of slots in each.
    fn size(&self) -> (u64, u32);

    /// Whether any slot of the bucket is empty.
    fn is_open(&self, bucket: u64) -> bool;

    /// Calls `visit` with the content of each slot of a full bucket, and with each other bucket where that content
    /// could be.
    fn exits(&self, bucket: u64, visit: impl FnMut(u64, u64));

    /// Prefetches the bucket.
    fn prefetch(&self, bucket: u64);
}

/// A bucket that is reached by moving `content` to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    bucket: u32,
    /// The node of the bucket that holds `content` now.
    from: u32,
    content: u64,
}

/// A move of a path. The moves are made from the last of the path to the first; then the first bucket has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// The bucket to write.
    pub(crate) bucket: u64,
    /// The present content of one of its slots; 0 for an empty one.
    pub(crate) old: u64,
    /// The new content of that slot.
    pub(crate) new: u64,
}

/// Finds the shortest path from one of `roots` to a bucket with an empty slot.
///
/// `nodes` is memory to be reused. Returns the number of the last node, for [`moves`].
pub(crate) fn search(
    table: &impl Buckets,
    roots: impl Iterator<Item = u64>,
    nodes: &mut Vec<Node>,
) -> Option<usize> {
    let (buckets, slots) = table.size();
    let nodes_max = (SLOTS_SEEN / u64::from(slots).min(4)).min(VISITS_MAX * buckets);
    nodes.clear();
    nodes.extend(roots.map(|bucket| Node { bucket: short(bucket), from: ROOT, content: 0 }));
    let (mut tested, mut expanded) = (0, 0);
    loop {
        let fetched = nodes.len() - tested;
        if expanded < tested && fetched < FETCHED && (nodes.len() as u64) < nodes_max {
            table.exits(nodes[expanded].bucket.into(), |content, other| {
                if !is_on_path(nodes, expanded, short(other)) {
                    table.prefetch(other);
                    let from = u32::try_from(expanded).expect("few nodes");
                    nodes.push(Node { bucket: short(other), from, content });
                }
            });
            expanded += 1;
        } else if table.is_open(nodes.get(tested)?.bucket.into()) {
            return Some(tested);
        } else {
            tested += 1;
        }
    }
}

/// The moves along the path to `leaf` that enter `content` at its start.
pub(crate) fn moves(nodes: &[Node], leaf: usize, content: u64) -> impl Iterator<Item = Move> {
    let mut next = Some((leaf, 0));
    core::iter::from_fn(move || {
        let (at, old) = next?;
        let node = nodes[at];
        let bucket = node.bucket.into();
        if node.from == ROOT {
            next = None;
            return Some(Move { bucket, old, new: content });
        }
        next = Some((node.from as usize, node.content));
        Some(Move { bucket, old, new: node.content })
    })
}

fn is_on_path(nodes: &[Node], mut at: usize, bucket: u32) -> bool {
    loop {
        let node = nodes[at];
        if node.bucket == bucket {
            return true;
        }
        if node.from == ROOT {
            return false;
        }
        at = node.from as usize;
    }
}

fn short(bucket: u64) -> u32 {
    u32::try_from(bucket).expect("at most 2^32 buckets")
}

const ROOT: u32 = u32::MAX;
/// Buckets are prefetched until this many wait to be tested. With fewer, the search would wait for memory; with more,
/// it would prefetch in vain.
const FETCHED: usize = 4;
/// No more buckets are added after this many slots: 2048 buckets of four. The longest searches determine which load a
/// large table reaches; few searches are long.
const SLOTS_SEEN: u64 = 8192;
/// The search in a small table gives up when each of its buckets was seen this often on average.
const VISITS_MAX: u64 = 16;
