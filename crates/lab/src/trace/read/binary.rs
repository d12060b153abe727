//! The formats of fixed records: big-endian keys, and libCacheSim's `oracleGeneral`.

use std::io::{BufRead, ErrorKind};

use crate::trace::request::{Place, ReadError, TraceRequest};

/// Big-endian keys of `N` bytes each, `N` at most 8.
pub(super) fn keys<const N: usize>(
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(TraceRequest),
) -> Result<(), ReadError> {
    let mut at = 0;
    while let Some(record) = next::<N>(input, &mut at)? {
        each(TraceRequest::get(record.iter().fold(0, |key, &byte| key << 8 | u64::from(byte))));
    }
    Ok(())
}

/// libCacheSim's: time, object, size, and the place of its next use, which an honest cache doesn't look at.
pub(super) fn oracle_general(
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(TraceRequest),
) -> Result<(), ReadError> {
    let mut at = 0;
    while let Some(record) = next::<{ field::END }>(input, &mut at)? {
        let four = |range| u32::from_le_bytes(array(&record, range));
        each(TraceRequest {
            bytes: four(field::SIZE),
            time_s: four(field::TIME),
            ..TraceRequest::get(u64::from_le_bytes(array(&record, field::OBJECT)))
        });
    }
    Ok(())
}

/// The bytes of a record of `oracleGeneral`: little-endian, packed.
mod field {
    use std::ops::Range;

    pub(super) const TIME: Range<usize> = 0..4;
    pub(super) const OBJECT: Range<usize> = TIME.end..TIME.end + 8;
    pub(super) const SIZE: Range<usize> = OBJECT.end..OBJECT.end + 4;
    pub(super) const NEXT_USE: Range<usize> = SIZE.end..SIZE.end + 8;
    pub(super) const END: usize = NEXT_USE.end;
}

/// The bytes of one field.
fn array<const N: usize>(record: &[u8], range: std::ops::Range<usize>) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[range]);
    bytes
}

/// The next record, or `None` if the file ends where one would begin.
fn next<const N: usize>(
    input: &mut dyn BufRead,
    at: &mut u64,
) -> Result<Option<[u8; N]>, ReadError> {
    let mut record = [0; N];
    let mut filled = 0;
    while filled < N {
        match input.read(&mut record[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let at = Place::Byte(*at + filled as u64);
                return Err(ReadError { at, what: error.to_string() });
            }
        }
    }
    let began = *at;
    *at += filled as u64;
    match filled {
        0 => Ok(None),
        _ if filled == N => Ok(Some(record)),
        _ => Err(ReadError {
            at: Place::Byte(began),
            what: format!("a record of {N} bytes is cut after {filled}"),
        }),
    }
}
