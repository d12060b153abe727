//! A write's number as a token of memcached's meta flag `L`, which is reserved for proxies. A router uses it when it
//! may have to repeat the write at another node.
//!
//! ```text
//! L 0000002a 0000000000000007 r    without the blanks: client, number, and `r` if it may have been sent before
//! ```

use super::effect::WriteId;
use std::fmt;

/// See the module's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteTag {
    /// The write's number. A repetition has the same.
    pub id: WriteId,
    /// Whether it may have been sent before.
    pub is_repeated: bool,
}

impl WriteTag {
    /// The flag's letter.
    pub const LETTER: u8 = b'L';

    /// Parses a token. `None` if it is something else, as clients may use the flag for other tokens.
    #[must_use]
    pub fn parse(token: &[u8]) -> Option<Self> {
        let (digits, is_repeated) = match token {
            [digits @ .., b'r'] => (digits, true),
            digits => (digits, false),
        };
        let is_good = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let text = str::from_utf8(digits).ok().filter(|_| digits.iter().all(is_good))?;
        let (client, number) = text.split_at_checked(CLIENT_DIGITS)?;
        let number = Some(number).filter(|it| it.len() == NUMBER_DIGITS)?;
        let id = (u32::from_str_radix(client, 16).ok()?, u64::from_str_radix(number, 16).ok()?);
        Some(Self { id, is_repeated })
    }
}

/// The flag's letter and the token.
impl fmt::Display for WriteTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, number) = self.id;
        let mark = if self.is_repeated { "r" } else { "" };
        write!(f, "L{client:08x}{number:016x}{mark}")
    }
}

const CLIENT_DIGITS: usize = 8;
const NUMBER_DIGITS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written_and_nothing_else_is_one() {
        for tag in [
            WriteTag { id: (42, 7), is_repeated: false },
            WriteTag { id: (u32::MAX, u64::MAX), is_repeated: true },
        ] {
            let text = tag.to_string();
            let (letter, token) = text.split_at(1);
            assert_eq!(letter.as_bytes(), [WriteTag::LETTER]);
            assert_eq!(WriteTag::parse(token.as_bytes()), Some(tag));
            for odd in [&token[1..], &format!("{token}0"), &token.to_uppercase(), "", "r", "hint"] {
                assert!(WriteTag::parse(odd.as_bytes()).is_none_or(|it| it != tag), "{odd}");
            }
        }
        assert_eq!(WriteTag::parse(b"+000002a0000000000000007"), None);
        assert_eq!(WriteTag::parse("0000002ä000000000000007".as_bytes()), None);
    }
}
