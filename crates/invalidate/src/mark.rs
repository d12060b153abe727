//! Marks of writes from other regions: the tokens to remove from markers once the write can be read here (the paper's
//! §5).
//!
//! ```text
//! /* mcinv:user:1,cart:9;mark=eu.6b2f0c81a93d5e70 */     in the region eu: r:user:1 and r:cart:9 lose the token
//! ```
//! # Invariants
//! 1. Marks of other regions are ignored: their own daemons handle them.
//! 2. A list of keys has one mark. A second mark, or one that can't be read, is refused; the keys are kept.

use guira_client::{MarkToken, marker_key};

use crate::key::{KEY_BYTES_MAX, Key, Refusal};

/// A token to remove from the marker of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Unmark {
    pub(crate) key: Key,
    pub(crate) token: MarkToken,
}

/// The options after a list of keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MarkOptions {
    /// The token of this region's mark.
    pub(crate) token: Option<MarkToken>,
    pub(crate) refused: Option<Refusal>,
    /// The number of options that have no effect.
    pub(crate) unused: usize,
}

impl Unmark {
    /// Creates an unmark.
    ///
    /// # Errors
    /// The key can't have a marker: the marker's name would be too long.
    pub(crate) fn new(key: &Key, token: MarkToken) -> Result<Self, Refusal> {
        match marker_key(key.bytes()).len() > KEY_BYTES_MAX {
            true => Err(Refusal::Long),
            false => Ok(Self { key: key.clone(), token }),
        }
    }
}

/// Reads the options, for a daemon of `region`. Without a region, marks have no effect.
pub(crate) fn options<'o>(
    options: impl Iterator<Item = &'o [u8]>,
    region: Option<&str>,
) -> MarkOptions {
    let mut read = MarkOptions::default();
    for option in options.map(<[u8]>::trim_ascii) {
        let mark = option.strip_prefix(b"mark=").and_then(|mark| std::str::from_utf8(mark).ok());
        match (mark, region) {
            (Some(mark), Some(ours)) => match mark.split_once('.') {
                Some((region, token)) if region == ours => match token.parse() {
                    Ok(token) if read.token.is_none() => read.token = Some(token),
                    _ => read.refused = Some(Refusal::Mark),
                },
                Some(_) => {}
                None => read.refused = Some(Refusal::Mark),
            },
            _ => read.unused += 1,
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_taken_by_its_own_region_and_once_in_a_list() {
        let token = || "6b2f0c81a93d5e70".parse().ok();
        let bad = Some(Refusal::Mark);
        for (text, region, expected) in [
            ("mark=eu.6b2f0c81a93d5e70", Some("eu"), (token(), None, 0)),
            (" mark=us.1; x ;mark=eu.6b2f0c81a93d5e70 ", Some("eu"), (token(), None, 1)),
            ("mark=eu.6b2f0c81a93d5e70", Some("e"), (None, None, 0)),
            ("mark=eu.6b2f0c81a93d5e70", None, (None, None, 1)),
            ("mark=eu.6b2f0c81a93d5e7", Some("eu"), (None, bad, 0)),
            ("mark=6b2f0c81a93d5e70", Some("eu"), (None, bad, 0)),
            ("mark=eu.6b2f0c81a93d5e70;mark=eu.6b2f0c81a93d5e71", Some("eu"), (token(), bad, 0)),
        ] {
            let read = options(text.as_bytes().split(|byte| *byte == b';'), region);
            assert_eq!((read.token, read.refused, read.unused), expected, "{text}");
        }
        let token = MarkToken::from_number(1);
        let key = |length| Key::new(&vec![b'k'; length]).unwrap();
        assert!(Unmark::new(&key(248), token).is_ok());
        assert_eq!(Unmark::new(&key(249), token), Err(Refusal::Long));
    }
}
