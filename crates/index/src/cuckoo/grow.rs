//! Growth: one bucket split in two, in place, while everybody else goes on.
//!
//! # Costs
//! A split reads twelve items (their hashes tell which keys go): the misses overlap, and happen before the locks are
//! taken. Amortised over the eleven inserts that the new bucket has room for. Nobody waits for growth but those who
//! want the bucket that is being split, for a fraction of a microsecond.

use super::address::{Probe, Size};
use super::path::find_path;
use super::table::{Cuckoo, LOAD_PERCENT};
use crate::bucket::{Bucket, Locked, SLOTS};
use crate::sync::{Mutation, Release};
use crate::{Full, Hash, Index, Items, Location};

impl Cuckoo {
    /// After an insert found both its buckets full under `size`: grows if the load is reached, displaces otherwise.
    /// Then it is worth trying again. Without a path it grows nevertheless, by as many buckets as are left to the insert.
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
            // If another writer was faster, the search begins anew.
            self.displace(&path, items);
            return Ok(());
        }
        // Others may have made room, or moved the key's buckets, while the search went on.
        if self.size() != size || roots.iter().any(|&root| self.has_room(root)) {
            return Ok(());
        }
        // No path although there is room elsewhere: chance has it that no search finds that, which a few splits mend; or
        // the keys of these two buckets have no other place to go, since they all have equal tags, and growing would
        // hardly part them.
        let is_crowded = self.len() * 100 > self.capacity() * CROWDED_PERCENT;
        if !is_crowded || *splits_left == 0 || !self.grow(items) {
            return Err(Full);
        }
        // Unchanged if another thread is at it: then this insert waits for that split, and has none of its own.
        *splits_left -= u32::from(self.size() != size);
        Ok(())
    }

    /// Splits the next bucket, unless another thread is at it; `false` if the table may not grow further.
    ///
    /// Inserts call this by themselves. Calling it ahead of time gives them room sooner.
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
        // All hashes are asked for before anything moves: whoever owns the items may panic.
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

/// The items of a bucket and their hashes, as they were shortly before it was locked.
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

/// Splits with which one insert that finds no path helps itself, in vain if the keys collide.
pub(super) const SPLITS_AN_INSERT: u32 = 8;
/// Below this load, no path means that the keys collide, not that the table is small.
const CROWDED_PERCENT: usize = 75;
