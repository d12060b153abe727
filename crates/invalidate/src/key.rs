//! Keys: what a cache accepts as one, and the reasons why a key is refused.
//!
//! # Invariants
//! 1. A [`Key`] is legal: 1 to 250 bytes, none of them a blank or a control character. So no text from a database can
//!    put a second command on a line to a router.
//! 2. A refused key is counted by its reason. Its neighbours are kept.

use std::fmt;
use std::sync::Arc;

/// A legal key, without a router's prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(Arc<[u8]>);

impl Key {
    /// Checks and copies a key.
    ///
    /// # Errors
    /// The reason why the bytes are no key.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self, Refusal> {
        match bytes {
            [] => Err(Refusal::Empty),
            _ if bytes.len() > KEY_BYTES_MAX => Err(Refusal::Long),
            _ if bytes.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) => Err(Refusal::Blank),
            _ => Ok(Self(bytes.into())),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

macro_rules! refusals {
    ($($name:ident $label:literal $meaning:literal,)*) => {
        /// The reason why a key, or a comment with keys, is refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Refusal { $(#[doc = $meaning] $name,)* }

        impl Refusal {
            /// All reasons, each with its label in the metric and its meaning.
            pub(crate) const ALL: &[(Refusal, &'static str, &'static str)] =
                &[$((Refusal::$name, $label, $meaning),)*];
        }
    };
}

refusals! {
    Empty "empty" "it has no bytes",
    Long "long" "it has more than 250 bytes",
    Blank "blank" "it has a blank or a control character",
    Prefix "prefix" "it begins with none of the prefixes that comments may name",
    Limit "limit" "the comment has too many keys or bytes, and none of them is taken",
    Syntax "syntax" "the comment can't be read, and none of its keys is taken",
    Mark "mark" "its mark isn't of the form mark=REGION.TOKEN, or isn't the only one: keys are deleted, and markers stay",
    Value "value" "the column's value has no text: a geometry, or JSON in MySQL's form",
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = Self::ALL.iter().find(|(refusal, ..)| refusal == self);
        f.write_str(meaning.map_or("", |(.., meaning)| meaning))
    }
}

/// The limit of memcached.
pub(crate) const KEY_BYTES_MAX: usize = 250;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_a_line_of_the_protocol_can_carry() {
        for (bytes, expected) in [
            (&b"user:1"[..], None),
            ("é".as_bytes(), None),
            (b"", Some(Refusal::Empty)),
            (b"a b", Some(Refusal::Blank)),
            (b"a\r\nflush_all", Some(Refusal::Blank)),
            (b"a\0", Some(Refusal::Blank)),
            (b"a\x7f", Some(Refusal::Blank)),
            (&[b'a'; 250], None),
            (&[b'a'; 251], Some(Refusal::Long)),
        ] {
            assert_eq!(Key::new(bytes).err(), expected, "{}", bytes.escape_ascii());
        }
    }
}
