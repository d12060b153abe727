//! Replies as lines of text, byte by byte as mcrouter writes them.
//!
//! # Invariants
//! 1. A get of several keys is answered with all its values, or ends with one line that names the failure.
//! 2. A reply that doesn't fit its command is an error line, never silence.

use guira_client::{Op, Outcome, Output, Reply};
use guira_proto::{fixed, reply};

/// Appends the answer to a command that isn't a get.
pub(crate) fn append(out: &mut Vec<u8>, op: Op, reply: &Reply) {
    let line = match reply.outcome {
        outcome if outcome.is_error() => return append_error(out, reply),
        Outcome::Found if op.is_arithmetic() => return reply::number(out, reply.number),
        Outcome::Stored if op.is_update() => fixed::STORED,
        Outcome::StaleStored if op.is_update() => fixed::STALE_STORED,
        Outcome::NotStored if op.is_update() => fixed::NOT_STORED,
        Outcome::Exists if op.is_update() => fixed::EXISTS,
        Outcome::NotFound | Outcome::NotFoundHot => fixed::NOT_FOUND,
        Outcome::Deleted if op == Op::Delete => fixed::DELETED,
        Outcome::Touched if op == Op::Touch => fixed::TOUCHED,
        Outcome::Ok if op == Op::FlushAll => fixed::OK,
        outcome => {
            let line = format!("SERVER_ERROR unexpected result {outcome:?} for {op:?}\r\n");
            return out.extend_from_slice(line.as_bytes());
        }
    };
    out.extend_from_slice(line);
}

/// Appends one key's part of the answer to a get. A miss has none, unless the get asks for a lease. The reply must not be
/// an error.
pub(crate) fn append_value(output: &mut Output, op: Op, key: &[u8], reply: &Reply) {
    let Reply { flags, token, value, .. } = reply;
    let out = &mut output.bytes;
    match reply.outcome {
        Outcome::Found if op == Op::MetaGet => {
            out.extend_from_slice(b"META ");
            out.extend_from_slice(key);
            out.push(b' ');
            out.extend_from_slice(&reply.message);
            return out.extend_from_slice(b"\r\n");
        }
        Outcome::Found => {
            let cas = matches!(op, Op::Gets | Op::Gats).then_some(*token);
            reply::value_header(out, key, *flags, value.len(), cas);
        }
        Outcome::NotFound | Outcome::NotFoundHot | Outcome::FoundStale if op == Op::LeaseGet => {
            reply::lease_header(out, key, *token, *flags, value.len());
        }
        _ => return,
    }
    output.append_value(value);
    output.bytes.extend_from_slice(b"\r\n");
}

/// Appends the error line of a failure.
pub(crate) fn append_error(out: &mut Vec<u8>, reply: &Reply) {
    let (number, words) = wording(reply.outcome);
    let side = if is_clients_fault(reply.outcome) { &b"CLIENT_ERROR"[..] } else { b"SERVER_ERROR" };
    out.extend_from_slice(side);
    let words = if reply.message.is_empty() { words.as_bytes() } else { &reply.message[..] };
    for part in [number.as_bytes(), words].into_iter().filter(|part| !part.is_empty()) {
        out.push(b' ');
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

const fn is_clients_fault(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::ClientError | Outcome::BadKey | Outcome::BadCommand)
}

/// The number that instructs a router in front of this one, and the words for a reply that has none.
const fn wording(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Timeout => ("", "timeout"),
        Outcome::ConnectTimeout => ("", "connection timeout"),
        Outcome::ConnectError => ("", "connection error"),
        Outcome::Busy => ("307", "busy"),
        Outcome::TryAgain => ("302", "try again"),
        Outcome::Shutdown => ("301", "shutdown"),
        Outcome::Tko => ("", "unavailable"),
        Outcome::DeadlineExceeded => ("", "request deadline exceeded"),
        Outcome::BadCommand => ("", "bad command"),
        Outcome::BadKey => ("", "bad key"),
        Outcome::BadValue => ("", "bad value"),
        Outcome::ClientError => ("", ""),
        Outcome::LocalError => ("", "local error"),
        Outcome::RemoteError => ("", "remote error"),
        _ => ("", "unknown result"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(op: Op, reply: &Reply) -> String {
        let mut out = Vec::new();
        append(&mut out, op, reply);
        String::from_utf8(out).unwrap_or_default()
    }

    #[test]
    fn failures_are_worded_as_mcrouters_are() {
        for (outcome, line) in [
            (Outcome::Timeout, "SERVER_ERROR timeout\r\n"),
            (Outcome::ConnectTimeout, "SERVER_ERROR connection timeout\r\n"),
            (Outcome::ConnectError, "SERVER_ERROR connection error\r\n"),
            (Outcome::Busy, "SERVER_ERROR 307 busy\r\n"),
            (Outcome::TryAgain, "SERVER_ERROR 302 try again\r\n"),
            (Outcome::Shutdown, "SERVER_ERROR 301 shutdown\r\n"),
            (Outcome::Tko, "SERVER_ERROR unavailable\r\n"),
            (Outcome::BadKey, "CLIENT_ERROR bad key\r\n"),
            (Outcome::ClientError, "CLIENT_ERROR\r\n"),
            (Outcome::LocalError, "SERVER_ERROR local error\r\n"),
        ] {
            assert_eq!(said(Op::Set, &Reply::new(outcome)), line);
        }
        let reply = Reply::failure(Outcome::ClientError, "bad lease_id");
        assert_eq!(said(Op::Set, &reply), "CLIENT_ERROR bad lease_id\r\n");
        let reply = Reply::failure(Outcome::Busy, "overloaded");
        assert_eq!(said(Op::Set, &reply), "SERVER_ERROR 307 overloaded\r\n");
    }

    #[test]
    fn a_reply_that_does_not_fit_its_command_is_an_error() {
        let line = said(Op::Set, &Reply::new(Outcome::Touched));
        assert_eq!(line, "SERVER_ERROR unexpected result Touched for Set\r\n");
    }
}
