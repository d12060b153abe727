//! Parses the request line at the front of a buffer, if it is complete.

use crate::key::find;
use crate::line::BadLine;
use crate::{Command, text};

/// How many bytes of one line a caller is willing to buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A longer line without a newline closes the connection, unless it is a `get` or `gets`. A longer
    /// line that is complete is accepted, as in memcached.
    pub line_bytes_max: usize,
    /// The limit for a `get` or `gets` line (after at most 100 leading spaces), complete or not.
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

/// The request at the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<R> {
    /// A complete request except for its body, which isn't part of `used`.
    Request {
        /// The request, borrowed from the buffer.
        request: R,
        /// Bytes of the line including its newline; in binary, of header, extras and key.
        used: usize,
    },
    /// The request isn't complete.
    Incomplete {
        /// The total bytes that the buffer must hold before parsing again can succeed.
        at_least: usize,
    },
}

/// Reads one request from the front of `input`.
///
/// # Errors
/// The line is complete and wrong, is too long, or comes from an HTTP client: see [`BadLine`].
///
/// # Cost
/// One search for the newline and one pass over the line; no allocation.
#[inline]
pub fn parse<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<Command<'b>>, BadLine> {
    parse_from(input, 0, limits)
}

/// Like [`parse`], for a line that arrives in pieces: the first `scanned` bytes are known to hold no newline.
///
/// After `Incomplete` the caller may pass the length that it had. A line of n bytes is then searched only
/// once, however it was cut.
///
/// # Errors
/// Those of [`parse`].
#[inline]
pub fn parse_from<'b>(
    input: &'b [u8],
    scanned: usize,
    limits: &Limits,
) -> Result<Parsed<Command<'b>>, BadLine> {
    let scanned = scanned.min(input.len());
    let Some(newline) = find(b'\n', &input[scanned..]).map(|at| at + scanned) else {
        return unfinished(input, limits);
    };
    let used = newline + 1;
    if used > limits.multiget_line_bytes_max {
        return Err(BadLine::hang_up(used));
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
fn unfinished<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<Command<'b>>, BadLine> {
    let limit = if input.len() > limits.line_bytes_max && is_multiget(input) {
        limits.multiget_line_bytes_max
    } else {
        limits.line_bytes_max
    };
    if input.len() > limit {
        return Err(BadLine::hang_up(input.len()));
    }
    Ok(Parsed::Incomplete { at_least: input.len() + 1 })
}

/// Whether an overlong line may still become a multiget.
fn is_multiget(input: &[u8]) -> bool {
    let spaces = input.iter().take(LEADING_SPACES_MAX + 1).take_while(|&&b| b == b' ').count();
    let word = &input[spaces..];
    spaces <= LEADING_SPACES_MAX && (word.starts_with(b"get ") || word.starts_with(b"gets "))
}

const LEADING_SPACES_MAX: usize = 100;
