//! The conversion of requests to bytes, and of replies to [`Reply`]s, for each protocol of a connection.
//!
//! These are pure functions over `guira-proto`. The queue knows what is in flight, and which reply belongs to which
//! request.

pub(crate) mod meta;
pub(crate) mod text;
pub(crate) mod verbatim;

use crate::{Op, Outcome, Reply};
use guira_proto::reply::ReplyLine;

/// The error for bytes that can't be the answer to the request. The stream is out of step and must be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutOfStep(pub(crate) String);

/// How much of a line that can't be understood its error repeats.
const REPEATED_BYTES: usize = 60;

impl OutOfStep {
    /// The error for a reply that exists, but not as the answer to `op`.
    pub(crate) fn unfit(op: Op) -> Self {
        let op = format!("{op:?}").to_lowercase();
        Self(format!("the server's reply to {op} is one that {op} can't have"))
    }

    /// The error for a line that can't be the answer to `op`.
    pub(crate) fn unfit_line(op: Op, line: ReplyLine<'_>) -> Self {
        let ReplyLine::Line(text) = line else { return Self::unfit(op) };
        let op = format!("{op:?}").to_lowercase();
        let begin = text[..text.len().min(REPEATED_BYTES)].escape_ascii();
        Self(format!("the server's reply to {op}, \"{begin}\", is none of memcached's"))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_does_not_fit_is_told_in_words() {
        let garbage = OutOfStep::unfit_line(Op::Set, ReplyLine::Line(b"SSH-2.0\x07"));
        assert_eq!(
            garbage.0,
            r#"the server's reply to set, "SSH-2.0\x07", is none of memcached's"#
        );
        let OutOfStep(text) = OutOfStep::unfit_line(Op::Get, ReplyLine::Line(&[b'x'; 9000]));
        assert!(text.len() < 130, "{text}");
        let deleted = OutOfStep::unfit_line(Op::LeaseGet, ReplyLine::Deleted);
        assert_eq!(deleted, OutOfStep::unfit(Op::LeaseGet));
    }
}
