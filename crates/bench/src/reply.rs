//! The meaning of the server's replies for a run: only those that this crate's requests can have.
//!
//! [`guira_proto::reply::parse`] does the parsing.

use guira_proto::reply::{self, MetaStatus, ReplyLimits, ReplyParsed};

use crate::error::BenchError;

/// One reply, or one value of a reply that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'b> {
    /// A hit, with its key if the reply contains it.
    Value { key: Option<&'b [u8]>, value: &'b [u8] },
    /// No (more) values were found: `END`, `EN`, or the `MN` after quiet reads.
    NoMore,
    /// The write was executed.
    Stored,
    /// The server couldn't store the item or refused to; holds its line.
    Refused(&'b [u8]),
    /// A reply that none of the requests can have, including errors in the requests.
    Unexpected(&'b [u8]),
}

/// Returns the reply at the start of `input` and its length, or `None` if more bytes are needed.
pub(crate) fn first(input: &[u8]) -> Result<Option<(Reply<'_>, usize)>, BenchError> {
    let parsed =
        reply::parse(input, &ReplyLimits::DEFAULT).map_err(|_| BenchError::protocol(input))?;
    let ReplyParsed::Reply { reply, used } = parsed else { return Ok(None) };
    let line = input[..used].trim_ascii_end();
    let meaning = match reply {
        reply::ReplyLine::Value { key, value, .. } => Reply::Value { key: Some(key), value },
        reply::ReplyLine::MetaValue { mut flags, value } => {
            let key = flags.find(|flag| flag.letter() == b'k').map(|flag| flag.token());
            Reply::Value { key, value }
        }
        reply::ReplyLine::End
        | reply::ReplyLine::MetaNoop
        | reply::ReplyLine::Meta { status: MetaStatus::Miss, .. } => Reply::NoMore,
        reply::ReplyLine::Stored | reply::ReplyLine::Meta { status: MetaStatus::Done, .. } => {
            Reply::Stored
        }
        reply::ReplyLine::NotStored
        | reply::ReplyLine::ServerError(_)
        | reply::ReplyLine::Meta { status: MetaStatus::NotStored, .. } => Reply::Refused(line),
        _ => Reply::Unexpected(line),
    };
    Ok(Some((meaning, used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_has_its_meaning() {
        for (input, meaning, used) in [
            ("END\r\nEND\r\n", Reply::NoMore, 5),
            ("EN\r\n", Reply::NoMore, 4),
            ("MN\r\n", Reply::NoMore, 4),
            ("STORED\r\n", Reply::Stored, 8),
            ("HD\r\n", Reply::Stored, 4),
            ("NS\r\n", Reply::Refused(b"NS"), 4),
            ("SERVER_ERROR x\r\n", Reply::Refused(b"SERVER_ERROR x"), 16),
            ("CLIENT_ERROR x\r\n", Reply::Unexpected(b"CLIENT_ERROR x"), 16),
            ("VALUE k1 0 2\r\nab\r\nEND\r\n", Reply::Value { key: Some(b"k1"), value: b"ab" }, 18),
            ("VA 4 kk1\r\n\r\nab\r\n", Reply::Value { key: Some(b"k1"), value: b"\r\nab" }, 16),
            ("VA 0\r\n\r\n", Reply::Value { key: None, value: b"" }, 8),
        ] {
            assert_eq!(first(input.as_bytes()).unwrap(), Some((meaning, used)), "{input:?}");
            for cut in 0..used {
                assert_eq!(first(&input.as_bytes()[..cut]).unwrap(), None, "{input:?} at {cut}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_reply_are_an_error() {
        assert!(first(b"VALUE k 0 x\r\n").is_err());
        assert!(first(b"VALUE k 0 2\r\nabcd").is_err());
        assert!(first(&[b'a'; 10_000]).is_err());
    }
}
