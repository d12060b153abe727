//! The formats of lines with numbers: ARC's, LIRS's, and `number key bytes`.

use std::io::BufRead;

use super::lines::{Lines, RUN_MAX, decimal, saturated};
use crate::trace::request::{Place, ReadError, TraceRequest};

/// ARC's: a record is a run of blocks of 512 bytes; each block is a request, as in the literature.
pub(super) fn arc(
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(TraceRequest),
) -> Result<(), ReadError> {
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        let [start, count] = numbers(line, number, ["the first block", "the number of blocks"])?;
        let wrong = |what| ReadError { at: Place::Line(number), what };
        if count > RUN_MAX {
            return Err(wrong(format!("a run of {count} blocks; at most {RUN_MAX} are believed")));
        }
        let end = start
            .checked_add(count)
            .ok_or_else(|| wrong(format!("{count} blocks from {start} pass the last number")))?;
        for block in start..end {
            each(TraceRequest::get(block));
        }
    }
    Ok(())
}

/// LIRS's: a key a line. Some files end in `*`, some have lines ending in CRLF.
pub(super) fn lirs(
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(TraceRequest),
) -> Result<(), ReadError> {
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if !line.is_empty() && line != b"*" {
            each(TraceRequest::get(decimal(line, number, "the key")?));
        }
    }
    Ok(())
}

/// `number key bytes`, as the traces of AdaptSize are.
pub(super) fn sized(
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(TraceRequest),
) -> Result<(), ReadError> {
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        let [_, key, bytes] = numbers(line, number, ["the number", "the key", "the size"])?;
        each(TraceRequest { bytes: saturated(bytes), ..TraceRequest::get(key) });
    }
    Ok(())
}

/// The first `N` fields of a line, which may have more.
fn numbers<const N: usize>(
    line: &[u8],
    number: u64,
    names: [&str; N],
) -> Result<[u64; N], ReadError> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let mut found = [0; N];
    for (place, name) in names.into_iter().enumerate() {
        let field = fields.next().ok_or_else(|| ReadError {
            at: Place::Line(number),
            what: format!("ends before {name}"),
        })?;
        found[place] = decimal(field, number, name)?;
    }
    Ok(found)
}
