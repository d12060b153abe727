//! The client's side: parses complete replies.
//!
//! [`parse`] takes one reply from the front of a buffer. A value is part of its reply, so that
//! `Incomplete` tells how many bytes are needed and a caller can read them at once. The meaning of a line
//! can depend on the command (a number, `OK`, lines of a dump), which the caller knows.
//!
//! # Invariants
//! 1. A prefix of a reply is `Incomplete`, never an error, unless it exceeds [`ReplyLimits`].
//! 2. For canonical replies, [`ReplyLine::encode`] returns the bytes that were read.
//!
//! Bad at: values near the limit, because each must be contiguous in memory.

use super::{MetaStatus, lease_header, number, value_header};
use crate::key::find;
use crate::number::{append_u64, parse_u32, parse_u64};
use crate::{MetaFlags, fixed};

/// One reply, borrowed from the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyLine<'b> {
    /// A hit of a get, with its value.
    Value {
        /// The key, as requested.
        key: &'b [u8],
        /// The client's 32 bits.
        flags: u32,
        /// The item's unique, after `gets` and `gats`.
        cas: Option<u64>,
        /// The value without its `\r\n`.
        value: &'b [u8],
    },
    /// A miss of a lease-get, with a stale value or an empty one.
    LeaseValue {
        /// The key, as requested.
        key: &'b [u8],
        /// The token to store with; 1 tells the client to wait.
        token: u64,
        /// The client's 32 bits.
        flags: u32,
        /// The stale value without its `\r\n`.
        value: &'b [u8],
    },
    /// `VA`: a meta hit, with its value.
    MetaValue {
        /// The flags in the order of the request.
        flags: MetaFlags<'b>,
        /// The value without its `\r\n`.
        value: &'b [u8],
    },
    /// `HD`, `EN`, `NF`, `NS`, `EX`.
    Meta {
        /// The code.
        status: MetaStatus,
        /// The flags in the order of the request.
        flags: MetaFlags<'b>,
    },
    /// `END`.
    End,
    /// `STORED`.
    Stored,
    /// `STALE_STORED`: the value is kept only as a stale one.
    StaleStored,
    /// `NOT_STORED`.
    NotStored,
    /// `EXISTS`.
    Exists,
    /// `NOT_FOUND`.
    NotFound,
    /// `DELETED`.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// `OK`.
    Ok,
    /// `RESET`.
    Reset,
    /// `MN`.
    MetaNoop,
    /// The reply to `incr` or `decr`.
    Number(u64),
    /// One line of `stats`.
    Stat {
        /// The first word.
        name: &'b [u8],
        /// The rest of the line.
        value: &'b [u8],
    },
    /// `VERSION` and what follows it.
    Version(&'b [u8]),
    /// `ME` and what follows it.
    MetaDebug(&'b [u8]),
    /// `ERROR` and what follows it, if anything.
    Error(&'b [u8]),
    /// `CLIENT_ERROR` and what follows it.
    ClientError(&'b [u8]),
    /// `SERVER_ERROR` and what follows it.
    ServerError(&'b [u8]),
    /// Any other line: `BUSY …`, lines of dumps and watchers.
    Line(&'b [u8]),
}

/// The reply at the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyParsed<'b> {
    /// A complete reply, its value included.
    Reply {
        /// The reply.
        reply: ReplyLine<'b>,
        /// Its bytes.
        used: usize,
    },
    /// The reply isn't complete.
    Incomplete {
        /// The total bytes that the buffer must hold before parsing again can succeed.
        at_least: usize,
    },
}

/// How many bytes of one reply a caller is willing to buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Longest line.
    pub line_bytes_max: usize,
    /// Longest value.
    pub value_bytes_max: usize,
}

impl ReplyLimits {
    /// 8 KiB for a line, 1 GiB for a value (the largest `-I`).
    pub const DEFAULT: ReplyLimits = ReplyLimits { line_bytes_max: 8192, value_bytes_max: 1 << 30 };
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The server doesn't speak the protocol, and the connection can't be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// No newline within [`ReplyLimits::line_bytes_max`].
    LineTooLong,
    /// The header of a value can't be parsed.
    BadHeader,
    /// A value longer than [`ReplyLimits::value_bytes_max`].
    ValueTooLong,
    /// A value that isn't followed by `\r\n`.
    BadValueEnd,
}

impl std::fmt::Display for ReplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReplyError::LineTooLong => "the reply line is too long: is this a memcached server?",
            ReplyError::BadHeader => "the header of a value cannot be read: close the connection",
            ReplyError::ValueTooLong => "the value is longer than this client takes",
            ReplyError::BadValueEnd => {
                "the value has another length than announced: close the connection"
            }
        })
    }
}

impl std::error::Error for ReplyError {}

/// Reads one reply from the front of `input`.
///
/// # Errors
/// The input isn't of the protocol, or exceeds `limits`: see [`ReplyError`].
///
/// # Cost
/// One search for the newline and one pass over the line. No allocation; of a value only the end is examined.
pub fn parse<'b>(input: &'b [u8], limits: &ReplyLimits) -> Result<ReplyParsed<'b>, ReplyError> {
    let Some(newline) = find(b'\n', input) else {
        return if input.len() > limits.line_bytes_max {
            Err(ReplyError::LineTooLong)
        } else {
            Ok(ReplyParsed::Incomplete { at_least: input.len() + 1 })
        };
    };
    if newline > limits.line_bytes_max {
        return Err(ReplyError::LineTooLong);
    }
    let line = match &input[..newline] {
        [line @ .., b'\r'] => line,
        line => line,
    };
    let head = match line {
        [b'V', b'A', b'L', b'U', b'E', b' ', rest @ ..] => value_head(rest),
        [b'V', b'A', b' ', rest @ ..] => meta_head(rest),
        [b'L', b'V', b'A', b'L', b'U', b'E', b' ', rest @ ..] => lease_head(rest),
        _ => return Ok(ReplyParsed::Reply { reply: parse_line(line), used: newline + 1 }),
    };
    let (head, value_bytes) = head.ok_or(ReplyError::BadHeader)?;
    with_value(input, newline + 1, value_bytes, limits, head)
}

/// The header of a reply whose value follows.
#[derive(Clone, Copy)]
enum Head<'b> {
    Text { key: &'b [u8], flags: u32, cas: Option<u64> },
    Meta { flags: MetaFlags<'b> },
    Lease { key: &'b [u8], token: u64, flags: u32 },
}

fn value_head(text: &[u8]) -> Option<(Head<'_>, usize)> {
    // The key is most of the header.
    let end = find(b' ', text).filter(|&end| end > 0)?;
    let (key, rest) = text.split_at(end);
    let mut fields = rest[1..].split(|&b| b == b' ');
    let flags = parse_u32(fields.next()?)?;
    let value_bytes = parse_u32(fields.next()?)?;
    let cas = match fields.next() {
        None => None,
        Some(cas) => Some(parse_u64(cas)?),
    };
    let is_whole = fields.next().is_none();
    is_whole.then_some((Head::Text { key, flags, cas }, value_bytes as usize))
}

fn lease_head(text: &[u8]) -> Option<(Head<'_>, usize)> {
    let mut fields = text.split(|&b| b == b' ');
    let key = fields.next().filter(|key| !key.is_empty())?;
    let token = parse_u64(fields.next()?)?;
    let flags = parse_u32(fields.next()?)?;
    let value_bytes = parse_u32(fields.next()?)?;
    fields.next().is_none().then_some((Head::Lease { key, token, flags }, value_bytes as usize))
}

fn meta_head(text: &[u8]) -> Option<(Head<'_>, usize)> {
    let end = find(b' ', text).unwrap_or(text.len());
    let (value_bytes, flags) = text.split_at(end);
    Some((Head::Meta { flags: MetaFlags::new(flags) }, parse_u32(value_bytes)? as usize))
}

fn with_value<'b>(
    input: &'b [u8],
    start: usize,
    value_bytes: usize,
    limits: &ReplyLimits,
    head: Head<'b>,
) -> Result<ReplyParsed<'b>, ReplyError> {
    if value_bytes > limits.value_bytes_max {
        return Err(ReplyError::ValueTooLong);
    }
    let used = start + value_bytes + 2;
    let Some(body) = input.get(start..used) else {
        return Ok(ReplyParsed::Incomplete { at_least: used });
    };
    let value = body.strip_suffix(b"\r\n").ok_or(ReplyError::BadValueEnd)?;
    let reply = match head {
        Head::Text { key, flags, cas } => ReplyLine::Value { key, flags, cas, value },
        Head::Meta { flags } => ReplyLine::MetaValue { flags, value },
        Head::Lease { key, token, flags } => ReplyLine::LeaseValue { key, token, flags, value },
    };
    Ok(ReplyParsed::Reply { reply, used })
}

fn parse_line(line: &[u8]) -> ReplyLine<'_> {
    let end = find(b' ', line).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    let status = |status| ReplyLine::Meta { status, flags: MetaFlags::new(rest) };
    let text = rest.strip_prefix(b" ").unwrap_or_default();
    match word {
        b"HD" => status(MetaStatus::Done),
        b"EN" => status(MetaStatus::Miss),
        b"NF" => status(MetaStatus::NotFound),
        b"NS" => status(MetaStatus::NotStored),
        b"EX" => status(MetaStatus::Exists),
        b"ME" => ReplyLine::MetaDebug(text),
        b"STAT" => {
            let end = find(b' ', text).unwrap_or(text.len());
            let (name, value) = text.split_at(end);
            ReplyLine::Stat { name, value: value.strip_prefix(b" ").unwrap_or_default() }
        }
        b"VERSION" => ReplyLine::Version(text),
        b"ERROR" => ReplyLine::Error(text),
        b"CLIENT_ERROR" => ReplyLine::ClientError(text),
        b"SERVER_ERROR" | b"SERVER_ERROR:" => ReplyLine::ServerError(text),
        _ => match line {
            b"END" => ReplyLine::End,
            b"STORED" => ReplyLine::Stored,
            b"STALE_STORED" => ReplyLine::StaleStored,
            b"NOT_STORED" => ReplyLine::NotStored,
            b"EXISTS" => ReplyLine::Exists,
            b"NOT_FOUND" => ReplyLine::NotFound,
            b"DELETED" => ReplyLine::Deleted,
            b"TOUCHED" => ReplyLine::Touched,
            b"OK" => ReplyLine::Ok,
            b"RESET" => ReplyLine::Reset,
            b"MN" => ReplyLine::MetaNoop,
            // decr leaves spaces after a number that has become shorter, and some servers send them.
            line => match parse_u64(line.trim_ascii_end()) {
                Some(n) => ReplyLine::Number(n),
                None => ReplyLine::Line(line),
            },
        },
    }
}

impl ReplyLine<'_> {
    /// Appends the reply as a server sends it, its value included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            ReplyLine::Value { key, flags, cas, value } => {
                value_header(out, key, flags, value.len(), cas);
                line(out, value, b"");
            }
            ReplyLine::LeaseValue { key, token, flags, value } => {
                lease_header(out, key, token, flags, value.len());
                line(out, value, b"");
            }
            ReplyLine::MetaValue { flags, value } => {
                out.extend_from_slice(b"VA ");
                append_u64(out, value.len() as u64);
                meta_flags(out, flags);
                line(out, value, b"");
            }
            ReplyLine::Meta { status, flags } => {
                out.extend_from_slice(status.code());
                meta_flags(out, flags);
            }
            ReplyLine::Number(n) => number(out, n),
            ReplyLine::Stat { name, value } => {
                out.extend_from_slice(b"STAT ");
                out.extend_from_slice(name);
                line(out, b" ", value);
            }
            ReplyLine::Version(text) => line(out, b"VERSION ", text),
            ReplyLine::MetaDebug(text) => line(out, b"ME ", text),
            ReplyLine::Error(b"") => out.extend_from_slice(fixed::ERROR),
            ReplyLine::Error(text) => line(out, b"ERROR ", text),
            ReplyLine::ClientError(text) => line(out, b"CLIENT_ERROR ", text),
            ReplyLine::ServerError(text) => line(out, b"SERVER_ERROR ", text),
            ReplyLine::Line(text) => line(out, text, b""),
            ReplyLine::End => out.extend_from_slice(fixed::END),
            ReplyLine::Stored => out.extend_from_slice(fixed::STORED),
            ReplyLine::StaleStored => out.extend_from_slice(fixed::STALE_STORED),
            ReplyLine::NotStored => out.extend_from_slice(fixed::NOT_STORED),
            ReplyLine::Exists => out.extend_from_slice(fixed::EXISTS),
            ReplyLine::NotFound => out.extend_from_slice(fixed::NOT_FOUND),
            ReplyLine::Deleted => out.extend_from_slice(fixed::DELETED),
            ReplyLine::Touched => out.extend_from_slice(fixed::TOUCHED),
            ReplyLine::Ok => out.extend_from_slice(fixed::OK),
            ReplyLine::Reset => out.extend_from_slice(fixed::RESET),
            ReplyLine::MetaNoop => out.extend_from_slice(fixed::META_NOOP),
        }
    }
}

fn line(out: &mut Vec<u8>, start: &[u8], rest: &[u8]) {
    out.extend_from_slice(start);
    out.extend_from_slice(rest);
    out.extend_from_slice(b"\r\n");
}

fn meta_flags(out: &mut Vec<u8>, flags: MetaFlags<'_>) {
    for flag in flags {
        out.push(b' ');
        out.extend_from_slice(flag.text());
    }
    out.extend_from_slice(b"\r\n");
}
