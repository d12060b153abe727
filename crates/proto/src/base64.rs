//! Binary keys: base64 as used by the meta commands with flag `b`.
//!
//! Encoding uses the standard alphabet with padding. Decoding is as lenient as memcached's, which no
//! library is: it skips bytes outside the alphabet and ignores what follows the padded block. Both
//! servers thus take the same key on the wire for the same stored key.

use crate::KEY_BYTES_MAX;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use std::io::Write as _;

/// Decodes `text`, at most [`KEY_BYTES_MAX`] bytes, into `out`. Returns `None` if it isn't base64 or decodes to nothing.
///
/// # Cost
/// Two passes over `text`.
pub fn decode_base64<'o>(text: &[u8], out: &'o mut [u8; KEY_BYTES_MAX]) -> Option<&'o [u8]> {
    let symbols = text.iter().filter(|&&b| symbol(b).is_some()).count();
    if text.len() > KEY_BYTES_MAX || symbols == 0 || !symbols.is_multiple_of(4) {
        return None;
    }
    let (mut block, mut filled, mut padding, mut length) = (0u32, 0, 0, 0);
    for &b in text {
        let Some(value) = symbol(b) else { continue };
        padding += usize::from(b == b'=');
        block = block << 6 | u32::from(value);
        filled += 1;
        if filled < 4 {
            continue;
        }
        let [_, bytes @ ..] = block.to_be_bytes();
        out[length..length + 3].copy_from_slice(&bytes);
        length += 3;
        (block, filled) = (0, 0);
        match padding {
            0 => {}
            1 | 2 => return Some(&out[..length - padding]),
            _ => return None,
        }
    }
    Some(&out[..length])
}

/// Appends `bytes` in base64.
pub fn append_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    // Writing to a Vec can't fail.
    let _ = write!(out, "{}", Base64Display::new(bytes, &STANDARD));
}

/// The six bits that a byte of the alphabet stands for; `=` counts as zeros.
fn symbol(b: u8) -> Option<u8> {
    match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        b'=' => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        decode_base64(text.as_bytes(), &mut [0; KEY_BYTES_MAX]).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for length in 1..=186u8 {
            let bytes: Vec<u8> = (0..length).map(|n| n.wrapping_mul(151)).collect();
            let mut text = Vec::new();
            append_base64(&mut text, &bytes);
            assert_eq!(text.len(), bytes.len().div_ceil(3) * 4);
            assert_eq!(decoded(std::str::from_utf8(&text).unwrap()), Some(bytes));
        }
    }

    #[test]
    fn decoding_forgives_what_memcached_forgives() {
        for (text, expected) in [
            ("Zm9v", Some("foo")),
            ("Zm8=", Some("fo")),
            ("Zg==", Some("f")),
            ("Zm!9v", Some("foo")),
            ("Zg==Zm9v", Some("f")),
            ("Zm9", None),
            ("!!!!", None),
            ("Z===", None),
            ("====", None),
            ("", None),
        ] {
            assert_eq!(decoded(text), expected.map(|e| e.as_bytes().to_vec()), "{text:?}");
        }
    }
}
