//! Keys in the lines of listings: URI-encoded, so that a line can be split at its spaces, whatever its keys hold.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Appends `bytes`, with all but letters, digits and `-._~` as `%` and two hexadecimal digits. At most
/// three times as long.
pub fn append_uri(out: &mut Vec<u8>, bytes: &[u8]) {
    for part in percent_encode(bytes, RESERVED) {
        out.extend_from_slice(part.as_bytes());
    }
}

/// The characters that RFC 3986 doesn't call unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_unreserved_characters_are_encoded() {
        let mut out = b"key=".to_vec();
        append_uri(&mut out, b"aZ09-._~ /%\xff\0");
        assert_eq!(out, b"key=aZ09-._~%20%2F%25%FF%00");
    }
}
