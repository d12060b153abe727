//! Slots of any width up to 57 bits, stored without gaps.
//!
//! # Layout
//! ```text
//! | slot 0 | slot 1 | … | 7 bytes of padding      a slot is read by one unaligned load of eight bytes
//! ```

/// See the module's head.
pub(super) struct Packed {
    bytes: Vec<u8>,
    slots: usize,
    width: u32,
}

impl Packed {
    /// Creates `slots` slots of `width` bits, all 0.
    pub(super) fn new(slots: usize, width: u32) -> Self {
        assert!((1..=57).contains(&width), "one load holds a slot");
        let bits = slots * width as usize;
        Self { bytes: vec![0; bits.div_ceil(8) + PADDING], slots, width }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn get(&self, slot: usize) -> u64 {
        let bit = slot * self.width as usize;
        self.word(bit / 8) >> (bit % 8) & self.mask()
    }

    pub(super) fn set(&mut self, slot: usize, content: u64) {
        let bit = slot * self.width as usize;
        let (at, shift) = (bit / 8, bit % 8);
        let kept = self.word(at) & !(self.mask() << shift);
        self.bytes[at..at + 8].copy_from_slice(&(kept | content << shift).to_le_bytes());
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }
}

const PADDING: usize = 7;
