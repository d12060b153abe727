//! Locking one key's place.
//!
//! A key's place is locked by its bucket. The bucket's next word is kept until the lock is released, so that a key
//! removed and put again under one lock was never absent: readers accept a miss only if the word is unlocked.

use super::link::{Locked, Tag, Word};
use super::lock::{BucketLock, Tas};
use super::table::{Chained, Probe};
use crate::sync::{Mutation, Release};
use crate::{Entry, Full, Location};

/// The place of a key in a [`Chained`] table, locked until dropped.
pub struct ChainedEntry<'a, L: BucketLock = Tas> {
    table: &'a Chained<L>,
    bucket: Locked<'a, L>,
    place: Place,
    tag: Tag,
    location: Option<Location>,
}

/// A slot of a chain.
#[derive(Clone, Copy)]
struct Place {
    link: Which,
    slot: usize,
}

/// A link of a chain.
#[derive(Clone, Copy)]
enum Which {
    Bucket,
    /// A link of the pool, and the link before it (0: the bucket).
    Linked {
        number: u32,
        before: u32,
    },
    /// A link of the pool that is not in the chain yet.
    Reserved {
        number: u32,
    },
}

impl<L: BucketLock> Chained<L> {
    /// Locks the key's place, or a free one.
    #[inline]
    pub(super) fn lock_entry(
        &self,
        probe: Probe,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Result<ChainedEntry<'_, L>, Full> {
        let bucket = self.lock_home(probe);
        let (place, location) = match self.seek(&bucket, probe.tag, is_key) {
            Sought::Found(place, at) => (place, Some(at)),
            Sought::Absent(Some(place)) => (place, None),
            Sought::Absent(None) => {
                let number = self.pool.take().ok_or(Full)?;
                (Place { link: Which::Reserved { number }, slot: 0 }, None)
            }
        };
        Ok(ChainedEntry { table: self, bucket, place, tag: probe.tag, location })
    }

    /// Locks the key's place if it is present.
    #[inline]
    pub(super) fn lock_present(
        &self,
        probe: Probe,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<ChainedEntry<'_, L>> {
        let bucket = self.lock_home(probe);
        let Sought::Found(place, at) = self.seek(&bucket, probe.tag, is_key) else { return None };
        Some(ChainedEntry { table: self, bucket, place, tag: probe.tag, location: Some(at) })
    }

    /// Finds a key in a locked chain, or else the first free slot.
    #[inline]
    fn seek(
        &self,
        bucket: &Locked<'_, L>,
        tag: Tag,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Sought {
        let (mut link, mut word, mut which) = (bucket.bucket(), bucket.held, Which::Bucket);
        let mut free = None;
        loop {
            for slot in word.matching(tag) {
                let at = link.location(slot);
                if is_key(at) {
                    return Sought::Found(Place { link: which, slot }, at);
                }
            }
            free = free.or_else(|| word.free().map(|slot| Place { link: which, slot }));
            let number = word.next();
            if number == 0 {
                return Sought::Absent(free);
            }
            which = Which::Linked { number, before: which.number() };
            link = self.pool.link(number);
            word = link.word();
        }
    }
}

enum Sought {
    Found(Place, Location),
    Absent(Option<Place>),
}

impl Which {
    fn number(self) -> u32 {
        match self {
            Self::Bucket => 0,
            Self::Linked { number, .. } | Self::Reserved { number } => number,
        }
    }
}

impl<L: BucketLock> Entry for ChainedEntry<'_, L> {
    #[inline]
    fn location(&self) -> Option<Location> {
        self.location
    }

    #[inline]
    fn put(&mut self, new: Location) -> Option<Location> {
        let old = self.location.replace(new);
        let Place { link, slot } = self.place;
        match link {
            Which::Bucket => self.bucket.bucket().set_location(slot, new),
            Which::Linked { number, .. } | Which::Reserved { number } => {
                self.table.pool.link(number).set_location(slot, new);
            }
        }
        if old.is_none() {
            self.set_tag(Some(self.tag));
            self.table.count.add(1);
        }
        old
    }

    #[inline]
    fn remove(&mut self) -> Option<Location> {
        let old = self.location.take()?;
        // A reader that starts from now on must not find the key, since its item's memory may be reused.
        self.set_tag(None);
        if !Mutation::StillRemove.is_planted() {
            self.bucket.held = self.bucket.held.advanced();
            if self.bucket.held.has_wrapped() && !Mutation::StillWrap.is_planted() {
                self.table.wraps.0.fetch_add(1, Release);
            }
        }
        self.bucket.publish();
        self.table.count.add(-1);
        Some(old)
    }
}

impl<L: BucketLock> ChainedEntry<'_, L> {
    /// Fills or frees the slot. If its link isn't in the chain yet, puts the link there first.
    #[inline]
    fn set_tag(&mut self, tag: Option<Tag>) {
        let (held, slot) = (self.bucket.held, self.place.slot);
        match self.place.link {
            Which::Bucket => self.bucket.held = held.with_tag(slot, tag),
            Which::Linked { number, .. } => {
                let link = self.table.pool.link(number);
                link.set_word(link.word().with_tag(slot, tag));
            }
            Which::Reserved { number } => {
                let word = Word::default().with_next(held.next()).with_tag(slot, tag);
                self.table.pool.link(number).set_word(word);
                self.bucket.held = held.with_next(number);
                self.place.link = Which::Linked { number, before: 0 };
            }
        }
    }

    /// Takes a link without entries out of the chain.
    fn unlink(&mut self, number: u32, before: u32) {
        let next = self.table.pool.link(number).word().next();
        if before == 0 {
            self.bucket.held = self.bucket.held.with_next(next);
        } else {
            let before = self.table.pool.link(before);
            before.set_word(before.word().with_next(next));
        }
        self.table.pool.give(number);
    }
}

impl<L: BucketLock> Drop for ChainedEntry<'_, L> {
    #[inline]
    fn drop(&mut self) {
        match self.place.link {
            Which::Bucket => {}
            Which::Linked { number, before } => {
                if !self.table.pool.link(number).word().has_entries() {
                    self.unlink(number, before);
                }
            }
            Which::Reserved { number } => self.table.pool.give(number),
        }
    }
}

impl<L: BucketLock> std::fmt::Debug for ChainedEntry<'_, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChainedEntry").field("location", &self.location).finish_non_exhaustive()
    }
}
