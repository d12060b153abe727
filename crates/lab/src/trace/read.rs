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
//! A reader passes requests to a closure, in the order of the file, and holds one line or record at a time.
//!
//! # Invariants
//! 1. Bytes that don't fit the format end in a [`ReadError`] with their position; no input panics or is skipped silently.
//! 2. No line longer than [`LINE_BYTES_MAX`] is held, and no record stands for more than [`RUN_MAX`] requests. So a
//!    file of another kind can't take unbounded memory or time.

mod binary;
mod csv;
mod text;
mod lines;

use std::io::BufRead;

use super::format::TraceFormat;
use super::request::{ReadError, TraceRequest};

pub(crate) use csv::Columns;

#[cfg(doc)]
use lines::{LINE_BYTES_MAX, RUN_MAX};

/// Calls `each` with every request of `input`, in order.
///
/// # Errors
/// At the first place that doesn't fit the format, or can't be read or decompressed. The requests before it were
/// delivered.
pub(super) fn read(
    format: TraceFormat,
    columns: Option<&Columns>,
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(TraceRequest),
) -> Result<(), ReadError> {
    match format {
        TraceFormat::Arc => text::arc(input, each),
        TraceFormat::Lirs => text::lirs(input, each),
        TraceFormat::Sized => text::sized(input, each),
        TraceFormat::Csv => csv::read(columns, input, each),
        TraceFormat::Be32 => binary::keys::<4>(input, each),
        TraceFormat::Be64 => binary::keys::<8>(input, each),
        TraceFormat::OracleGeneral => binary::oracle_general(input, each),
    }
}

#[cfg(test)]
mod tests;
