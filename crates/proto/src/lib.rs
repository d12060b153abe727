//! The memcached text, meta and [`binary`] protocols as pure functions: bytes to requests and replies, and back.
//!
//! Nothing here does I/O, reads a clock, starts a thread or keeps state between calls. A caller owns
//! a buffer, asks [`parse`] what its first line says, drops `used` bytes and asks again:
//!
//! ```text
//! buffer  | set k 0 0 5\r\n | hello\r\n | get k\r\n …
//!           ^ parse: Store, used = 13     ^ parse: Get
//!                             ^ body: value_bytes + 2, the caller's
//! ```
//! ```
//! use guira_proto::{Limits, Parsed, Request, parse};
//!
//! let Ok(Parsed::Request { request: Request::Store(store), used }) =
//!     parse(b"set k 0 60 5\r\nhello\r\n", &Limits::DEFAULT)
//! else {
//!     panic!("a whole line")
//! };
//! assert_eq!((store.key, store.exptime, store.value_bytes, used), (&b"k"[..], 60, 5, 14));
//! ```
//! # Laws
//! 1. A prefix is never an error: a request cut anywhere is `Incomplete` until its newline is there. The one
//!    exception is the protocol's own: a line too long (see [`Limits`]) closes the connection.
//! 2. Nothing past `used` is looked at: the same line followed by anything gives the same answer.
//! 3. `encode ∘ parse` is the identity on canonical lines (single spaces, `\r\n`, no ignored words).
//! 4. No input panics.
//!
//! # Costs
//! No allocation in `parse`; a request borrows its key and flags from the buffer. A short `get`, `mg` or `set`
//! costs about 20 ns. A line that arrives in pieces is searched once if the caller passes on what was
//! already [`scanned`](parse_from).
//!
//! Bad at: a client that sends one key per line without pipelining, where the two system calls a
//! request cost a hundred times what is spent here.

#![forbid(unsafe_code)]

pub mod binary;
mod encode;
mod admin;
mod login;
pub mod reply;
mod meta;
mod base64;
mod text;
pub mod fixed;
mod number;
mod request;
mod key;
pub mod udp;
mod uri;

pub use admin::{Admin, Automove, ClockShift, CrawlTarget, ShutdownMode, WatchKinds};
pub use base64::{append_base64, decode_base64};
pub use key::{KEY_BYTES_MAX, Words, is_key};
pub use login::{Login, parse_login};
pub use meta::{Meta, MetaFlag, MetaFlags, MetaVerb, OPAQUE_BYTES_MAX};
pub use request::{Arithmetic, Get, Request, Store, Verb};
pub use text::HOLD_OFF_MAX_S;
pub use uri::append_uri;

/// How much of one line a caller is willing to buffer. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// More than this without a newline closes the connection, unless the line is a `get` or `gets`.
    /// A longer line that is already complete is accepted, as memcached accepts it.
    pub line_bytes_max: usize,
    /// The same for a `get` or `gets` line (after at most 100 leading spaces), complete or not.
    pub multiget_line_bytes_max: usize,
}

impl Limits {
    /// memcached's 2,048 bytes for a line; 8 MiB for a multiget, which memcached leaves unbounded.
    pub const DEFAULT: Limits = Limits { line_bytes_max: 2048, multiget_line_bytes_max: 8 << 20 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What the front of a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'b> {
    /// A whole request line. The body of a storage request is not part of `used`.
    Request {
        /// What was asked, borrowed from the buffer.
        request: Request<'b>,
        /// Bytes of the line, its newline included.
        used: usize,
    },
    /// No newline yet.
    Incomplete {
        /// Total bytes in the buffer below which asking again is pointless.
        at_least: usize,
    },
}

/// A line that is no request: what to answer and how to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line to send, with its `\r\n`; empty when the client asked for no reply or is hung up on.
    pub reply: &'static [u8],
    /// Bytes to drop from the front of the buffer.
    pub used: usize,
    /// Bytes to throw away after those: the body of a refused storage request with its `\r\n`.
    pub swallow: u64,
    /// Close the connection after `reply`.
    pub close: bool,
}

/// Reads one request from the front of `input`.
///
/// # Errors
/// The line is complete and wrong, or too long, or spoken by an HTTP client: see [`Error`].
///
/// # Cost
/// One search for the newline and one pass over the line; no allocation.
#[inline]
pub fn parse<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Error> {
    parse_from(input, 0, limits)
}

/// [`parse`] for a line that arrives in pieces: the first `scanned` bytes are known to hold no newline.
///
/// After `Incomplete` the caller may pass the length it had, so that a line of n bytes is searched once
/// however it was cut.
///
/// # Errors
/// As [`parse`].
#[inline]
pub fn parse_from<'b>(
    input: &'b [u8],
    scanned: usize,
    limits: &Limits,
) -> Result<Parsed<'b>, Error> {
    let scanned = scanned.min(input.len());
    let Some(newline) = memchr::memchr(b'\n', &input[scanned..]).map(|at| at + scanned) else {
        return unfinished(input, limits);
    };
    let used = newline + 1;
    if used > limits.multiget_line_bytes_max {
        return Err(Error::hang_up(used));
    }
    let line = match &input[..newline] {
        [line @ .., b'\r'] => line,
        line => line,
    };
    match text::parse_line(line, used) {
        Ok(request) => Ok(Parsed::Request { request, used }),
        Err(refusal) => Err(refusal.at(used)),
    }
}

#[cold]
fn unfinished<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Error> {
    let limit = if input.len() > limits.line_bytes_max && is_multiget(input) {
        limits.multiget_line_bytes_max
    } else {
        limits.line_bytes_max
    };
    if input.len() > limit {
        return Err(Error::hang_up(input.len()));
    }
    Ok(Parsed::Incomplete { at_least: input.len() + 1 })
}

/// Whether an over-long line may still become a multiget.
fn is_multiget(input: &[u8]) -> bool {
    let spaces = input.iter().take(LEADING_SPACES_MAX + 1).take_while(|&&b| b == b' ').count();
    let word = &input[spaces..];
    spaces <= LEADING_SPACES_MAX && (word.starts_with(b"get ") || word.starts_with(b"gets "))
}

impl Error {
    fn hang_up(used: usize) -> Error {
        Error { reply: b"", used, swallow: 0, close: true }
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

    fn at(self, used: usize) -> Error {
        Error { reply: self.reply, used, swallow: self.swallow, close: self.close }
    }
}

const LEADING_SPACES_MAX: usize = 100;
