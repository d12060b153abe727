//! The layout of a record in the manifest. Its checksum covers its position.
//!
//! # Layout
//! ```text
//! record, at a multiple of 8  | crc32c 4 | body length 4 | body | zeros to 8 B |
//! ```
//! The checksum covers the file's number, the record's offset, the length and the body.

use super::edits::{self, Edit};
use crate::checksum::crc32c;

/// Appends a record that will lie at `offset` of manifest `id`.
pub(super) fn push(
    out: &mut Vec<u8>,
    edits: &[Edit],
    (id, offset): (u64, u64),
    (next_id, last_seq): (u64, u64),
) {
    let mut body = Vec::new();
    edits::encode(edits, next_id, last_seq, &mut body);
    let begin = out.len();
    let len = u32::try_from(body.len()).expect("a set of files is below 4 GiB").to_le_bytes();
    out.extend_from_slice(&crc((id, offset), len, &body).to_le_bytes());
    out.extend_from_slice(&len);
    out.extend_from_slice(&body);
    out.resize(begin + (out.len() - begin).next_multiple_of(8), 0);
}

/// Returns the body and the whole length of the record at `at` in a manifest's bytes, if a whole one is there.
pub(super) fn at(file: &[u8], at: usize, id: u64) -> Option<(&[u8], usize)> {
    let (found, rest) = file.get(at..)?.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let bytes = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let body = rest.get(..bytes)?;
    let padding = rest.get(bytes..(8 + bytes).next_multiple_of(8) - 8)?;
    let is_whole = crc((id, at as u64), *len, body).to_le_bytes() == *found;
    let is_right = is_whole && bytes > 0 && padding.iter().all(|&byte| byte == 0);
    is_right.then(|| (body, 8 + bytes + padding.len()))
}

fn crc((id, offset): (u64, u64), len: [u8; 4], body: &[u8]) -> u32 {
    crc32c(&[&id.to_le_bytes(), &offset.to_le_bytes(), &len, body])
}
