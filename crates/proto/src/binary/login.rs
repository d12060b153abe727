//! Logins over binary, by SASL: the requests of a connection that has not logged in.
//!
//! ```text
//! SASL_MECHANISMS   nothing               the names of the mechanisms, separated by spaces
//! SASL_AUTH         mechanism | response  done, or "continue" with the server's challenge
//! SASL_STEP         mechanism | response  like SASL_AUTH
//! ```
//! [`parse`](super::parse) treats these opcodes as unknown, because a server without logins replies so.

use super::header::{
    BODY_BYTES_MAX, BadPacket, Echo, HEADER_BYTES, Header, REQUEST_MAGIC, Status, extras_and_key,
};
use super::opcode;
use crate::KEY_BYTES_MAX;

/// A request of a connection that has not logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslLogin<'b> {
    /// Asks for the names of the mechanisms.
    Mechanisms,
    /// Begins a login.
    Begin(Response<'b>),
    /// Answers the server's challenge.
    Step(Response<'b>),
    /// Asks for the server's version, which needs no login.
    Version,
}

/// A client's message in a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'b> {
    /// The name of the mechanism: 1 to 32 bytes.
    pub mechanism: &'b [u8],
    /// The message itself: at most [`RESPONSE_BYTES_MAX`].
    pub bytes: &'b [u8],
}

/// A complete request, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<'b> {
    /// The fields that the reply repeats.
    pub echo: Echo,
    /// The request.
    pub login: SaslLogin<'b>,
    /// Bytes of header, key and value.
    pub used: usize,
}

/// Whether `opcode` belongs to logging in.
pub const fn is_login(opcode: u8) -> bool {
    matches!(opcode, opcode::SASL_MECHANISMS | opcode::SASL_AUTH | opcode::SASL_STEP)
}

/// Reads one request from the front of `input`. Returns `None` if it is incomplete.
///
/// # Errors
/// The request is none of [`SaslLogin`], and is refused as in memcached: see [`BadPacket`].
pub fn parse(input: &[u8]) -> Result<Option<Whole<'_>>, BadPacket> {
    if input.first().is_some_and(|&magic| magic != REQUEST_MAGIC) {
        return Err(BadPacket { reply: None, used: input.len(), swallow: 0, close: true });
    }
    let Some((head, rest)) = input.split_first_chunk() else { return Ok(None) };
    let header = Header::read(head);
    let echo = Echo { opcode: header.opcode, opaque: header.opaque };
    let refuse = |status| {
        Err(BadPacket { reply: Some((echo, status)), used: HEADER_BYTES, swallow: 0, close: true })
    };
    let Some(value_bytes) = header.body_bytes.checked_sub(extras_and_key(&header)) else {
        return refuse(Status::UnknownCommand);
    };
    if header.body_bytes > BODY_BYTES_MAX {
        return refuse(Status::InvalidArguments);
    }
    let key_bytes = usize::from(header.key_bytes);
    let is_bare = header.body_bytes == 0;
    match header.opcode {
        opcode::SASL_MECHANISMS | opcode::VERSION if is_bare => {}
        opcode::SASL_AUTH | opcode::SASL_STEP
            if header.extras_bytes == 0 && (1..=KEY_BYTES_MAX).contains(&key_bytes) => {}
        opcode::VERSION => return refuse(Status::InvalidArguments),
        code if is_login(code) => return refuse(Status::InvalidArguments),
        _ => return refuse(Status::Auth),
    }
    let swallow = |status| {
        let (used, swallow) = (HEADER_BYTES, header.body_bytes.into());
        Err(BadPacket { reply: Some((echo, status)), used, swallow, close: false })
    };
    if key_bytes > MECHANISM_BYTES_MAX {
        return swallow(Status::InvalidArguments);
    }
    if value_bytes as usize > RESPONSE_BYTES_MAX {
        return swallow(Status::OutOfMemory);
    }
    let Some(body) = rest.get(..header.body_bytes as usize) else { return Ok(None) };
    let (mechanism, bytes) = body.split_at(key_bytes);
    let login = match header.opcode {
        opcode::SASL_AUTH => SaslLogin::Begin(Response { mechanism, bytes }),
        opcode::SASL_STEP => SaslLogin::Step(Response { mechanism, bytes }),
        opcode::VERSION => SaslLogin::Version,
        _ => SaslLogin::Mechanisms,
    };
    Ok(Some(Whole { echo, login, used: HEADER_BYTES + body.len() }))
}

/// The longest name of a mechanism that is accepted.
const MECHANISM_BYTES_MAX: usize = 32;
/// The longest message in one request: far more than a name and a password need.
pub(crate) const RESPONSE_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let header = Header {
            magic: REQUEST_MAGIC,
            opcode,
            key_bytes: u16::try_from(key.len()).unwrap(),
            extras_bytes: u8::try_from(extras.len()).unwrap(),
            body_bytes: u32::try_from(extras.len() + key.len() + value.len()).unwrap(),
            ..Header::default()
        };
        [&header.to_bytes()[..], extras, key, value].concat()
    }

    #[test]
    fn a_mechanism_and_a_response_are_taken_apart_once_they_are_there() {
        let whole = packet(opcode::SASL_AUTH, b"", b"PLAIN", b"\0u\0p");
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Ok(None), "{cut}");
        }
        let response = Response { mechanism: b"PLAIN", bytes: b"\0u\0p" };
        let parsed = parse(&whole).unwrap().unwrap();
        assert_eq!((parsed.login, parsed.used), (SaslLogin::Begin(response), whole.len()));
    }

    #[test]
    fn before_the_login_all_else_is_an_authentication_error_and_the_end() {
        let refusal = |bytes: &[u8]| {
            let error = parse(bytes).expect_err("no login");
            (error.reply.map(|(_, status)| status), error.close, error.swallow)
        };
        let auth = (Some(Status::Auth), true, 0);
        assert_eq!(refusal(&packet(opcode::GET, b"", b"k", b"")), auth);
        assert_eq!(refusal(&packet(0x77, b"", b"", b"")), auth);
        let invalid = (Some(Status::InvalidArguments), true, 0);
        assert_eq!(refusal(&packet(opcode::SASL_AUTH, b"", b"", b"x")), invalid);
        assert_eq!(refusal(&packet(opcode::SASL_MECHANISMS, b"", b"k", b"")), invalid);
        let long = packet(opcode::SASL_AUTH, b"", &[b'X'; 40], b"secret");
        assert_eq!(refusal(&long), (Some(Status::InvalidArguments), false, 46));
        let large = packet(opcode::SASL_STEP, b"", b"PLAIN", &[0; 5000]);
        assert_eq!(refusal(&large), (Some(Status::OutOfMemory), false, 5005));
    }
}
