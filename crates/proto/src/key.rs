//! Keys and words: the parts of a line between its spaces.
//!
//! Only the space (0x20) separates; several spaces count as one. Any other byte except the newline may be part of a key.

/// The longest key in bytes, as sent.
pub const KEY_BYTES_MAX: usize = 250;

/// Whether a client may send `key` unchanged: 1 to 250 bytes without spaces and control characters.
///
/// A server accepts more. A client that doesn't check allows the author of a key to inject requests.
/// Other keys can be sent as base64 with the meta flag `b`.
pub fn is_key(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len()) && key.iter().all(|&b| b > b' ' && b != 0x7f)
}

/// The space-separated words of a part of a line, in order. A copy iterates independently.
#[derive(Clone, Copy)]
pub struct Words<'b> {
    rest: &'b [u8],
}

impl<'b> Words<'b> {
    /// The words of `text`, which must not hold a newline if the result is to be encoded.
    #[inline]
    pub fn new(text: &'b [u8]) -> Words<'b> {
        Words { rest: text }
    }

    /// The bytes not yet consumed, spaces included.
    #[inline]
    pub fn rest(&self) -> &'b [u8] {
        self.rest
    }
}

impl<'b> Iterator for Words<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        // Numbers and meta flags are usually one byte long, for which a call to memchr would cost more.
        let end = match self.rest {
            [_] | [_, b' ', ..] => 1,
            rest => find(b' ', rest).unwrap_or(rest.len()),
        };
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

impl PartialEq for Words<'_> {
    /// Compares the words, regardless of the spaces between them.
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for Words<'_> {}

impl std::fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.map(|word| word.escape_ascii().to_string())).finish()
    }
}

/// Removes the spaces at the front of `text`, many at a time: a line may consist of millions of them.
pub(crate) fn skip_spaces(text: &[u8]) -> &[u8] {
    let (blocks, _) = text.as_chunks();
    let blank = blocks.iter().take_while(|block| **block == [b' '; BLOCK_BYTES]).count();
    let mut rest = &text[BLOCK_BYTES * blank..];
    while let [b' ', behind @ ..] = rest {
        rest = behind;
    }
    rest
}

/// Whether each word of `text` is at most as long as a key. It takes one search per [`KEY_BYTES_MAX`]
/// bytes, however many words there are: walking a line of millions word by word would take milliseconds.
pub(crate) fn has_no_long_word(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(reach) = rest.get(..=KEY_BYTES_MAX) {
        let Some(space) = memchr::memrchr(b' ', reach) else { return false };
        rest = &rest[space + 1..];
    }
    true
}

/// The offset of the first `byte` in `text`. In short lines and words, the usual ones, the first steps
/// here find it at half the cost of a call to memchr.
#[inline]
pub(crate) fn find(byte: u8, text: &[u8]) -> Option<usize> {
    let (words, tail) = text.as_chunks();
    for (n, word) in words.iter().take(WORDS_MAX).enumerate() {
        let other_bits = u64::from_le_bytes(*word) ^ (EACH_BYTE * u64::from(byte));
        // The top bit of each byte that is 0, and sometimes of a byte after such a one.
        let equal = other_bits.wrapping_sub(EACH_BYTE) & !other_bits & (EACH_BYTE << 7);
        if equal != 0 {
            return Some(8 * n + equal.trailing_zeros() as usize / 8);
        }
    }
    let searched = 8 * words.len().min(WORDS_MAX);
    let found = match words.len() {
        ..=WORDS_MAX => tail.iter().position(|&b| b == byte),
        _ => memchr::memchr(byte, &text[searched..]),
    };
    found.map(|at| searched + at)
}

/// A word with 1 in each byte.
const EACH_BYTE: u64 = u64::MAX / 0xff;
/// The number of spaces that are skipped at a time.
const BLOCK_BYTES: usize = 64;
/// The number of 8-byte words that are searched here.
const WORDS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_where_it_is_first() {
        for (len, at) in (0..80).flat_map(|len| (0..=len).map(move |at| (len, at))) {
            for other in [0, b' ' - 1, b' ' + 1, b' ' | 0x80, 0xff] {
                let mut text = vec![other; len];
                // The bytes after the first one may look like it.
                text[at..].fill(b' ' ^ 1);
                text.iter_mut().skip(at).step_by(5).for_each(|b| *b = b' ');
                assert_eq!(find(b' ', &text), (at < len).then_some(at), "{text:?}");
            }
        }
    }

    /// Compares with a search word by word.
    #[test]
    fn a_word_that_is_too_long_for_a_key_is_found_wherever_it_is() {
        for (before, spaces, len) in
            [0, 1, 249, 250, 251, 252, 600].into_iter().flat_map(|before| {
                [1, 2, 250, 251, 700].into_iter().flat_map(move |spaces| {
                    [1, 2, 249, 250, 251, 252, 501, 502, 900].map(|len| (before, spaces, len))
                })
            })
        {
            let word = [b'w'; 1000];
            let text = [&b"a ".repeat(before)[..], &b" ".repeat(spaces), &word[..len]].concat();
            for text in
                [&text[..], &[&text, &b" b c"[..]].concat(), &[&text, &word[..250]].concat()]
            {
                let all_fit = Words::new(text).all(|word| word.len() <= KEY_BYTES_MAX);
                assert_eq!(has_no_long_word(text), all_fit, "{before} {spaces} {len}");
            }
        }
    }

    #[test]
    fn spaces_are_skipped_however_many_they_are() {
        for spaces in (0..300).chain([1 << 20]) {
            let text = [&b" ".repeat(spaces)[..], b"a b"].concat();
            assert_eq!(skip_spaces(&text), b"a b", "{spaces}");
            assert_eq!(Words::new(&text).collect::<Vec<_>>(), [b"a", b"b"], "{spaces}");
            assert_eq!(Words::new(&text[..spaces]).next(), None, "{spaces}");
        }
    }

    #[test]
    fn a_key_that_could_break_out_of_its_line_is_not_sent() {
        for (key, expected) in [
            (&b"user:1"[..], true),
            (b"\xc3\xa9", true),
            (&[b'k'; 250], true),
            (&[b'k'; 251], false),
            (b"", false),
            (b"a b", false),
            (b"a\r\nflush_all", false),
            (b"a\0", false),
            (b"\x7f", false),
        ] {
            assert_eq!(is_key(key), expected, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn words_lie_between_runs_of_spaces() {
        let words: Vec<_> = Words::new(b"  a  bc\td  e ").collect();
        assert_eq!(words, [&b"a"[..], b"bc\td", b"e"]);
        assert_eq!(Words::new(b"   ").next(), None);
        assert_eq!(Words::new(b" a  b"), Words::new(b"a b "));
        assert_ne!(Words::new(b"a b"), Words::new(b"ab"));
    }
}
