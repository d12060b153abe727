//! A unit of a run: a head with its own checksum, and entries, which the head's second checksum covers.

use crate::checksum::crc32c;
use crate::entry::{Entry, EntryKind, Head};
use crate::file::BLOCK_BYTES;
use crate::hash::{Hasher, KeyHash};
use std::ops::Range;

/// Bytes before the entries.
pub(crate) const UNIT_HEAD: usize = 32;
/// Bytes of entries in a block.
pub(crate) const BLOCK_ROOM: usize = BLOCK_BYTES - UNIT_HEAD;

/// The position of a unit, which its first checksum also covers.
#[derive(Clone, Copy)]
pub(super) struct UnitPlace {
    pub(super) file_id: u64,
    pub(super) block: u64,
}

/// The content of a unit's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitHead {
    body_crc: u32,
    /// The number of blocks, at least 1.
    pub(super) blocks: u32,
    /// Bytes of entries.
    used: u32,
    /// The top of the first entry's hash.
    pub(super) first_top: u64,
    /// The number of entries that begin in the unit. 0: the block only has a part of an entry.
    pub(super) entries: u32,
    /// Bytes at the front that belong to an entry of an earlier block.
    pub(super) carried: u16,
    /// Bytes that later blocks have of the unit's last entry, or of the entry that it carries.
    pub(super) cut: u16,
}

impl UnitHead {
    /// Decodes the head at the front of `bytes`. None if its checksum is wrong or it belongs elsewhere.
    pub(super) fn decode(bytes: &[u8], place: UnitPlace) -> Option<Self> {
        let bytes: &[u8; UNIT_HEAD] = bytes.first_chunk()?;
        if number(bytes, 0) != head_crc(bytes, place) {
            return None;
        }
        let head = Self {
            body_crc: number(bytes, 4),
            blocks: number(bytes, 8),
            used: number(bytes, 12),
            first_top: u64::from(number(bytes, 16)) | u64::from(number(bytes, 20)) << 32,
            entries: number(bytes, 24),
            carried: u16::from_le_bytes([bytes[28], bytes[29]]),
            cut: u16::from_le_bytes([bytes[30], bytes[31]]),
        };
        head.is_sane().then_some(head)
    }

    fn is_sane(&self) -> bool {
        let (carried, used) = (u32::from(self.carried), self.used);
        let is_alone = carried == 0 && self.cut == 0;
        self.blocks > 0
            && self.end() <= self.bytes()
            && (is_alone || self.blocks == 1)
            && (self.cut == 0 || used as usize == BLOCK_ROOM)
            && if self.entries == 0 { carried == used && used > 0 } else { carried < used }
    }

    /// Where the first entry that begins here begins.
    pub(super) fn begin(&self) -> usize {
        UNIT_HEAD + usize::from(self.carried)
    }

    /// The number of entries that are here from their first to their last byte.
    pub(super) fn whole_entries(&self) -> u32 {
        self.entries - u32::from(self.cut > 0 && self.entries > 0)
    }

    /// Bytes of the unit: a multiple of the block size.
    pub(super) fn bytes(&self) -> usize {
        self.blocks as usize * BLOCK_BYTES
    }

    /// Where the entries end.
    pub(super) fn end(&self) -> usize {
        UNIT_HEAD + self.used as usize
    }

    /// Whether the unit's bytes match the second checksum.
    pub(super) fn covers(&self, unit: &[u8]) -> bool {
        unit.len() == self.bytes() && crc32c(&[&unit[UNIT_HEAD..]]) == self.body_crc
    }
}

/// The content of a unit that is being written.
#[derive(Clone, Copy)]
pub(super) struct Holding {
    /// The hash of its first entry.
    pub(super) first: KeyHash,
    /// See [`UnitHead`].
    pub(super) entries: u32,
    pub(super) carried: usize,
    pub(super) cut: usize,
}

/// Fills in the head of a unit that has its entries, and pads the unit to whole blocks. Returns the number of blocks.
pub(super) fn seal(unit: &mut Vec<u8>, place: UnitPlace, holding: Holding) -> u32 {
    let used = unit.len() - UNIT_HEAD;
    unit.resize(unit.len().next_multiple_of(BLOCK_BYTES), 0);
    let fits = "an entry is below 4 GiB";
    let blocks = u32::try_from(unit.len() / BLOCK_BYTES).expect(fits);
    let used = u32::try_from(used).expect(fits);
    let body_crc = crc32c(&[&unit[UNIT_HEAD..]]);
    for (at, part) in [(4, body_crc), (8, blocks), (12, used), (24, holding.entries)] {
        unit[at..at + 4].copy_from_slice(&part.to_le_bytes());
    }
    for (at, part) in [(28, holding.carried), (30, holding.cut)] {
        let part = u16::try_from(part).expect("a split entry is below 64 KiB");
        unit[at..at + 2].copy_from_slice(&part.to_le_bytes());
    }
    unit[16..24].copy_from_slice(&holding.first.top().to_le_bytes());
    let head: &[u8; UNIT_HEAD] = unit.first_chunk().expect("a whole block");
    let crc = head_crc(head, place);
    unit[..4].copy_from_slice(&crc.to_le_bytes());
    blocks
}

fn head_crc(head: &[u8; UNIT_HEAD], place: UnitPlace) -> u32 {
    crc32c(&[&place.file_id.to_le_bytes(), &place.block.to_le_bytes(), &head[4..]])
}

fn number(bytes: &[u8; UNIT_HEAD], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// How much of the rest of an entry was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// All of it.
    Whole,
    /// More blocks are needed.
    Short,
    /// This block of it isn't what was written.
    Broken(u64),
}

/// Appends to an entry's first part the `cut` bytes of it that the blocks from `place` on have.
pub(super) fn join(entry: &mut Vec<u8>, mut cut: usize, blocks: &[u8], place: UnitPlace) -> Rest {
    let (whole, _) = blocks.as_chunks::<BLOCK_BYTES>();
    for (bytes, block) in whole.iter().zip(place.block..) {
        let Some(head) = UnitHead::decode(bytes, UnitPlace { block, ..place }) else {
            return Rest::Broken(block);
        };
        let carried = usize::from(head.carried);
        if carried != cut.min(BLOCK_ROOM) || !head.covers(bytes) {
            return Rest::Broken(block);
        }
        entry.extend_from_slice(&bytes[UNIT_HEAD..head.begin()]);
        cut -= carried;
        if cut == 0 {
            return Rest::Whole;
        }
        if head.entries > 0 {
            return Rest::Broken(block);
        }
    }
    Rest::Short
}

/// The parts of an entry, as ranges of its unit.
#[derive(Clone, Debug)]
pub(super) struct Parsed {
    pub(super) hash: KeyHash,
    pub(super) seq: u64,
    pub(super) kind: EntryKind,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

impl Parsed {
    /// Parses the entry at `at` of a verified unit that ends at `end`. Its hash is left 0: see [`Parsed::hashed`].
    pub(super) fn at(unit: &[u8], at: usize, end: usize, seq_max: u64) -> Option<Self> {
        let (head, used) = Head::decode(unit.get(at..end)?)?;
        let key_end = at + used + head.key_bytes;
        let value_end = key_end + head.value_bytes;
        let seq = seq_max.checked_sub(head.age)?;
        (value_end <= end).then_some(Self {
            hash: KeyHash(0),
            seq,
            kind: head.kind,
            key: at + used..key_end,
            value: key_end..value_end,
        })
    }

    /// Returns the entry with the hash of its key filled in.
    pub(super) fn hashed(mut self, unit: &[u8], hasher: &Hasher) -> Self {
        self.hash = hasher.hash(&unit[self.key.clone()]);
        self
    }

    /// The entry.
    pub(super) fn entry<'a>(&self, unit: &'a [u8]) -> Entry<'a> {
        let (key, value) = (&unit[self.key.clone()], &unit[self.value.clone()]);
        Entry { hash: self.hash, seq: self.seq, kind: self.kind, key, value }
    }
}
