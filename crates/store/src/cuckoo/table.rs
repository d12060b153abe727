//! The buckets of the index: one thread writes, others read without a lock.
//!
//! # Invariants
//! 1. An entry is at every instant in one of its two buckets: a move writes the target, then increments the move count,
//!    then clears the source.
//! 2. A place is written before its tag, and a slot's tag is cleared before the place of its next entry is written. So
//!    a reader that has loaded a tag loads the place of that entry or of the slot's next entry, never the place of an
//!    empty slot.
//!
//! # Orderings
//! All stores are releases. All loads by readers are acquires, except the last one.
//!
//! | a reader | sees | so |
//! |---|---|---|
//! | loads the count | the count of a move | it sees the entry in the target, by invariant 1 |
//! | loads a bucket's tags | a cleared source | it sees the move's count when it loads the count again, and starts over |
//! | loads a place | the place of the slot's next entry | likewise: the source was cleared before |
//! | loads the count again | the same count | what left a bucket before the reader looked was in the other one |

use super::candidates::Candidates;
use super::sync::{Acquire, AtomicU32, AtomicU64, Mutation, Relaxed, Release};

/// A power of two of buckets.
pub(super) struct Table {
    buckets: Box<[Bucket]>,
    /// Moves so far.
    moves: AtomicU64,
}

#[derive(Default)]
struct Bucket {
    tags: AtomicU64,
    places: [AtomicU32; WAYS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 24);

/// A slot: the bucket's number and the way in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) bucket: usize,
    pub(super) way: usize,
}

impl Table {
    /// Creates a table of about `slots` slots: from an eighth less to nearly twice as many. The eighth is for a replay,
    /// which also counts a file's last blocks: it doesn't get a table of twice the size.
    pub(super) fn with_slots(slots: usize) -> Self {
        let buckets = slots / WAYS;
        let buckets = (buckets - buckets / 8).clamp(2, BUCKETS_MAX).next_power_of_two();
        Self {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            moves: AtomicU64::default(),
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.buckets.len() * WAYS
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Adds to `found` all places whose tag is the tag of `hash`.
    pub(super) fn find(&self, hash: u64, found: &mut Candidates) {
        let tag = tag_of(hash);
        let [home, other] = self.homes(hash);
        loop {
            let mut before = self.moves.load(Acquire);
            self.find_in(home, tag, found);
            if Mutation::LateStamp.is_planted() {
                before = self.moves.load(Acquire);
            }
            self.find_in(other, tag, found);
            if self.moves.load(Relaxed) == before || Mutation::Unvalidated.is_planted() {
                return;
            }
            found.clear();
        }
    }

    fn find_in(&self, bucket: usize, tag: u16, found: &mut Candidates) {
        let bucket = &self.buckets[bucket];
        let tags = bucket.tags.load(Acquire);
        for (way, place) in bucket.places.iter().enumerate() {
            if lane(tags, way) == tag {
                found.push(place.load(Acquire));
            }
        }
    }

    /// Replaces the place `old` by `place`. False if `old` isn't there.
    pub(super) fn replace(&self, hash: u64, old: u32, place: u32) -> bool {
        let tag = tag_of(hash);
        for bucket in self.homes(hash).map(|it| &self.buckets[it]) {
            let tags = bucket.tags.load(Relaxed);
            for (way, slot) in bucket.places.iter().enumerate() {
                if lane(tags, way) == tag && slot.load(Relaxed) == old {
                    slot.store(place, Release);
                    return true;
                }
            }
        }
        false
    }

    /// Writes an entry into an empty slot.
    pub(super) fn fill(&self, slot: Slot, hash: u64, place: u32) {
        self.put(slot, tag_of(hash), place);
    }

    /// The two buckets of a hash.
    pub(super) fn homes(&self, hash: u64) -> [usize; 2] {
        homes(hash, self.buckets.len())
    }

    /// Finds an empty slot for a hash.
    pub(super) fn free_for(&self, hash: u64) -> Option<Slot> {
        self.homes(hash).into_iter().find_map(|it| self.free_slot(it))
    }

    /// Finds an empty slot of a bucket.
    pub(super) fn free_slot(&self, bucket: usize) -> Option<Slot> {
        let tags = self.buckets[bucket].tags.load(Relaxed);
        (0..WAYS).find(|&way| lane(tags, way) == 0).map(|way| Slot { bucket, way })
    }

    /// Returns the other bucket of a slot's entry; `None` if the slot is empty.
    pub(super) fn exit(&self, slot: Slot) -> Option<usize> {
        let tag = lane(self.buckets[slot.bucket].tags.load(Relaxed), slot.way);
        (tag != 0).then(|| self.other(slot.bucket, tag))
    }

    /// Moves an entry into an empty slot of its other bucket.
    pub(super) fn shift(&self, from: Slot, to: Slot) {
        let source = &self.buckets[from.bucket];
        let tags = source.tags.load(Relaxed);
        if Mutation::EarlyCount.is_planted() {
            self.count_move();
        }
        self.put(to, lane(tags, from.way), source.places[from.way].load(Relaxed));
        let [is_early, is_late, is_still] =
            [Mutation::EarlyCount, Mutation::LateCount, Mutation::StillMove]
                .map(Mutation::is_planted);
        if !(is_early || is_late || is_still) {
            self.count_move();
        }
        source.tags.store(with_lane(tags, from.way, 0), release());
        if is_late {
            self.count_move();
        }
    }

    fn count_move(&self) {
        self.moves.store(self.moves.load(Relaxed) + 1, release());
    }

    fn put(&self, slot: Slot, tag: u16, place: u32) {
        let bucket = &self.buckets[slot.bucket];
        let tags = with_lane(bucket.tags.load(Relaxed), slot.way, tag);
        if Mutation::EarlyTag.is_planted() {
            bucket.tags.store(tags, Release);
        }
        let order = if Mutation::RelaxedPlace.is_planted() { Relaxed } else { release() };
        bucket.places[slot.way].store(place, order);
        bucket.tags.store(tags, release());
    }

    fn other(&self, bucket: usize, tag: u16) -> usize {
        other(bucket, tag, self.buckets.len())
    }
}

/// The two buckets of a hash in a table of `buckets` buckets.
pub(super) fn homes(hash: u64, buckets: usize) -> [usize; 2] {
    let home = usize::try_from(hash & u64::from(u32::MAX)).unwrap_or(0) & (buckets - 1);
    [home, other(home, tag_of(hash), buckets)]
}

/// Equation 3.1. The lowest bit always changes, so the two buckets of an entry differ.
fn other(bucket: usize, tag: u16, buckets: usize) -> usize {
    let spread = (u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) | 1;
    bucket ^ (usize::try_from(spread).unwrap_or(1) & (buckets - 1))
}

/// The order of all stores.
fn release() -> std::sync::atomic::Ordering {
    if Mutation::UnorderedStores.is_planted() { Relaxed } else { Release }
}

/// The tag: bits of the hash that don't choose the bucket. It is never 0.
fn tag_of(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

#[expect(clippy::cast_possible_truncation, reason = "one lane is asked for")]
fn lane(tags: u64, way: usize) -> u16 {
    (tags >> (16 * way)) as u16
}

fn with_lane(tags: u64, way: usize, tag: u16) -> u64 {
    tags & !(0xffff << (16 * way)) | u64::from(tag) << (16 * way)
}

/// Slots per bucket. The models have fewer, so that there are fewer states.
pub(super) const WAYS: usize = if cfg!(loom) { 2 } else { 4 };

/// At most as many buckets as the low half of a hash can distinguish.
const BUCKETS_MAX: usize = 1 << 31;
