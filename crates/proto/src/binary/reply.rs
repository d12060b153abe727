//! The replies of a server over binary. Each function appends one reply to the caller's buffer.
//!
//! ```text
//! hit      flags:4 in the extras, the key if asked for, then the value, which the caller appends
//! done     no body; the item's unique, or 0
//! error    a sentence as the body; unique 0
//! ```

use super::header::REPLY_MAGIC;
use super::{Echo, HEADER_BYTES, Header, Status};

/// Appends header, flags and key of a hit; the value follows.
#[inline]
pub fn hit(
    out: &mut Vec<u8>,
    echo: Echo,
    cas: u64,
    flags: u32,
    key: Option<&[u8]>,
    value_bytes: usize,
) {
    let key = key.unwrap_or_default();
    let lengths = Lengths { extras: FLAGS_BYTES, key: key.len(), value: value_bytes };
    header(out, echo, Status::Success, cas, lengths);
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(key);
}

/// Appends a success without a body, with the item's unique if the request has one to return, otherwise 0.
#[inline]
pub fn done(out: &mut Vec<u8>, echo: Echo, cas: u64) {
    header(out, echo, Status::Success, cas, Lengths::default());
}

/// Appends the reply to an increment or decrement.
#[inline]
pub fn number(out: &mut Vec<u8>, echo: Echo, cas: u64, number: u64) {
    let number = number.to_be_bytes();
    header(out, echo, Status::Success, cas, Lengths { value: number.len(), ..Lengths::default() });
    out.extend_from_slice(&number);
}

/// Appends a text, such as the server's version.
pub fn text(out: &mut Vec<u8>, echo: Echo, text: &str) {
    let lengths = Lengths { value: text.len(), ..Lengths::default() };
    header(out, echo, Status::Success, 0, lengths);
    out.extend_from_slice(text.as_bytes());
}

/// Appends one statistic. The last reply has neither name nor value.
pub fn stat(out: &mut Vec<u8>, echo: Echo, name: &[u8], value: &[u8]) {
    stat_head(out, echo, name, value.len());
    out.extend_from_slice(value);
}

/// Like [`stat`], without the value, which has `value_bytes` and has to be appended by the caller.
pub fn stat_head(out: &mut Vec<u8>, echo: Echo, name: &[u8], value_bytes: usize) {
    let lengths = Lengths { extras: 0, key: name.len(), value: value_bytes };
    header(out, echo, Status::Success, 0, lengths);
    out.extend_from_slice(name);
}

/// Appends a miss that contains its key.
#[inline]
pub fn miss_with_key(out: &mut Vec<u8>, echo: Echo, key: &[u8]) {
    let lengths = Lengths { key: key.len(), ..Lengths::default() };
    header(out, echo, Status::NotFound, 0, lengths);
    out.extend_from_slice(key);
}

/// Appends an error with the text of its status.
#[inline]
pub fn error(out: &mut Vec<u8>, echo: Echo, status: Status) {
    error_saying(out, echo, status, status.text());
}

/// Appends an error with a text of the caller's choice.
pub fn error_saying(out: &mut Vec<u8>, echo: Echo, status: Status, text: &str) {
    header(out, echo, status, 0, Lengths { value: text.len(), ..Lengths::default() });
    out.extend_from_slice(text.as_bytes());
}

/// Bytes of the parts of a body.
#[derive(Clone, Copy, Default)]
struct Lengths {
    extras: usize,
    key: usize,
    value: usize,
}

#[inline]
fn header(out: &mut Vec<u8>, echo: Echo, status: Status, cas: u64, lengths: Lengths) {
    let body = lengths.extras + lengths.key + lengths.value;
    let header = Header {
        magic: REPLY_MAGIC,
        opcode: echo.opcode,
        key_bytes: u16::try_from(lengths.key).expect("a key or a statistic's name is short"),
        extras_bytes: u8::try_from(lengths.extras).expect("only flags are sent as extras"),
        status: status.code(),
        body_bytes: u32::try_from(body).expect("an item has at most a gigabyte"),
        opaque: echo.opaque,
        cas,
        ..Header::default()
    };
    let bytes: [u8; HEADER_BYTES] = header.to_bytes();
    out.extend_from_slice(&bytes);
}

const FLAGS_BYTES: usize = 4;
