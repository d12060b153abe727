//! Growth: one bucket is split in two, in place, while other threads continue.
//!
//! # Costs
//! A split reads twelve items, since their hashes show which keys move. The cache misses overlap, and happen before
//! the locks are taken. The cost is amortized over the eleven inserts that the new bucket has room for. Only threads
//! that need the bucket being split wait for growth, for a fraction of a microsecond.

use super::address::{Probe, Size};
use super::path::find_path;
use super::table::{Cuckoo, LOAD_PERCENT};
use crate::bucket::{Bucket, Locked, SLOTS};
use crate::sync::{Mutation, Release};
use crate::{Full, Hash, Index, Items, Location};

impl Cuckoo {
    /// Called after an insert found both its buckets full under `size`: grows if the load is reached, and displaces a
    /// key. The insert should then be retried. Without a path it grows nevertheless, by as many buckets as the insert
    /// has left.
    #[cold]
    pub(super) fn make_room(
        &self,
        hash: Hash,
        size: Size,
        splits_left: &mut u32,
        items: &impl Items,
    ) -> Result<(), Full> {
        if self.len() * 100 > self.capacity() * LOAD_PERCENT {
            self.grow(items);
        }
        let probe = Probe::new(hash);
        let roots = size.addresses(probe);
        if let Some(path) = find_path(self, roots, items) {
            // If another writer was faster, the insert starts over.
            self.displace(&path, items);
            return Ok(());
        }
        // Other threads may have made room, or split the key's buckets, during the search.
        if self.size() != size || roots.iter().any(|&root| self.has_room(root)) {
            return Ok(());
        }
        // There is no path, although there is room elsewhere. Either the search happens not to find that room, which
        // a few splits mend. Or the keys of these two buckets have no other place, because all of them have equal
        // tags, and growing would hardly separate them.
        let is_crowded = self.len() * 100 > self.capacity() * CROWDED_PERCENT;
        if !is_crowded || *splits_left == 0 || !self.grow(items) {
            return Err(Full);
        }
        // Unchanged if another thread is splitting: then this insert uses that split, and none of its own.
        *splits_left -= u32::from(self.size() != size);
        Ok(())
    }

    /// Splits the next bucket, unless another thread is doing so. Returns `false` if the table may not grow further.
    ///
    /// Inserts call this themselves. Calling it in advance gives them room sooner.
    pub fn grow(&self, items: &impl Items) -> bool {
        if self.size().buckets() as usize >= self.buckets.len() {
            return false;
        }
        if let Some(_growing) = self.is_growing.0.try_hold() {
            let size = self.size();
            if (size.buckets() as usize) < self.buckets.len() {
                self.split(size, items);
            }
        }
        true
    }

    /// Splits bucket p into p and the new one at the end. Only one thread does so at a time.
    fn split(&self, size: Size, items: &impl Items) {
        let (from, grown) = (size.next_split(), size.grown());
        let expected = Residents::read(self.bucket(from), items);
        let mut old = self.bucket(from).lock();
        let tags = old.tags();
        // All hashes are read before anything moves: the owner of the items may panic.
        let going: [bool; SLOTS] = std::array::from_fn(|slot| {
            let Some(tag) = tags.get(slot) else { return false };
            let at = old.location(slot);
            let hash = expected.hash(slot, at).unwrap_or_else(|| items.hash(at));
            let probe = Probe::new(hash);
            debug_assert_eq!(probe.tag, tag, "the item's hash is that under which it was entered");
            probe.has_address(size.buckets(), grown)
        });
        let mut new = self.bucket(size.buckets()).lock();
        let going = (0..SLOTS).filter(|&slot| going[slot]);
        for (free, slot) in going.enumerate() {
            let Some(tag) = tags.get(slot) else { continue };
            new.fill(free, tag, old.location(slot));
            old.clear(slot);
        }
        old.advance();
        self.publish(grown, old, new);
    }

    fn publish(&self, grown: Size, old: Locked<'_>, new: Locked<'_>) {
        if Mutation::LatePublish.is_planted() {
            drop((old, new));
            self.size.0.store(grown.to_word(), Release);
            return;
        }
        self.size.0.store(grown.to_word(), Release);
        drop((old, new));
    }
}

/// The items of a bucket and their hashes, shortly before the bucket was locked.
struct Residents([Option<(Location, Hash)>; SLOTS]);

impl Residents {
    fn read(bucket: &Bucket, items: &impl Items) -> Self {
        let tags = bucket.tags();
        let at: [Option<Location>; SLOTS] =
            std::array::from_fn(|slot| tags.get(slot).map(|_| bucket.location(slot)));
        at.iter().flatten().for_each(|&at| items.prefetch(at));
        Self(at.map(|at| at.map(|at| (at, items.hash(at)))))
    }

    /// The hash of the item at `at`, if it was in this slot.
    fn hash(&self, slot: usize, at: Location) -> Option<Hash> {
        self.0[slot].filter(|&(was, _)| was == at).map(|(_, hash)| hash)
    }
}

/// Splits that one insert may make if it finds no path. They are in vain if the keys collide.
pub(super) const SPLITS_AN_INSERT: u32 = 8;
/// The load below which no path means that the keys collide, not that the table is small.
const CROWDED_PERCENT: usize = 75;
