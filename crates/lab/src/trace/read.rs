//! Readers of the formats in which cache traces are published.
//!
//! ```text
//! arc             text    start count ignored number      `count` blocks from `start`, a request each
//! lirs            text    key                             `*` and empty lines are skipped
//! sized           text    number key bytes
//! csv             text    columns by name, or Twitter's seven
//! be32, be64      binary  big-endian keys, nothing else
//! oraclegeneral   binary  libCacheSim's 24 bytes a request
//! ```
//! A reader pushes requests into a closure, in the order of the file, and holds a line or a record of it at a time.
//!
//! # Invariants
//! 1. Bytes that are not of the format end in a [`ReadError`] that says where; no input panics or is skipped quietly.
//! 2. No line is held beyond [`LINE_BYTES_MAX`], and no record stands for more than [`RUN_MAX`] requests, so a file of
//!    another kind can take neither memory nor time without bound.

mod binary;
mod csv;
mod text;

use std::io::BufRead;

use super::format::Format;
use super::request::{Place, ReadError, Request};

pub use csv::{Columns, ColumnsError};

/// Calls `each` with every request of `input`, in its order.
///
/// # Errors
/// The first place that isn't of the format, or can't be read or decompressed. Requests before it were delivered.
pub(super) fn read(
    format: Format,
    columns: Option<&Columns>,
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(Request),
) -> Result<(), ReadError> {
    match format {
        Format::Arc => text::arc(input, each),
        Format::Lirs => text::lirs(input, each),
        Format::Sized => text::sized(input, each),
        Format::Csv => csv::read(columns, input, each),
        Format::Be32 => binary::keys::<4>(input, each),
        Format::Be64 => binary::keys::<8>(input, each),
        Format::OracleGeneral => binary::oracle_general(input, each),
    }
}

/// Lines of a text, numbered from 1, without their ends.
struct Lines<'a> {
    input: &'a mut dyn BufRead,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    fn new(input: &'a mut dyn BufRead) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// The next line, or `None` at the end.
    fn next(&mut self) -> Result<Option<(u64, &[u8])>, ReadError> {
        self.line.clear();
        self.number += 1;
        let at = Place::Line(self.number);
        let mut bounded = std::io::Read::take(&mut *self.input, LINE_BYTES_MAX);
        let read = bounded
            .read_until(b'\n', &mut self.line)
            .map_err(|error| ReadError { at, what: error.to_string() })?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            let what = format!("longer than {LINE_BYTES_MAX} bytes; is this a text format?");
            return Err(ReadError { at, what });
        }
        Ok(Some((self.number, self.line.trim_ascii())))
    }
}

/// A decimal number, or what stands in its place.
fn decimal(field: &[u8], line: u64, name: &str) -> Result<u64, ReadError> {
    let text = std::str::from_utf8(field).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let shown = shown(field);
        ReadError { at: Place::Line(line), what: format!("{name} is `{shown}`, not a number") }
    })
}

/// A number that needs no more than 32 bits; larger ones count as the largest.
fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A field as an error message can show it.
fn shown(field: &[u8]) -> String {
    let cut = &field[..field.len().min(SHOWN_BYTES_MAX)];
    let dots = if cut.len() < field.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_ascii())
}

/// Longest line of a text format.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Most requests that one record may stand for: 512 MB of ARC's blocks.
const RUN_MAX: u64 = 1 << 20;

/// Most bytes of a wrong field that an error repeats.
const SHOWN_BYTES_MAX: usize = 40;

#[cfg(test)]
mod tests;
