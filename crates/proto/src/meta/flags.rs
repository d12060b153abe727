//! The letters of the meta flags: the meaning of each, and an iterator over those that were sent.

use crate::Words;

/// One flag as sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MetaFlag<'b> {
    text: &'b [u8],
}

/// The flags of a meta command in the order in which they were sent, which is the order of the reply.
#[derive(Clone, Copy, Debug)]
pub struct MetaFlags<'b> {
    words: Words<'b>,
}

impl<'b> MetaFlag<'b> {
    /// The letter of the flag.
    #[inline]
    pub fn letter(&self) -> u8 {
        self.text[0]
    }

    /// The token after the letter; may be empty.
    #[inline]
    pub fn token(&self) -> &'b [u8] {
        &self.text[1..]
    }

    /// Letter and token together, as an echo (`O`) needs them.
    #[inline]
    pub fn text(&self) -> &'b [u8] {
        self.text
    }
}

impl<'b> MetaFlags<'b> {
    /// The flags of a reply or of any other line.
    pub fn new(text: &'b [u8]) -> MetaFlags<'b> {
        MetaFlags { words: Words::new(text) }
    }

    #[inline]
    pub(super) fn of(words: Words<'b>) -> MetaFlags<'b> {
        MetaFlags { words }
    }
}

impl PartialEq for MetaFlags<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for MetaFlags<'_> {}

impl<'b> Iterator for MetaFlags<'b> {
    type Item = MetaFlag<'b>;

    #[inline]
    fn next(&mut self) -> Option<MetaFlag<'b>> {
        self.words.next().map(|text| MetaFlag { text })
    }
}

impl std::fmt::Debug for MetaFlag<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.text.escape_ascii())
    }
}

/// The meaning of a letter.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Unknown,
    Plain,
    Key,
    Ttl,
    Vivify,
    Recache,
    CompareCas,
    NewCas,
    Delta,
    Initial,
    ClientFlags,
    Mode,
}

/// The table of flags.
#[inline]
pub(super) fn kind(letter: u8) -> Kind {
    match letter {
        b'b' => Kind::Key,
        b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's' | b't' | b'u' | b'v' | b'x' => Kind::Plain,
        b'I' | b'L' | b'O' | b'P' => Kind::Plain,
        b'C' => Kind::CompareCas,
        b'D' => Kind::Delta,
        b'E' => Kind::NewCas,
        b'F' => Kind::ClientFlags,
        b'J' => Kind::Initial,
        b'M' => Kind::Mode,
        b'N' => Kind::Vivify,
        b'R' => Kind::Recache,
        b'T' => Kind::Ttl,
        _ => Kind::Unknown,
    }
}

#[inline]
pub(super) fn bit(letter: u8) -> Option<u64> {
    matches!(letter, b'A'..=b'z').then(|| 1 << (letter - b'A'))
}

/// Whether memcached's tokenizer accepts `first` as the first character of a flag.
pub(crate) fn is_flag_like(first: u8) -> bool {
    matches!(first, b'A'..=b'z' | b'0'..=b'9')
}
