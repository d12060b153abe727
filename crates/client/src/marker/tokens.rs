//! The content of a marker: a token for each write that the region's replica may lack.
//!
//! ```text
//! marker   r:KEY
//! marker   r:KEY
//! value    6b2f0c81a93d5e70 6b2f0c839b11c2d4 *6b2f0c85     words, separated or followed by blanks
//! token    deadline u32, random u32                         16 hexadecimal digits
//! crowd    * deadline u32                                   writes whose tokens were merged
//! # Invariants
//! 1. A token is valid until its deadline, in Unix seconds, however long the item lives. So the token of a crashed
//!    writer expires.
//! 2. Removing a token twice has the same effect as once, and removes no other writer's token.
//! 3. No write is forgotten before its deadline: a crowd has the last deadline of the tokens that it replaced.
//!
//! # Bad at
//! Clocks that differ by more than a fraction of a marker's life.

use std::fmt::{self, Write as _};
use std::str::FromStr;

/// One write's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MarkToken(u64);

/// The tokens of a marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkerTokens {
    tokens: Vec<MarkToken>,
    /// The deadline of the crowd. 0 if there is none.
    crowd_until_s: u32,
}

/// Returns the key of the item that marks `key`.
#[must_use]
pub fn marker_key(key: &[u8]) -> Vec<u8> {
    [PREFIX, key].concat()
}

impl MarkToken {
    /// Creates a token that is valid until `deadline_s`.
    pub(crate) fn new(deadline_s: u32, random: u32) -> Self {
        Self(u64::from(deadline_s) << 32 | u64::from(random))
    }

    /// Creates the token with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns the token as a number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns its deadline, in Unix seconds.
    #[must_use]
    pub fn deadline_s(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for MarkToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The error for a text that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMarkToken;

impl fmt::Display for NoMarkToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token has 16 hexadecimal digits")
    }
}

impl std::error::Error for NoMarkToken {}

impl FromStr for MarkToken {
    type Err = NoMarkToken;

    fn from_str(text: &str) -> Result<Self, NoMarkToken> {
        digits(text, 16).map(Self).ok_or(NoMarkToken)
    }
}

impl MarkerTokens {
    /// Parses the value of a marker. `None` if some other program stored it.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut all = Self::default();
        for word in std::str::from_utf8(value).ok()?.split(' ').filter(|word| !word.is_empty()) {
            match word.strip_prefix('*') {
                Some(crowd) => {
                    let until_s = u32::try_from(digits(crowd, 8)?).ok()?;
                    all.crowd_until_s = all.crowd_until_s.max(until_s);
                }
                None => all.tokens.push(word.parse().ok()?),
            }
        }
        Some(all)
    }

    /// Returns the value to store. It is empty if no write is left.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string doesn't fail.
        for token in &self.tokens {
            let _ = write!(text, "{token} ");
        }
        if self.crowd_until_s > 0 {
            let _ = write!(text, "*{:08x} ", self.crowd_until_s);
        }
        text
    }

    /// Whether the replica may lack a write.
    #[must_use]
    pub fn is_marked(&self, now_s: u32) -> bool {
        self.until_s() >= now_s && self.until_s() > 0
    }

    /// Whether the marker covers the write with this token.
    #[must_use]
    pub fn marks(&self, token: MarkToken) -> bool {
        self.tokens.contains(&token) || self.crowd_until_s >= token.deadline_s()
    }

    /// Returns the last deadline, in Unix seconds. 0 if nothing is marked.
    #[must_use]
    pub fn until_s(&self) -> u32 {
        let last = self.tokens.iter().map(|token| token.deadline_s()).max();
        last.unwrap_or(0).max(self.crowd_until_s)
    }

    /// Removes a token, including duplicates. Returns false if it wasn't there.
    pub fn remove(&mut self, token: MarkToken) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|it| *it != token);
        self.tokens.len() < before
    }

    /// Whether it has more tokens than a marker should have.
    pub(crate) fn is_long(&self) -> bool {
        self.tokens.len() > TOKENS_MAX
    }

    /// Removes tokens whose deadline has passed. If there are still too many, merges them into a crowd.
    pub(crate) fn shorten(&mut self, now_s: u32) {
        self.tokens.retain(|token| token.deadline_s() >= now_s);
        if self.is_long() {
            self.crowd_until_s = self.until_s();
            self.tokens.clear();
        }
    }
}

/// Parses a number of exactly `count` lower-case hexadecimal digits.
fn digits(text: &str, count: usize) -> Option<u64> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_number = text.len() == count && text.bytes().all(is_digit);
    is_number.then(|| u64::from_str_radix(text, 16).ok())?
}

const PREFIX: &[u8] = b"r:";
const TOKENS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn token(deadline_s: u32) -> MarkToken {
        MarkToken::new(deadline_s, 0x9abc_def0)
    }

    #[test]
    fn a_marker_is_read_as_it_was_written_and_anything_else_is_none() {
        let mut all = MarkerTokens { tokens: vec![token(7), token(9)], crowd_until_s: 8 };
        assert_eq!(all.encode(), "000000079abcdef0 000000099abcdef0 *00000008 ");
        assert_eq!(MarkerTokens::parse(all.encode().as_bytes()), Some(all.clone()));
        assert_eq!(MarkerTokens::parse(b"  "), Some(MarkerTokens::default()));
        for text in ["1", "000000079ABCDEF0", "+00000079abcdef0", "*8", "**0000008", "\u{e9}"] {
            assert_eq!(MarkerTokens::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(MarkerTokens::parse(&[0xff]), None);
        assert!(all.remove(token(9)) && !all.remove(token(9)) && all.until_s() == 8);
    }

    #[test]
    fn a_token_counts_until_its_deadline_and_a_crowd_until_the_last_one_of_its_tokens() {
        let mut all = MarkerTokens::default();
        assert!(!all.is_marked(0) && !all.is_marked(1));
        all.tokens = vec![token(7), token(7), token(9)];
        assert!(all.is_marked(9) && !all.is_marked(10));
        all.shorten(8);
        assert_eq!((all.tokens.clone(), all.crowd_until_s), (vec![token(9)], 0));
        all.tokens = (10..10 + 33).map(token).collect();
        all.shorten(9);
        assert_eq!((all.encode().as_str(), all.until_s()), ("*0000002a ", 42));
        assert!(all.marks(token(20)) && !all.remove(token(20)) && all.is_marked(42));
        assert!(!all.marks(token(43)));
    }
}
