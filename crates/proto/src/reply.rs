//! Replies: written by a server, read by a client.
//!
//! The functions here append to the caller's buffer; lines that never vary are constants in
//! [`fixed`](crate::fixed). A client uses [`parse`] and [`ReplyLine`], which are in the module below.
//!
//! ```text
//! VALUE <key> <flags> <bytes>[ <cas>]\r\n   value_header, then the value and \r\n; END after the last
//! LVALUE <key> <token> <flags> <bytes>\r\n  lease_header, then the stale value and \r\n
//! VA <bytes>[ <flag>]*\r\n                  MetaReply::value, then the value and \r\n
//! HD|EN|NF|NS|EX[ <flag>]*\r\n              MetaReply::status
//! ```
//! A reply has its meta flags in the order of the request; `Z`, `X` and `W` follow them, in this order.

mod parse;

pub use parse::{ReplyError, ReplyLimits, ReplyLine, ReplyParsed, parse};

use crate::append_base64;
use crate::number::{append_i64, append_u64};

/// Appends the header of one hit of a get; the value and `\r\n` follow.
#[inline]
pub fn value_header(
    out: &mut Vec<u8>,
    key: &[u8],
    flags: u32,
    value_bytes: usize,
    cas: Option<u64>,
) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    match u8::try_from(flags) {
        // The usual flags are appended in one piece.
        Ok(flags @ 0..10) => out.extend_from_slice(&[b' ', b'0' + flags, b' ']),
        _ => {
            out.push(b' ');
            append_u64(out, flags.into());
            out.push(b' ');
        }
    }
    append_u64(out, value_bytes as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        append_u64(out, cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the header of one miss of a `lease-get`; the stale value, or nothing, and `\r\n` follow.
///
/// The token 1 tells the client to wait, because another client is fetching the value.
pub fn lease_header(out: &mut Vec<u8>, key: &[u8], token: u64, flags: u32, value_bytes: usize) {
    out.extend_from_slice(b"LVALUE ");
    out.extend_from_slice(key);
    for number in [token, flags.into(), value_bytes as u64] {
        out.push(b' ');
        append_u64(out, number);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the reply to `incr` or `decr`.
#[inline]
pub fn number(out: &mut Vec<u8>, n: u64) {
    append_u64(out, n);
    out.extend_from_slice(b"\r\n");
}

/// Appends one line of `stats`.
pub fn stat(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(b"STAT ");
    out.extend_from_slice(name.as_bytes());
    out.push(b' ');
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the reply to `version`.
pub fn version(out: &mut Vec<u8>, version: &str) {
    out.extend_from_slice(b"VERSION ");
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The two letters of a meta reply without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaStatus {
    /// `HD`: done, or a hit.
    Done,
    /// `EN`: a miss of `mg`.
    Miss,
    /// `NF`: the item doesn't exist.
    NotFound,
    /// `NS`: not stored.
    NotStored,
    /// `EX`: another client has stored the item since.
    Exists,
}

impl MetaStatus {
    /// The two letters as sent.
    pub const fn code(self) -> &'static [u8; 2] {
        match self {
            MetaStatus::Done => b"HD",
            MetaStatus::Miss => b"EN",
            MetaStatus::NotFound => b"NF",
            MetaStatus::NotStored => b"NS",
            MetaStatus::Exists => b"EX",
        }
    }
}

/// The header of a meta reply while it is written: code, flags in the order of the request, marks, [`end`](Self::end).
#[must_use = "a header needs its end"]
#[derive(Debug)]
pub struct MetaReply<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> MetaReply<'o> {
    /// Begins a reply without a value.
    #[inline]
    pub fn status(out: &'o mut Vec<u8>, status: MetaStatus) -> MetaReply<'o> {
        out.extend_from_slice(status.code());
        MetaReply { out }
    }

    /// Begins a reply whose value follows the header.
    #[inline]
    pub fn value(out: &'o mut Vec<u8>, value_bytes: usize) -> MetaReply<'o> {
        out.extend_from_slice(b"VA ");
        append_u64(out, value_bytes as u64);
        MetaReply { out }
    }

    /// Appends ` <letter><n>`: `c`, `f`, `h`, `l`, `s`.
    #[inline]
    pub fn number(&mut self, letter: u8, n: u64) {
        self.out.extend_from_slice(&[b' ', letter]);
        append_u64(self.out, n);
    }

    /// Appends ` t<seconds>`; `None` means never and is sent as -1.
    #[inline]
    pub fn ttl(&mut self, seconds: Option<u32>) {
        match seconds {
            Some(seconds) => self.number(b't', seconds.into()),
            None => self.out.extend_from_slice(b" t-1"),
        }
    }

    /// Appends ` k<key>`, or ` k<base64> b` for a key that was sent as base64. `key` is the stored key.
    #[inline]
    pub fn key(&mut self, key: &[u8], is_base64: bool) {
        self.out.extend_from_slice(b" k");
        if is_base64 {
            append_base64(self.out, key);
            self.out.extend_from_slice(b" b");
        } else {
            self.out.extend_from_slice(key);
        }
    }

    /// Appends ` <text>` unchanged: the opaque.
    #[inline]
    pub fn echo(&mut self, text: &[u8]) {
        self.out.push(b' ');
        self.out.extend_from_slice(text);
    }

    /// Appends those of ` Z`, ` X` and ` W` that hold: another client has won already, the item is stale,
    /// this client has won.
    #[inline]
    pub fn marks(&mut self, is_won_already: bool, is_stale: bool, has_won: bool) {
        for (holds, mark) in [(is_won_already, b" Z"), (is_stale, b" X"), (has_won, b" W")] {
            if holds {
                self.out.extend_from_slice(mark);
            }
        }
    }

    /// Ends the header.
    #[inline]
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The reply of `me` about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaDebug<'b> {
    /// The stored key.
    pub key: &'b [u8],
    /// Whether the key was sent as base64, and is returned so.
    pub is_base64: bool,
    /// Seconds left; negative: never expires.
    pub exptime: i64,
    /// Seconds since the last access.
    pub idle_s: u64,
    /// The item's cas.
    pub cas: u64,
    /// Whether the item was read since it was stored.
    pub is_fetched: bool,
    /// Its slab class.
    pub class: u32,
    /// Bytes of the complete item.
    pub size: u64,
}

impl MetaDebug<'_> {
    /// Appends the reply to `me`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"ME ");
        if self.is_base64 {
            append_base64(out, self.key);
        } else {
            out.extend_from_slice(self.key);
        }
        out.extend_from_slice(b" exp=");
        append_i64(out, self.exptime.max(-1));
        let fetch = if self.is_fetched { "yes" } else { "no" };
        let rest = format!(
            " la={} cas={} fetch={fetch} cls={} size={}\r\n",
            self.idle_s, self.cas, self.class, self.size
        );
        out.extend_from_slice(rest.as_bytes());
    }
}
