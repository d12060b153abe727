//! Requests to bytes and replies to [`Reply`]s, for each protocol that a connection speaks.
//!
//! Pure functions over `guira-proto`; what is in flight, and which reply belongs to whom, is the queue's.

pub(crate) mod meta;
pub(crate) mod text;
pub(crate) mod verbatim;

use crate::{Outcome, Reply};

/// The bytes that came are not the answer to what was asked: the stream is out of step and has to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutOfStep(pub(crate) String);

/// `SERVER_ERROR` and its text: mcrouter's numbers say what to do, other words are for people.
pub(crate) fn server_error(text: &[u8]) -> Reply {
    let outcome = match text.get(..3) {
        Some(b"307") => Outcome::Busy,
        Some(b"302") => Outcome::TryAgain,
        Some(b"301") => Outcome::Shutdown,
        _ => Outcome::RemoteError,
    };
    let is_numbered = outcome != Outcome::RemoteError;
    let words = if is_numbered { text[3..].trim_ascii_start() } else { text };
    Reply::failure(outcome, bytes::Bytes::copy_from_slice(words))
}

/// A value taken out of the read buffer: a short one is copied, so that it doesn't hold the whole buffer.
pub(crate) fn copy(value: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(value)
}
