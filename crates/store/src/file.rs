//! The first and the last block of a file: its kind, its store, and where its sections lie.
//!
//! # Layout
//! ```text
//! header, 4096 B   0  "SILTRS"           16  file id, 8 B        48  the log before, 8 B
//!                  6  format, 2 B        24  store's uuid, 16 B  56  zeros
//!                  8  kind, then zeros   40  hash id, 8 B        4092  CRC-32C of 0..4092
//! footer, 4096 B   0  "SILTEND\n"        24  of 8 sections each:  0  CRC-32C, 4 B    8  offset, 8 B
//!                  8  file id, 8 B           4  kind, then zeros  16  length, 8 B
//!                 16  XXH3-64 of all blocks before the footer
//!                216  zeros            4092  CRC-32C of 0..4092
//! ```
//! Integers are little-endian. Every file of a store begins with the header; a run ends with the footer.
//!
//! # Invariants
//! 1. A decoder accepts only bytes that the encoder writes: unknown kinds, and bytes that should be zero and aren't,
//!    are refused.
//! 2. A section's place is checked against the file's length before memory is allocated for it.

use crate::checksum::crc32c;
use std::ops::Range;

/// Bytes of a block: of a header, of a footer, of each block of a run's data.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// Records in the order of writing.
    Log,
    /// Records in the order of hashes.
    Run,
    /// The list of the store's files.
    Manifest,
    /// A `SortedStore` or `HashStore` of the paper's layout.
    Fixed,
}

/// The content of a file's first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The kind of the file.
    pub(crate) kind: FileKind,
    /// Its number, unique in the store and never used again.
    pub(crate) file_id: u64,
    /// The store that it belongs to.
    pub(crate) uuid: [u8; 16],
    /// The identity of the store's hash: [`crate::hash::Hasher::id`].
    pub(crate) hash_id: u64,
    /// In a log: the number of the newest earlier log that has or had a record. 0: there is none.
    pub(crate) before: u64,
}

/// Why a block is refused: a clause for an error message.
pub(crate) type Refusal = &'static str;

impl Header {
    /// Encodes the header as a block.
    pub(crate) fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[MAGIC].copy_from_slice(b"SILTRS");
        block[FORMAT].copy_from_slice(&FORMAT_NOW.to_le_bytes());
        block[KIND] = match self.kind {
            FileKind::Log => 1,
            FileKind::Run => 2,
            FileKind::Manifest => 3,
            FileKind::Fixed => 4,
        };
        block[FILE_ID].copy_from_slice(&self.file_id.to_le_bytes());
        block[UUID].copy_from_slice(&self.uuid);
        block[HASH_ID].copy_from_slice(&self.hash_id.to_le_bytes());
        block[BEFORE].copy_from_slice(&self.before.to_le_bytes());
        seal(&mut block);
        block
    }

    /// Decodes a block that [`Header::encode`] wrote.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, Refusal> {
        let block: &[u8; BLOCK_BYTES] = block.try_into().map_err(|_| "its header is cut short")?;
        if block[MAGIC] != *b"SILTRS" {
            return Err("it does not begin as a file of a store");
        }
        if !is_sealed(block) {
            return Err("its header fails the checksum");
        }
        let format = u16::from_le_bytes(bytes(block, FORMAT));
        if format < FORMAT_OLDEST {
            return Err(
                "its format is older than 3, the oldest that this version reads; serve it \
                        with the version that wrote it, and copy the items into a new store",
            );
        }
        if format > FORMAT_NOW {
            return Err("its format is newer than 4, the newest that this version reads; use the \
                        version that wrote it");
        }
        let kind = match block[KIND] {
            1 => FileKind::Log,
            2 => FileKind::Run,
            3 => FileKind::Manifest,
            4 => FileKind::Fixed,
            _ => return Err("its kind is unknown"),
        };
        let header = Self {
            kind,
            file_id: number(block, FILE_ID),
            uuid: bytes(block, UUID),
            hash_id: number(block, HASH_ID),
            before: number(block, BEFORE),
        };
        let mut own = header.encode();
        own[FORMAT].copy_from_slice(&format.to_le_bytes());
        seal(&mut own);
        if own == *block { Ok(header) } else { Err("its header has stray bytes") }
    }

    /// Whether a block is as somebody wrote it, whatever its header says.
    pub(crate) fn is_whole(block: &[u8]) -> bool {
        block.try_into().is_ok_and(is_sealed)
    }

    /// Refuses a file that isn't the expected one.
    pub(crate) fn expect(&self, wanted: &Self) -> Result<(), Refusal> {
        if self.kind != wanted.kind {
            Err("it is of another kind")
        } else if self.uuid != wanted.uuid {
            Err("it belongs to another store")
        } else if self.file_id != wanted.file_id {
            Err("its number is not that of its name")
        } else if self.hash_id != wanted.hash_id {
            Err("it was written with another hash seed")
        } else {
            Ok(())
        }
    }
}

/// The kind of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionKind {
    /// Units of a run that have several blocks.
    Starts,
    /// The index of blocks.
    Index,
    /// A cuckoo filter of the keys.
    Filter,
    /// Counts and bounds.
    Properties,
    /// Blocks that are read together with the next one.
    Splits,
    /// A ribbon filter of the keys.
    Ribbon,
}

/// A section of a file, between its data and its footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// What it is.
    pub(crate) kind: SectionKind,
    /// Its offset: a multiple of the block size.
    pub(crate) offset: u64,
    /// Its length in bytes, without the zeros up to the next block.
    pub(crate) length: u64,
    /// CRC-32C of those bytes.
    pub(crate) crc: u32,
}

/// The content of a file's last block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The file's number, as in the header.
    pub(crate) file_id: u64,
    /// XXH3-64 of the blocks before the footer.
    pub(crate) whole: u64,
    /// At most [`SECTIONS_MAX`], in the order of offsets.
    pub(crate) sections: Vec<Section>,
}

impl Footer {
    /// Encodes the footer as a block.
    pub(crate) fn encode(&self) -> [u8; BLOCK_BYTES] {
        assert!(
            self.sections.len() <= SECTIONS_MAX,
            "a footer has room for {SECTIONS_MAX} sections"
        );
        let mut block = [0; BLOCK_BYTES];
        block[MAGIC_OF_FOOTER].copy_from_slice(FOOTER_MAGIC);
        block[FOOTER_FILE_ID].copy_from_slice(&self.file_id.to_le_bytes());
        block[WHOLE].copy_from_slice(&self.whole.to_le_bytes());
        for (slot, section) in block[SECTIONS].chunks_exact_mut(SECTION_BYTES).zip(&self.sections) {
            slot[..4].copy_from_slice(&section.crc.to_le_bytes());
            slot[4] = match section.kind {
                SectionKind::Starts => 1,
                SectionKind::Index => 2,
                SectionKind::Filter => 3,
                SectionKind::Properties => 4,
                SectionKind::Splits => 5,
                SectionKind::Ribbon => 6,
            };
            slot[8..16].copy_from_slice(&section.offset.to_le_bytes());
            slot[16..24].copy_from_slice(&section.length.to_le_bytes());
        }
        seal(&mut block);
        block
    }

    /// Decodes the last block of a file of `file_bytes` bytes, if [`Footer::encode`] wrote it.
    pub(crate) fn decode(block: &[u8], file_bytes: u64) -> Result<Self, Refusal> {
        let block: &[u8; BLOCK_BYTES] = block.try_into().map_err(|_| "its footer is cut short")?;
        if block[MAGIC_OF_FOOTER] != *FOOTER_MAGIC {
            return Err("it has no footer: writing it was never finished");
        }
        if !is_sealed(block) {
            return Err("its footer fails the checksum");
        }
        let end = file_bytes.checked_sub(BLOCK_BYTES as u64).ok_or("it is too short")?;
        let mut sections = Vec::new();
        let mut free_from = BLOCK_BYTES as u64;
        for slot in block[SECTIONS].chunks_exact(SECTION_BYTES).filter(|slot| slot[4] != 0) {
            let section = section(slot)?;
            let section_end = section.offset.checked_add(section.length);
            let is_inside = section.offset >= free_from && section_end.is_some_and(|it| it <= end);
            if !is_inside || !section.offset.is_multiple_of(BLOCK_BYTES as u64) {
                return Err("its footer names a part that is not inside the file");
            }
            free_from = section.offset + section.length;
            sections.push(section);
        }
        let footer =
            Self { file_id: number(block, FOOTER_FILE_ID), whole: number(block, WHOLE), sections };
        if footer.encode() == *block { Ok(footer) } else { Err("its footer has stray bytes") }
    }

    /// Returns the section of this kind.
    pub(crate) fn section(&self, kind: SectionKind) -> Option<&Section> {
        self.sections.iter().find(|it| it.kind == kind)
    }
}

fn section(slot: &[u8]) -> Result<Section, Refusal> {
    let kind = match slot[4] {
        1 => SectionKind::Starts,
        2 => SectionKind::Index,
        3 => SectionKind::Filter,
        4 => SectionKind::Properties,
        5 => SectionKind::Splits,
        6 => SectionKind::Ribbon,
        _ => return Err("its footer names a part of an unknown kind"),
    };
    let crc = u32::from_le_bytes(bytes(slot, 0..4));
    Ok(Section { kind, offset: number(slot, 8..16), length: number(slot, 16..24), crc })
}

fn seal(block: &mut [u8; BLOCK_BYTES]) {
    let crc = crc32c(&[&block[..CRC.start]]);
    block[CRC].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(block: &[u8; BLOCK_BYTES]) -> bool {
    block[CRC] == crc32c(&[&block[..CRC.start]]).to_le_bytes()
}

/// Reads the little-endian number at `range`, which is 8 bytes long.
fn number(block: &[u8], range: Range<usize>) -> u64 {
    u64::from_le_bytes(bytes(block, range))
}

fn bytes<const N: usize>(block: &[u8], range: Range<usize>) -> [u8; N] {
    block[range].try_into().expect("a constant range of this length")
}

/// The most sections that a footer has room for.
pub(crate) const SECTIONS_MAX: usize = 8;

/// Format 3 has no ribbon filters; otherwise it is the same as format 4.
const FORMAT_OLDEST: u16 = 3;
const FORMAT_NOW: u16 = 4;
const MAGIC: Range<usize> = 0..6;
const FORMAT: Range<usize> = 6..8;
const KIND: usize = 8;
const FILE_ID: Range<usize> = 16..24;
const UUID: Range<usize> = 24..40;
const HASH_ID: Range<usize> = 40..48;
const BEFORE: Range<usize> = 48..56;

const FOOTER_MAGIC: &[u8; 8] = b"SILTEND\n";
const MAGIC_OF_FOOTER: Range<usize> = 0..8;
const FOOTER_FILE_ID: Range<usize> = 8..16;
const WHOLE: Range<usize> = 16..24;
const SECTION_BYTES: usize = 24;
const SECTIONS: Range<usize> = 24..24 + SECTIONS_MAX * SECTION_BYTES;

const CRC: Range<usize> = 4092..4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { kind: FileKind::Run, file_id: 7, uuid: [3; 16], hash_id: 11, before: 5 }
    }

    fn footer() -> Footer {
        let kinds = [SectionKind::Starts, SectionKind::Index, SectionKind::Properties];
        let section =
            |(n, kind): (u64, _)| Section { kind, offset: 4096 * n, length: 100 * n, crc: 5 };
        Footer { file_id: 7, whole: 9, sections: (1..).zip(kinds).map(section).collect() }
    }

    const FILE_BYTES: u64 = 5 * 4096;

    #[test]
    fn blocks_come_back() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
        assert_eq!(Footer::decode(&footer().encode(), FILE_BYTES), Ok(footer()));
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let (header, footer) = (header().encode(), footer().encode());
        for bit in 0..BLOCK_BYTES * 8 {
            let flip = |mut block: [u8; BLOCK_BYTES]| {
                block[bit / 8] ^= 1 << (bit % 8);
                block
            };
            Header::decode(&flip(header)).expect_err("a header with a flipped bit");
            Footer::decode(&flip(footer), FILE_BYTES).expect_err("a footer with a flipped bit");
        }
    }

    #[test]
    fn stray_bytes_are_refused_though_the_checksum_is_right() {
        for at in [9, 56, 4000] {
            let mut block = header().encode();
            block[at] = 1;
            seal(&mut block);
            assert_eq!(Header::decode(&block), Err("its header has stray bytes"));
        }
        for at in [29, 24 + 7 * 24 + 3, 216, 4091] {
            let mut block = footer().encode();
            block[at] = 1;
            seal(&mut block);
            Footer::decode(&block, FILE_BYTES).expect_err("stray bytes");
        }
    }

    #[test]
    fn another_format_is_told_as_older_or_later() {
        let of_format = |format: u16| {
            let mut block = header().encode();
            block[FORMAT].copy_from_slice(&format.to_le_bytes());
            seal(&mut block);
            Header::decode(&block)
        };
        for format in FORMAT_OLDEST..=FORMAT_NOW {
            assert_eq!(of_format(format), Ok(header()));
        }
        let older = format!("older than {FORMAT_OLDEST}, the oldest that this version reads");
        let newer = format!("newer than {FORMAT_NOW}, the newest that this version reads");
        for (format, words) in [(FORMAT_OLDEST - 1, older), (FORMAT_NOW + 1, newer)] {
            let told = of_format(format).expect_err("another format");
            assert!(told.contains(&words), "{told}");
        }
    }

    #[test]
    fn parts_outside_the_file_are_refused() {
        let refused = |change: fn(&mut Footer)| {
            let mut footer = footer();
            change(&mut footer);
            Footer::decode(&footer.encode(), FILE_BYTES).expect_err("a part outside the file");
        };
        refused(|it| it.sections[2].length = 4097);
        refused(|it| it.sections[2].length = u64::MAX);
        refused(|it| it.sections[0].offset = 0);
        refused(|it| it.sections[1].offset = 4097);
        refused(|it| it.sections[1].offset = 4096);
        assert!(Footer::decode(&footer().encode(), 4096).is_err());
    }

    #[test]
    fn a_file_of_another_store_is_told() {
        let wanted = header();
        let others = [
            Header { kind: FileKind::Log, ..wanted },
            Header { file_id: 8, ..wanted },
            Header { uuid: [4; 16], ..wanted },
            Header { hash_id: 12, ..wanted },
        ];
        for other in others {
            assert!(other.expect(&wanted).is_err());
        }
        assert_eq!(wanted.expect(&wanted), Ok(()));
    }
}
