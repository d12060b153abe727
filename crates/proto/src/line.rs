//! What the lines of all commands have in common: the verb of a storage command, whether a reply is
//! wanted, the length of a body, and the error for a bad line.

use crate::number::parse_i32;

/// The condition and the effect of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verb {
    /// Stores whether the item exists or not.
    #[default]
    Set,
    /// Stores only if the item doesn't exist.
    Add,
    /// Stores only if the item exists.
    Replace,
    /// Appends to the existing value.
    Append,
    /// Prepends to the existing value.
    Prepend,
    /// Stores only if no other client has stored since.
    Cas,
    /// Stores only with the key's lease token.
    Lease,
}

/// A line that isn't a request, with the reply to it and how to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line to send, with its `\r\n`; empty if the client asked for no reply or the connection is closed.
    pub reply: &'static [u8],
    /// Bytes to remove from the front of the buffer.
    pub used: usize,
    /// Bytes to discard after those: the body of a refused storage request with its `\r\n`.
    pub swallow: u64,
    /// Whether to close the connection after `reply`.
    pub close: bool,
}

impl BadLine {
    pub(crate) fn hang_up(used: usize) -> BadLine {
        BadLine { reply: b"", used, swallow: 0, close: true }
    }
}

/// The error for a line whose length isn't known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) reply: &'static [u8],
    pub(crate) swallow: u64,
    pub(crate) close: bool,
}

impl Refusal {
    pub(crate) const fn new(reply: &'static [u8]) -> Refusal {
        Refusal { reply, swallow: 0, close: false }
    }

    pub(crate) const HANG_UP: Refusal = Refusal { reply: b"", swallow: 0, close: true };

    /// Removes the reply if the client asked for none.
    pub(crate) const fn unless(self, quiet: bool) -> Refusal {
        if quiet { Refusal { reply: b"", ..self } } else { self }
    }

    /// Discards the body as well, so that the stream stays in step.
    pub(crate) const fn with_body(self, value_bytes: u32) -> Refusal {
        Refusal { swallow: value_bytes as u64 + 2, ..self }
    }

    pub(crate) fn at(self, used: usize) -> BadLine {
        BadLine { reply: self.reply, used, swallow: self.swallow, close: self.close }
    }
}

/// Whether the last word is `noreply`.
#[inline]
pub(crate) fn is_quiet(text: &[u8]) -> bool {
    let mut text = text;
    while let [rest @ .., b' '] = text {
        text = rest;
    }
    match text.strip_suffix(b"noreply") {
        Some([]) | Some([.., b' ']) => true,
        Some(_) | None => false,
    }
}

/// Parses the length of a body. As in memcached, it has to fit in a C int together with its `\r\n`.
#[inline]
pub(crate) fn parse_value_bytes(text: &[u8]) -> Option<u32> {
    let value_bytes = u32::try_from(parse_i32(text)?).ok()?;
    (value_bytes <= VALUE_BYTES_MAX).then_some(value_bytes)
}

/// 2^31 - 1, minus the `\r\n`.
const VALUE_BYTES_MAX: u32 = 2_147_483_645;
