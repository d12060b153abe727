//! What the lines of all families have in common: how a value is stored, whether a reply is wanted, how long a body is,
//! and why a line is refused.

use crate::number::parse_i32;

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verb {
    /// Whatever was there.
    #[default]
    Set,
    /// Only if nothing is there.
    Add,
    /// Only if something is there.
    Replace,
    /// After what is there.
    Append,
    /// Before what is there.
    Prepend,
    /// Only if nobody stored since.
    Cas,
    /// Only under the key's lease token.
    Lease,
}

/// A line that is no request: what to answer and how to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line to send, with its `\r\n`; empty when the client asked for no reply or is hung up on.
    pub reply: &'static [u8],
    /// Bytes to drop from the front of the buffer.
    pub used: usize,
    /// Bytes to throw away after those: the body of a refused storage request with its `\r\n`.
    pub swallow: u64,
    /// Close the connection after `reply`.
    pub close: bool,
}

impl BadLine {
    pub(crate) fn hang_up(used: usize) -> BadLine {
        BadLine { reply: b"", used, swallow: 0, close: true }
    }
}

/// Why a line is refused, before it is known how long it was.
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

    /// Says nothing when the client asked for that.
    pub(crate) const fn unless(self, quiet: bool) -> Refusal {
        if quiet { Refusal { reply: b"", ..self } } else { self }
    }

    /// Throws the body away so that the stream stays in step.
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

/// The length of a body; with its `\r\n` it fits a C int, as memcached wants it.
#[inline]
pub(crate) fn parse_value_bytes(text: &[u8]) -> Option<u32> {
    let value_bytes = u32::try_from(parse_i32(text)?).ok()?;
    (value_bytes <= VALUE_BYTES_MAX).then_some(value_bytes)
}

/// 2^31 - 1 less the `\r\n`.
const VALUE_BYTES_MAX: u32 = 2_147_483_645;
