//! The marks of a manifest: they record how far it is durable, and are written after each sync of a record.
//!
//! # Layout
//! ```text
//! two blocks of 4096 B, after the header    0  "SILTMARK"          16  durable bytes of the file, 8 B
//!                                           8  file id, 8 B        4092  CRC-32C of 0..4092 and of the block's number, 4 B
//! ```
//!
//! # Invariants
//! 1. The two marks are written in turn, and each is synced before the other is written. So one of them is whole
//!    whenever the power fails, and if either block rots.
//! 2. The mark with the higher value counts.

use crate::checksum::crc32c;
use crate::file::BLOCK_BYTES;

/// The offsets of the marks in the file.
pub(super) const MARK_OFFSETS: [u64; 2] = [BLOCK_BYTES as u64, 2 * BLOCK_BYTES as u64];

/// The offset of the first record.
pub(super) const RECORDS_START: u64 = 3 * BLOCK_BYTES as u64;

/// Encodes a mark for `durable` bytes, for the block with this number.
pub(super) fn encode(file_id: u64, durable: u64, number: usize) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    block[..8].copy_from_slice(b"SILTMARK");
    block[8..16].copy_from_slice(&file_id.to_le_bytes());
    block[16..24].copy_from_slice(&durable.to_le_bytes());
    let crc = crc32c(&[&block[..CRC_AT], &(number as u64).to_le_bytes()]);
    block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    block
}

/// The values of a manifest's two marks; `None`: that mark is corrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks([Option<u64>; 2]);

impl Marks {
    /// Two marks with this value.
    pub(super) fn both(durable: u64) -> Self {
        Self([Some(durable); 2])
    }

    /// Reads the marks from the file's bytes.
    pub(super) fn read(file: &[u8], file_id: u64) -> Self {
        let read = |number: usize| {
            let from = usize::try_from(MARK_OFFSETS[number]).ok()?;
            let block = file.get(from..from + BLOCK_BYTES)?;
            let durable = u64::from_le_bytes(block[16..24].try_into().ok()?);
            (block == encode(file_id, durable, number)).then_some(durable)
        };
        Self([read(0), read(1)])
    }

    /// The number of bytes of the file that were durable. `None`: both marks are corrupt.
    pub(super) fn durable(self) -> Option<u64> {
        self.0.into_iter().max().flatten()
    }

    /// Whether a mark is corrupt: because of a loss of power while it was written, or later.
    pub(super) fn is_damaged(self) -> bool {
        self.0.contains(&None)
    }

    /// The number of the mark to write next: the corrupt one, or the one with the lower value.
    pub(super) fn next(self) -> usize {
        usize::from(self.0[1] < self.0[0])
    }

    /// Records that the mark that [`Marks::next`] returns was written.
    pub(super) fn wrote(&mut self, durable: u64) {
        self.0[self.next()] = Some(durable);
    }
}

const CRC_AT: usize = BLOCK_BYTES - 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(marks: [u64; 2]) -> Vec<u8> {
        let mut file = vec![0; BLOCK_BYTES];
        marks.iter().enumerate().for_each(|(at, &it)| file.extend(encode(7, it, at)));
        file
    }

    #[test]
    fn the_one_that_tells_of_more_counts_and_the_other_is_written_next() {
        for (marks, durable, next) in [([5, 5], 5, 0), ([5, 6], 6, 0), ([7, 6], 7, 1)] {
            let mut read = Marks::read(&file(marks), 7);
            assert_eq!(
                (read.durable(), read.next(), read.is_damaged()),
                (Some(durable), next, false)
            );
            read.wrote(9);
            assert_eq!((read.durable(), read.next()), (Some(9), 1 - next));
        }
    }

    #[test]
    fn a_damaged_one_leaves_the_other() {
        for at in [0, 9, 20, 24, 4095] {
            for number in 0..2 {
                let mut bytes = file([8, 8]);
                bytes[(number + 1) * BLOCK_BYTES + at] ^= 4;
                let mut marks = Marks::read(&bytes, 7);
                assert_eq!(
                    (marks.durable(), marks.next(), marks.is_damaged()),
                    (Some(8), number, true)
                );
                marks.wrote(9);
                assert!(!marks.is_damaged());
            }
        }
        let swapped = [&[0; BLOCK_BYTES][..], &encode(7, 8, 1), &encode(7, 8, 0)].concat();
        for (bytes, id) in
            [(&file([8, 8])[..], 8), (&file([8, 8])[..9000], 9), (&[], 7), (&swapped, 7)]
        {
            assert_eq!(Marks::read(bytes, id).durable(), None);
        }
    }
}
