//! Keys in the lines that list them: URI-encoded, so that a line splits at its spaces whatever its keys hold.

/// Appends `bytes` with all but letters, digits and `-._~` as `%` and two hexadecimal digits: at most three times as long.
pub fn append_uri(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |n: u8| HEX[usize::from(n)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 0xf)]);
        }
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

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
