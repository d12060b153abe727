//! A bucket of MemC3's table: four tags in one word, so that one comparison finds the slots to look at, and four
//! references.

use guira_index::Location;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// See the module's head.
#[derive(Default)]
pub(super) struct Bucket {
    tags: AtomicU32,
    references: [AtomicU32; SLOTS],
}

impl Bucket {
    #[inline]
    pub(super) fn get(&self, slot: usize) -> Option<Location> {
        self.references[slot].load(Acquire).checked_sub(1).map(Location)
    }

    /// Sets the content of a slot. Called by the writer.
    pub(super) fn fill(&self, slot: usize, tag: u8, at: Option<Location>) {
        let mut tags = self.tags.load(Relaxed).to_le_bytes();
        tags[slot] = tag;
        self.references[slot].store(at.map_or(0, |at| at.0 + 1), Release);
        self.tags.store(u32::from_le_bytes(tags), Release);
    }

    pub(super) fn free_slot(&self) -> Option<usize> {
        (0..SLOTS).find(|&slot| self.references[slot].load(Relaxed) == 0)
    }

    #[inline]
    pub(super) fn tag(&self, slot: usize) -> u8 {
        self.tags.load(Relaxed).to_le_bytes()[slot]
    }

    /// Returns the slots with this tag, one bit per slot.
    #[inline]
    pub(super) fn matching(&self, tag: u8) -> u32 {
        equal_bytes(self.tags.load(Acquire), tag)
    }
}

/// Sets bit i if byte i of `word` equals `byte`.
#[inline]
fn equal_bytes(word: u32, byte: u8) -> u32 {
    let differing = word ^ u32::from_le_bytes([byte; 4]);
    let nonzero = ((differing & LOW_BITS) + LOW_BITS) | differing;
    (!nonzero & !LOW_BITS).wrapping_mul(0x0020_4081) >> 28
}

/// Slots per bucket.
pub(crate) const SLOTS: usize = 4;
/// The bytes that the paper counts per bucket: four tags of one byte and four references of eight.
pub(crate) const PAPER_BUCKET_BYTES: usize = SLOTS * (1 + 8);
/// All slots, as a result of [`Bucket::matching`].
pub(super) const ALL_SLOTS: u32 = (1 << SLOTS) - 1;
const LOW_BITS: u32 = 0x7f7f_7f7f;
