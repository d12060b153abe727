//! What the keys of a get show before its line's end has come: one is too long, or there are too many.
//!
//! # Invariants
//! 1. Each byte of a line is looked at once, in however many parts the line comes.
//!
//! # Costs
//! About a nanosecond for each byte. A line that comes at once never gets here.

use guira_proto::{KEY_BYTES_MAX, Words};

use crate::sessions::line::{KEYS_MAX, TOO_MANY_KEYS, bad_key};
use crate::sessions::manners::Manners;

/// A line of which the beginning has come.
#[derive(Debug, Default)]
pub(super) struct Growing {
    /// How many bytes were looked at.
    seen: usize,
    /// Words behind the command that may be there; `None`: the line isn't a get.
    words_max: Option<usize>,
    /// Words behind the command.
    words: usize,
    /// The length of the last word; 0: a space follows it.
    word: usize,
    has_long_key: bool,
}

impl Growing {
    /// Looks at what was added to the line since the last look.
    pub(super) fn look(&mut self, line: &[u8]) {
        if self.seen == 0 {
            let mut words = Words::new(line);
            self.words_max = match words.next() {
                Some(b"get" | b"gets" | b"lease-get" | b"metaget") => Some(KEYS_MAX),
                Some(b"gat" | b"gats") => Some(KEYS_MAX + 1),
                _ => None,
            };
            self.seen = line.len() - words.rest().len();
        }
        let fresh = line.get(self.seen..).unwrap_or_default();
        self.seen = line.len();
        if self.words_max.is_none() {
            return;
        }
        for &byte in fresh {
            if byte == b' ' {
                self.word = 0;
                continue;
            }
            self.words += usize::from(self.word == 0);
            self.word += 1;
            self.has_long_key |= self.word > KEY_BYTES_MAX;
        }
    }

    /// Why the get is refused, whatever else its line brings.
    pub(super) fn refusal<M: Manners>(&self) -> Option<&'static [u8]> {
        if self.has_long_key {
            return Some(bad_key::<M>());
        }
        self.has_too_many().then_some(TOO_MANY_KEYS)
    }

    /// Whether the get is refused.
    pub(super) fn is_refused(&self) -> bool {
        self.has_long_key || self.has_too_many()
    }

    fn has_too_many(&self) -> bool {
        self.words_max.is_some_and(|most| self.words > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::manners::{AsRouter, AsServer};

    /// Looks at a line in parts of this many bytes, and spoils what was looked at before.
    fn looked_at(line: &[u8], part: usize) -> Growing {
        let mut growing = Growing::default();
        let mut line = line.to_vec();
        let mut seen = 0;
        while seen < line.len() {
            line[..seen].fill(b'x');
            seen = (seen + part).min(line.len());
            growing.look(&line[..seen]);
        }
        growing
    }

    #[test]
    fn each_byte_is_looked_at_once_however_the_line_is_cut() {
        let keys = |n: usize| vec!["key"; n].join(" ");
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        for part in [16, 17, 1 << 12, 1 << 20] {
            let refusal = |line: String| looked_at(line.as_bytes(), part).refusal::<AsRouter>();
            assert_eq!(refusal(format!("get {}", keys(KEYS_MAX))), None, "{part}");
            assert_eq!(refusal(format!("get  {}", keys(KEYS_MAX + 1))), Some(TOO_MANY_KEYS));
            assert_eq!(refusal(format!("gats 9 {}", keys(KEYS_MAX))), None);
            assert_eq!(refusal(format!("gat 9 {}", keys(KEYS_MAX + 1))), Some(TOO_MANY_KEYS));
            assert_eq!(refusal(format!("gets a {}", &long[1..])), None);
            assert_eq!(refusal(format!("gets a {long}")), Some(bad_key::<AsRouter>()));
            let told = looked_at(format!("gets a {long} b").as_bytes(), part).refusal::<AsServer>();
            assert_eq!(told, Some(bad_key::<AsServer>()));
            assert_eq!(refusal(format!("set {long} 0 0 1")), None, "the parser tells");
        }
    }
}
