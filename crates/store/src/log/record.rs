//! The layout of a record in a log, and how a record is distinguished from torn or foreign bytes.
//!
//! # Layout
//! ```text
//! record, at a multiple of 8   0  CRC-32C of salt and 4..end      16  durable, 8 B     27  zero
//!                              4  CRC-32C of salt and 8..32       24  key_len, 2 B     28  value_len, 4 B
//!                              8  seq, 8 B                        26  kind, 1 B        32  key, value, zeros
//! ```
//! | kind | | key | value |
//! |---|---|---|---|
//! | 1 | put | key | value |
//! | 2 | delete | key | |
//! | 3 | a batch begins, of all or nothing | | count, 4 B |
//! | 4 | a batch ends | | count, 4 B; CRC-32C of its records' first CRCs, 4 B |
//! | 5 | the log ends | | records, 8 B; live keys, 8 B; highest seq, 8 B; CRC-32C of all first CRCs, 4 B |
//!
//! Integers are little-endian. `durable` is how much of the file was known to be durable when the record was written.
//!
//! # Invariants
//! 1. The salt is derived from the file's number, the store's uuid and its secret hash. So bytes of an older file pass
//!    for a record with probability 2^-32, and a client can't hide a record in a value.
//! 2. The head has its own checksum. No length is trusted, and no memory is allocated, before that is verified. So
//!    searching for a record at each place of a file takes time proportional to the file, whatever is in it.

use crate::checksum::crc32c;
use crate::entry::EntryKind;
use crate::error::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::file::Header;
use std::ops::Range;

/// Bytes before the key.
pub(crate) const HEAD_BYTES: usize = 32;

/// Records begin at multiples of this many bytes.
pub(crate) const UNIT: usize = 8;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Entry(EntryKind),
    BatchBegin,
    BatchEnd,
    Seal,
}

impl RecordKind {
    const fn code(self) -> u8 {
        match self {
            Self::Entry(kind) => kind.code(),
            Self::BatchBegin => 3,
            Self::BatchEnd => 4,
            Self::Seal => 5,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        match code {
            3 => Some(Self::BatchBegin),
            4 => Some(Self::BatchEnd),
            5 => Some(Self::Seal),
            _ => EntryKind::from_code(code).map(Self::Entry),
        }
    }

    /// Whether a record of this kind may have these lengths.
    fn fits(self, key_bytes: usize, value_bytes: usize) -> bool {
        match self {
            Self::Entry(kind) => {
                (1..=KEY_BYTES_MAX).contains(&key_bytes)
                    && value_bytes <= VALUE_BYTES_MAX
                    && (kind == EntryKind::Put || value_bytes == 0)
            }
            Self::BatchBegin => key_bytes == 0 && value_bytes == 4,
            Self::BatchEnd => key_bytes == 0 && value_bytes == 8,
            Self::Seal => key_bytes == 0 && value_bytes == 28,
        }
    }
}

/// The value that makes the checksums of one file differ from those of all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salt([u8; 4]);

impl Salt {
    pub(crate) fn of(header: &Header) -> Self {
        let [id, hash] = [header.file_id, header.hash_id].map(u64::to_le_bytes);
        Self(crc32c(&[&id, &header.uuid, &hash]).to_le_bytes())
    }
}

/// A record's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) crc: u32,
    pub(crate) seq: u64,
    pub(crate) durable: u64,
    pub(crate) kind: RecordKind,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
}

impl RecordHead {
    /// Decodes the head at the front of `bytes`. None if its checksum is wrong.
    pub(crate) fn decode(bytes: &[u8], salt: Salt) -> Option<Self> {
        let head = bytes.first_chunk::<HEAD_BYTES>()?;
        if head[HEAD_CRC] != crc32c(&[&salt.0, &head[HEAD_CRC.end..]]).to_le_bytes() {
            return None;
        }
        Self::fields(head)
    }

    /// Decodes the fields of a head whose checksum is right.
    fn fields(head: &[u8; HEAD_BYTES]) -> Option<Self> {
        let kind = RecordKind::from_code(head[KIND])?;
        let key_bytes = usize::from(u16::from_le_bytes(array(head, KEY_LEN)));
        let value_bytes = usize::try_from(u32::from_le_bytes(array(head, VALUE_LEN))).ok()?;
        let is_valid = head[KIND + 1] == 0 && kind.fits(key_bytes, value_bytes);
        is_valid.then(|| Self {
            crc: u32::from_le_bytes(array(head, CRC)),
            seq: u64::from_le_bytes(array(head, SEQ)),
            durable: u64::from_le_bytes(array(head, DURABLE)),
            kind,
            key_bytes,
            value_bytes,
        })
    }

    /// The record's bytes, including its padding.
    pub(crate) fn len(&self) -> usize {
        record_bytes(self.key_bytes, self.value_bytes)
    }
}

/// A whole record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) head: RecordHead,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Record<'a> {
    /// Decodes the record at the front of `bytes`. None unless it is whole and its checksums are right.
    pub(crate) fn decode(bytes: &'a [u8], salt: Salt) -> Option<Self> {
        let head = RecordHead::decode(bytes, salt)?;
        let whole = bytes.get(..head.len())?;
        if crc32c(&[&salt.0, &whole[CRC.end..]]) != head.crc {
            return None;
        }
        let (key, rest) = whole[HEAD_BYTES..].split_at(head.key_bytes);
        let (value, padding) = rest.split_at(head.value_bytes);
        padding.iter().all(|&it| it == 0).then_some(Self { head, key, value })
    }

    /// Decodes the record at the front of `bytes` without verifying it: [`Record::decode`] has done so before.
    pub(crate) fn decode_again(bytes: &'a [u8]) -> Option<Self> {
        let head = RecordHead::fields(bytes.first_chunk()?)?;
        let (key, rest) = bytes.get(HEAD_BYTES..)?.split_at_checked(head.key_bytes)?;
        Some(Self { head, key, value: rest.get(..head.value_bytes)? })
    }

    /// The batch's count, in a record that begins or ends a batch.
    pub(crate) fn count(&self) -> u32 {
        self.value.first_chunk().map_or(0, |it| u32::from_le_bytes(*it))
    }

    /// The checksum of checksums, in a record that ends a batch or the log.
    pub(crate) fn crc_of_crcs(&self) -> u32 {
        self.value.last_chunk().map_or(0, |it| u32::from_le_bytes(*it))
    }
}

/// The bytes that a record takes, including its padding.
pub(crate) const fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    (HEAD_BYTES + key_bytes + value_bytes).next_multiple_of(UNIT)
}

/// Appends a record to `out`, whose length is a multiple of 8. `seq`, `durable` and the checksums are left at zero.
pub(crate) fn put_unstamped(out: &mut Vec<u8>, kind: RecordKind, key: &[u8], value: &[u8]) {
    let mut head = [0; HEAD_BYTES];
    let lengths = u16::try_from(key.len()).ok().zip(u32::try_from(value.len()).ok());
    let (key_len, value_len) = lengths.expect("lengths were checked");
    head[KEY_LEN].copy_from_slice(&key_len.to_le_bytes());
    head[KIND] = kind.code();
    head[VALUE_LEN].copy_from_slice(&value_len.to_le_bytes());
    let end = out.len() + record_bytes(key.len(), value.len());
    out.extend_from_slice(&head);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    out.resize(end, 0);
}

/// Fills in `seq`, `durable` and the checksums of a record. Returns its first checksum.
pub(crate) fn stamp(record: &mut [u8], salt: Salt, seq: u64, durable: u64) -> u32 {
    record[SEQ].copy_from_slice(&seq.to_le_bytes());
    record[DURABLE].copy_from_slice(&durable.to_le_bytes());
    let head_crc = crc32c(&[&salt.0, &record[HEAD_CRC.end..HEAD_BYTES]]);
    record[HEAD_CRC].copy_from_slice(&head_crc.to_le_bytes());
    let crc = crc32c(&[&salt.0, &record[CRC.end..]]);
    record[CRC].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Adds a checksum to a checksum of checksums.
pub(crate) fn fold(crcs: u32, crc: u32) -> u32 {
    crc32c(&[&crcs.to_le_bytes(), &crc.to_le_bytes()])
}

fn array<const N: usize>(bytes: &[u8], range: Range<usize>) -> [u8; N] {
    bytes[range].try_into().expect("a constant range of this length")
}

const CRC: Range<usize> = 0..4;
const HEAD_CRC: Range<usize> = 4..8;
const SEQ: Range<usize> = 8..16;
const DURABLE: Range<usize> = 16..24;
const KEY_LEN: Range<usize> = 24..26;
const KIND: usize = 26;
const VALUE_LEN: Range<usize> = 28..32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::FileKind;
    use proptest::prelude::*;

    fn salt(file_id: u64) -> Salt {
        Salt::of(&Header { kind: FileKind::Log, file_id, uuid: [1; 16], hash_id: 2, before: 0 })
    }

    proptest! {
        #[test]
        fn records_come_back_and_no_cut_or_flipped_bit_is_taken(
            key in prop::collection::vec(any::<u8>(), 1..60),
            value in prop::collection::vec(any::<u8>(), 0..90),
            (seq, durable, flip) in any::<(u64, u64, prop::sample::Index)>(),
        ) {
            let kind = RecordKind::Entry(EntryKind::Put);
            let mut bytes = Vec::new();
            put_unstamped(&mut bytes, kind, &key, &value);
            let crc = stamp(&mut bytes, salt(7), seq, durable);
            let record = Record::decode(&bytes, salt(7)).unwrap();
            let again = Record::decode_again(&bytes).unwrap();
            prop_assert_eq!((again.head, again.key, again.value), (record.head, record.key, record.value));
            let RecordHead { key_bytes, value_bytes, .. } = record.head;
            let head = RecordHead { crc, seq, durable, kind, key_bytes, value_bytes };
            prop_assert_eq!((record.key, record.value), (&key[..], &value[..]));
            prop_assert_eq!((record.head, head.len()), (head, bytes.len()));
            prop_assert!(Record::decode(&bytes, salt(8)).is_none(), "a record of another file");
            for cut in 0..bytes.len() {
                prop_assert!(Record::decode(&bytes[..cut], salt(7)).is_none());
            }
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Record::decode(&bytes, salt(7)).is_none(), "bit {}", bit);
        }
    }

    #[test]
    fn lengths_that_a_kind_cannot_have_are_refused() {
        let cases = [
            (RecordKind::Entry(EntryKind::Delete), &b"key"[..], &b"value"[..]),
            (RecordKind::Entry(EntryKind::Put), b"", b"value"),
            (RecordKind::BatchBegin, b"", b"123"),
            (RecordKind::BatchEnd, b"k", b"12345678"),
            (RecordKind::Seal, b"", b""),
        ];
        for (kind, key, value) in cases {
            let mut bytes = Vec::new();
            put_unstamped(&mut bytes, kind, key, value);
            stamp(&mut bytes, salt(7), 1, 0);
            assert!(Record::decode(&bytes, salt(7)).is_none(), "{kind:?}");
        }
    }
}
