//! Keys and values that can be verified without further information.
//!
//! A key is `k` and the item's number in decimal, padded with zeros to the wanted width. A value shows
//! which item it belongs to and whether it is intact:
//! ```text
//! value, 24 bytes or more   | number 8 | sequence 8 | length 4 | crc32 4 | fill ... |  little-endian
//! value, below 24 bytes     | fill from the number alone |
//! ```
//! The checksum covers everything except itself. Two writes of a key differ in the sequence, and
//! therefore in fill and checksum: half of the one with half of the other is torn. Below 24 bytes all
//! writes of a key store the same bytes, so a tear between two of them can't be detected.

use crate::rng::mix;

/// The smallest value with a header, in bytes.
pub(crate) const HEADER_BYTES: usize = 24;

const NUMBER: std::ops::Range<usize> = 0..8;
const SEQUENCE: std::ops::Range<usize> = 8..16;
const LENGTH: std::ops::Range<usize> = 16..20;
const CHECKSUM: std::ops::Range<usize> = 20..24;

/// The fault of a value that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The value belongs to another key.
    WrongKey,
    /// The length isn't that of the stored value.
    Length,
    /// The bytes aren't those of one write.
    Torn,
}

/// Appends the key of item `number`, `key_bytes` wide (see [`fits`]).
pub(crate) fn append_key(out: &mut Vec<u8>, number: u64, key_bytes: usize) {
    let start = out.len();
    out.resize(start + key_bytes, b'0');
    out[start] = b'k';
    let mut rest = number;
    for digit in out[start + 1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Whether keys of `key_bytes` can distinguish `numbers` items.
pub(crate) fn fits(numbers: u64, key_bytes: usize) -> bool {
    let digits = numbers.saturating_sub(1).checked_ilog10().map_or(1, |log| log as usize + 1);
    (2..=250).contains(&key_bytes) && digits < key_bytes
}

/// Returns the number in a key, if the key is one of this crate's.
pub(crate) fn number_of(key: &[u8]) -> Option<u64> {
    let digits = key.strip_prefix(b"k")?;
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then_some(digit - b'0')?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Appends the value of write `sequence` of item `number`, with a length of `bytes` (below 4 GiB).
pub(crate) fn append_value(out: &mut Vec<u8>, number: u64, sequence: u64, bytes: usize) {
    let start = out.len();
    out.resize(start + bytes, 0);
    let value = &mut out[start..];
    if bytes < HEADER_BYTES {
        fill(value, number, 0);
        return;
    }
    let length = u32::try_from(bytes).expect("values are below 4 GiB, as the arguments check");
    value[NUMBER].copy_from_slice(&number.to_le_bytes());
    value[SEQUENCE].copy_from_slice(&sequence.to_le_bytes());
    value[LENGTH].copy_from_slice(&length.to_le_bytes());
    fill(&mut value[HEADER_BYTES..], number, sequence);
    let sum = checksum(value);
    value[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
}

/// Verifies a value that was read as item `number`'s.
pub(crate) fn check(value: &[u8], number: u64) -> Result<(), Fault> {
    if value.len() < HEADER_BYTES {
        let mut expected = [0; HEADER_BYTES];
        let expected = &mut expected[..value.len()];
        fill(expected, number, 0);
        return if value == expected { Ok(()) } else { Err(Fault::Torn) };
    }
    let mut length = [0; 4];
    length.copy_from_slice(&value[LENGTH]);
    let whole = checksum(value).to_le_bytes() == value[CHECKSUM];
    // A wrong length also breaks the checksum; the more specific fault is reported.
    if u32::from_le_bytes(length) as usize != value.len() {
        return Err(Fault::Length);
    }
    if !whole {
        return Err(Fault::Torn);
    }
    if value[NUMBER] == number.to_le_bytes() { Ok(()) } else { Err(Fault::WrongKey) }
}

fn checksum(value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&value[..CHECKSUM.start]);
    hasher.update(&value[CHECKSUM.end..]);
    hasher.finalize()
}

fn fill(bytes: &mut [u8], number: u64, sequence: u64) {
    let mut state = mix(number ^ sequence.rotate_left(32) ^ 0x6775_6972_6162_656e);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(number: u64, sequence: u64, bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        append_value(&mut out, number, sequence, bytes);
        out
    }

    #[test]
    fn a_key_gives_its_number_back() {
        for (number, text) in [(0, "k000"), (7, "k007"), (999, "k999")] {
            let mut key = Vec::new();
            append_key(&mut key, number, 4);
            assert_eq!(key, text.as_bytes());
            assert_eq!(number_of(&key), Some(number));
        }
        assert_eq!(number_of(b"x007"), None);
        assert_eq!(number_of(b"k0y7"), None);
    }

    #[test]
    fn fits_counts_the_digits() {
        assert!(fits(1000, 4) && !fits(1001, 4));
        assert!(fits(1, 2) && !fits(1, 1) && !fits(1, 251));
    }

    #[test]
    fn whole_values_pass_at_every_length() {
        for bytes in (0..100).chain([10_000]) {
            assert_eq!(check(&value(12, 3, bytes), 12), Ok(()), "{bytes} bytes");
        }
    }

    #[test]
    fn each_fault_is_named() {
        let whole = value(12, 3, 64);
        assert_eq!(check(&whole, 13), Err(Fault::WrongKey));
        assert_eq!(check(&whole[..63], 12), Err(Fault::Length));
        let mut torn = whole;
        torn[40..].copy_from_slice(&value(12, 4, 64)[40..]);
        assert_eq!(check(&torn, 12), Err(Fault::Torn));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let whole = value(12, 3, 40);
        for bit in 0..40 * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&flipped, 12).is_err(), "bit {bit}");
        }
    }
}
