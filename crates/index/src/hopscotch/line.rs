//! A line: a few homes, as many slots, and the version of those homes, in one cache line.
//!
//! Home i and slot i of a line share their number and nothing else. A home's keys are in the slots that its hop word
//! names, in this line or in the next lines.
//!
//! # Layout
//! ```text
//! H = 32: version 4 | 6 hop words of 32 bits | 6 locations | 6 tags of 16 bits
//! H = 64: version 4 | pad 4 | 4 hop words of 64 bits | 4 locations | 4 tags
//! ```
//! # Invariants
//! 1. Only the holder of the line's lock changes the line's hop words, and the content of the slots that they name.
//! 2. A thread takes a slot by changing its tag from 0. From then on the slot belongs to that thread, which may fill
//!    it, move a key into it, or free it. No lock is needed for this.
//! 3. A slot's location is written before its tag, and both before a hop word names the slot, all with Release.
//!    Readers read them in the opposite order with Acquire.
//! 4. All zeroes is an empty line: fresh memory needs no constructor.

use crate::Location;
use crate::mapping::Zeroable;
use crate::sync::{Acquire, AtomicU16, AtomicU32, AtomicU64, Mutation, Relaxed, Release};
use crate::version::{Stamp, Version};

/// See the module's head.
#[repr(C, align(64))]
#[cfg_attr(not(loom), derive(bytemuck::Zeroable))]
pub(crate) struct Line<W, const SLOTS: usize> {
    version: Version,
    hops: [W; SLOTS],
    locations: [AtomicU32; SLOTS],
    tags: [AtomicU16; SLOTS],
}

/// A hop word: bit d means that slot (home + d) holds a key of this home.
pub trait Hop: Zeroable + Default + Send + Sync {
    /// H: the number of slots in which a home's keys may be.
    const REACH: usize;

    /// Loads the bits, with Acquire.
    fn load(&self) -> u64;

    /// Stores the bits, with Release. No bit beyond the reach may be set.
    fn store(&self, bits: u64);
}

/// A neighbourhood of 32 slots.
#[derive(Default)]
#[cfg_attr(not(loom), derive(bytemuck::Zeroable))]
pub struct Hop32(AtomicU32);

/// A neighbourhood of 64 slots.
#[derive(Default)]
#[cfg_attr(not(loom), derive(bytemuck::Zeroable))]
pub struct Hop64(AtomicU64);

impl Hop for Hop32 {
    const REACH: usize = 32;

    #[inline]
    fn load(&self) -> u64 {
        self.0.load(Acquire).into()
    }

    #[inline]
    fn store(&self, bits: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "none is set beyond the reach")]
        self.0.store(bits as u32, Release);
    }
}

impl Hop for Hop64 {
    const REACH: usize = 64;

    #[inline]
    fn load(&self) -> u64 {
        self.0.load(Acquire)
    }

    #[inline]
    fn store(&self, bits: u64) {
        self.0.store(bits, Release);
    }
}

/// A neighbourhood of three slots, for models.
#[cfg(all(test, loom))]
#[derive(Default)]
pub(super) struct Few(AtomicU32);

#[cfg(all(test, loom))]
impl Hop for Few {
    const REACH: usize = 3;

    fn load(&self) -> u64 {
        self.0.load(Acquire).into()
    }

    fn store(&self, bits: u64) {
        self.0.store(u32::try_from(bits).expect("three bits"), Release);
    }
}

impl<W: Hop, const SLOTS: usize> Line<W, SLOTS> {
    /// Reads the version. Call it before reading a hop word.
    #[inline]
    pub(super) fn stamp(&self) -> Stamp {
        self.version.stamp()
    }

    /// Whether no key has left a home of this line since.
    #[inline]
    pub(super) fn is_unchanged(&self, since: Stamp) -> bool {
        self.version.is_unchanged(since)
    }

    /// The bits of a home's hop word.
    #[inline]
    pub(super) fn hops(&self, home: usize) -> u64 {
        self.hops[home].load()
    }

    /// The tag in a slot; `None` if the slot is free.
    #[inline]
    pub(super) fn tag(&self, slot: usize) -> Option<Tag> {
        let bits = self.tags[slot].load(Acquire);
        (bits != FREE).then_some(Tag(bits))
    }

    /// The location in a slot whose tag was read before.
    #[inline]
    pub(super) fn location(&self, slot: usize) -> Location {
        Location(self.locations[slot].load(Acquire))
    }

    /// Takes a slot if it is free.
    #[inline]
    pub(super) fn take(&self, slot: usize, tag: Tag) -> bool {
        let tags = &self.tags[slot];
        let is_free = tags.load(Relaxed) == FREE;
        if Mutation::DoubleTake.is_planted() && is_free {
            tags.store(tag.0, Release);
            return true;
        }
        is_free && tags.compare_exchange(FREE, tag.0, Acquire, Relaxed).is_ok()
    }

    /// Frees a slot. Only for the thread that took it, when no hop word names it.
    #[inline]
    pub(super) fn free(&self, slot: usize) {
        self.tags[slot].store(FREE, Release);
    }

    /// Fills a slot. Only for the thread that took it.
    #[inline]
    pub(super) fn fill(&self, slot: usize, tag: Tag, at: Location) {
        self.replace(slot, at);
        self.tags[slot].store(tag.0, Release);
    }

    /// Changes the location in a slot. Only for the holder of the lock of its key's home, or the thread that took the
    /// slot.
    #[inline]
    pub(super) fn replace(&self, slot: usize, at: Location) {
        self.locations[slot].store(at.0, Release);
    }

    /// Waits for the line's lock.
    #[inline]
    pub(super) fn lock(&self) -> Locked<'_, W, SLOTS> {
        Locked { line: self, held: self.version.lock(), advance: false }
    }
}

/// A line locked by its holder, who may change its hop words; unlocks when dropped.
pub(super) struct Locked<'a, W: Hop, const SLOTS: usize> {
    line: &'a Line<W, SLOTS>,
    held: Stamp,
    advance: bool,
}

impl<W: Hop, const SLOTS: usize> Locked<'_, W, SLOTS> {
    /// Toggles bits of a home's hop word.
    #[inline]
    pub(super) fn flip(&self, home: usize, bits: u64) {
        let word = &self.line.hops[home];
        word.store(word.load() ^ bits);
    }

    /// Unlocks and locks again.
    pub(super) fn relock(&mut self) {
        self.line.version.unlock(self.held, self.advance);
        self.held = self.line.version.lock();
    }

    /// Makes readers that missed a key of this line's homes look again: a key has left one of the homes.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.advance = true;
    }
}

impl<W: Hop, const SLOTS: usize> std::ops::Deref for Locked<'_, W, SLOTS> {
    type Target = Line<W, SLOTS>;

    #[inline]
    fn deref(&self) -> &Line<W, SLOTS> {
        self.line
    }
}

impl<W: Hop, const SLOTS: usize> Drop for Locked<'_, W, SLOTS> {
    #[inline]
    fn drop(&mut self) {
        self.line.version.unlock(self.held, self.advance);
    }
}

impl<W: Hop, const SLOTS: usize> Default for Line<W, SLOTS> {
    fn default() -> Self {
        Self {
            version: Version::default(),
            hops: std::array::from_fn(|_| W::default()),
            locations: std::array::from_fn(|_| AtomicU32::default()),
            tags: std::array::from_fn(|_| AtomicU16::default()),
        }
    }
}

/// The lowest fifteen bits of a key's position, and a one bit so that the tag is never [`FREE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u16);

impl Tag {
    /// The tag of a position.
    #[inline]
    pub(super) fn new(position: u64) -> Self {
        let [low, high, ..] = position.to_le_bytes();
        Self(u16::from_le_bytes([low, high]) | TAKEN)
    }

    /// The lowest position from `first` on that has this tag.
    #[inline]
    pub(super) fn position_from(self, first: u64) -> u64 {
        first + (u64::from(self.0).wrapping_sub(first) & u64::from(!TAKEN))
    }
}

/// Bits of a position that a tag keeps.
pub(super) const TAG_BITS: u32 = 15;
const FREE: u16 = 0;
const TAKEN: u16 = 1 << TAG_BITS;

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Line<Hop32, 6>>() == 64, "a cache line");
    assert!(size_of::<Line<Hop64, 4>>() == 64, "a cache line");
};
