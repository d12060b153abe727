//! Parses the request at the front of a buffer, if it is complete.

use super::header::{
    BODY_BYTES_MAX, BadPacket, Echo, HEADER_BYTES, Header, REQUEST_MAGIC, Status, extras_and_key,
};
use super::opcode;
use super::request::{self, Packet};
use crate::Parsed;

/// Reads one request from the front of `input`.
///
/// # Errors
/// The input isn't a request, its opcode is unknown, or its lengths don't match the opcode: see [`BadPacket`].
///
/// # Cost
/// No allocation; nothing beyond header, extras and key is touched.
#[inline]
pub fn parse(input: &[u8]) -> Result<Parsed<Packet<'_>>, BadPacket> {
    if input.first().is_some_and(|&magic| magic != REQUEST_MAGIC) {
        return Err(BadPacket { reply: None, used: input.len(), swallow: 0, close: true });
    }
    let Some((head, rest)) = input.split_first_chunk() else {
        return Ok(Parsed::Incomplete { at_least: HEADER_BYTES });
    };
    let header = Header::read(head);
    let (extras_bytes, key_bytes) =
        (usize::from(header.extras_bytes), usize::from(header.key_bytes));
    let used = HEADER_BYTES + extras_bytes + key_bytes;
    let Some((extras, rest)) = rest.split_at_checked(extras_bytes) else {
        return Ok(Parsed::Incomplete { at_least: used });
    };
    let Some(key) = rest.get(..key_bytes) else {
        return Ok(Parsed::Incomplete { at_least: used });
    };
    let echo = Echo { opcode: header.opcode, opaque: header.opaque };
    let refuse = |status| BadPacket { reply: Some((echo, status)), used, swallow: 0, close: true };
    let Some(value_bytes) = header.body_bytes.checked_sub(extras_and_key(&header)) else {
        return Err(refuse(Status::UnknownCommand));
    };
    if header.body_bytes > BODY_BYTES_MAX || key.len() > crate::KEY_BYTES_MAX {
        return Err(refuse(Status::InvalidArguments));
    }
    match request::command(header.opcode, key, extras, value_bytes) {
        Ok(command) => {
            let quiet = opcode::is_quiet(header.opcode);
            let request = Packet { echo, cas: header.cas, quiet, command };
            Ok(Parsed::Request { request, used })
        }
        Err(Status::UnknownCommand) => {
            let swallow = value_bytes.into();
            Err(BadPacket { swallow, close: false, ..refuse(Status::UnknownCommand) })
        }
        Err(status) => Err(refuse(status)),
    }
}
