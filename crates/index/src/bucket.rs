//! A bucket: twelve slots, their tags and the version, in one cache line.
//!
//! # Layout
//! ```text
//! bytes  0..4   version: lock, counter, and the ninth bit of each tag
//!        4..16  the other eight bits of twelve tags, four a word; 0 = the slot is free
//!       16..64  twelve locations of 32 bits; without meaning where the tag is 0
//! ```
//! # Invariants
//! 1. Only the holder of the bucket's lock changes tags and locations ([`Locked`] is the proof of holding it).
//! 2. A slot's location is written before its tag, both with Release. The tag is read before the location, both with
//!    Acquire. So a reader that sees a tag gets the location written for it or a later one, never an older one.
//! 3. A ninth bit is written before its tag. It is read, as part of the stamp, before the tags. A reader with an
//!    outdated ninth bit finds the version changed when it looks again. So the reader may miss a key because of it,
//!    but does not accept the miss.
//! 4. All zeroes is an empty bucket: fresh memory needs no constructor.

use crate::Location;
use crate::sync::{Acquire, AtomicU32, Relaxed, Release};
use crate::version::{Stamp, Version};

/// See the module's head.
#[repr(C, align(64))]
#[derive(Default)]
#[cfg_attr(not(loom), derive(bytemuck::Zeroable))]
pub(crate) struct Bucket {
    version: Version,
    tags: [AtomicU32; TAG_WORDS],
    locations: [AtomicU32; SLOTS],
}

impl Bucket {
    /// The tags as they are now, with the version from before they were read.
    #[inline]
    pub(crate) fn tags(&self) -> Tags {
        self.tags_since(self.version.stamp())
    }

    /// The tags of two buckets, with both versions from before either bucket was read. So a key that moved from one
    /// bucket to the other meanwhile was either seen, or its move has changed a version.
    #[inline]
    pub(crate) fn tags_of_both([one, two]: [&Self; 2]) -> [Tags; 2] {
        let stamps = [one.version.stamp(), two.version.stamp()];
        [one.tags_since(stamps[0]), two.tags_since(stamps[1])]
    }

    #[inline]
    fn tags_since(&self, stamp: Stamp) -> Tags {
        Tags { stamp, low: std::array::from_fn(|word| self.tags[word].load(Acquire)) }
    }

    /// Whether these are still the tags, except for keys that were entered since.
    #[inline]
    pub(crate) fn is_unchanged(&self, since: Tags) -> bool {
        self.version.is_unchanged(since.stamp)
    }

    /// The location in a slot whose tag was read before.
    #[inline]
    pub(crate) fn location(&self, slot: usize) -> Location {
        Location(self.locations[slot].load(Acquire))
    }

    /// The location for which `is_key` returns true, among slots with this tag, and its slot.
    #[inline]
    pub(crate) fn find(
        &self,
        tag: Tag,
        is_key: &mut impl FnMut(Location) -> bool,
    ) -> Option<(usize, Location)> {
        self.tags()
            .matching(tag)
            .map(|slot| (slot, self.location(slot)))
            .find(|&(_, at)| is_key(at))
    }

    /// Waits for the bucket's lock.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked { bucket: self, held: self.version.lock(), advance: false }
    }

    /// Takes the bucket's lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Locked<'_>> {
        let held = self.version.try_lock()?;
        Some(Locked { bucket: self, held, advance: false })
    }
}

/// A bucket locked by its holder. Dropping it unlocks the bucket.
pub(crate) struct Locked<'a> {
    bucket: &'a Bucket,
    held: Stamp,
    advance: bool,
}

impl<'a> Locked<'a> {
    /// The bucket, for use beyond the lock.
    pub(crate) fn bucket(&self) -> &'a Bucket {
        self.bucket
    }

    /// Fills a free slot.
    #[inline]
    pub(crate) fn fill(&mut self, slot: usize, tag: Tag, at: Location) {
        self.replace(slot, at);
        let bits = self.held.bits() & !(1 << slot) | u32::from(tag.0 >> 8) << slot;
        self.bucket.version.set_bits(&mut self.held, bits);
        self.set_low(slot, tag.low());
    }

    /// Changes the location in a slot.
    #[inline]
    pub(crate) fn replace(&self, slot: usize, at: Location) {
        self.bucket.locations[slot].store(at.0, Release);
    }

    /// Frees a slot.
    #[inline]
    pub(crate) fn clear(&self, slot: usize) {
        self.set_low(slot, 0);
    }

    /// Makes readers that found nothing here look again: a key left the bucket, or came from another bucket.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.advance = true;
    }

    #[inline]
    fn set_low(&self, slot: usize, tag: u8) {
        let (word, shift) = (&self.bucket.tags[slot / 4], slot % 4 * 8);
        let others = word.load(Relaxed) & !(0xff << shift);
        word.store(others | u32::from(tag) << shift, Release);
    }
}

impl std::ops::Deref for Locked<'_> {
    type Target = Bucket;

    #[inline]
    fn deref(&self) -> &Bucket {
        self.bucket
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.bucket.version.unlock(self.held, self.advance);
    }
}

/// Nine bits of a key's hash, of which the lower eight are never 0. With eight bits, one lookup of an absent key in
/// 11 would read an item in vain; with nine, one in 22.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u16);

impl Tag {
    /// The tag of the low nine bits of `bits`: if the lower eight are 0, they become 1.
    #[inline]
    pub(crate) fn new(bits: u16) -> Self {
        let bits = bits & 0x1ff;
        Self(if bits & 0xff == 0 { bits | 1 } else { bits })
    }

    #[inline]
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    #[inline]
    fn low(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    #[inline]
    fn has_ninth(self) -> bool {
        self.0 >> 8 != 0
    }
}

/// All tags of a bucket, as they were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tags {
    stamp: Stamp,
    low: [u32; TAG_WORDS],
}

impl Tags {
    /// The slots that hold `tag`.
    #[inline]
    pub(crate) fn matching(self, tag: Tag) -> Slots {
        let ninth = self.stamp.bits();
        let agree = if tag.has_ninth() { ninth } else { !ninth };
        Slots(self.equal_to(tag.low()) & agree & ALL_SLOTS)
    }

    /// The slots that are free.
    #[inline]
    pub(crate) fn free(self) -> Slots {
        Slots(self.equal_to(0) & ALL_SLOTS)
    }

    /// The tag in a slot, `None` if the slot is free.
    #[inline]
    pub(crate) fn get(self, slot: usize) -> Option<Tag> {
        let low = u16::from(self.low[slot / 4].to_le_bytes()[slot % 4]);
        let ninth = self.stamp.bits() >> slot & 1;
        (low != 0).then_some(Tag(low | if ninth == 0 { 0 } else { 0x100 }))
    }

    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    #[inline]
    fn equal_to(self, tag: u8) -> u32 {
        let [a, b, c] = self.low;
        crate::mapping::equal_bytes([a, b, c, 0], tag)
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    #[inline]
    fn equal_to(self, tag: u8) -> u32 {
        let mut slots = 0;
        for (i, word) in self.low.into_iter().enumerate() {
            slots |= equal_bytes(word, tag) << (4 * i);
        }
        slots
    }
}

/// Four bytes compared at once: bit i is set if byte i of `word` equals `byte`.
#[cfg(any(test, not(all(target_arch = "x86_64", not(miri), not(loom)))))]
#[inline]
fn equal_bytes(word: u32, byte: u8) -> u32 {
    let differing = word ^ u32::from_le_bytes([byte; 4]);
    // The top bit of a byte is 0 here only if all eight bits of the byte are 0.
    let nonzero = ((differing & LOW_BITS) + LOW_BITS) | differing;
    // Gathers bits 7, 15, 23 and 31 in the top four.
    (!nonzero & !LOW_BITS).wrapping_mul(0x0020_4081) >> 28
}

/// A set of slots, iterated upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots(u32);

impl Slots {
    /// Merges the slots of two buckets into one sequence of pairs: the slot, and whether it is the second bucket's.
    #[inline]
    pub(crate) fn of_both([first, second]: [Self; 2]) -> impl Iterator<Item = (usize, bool)> {
        Self(first.0 | second.0 << 16).map(|slot| (slot % 16, slot >= 16))
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn first(mut self) -> Option<usize> {
        self.next()
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let slot = self.0.trailing_zeros() as usize;
        let rest = self.0 & self.0.wrapping_sub(1);
        (std::mem::replace(&mut self.0, rest) != 0).then_some(slot)
    }
}

/// Slots of a bucket: as many as fill a cache line. Models use two, so that a bucket fills up soon.
pub(crate) const SLOTS: usize = if cfg!(loom) { 2 } else { 12 };
const TAG_WORDS: usize = SLOTS.div_ceil(4);
const ALL_SLOTS: u32 = (1 << SLOTS) - 1;
#[cfg(any(test, not(all(target_arch = "x86_64", not(miri), not(loom)))))]
const LOW_BITS: u32 = 0x7f7f_7f7f;

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 64, "a bucket is a cache line");

#[cfg(all(test, not(loom)))]
mod tests;
