//! The conversion of requests to bytes, and of replies to [`Reply`]s, for each protocol of a connection.
//!
//! These are pure functions over `guira-proto`. The queue knows what is in flight, and which reply belongs to which
//! request.

pub(crate) mod meta;
pub(crate) mod text;
pub(crate) mod verbatim;

use crate::{Outcome, Reply};

/// The error for bytes that can't be the answer to the request. The stream is out of step and must be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutOfStep(pub(crate) String);

/// Interprets the text of a `SERVER_ERROR`. mcrouter's numbers have a meaning; other texts are for people.
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

/// Copies a short value out of the read buffer, so that it doesn't keep the whole buffer alive.
pub(crate) fn copy(value: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(value)
}
