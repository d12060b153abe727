//! The lines of a text format, and the numbers in them.

use std::io::BufRead;

use crate::trace::request::{Place, ReadError};

/// Lines of a text, numbered from 1, without their ends.
pub(super) struct Lines<'a> {
    input: &'a mut dyn BufRead,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(input: &'a mut dyn BufRead) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// The next line, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &[u8])>, ReadError> {
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
pub(super) fn decimal(field: &[u8], line: u64, name: &str) -> Result<u64, ReadError> {
    let text = std::str::from_utf8(field).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let shown = shown(field);
        ReadError { at: Place::Line(line), what: format!("{name} is `{shown}`, not a number") }
    })
}

/// A number that needs no more than 32 bits; larger ones count as the largest.
pub(super) fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A field as an error message can show it.
pub(super) fn shown(field: &[u8]) -> String {
    let cut = &field[..field.len().min(SHOWN_BYTES_MAX)];
    let dots = if cut.len() < field.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_ascii())
}

/// Longest line of a text format.
pub(super) const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Maximum number of requests that one record may stand for: 512 MB of ARC's blocks.
pub(super) const RUN_MAX: u64 = 1 << 20;

/// Maximum number of bytes of a wrong field that an error repeats.
const SHOWN_BYTES_MAX: usize = 40;
