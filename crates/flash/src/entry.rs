//! An entry of the index: 56 bits with the place of a record, and a few bits that identify its key.
//!
//! ```text
//! tag 16 | hits 2 | lap 2 | size 4 | place 32
//! ```
//! `tag` is part of the key's hash and never 0, so that 0 is an empty slot. `lap` is the generation of the page modulo
//! four: an entry of another lap is a miss without I/O. `size` encodes the number of blocks that hold the record.
//! `place` counts units from the beginning of the first page.

/// An entry of the index. Two entries are equal if all their fields except the hits are.
#[derive(Clone, Copy, Debug)]
pub struct FlashEntry(u64);

/// The number of blocks to read for each value of the size field. Longer records are never written.
const SIZES: [u32; 16] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, 128, 192, 264, 1040];

const HITS_SHIFT: u32 = 16;
const LAP_SHIFT: u32 = 18;
const SIZE_SHIFT: u32 = 20;
const PLACE_SHIFT: u32 = 24;
/// The number of bits in an entry.
pub(crate) const ENTRY_BITS: u32 = 56;
/// The limit of the hit counter.
pub(crate) const HITS_MAX: u8 = 3;

impl FlashEntry {
    /// No entry.
    pub(crate) const NONE: FlashEntry = FlashEntry(0);

    /// Creates an entry for a record at `place`, in a page of this generation. `None` if the record has too many blocks.
    pub(crate) fn new(tag: u16, generation: u32, place: u32, blocks: u32) -> Option<FlashEntry> {
        let size = SIZES.iter().position(|&size| size >= blocks)? as u64;
        let lap = u64::from(generation & 3);
        let place = u64::from(place) << PLACE_SHIFT;
        Some(FlashEntry(u64::from(tag) | lap << LAP_SHIFT | size << SIZE_SHIFT | place))
    }

    pub(crate) fn from_bits(bits: u64) -> FlashEntry {
        FlashEntry(bits & ((1 << ENTRY_BITS) - 1))
    }

    /// Returns the entry as a number, without its hits: equal entries have the same number.
    #[must_use]
    pub fn place_bits(self) -> u64 {
        self.with_hits(0).0
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn tag(self) -> u16 {
        (self.0 & 0xffff) as u16
    }

    /// The number of gets that found it, up to 3.
    #[must_use]
    pub fn hits(self) -> u8 {
        (self.0 >> HITS_SHIFT & 3) as u8
    }

    pub(crate) fn with_hits(self, hits: u8) -> FlashEntry {
        FlashEntry(self.0 & !(3 << HITS_SHIFT) | u64::from(hits & 3) << HITS_SHIFT)
    }

    pub(crate) fn lap(self) -> u32 {
        (self.0 >> LAP_SHIFT & 3) as u32
    }

    /// The number of blocks to read.
    pub(crate) fn blocks(self) -> u32 {
        SIZES[(self.0 >> SIZE_SHIFT & 15) as usize]
    }

    pub(crate) fn place(self) -> u32 {
        (self.0 >> PLACE_SHIFT & 0xffff_ffff) as u32
    }
}

impl PartialEq for FlashEntry {
    fn eq(&self, other: &FlashEntry) -> bool {
        self.with_hits(0).0 == other.with_hits(0).0
    }
}

impl Eq for FlashEntry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_its_fields_apart_and_is_itself_whatever_its_hits() {
        let entry = FlashEntry::new(0xffff, 6, u32::MAX, 7).unwrap();
        let hit = entry.with_hits(3);
        assert_eq!((hit.tag(), hit.hits(), hit.lap()), (0xffff, 3, 2));
        assert_eq!((hit.blocks(), hit.place()), (8, u32::MAX));
        assert_eq!(hit, entry);
        assert_ne!(FlashEntry::new(0xffff, 7, u32::MAX, 7), Some(entry));
        assert_eq!(FlashEntry::from_bits(hit.bits() | 1 << 60).bits(), hit.bits());
        assert!(
            FlashEntry::new(1, 0, 0, 1041).is_none() && FlashEntry::new(1, 0, 0, 1040).is_some()
        );
    }
}
