//! An entry of fixed size, the same in all three stages.
//!
//! # Layout
//! ```text
//! CRC-32C of the rest and of the file's number, 4 B | kind 1 B: 1 value, 2 deleted | 0, 3 B | key, 16 B | value
//! ```
//! An unused slot is zeros, and isn't a record: its kind is 0.

use crate::checksum::crc32c;

/// A key, which is a hash already, as in the paper. Keys that aren't spread evenly waste space, but are still found.
pub type SiltKey = [u8; 16];

/// The length of values, from which the layout follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) value_bytes: usize,
}

/// A record, which borrows its value from a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) key: SiltKey,
    /// `None`: the key is deleted.
    pub(super) value: Option<&'a [u8]>,
}

impl Shape {
    /// The bytes of a record.
    pub(super) fn bytes(self) -> usize {
        HEAD_BYTES + self.value_bytes
    }

    /// The number of records in a block of 4 KiB, if a whole number fills it. Otherwise 1, and a record may lie in two
    /// blocks.
    pub(super) fn per_block(self) -> usize {
        match guira_disk::BLOCK % self.bytes() {
            0 => guira_disk::BLOCK / self.bytes(),
            _ => 1,
        }
    }

    /// Encodes the record for file `file_id`, and appends it to `out`.
    pub(super) fn encode(self, file_id: u64, record: Record<'_>, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend([0; 8]);
        out[from + 4] = if record.value.is_some() { 1 } else { 2 };
        out.extend(record.key);
        out.extend(record.value.unwrap_or_default());
        out.resize(from + self.bytes(), 0);
        let crc = crc32c(&[&out[from + 4..], &file_id.to_le_bytes()]);
        out[from..from + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes a record of file `file_id`. None for bytes that [`Shape::encode`] didn't write for this file.
    pub(super) fn decode(self, file_id: u64, bytes: &[u8]) -> Option<Record<'_>> {
        let bytes = bytes.get(..self.bytes())?;
        let (crc, rest) = bytes.split_first_chunk()?;
        let is_whole = u32::from_le_bytes(*crc) == crc32c(&[rest, &file_id.to_le_bytes()]);
        let value = match rest[..4] {
            [1, 0, 0, 0] => Some(&bytes[HEAD_BYTES..]),
            [2, 0, 0, 0] => None,
            _ => return None,
        };
        is_whole.then_some(Record { key: *bytes[8..].first_chunk()?, value })
    }

    /// Whether no record was ever written to these bytes.
    pub(super) fn is_unused(self, bytes: &[u8]) -> bool {
        bytes.iter().take(self.bytes()).all(|&it| it == 0)
    }
}

/// Bytes before the value.
const HEAD_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_from_its_own_file_only_and_no_flipped_bit_passes() {
        let shape = Shape { value_bytes: 5 };
        for value in [Some(&b"egg!!"[..]), None] {
            let record = Record { key: [7; 16], value };
            let mut bytes = Vec::new();
            shape.encode(3, record, &mut bytes);
            assert_eq!(bytes.len(), shape.bytes());
            assert_eq!(shape.decode(3, &bytes), Some(record));
            assert_eq!(shape.decode(4, &bytes), None);
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(shape.decode(3, &flipped), None, "bit {bit}");
            }
        }
        let zeros = vec![0; shape.bytes()];
        assert!(shape.is_unused(&zeros) && shape.decode(0, &zeros).is_none());
    }
}
