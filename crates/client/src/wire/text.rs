//! The text protocol of a connection: request lines, and the meaning of replies.
//!
//! # Invariants
//! 1. An encoded request is one line, plus one body if it stores. No key or number can add another. The caller has
//!    checked the key.
//! 2. A reply that can't answer its request is [`OutOfStep`]; its meaning is never guessed.

use guira_proto::reply::ReplyLine;
use guira_proto::{ArithmeticCommand, Command, Get, HOLD_OFF_MAX_S, StoreCommand, Verb, Words};

use super::{OutOfStep, copy, server_error};
use crate::{Op, Outcome, Reply, Request};

/// Appends the line of `request`. The caller appends the body of a storage request.
pub(crate) fn encode(request: &Request, out: &mut Vec<u8>) {
    let key = &request.key[..];
    let get = |cas, touch, lease| Command::Get(Get { keys: Words::new(key), cas, touch, lease });
    let asked = match request.op {
        Op::Get => get(false, None, false),
        Op::Gets => get(true, None, false),
        Op::Gat => get(false, Some(exptime(request)), false),
        Op::Gats => get(true, Some(exptime(request)), false),
        Op::LeaseGet => get(false, None, true),
        Op::MetaGet => {
            out.extend_from_slice(b"metaget ");
            out.extend_from_slice(key);
            out.extend_from_slice(b"\r\n");
            return;
        }
        Op::Set => store(request, Verb::Set, 0),
        Op::Add => store(request, Verb::Add, 0),
        Op::Replace => store(request, Verb::Replace, 0),
        Op::Append => store(request, Verb::Append, 0),
        Op::Prepend => store(request, Verb::Prepend, 0),
        Op::Cas => store(request, Verb::Cas, request.token),
        Op::LeaseSet => store(request, Verb::Lease, request.token),
        Op::Delete => {
            let hold_off_s = u32::try_from(request.exptime).unwrap_or(0).min(HOLD_OFF_MAX_S);
            Command::Delete { key, hold_off_s, quiet: false }
        }
        Op::Touch => Command::Touch { key, exptime: exptime(request), quiet: false },
        Op::Incr | Op::Decr => Command::Arithmetic(ArithmeticCommand {
            key,
            delta: request.delta,
            decrement: request.op == Op::Decr,
            quiet: false,
        }),
        Op::FlushAll => Command::FlushAll { exptime: exptime(request), quiet: false },
        Op::Version => Command::Version,
    };
    asked.encode(out);
}

/// Clamps times beyond 32 bits: they mean the same as the longest time that fits.
fn exptime(request: &Request) -> i32 {
    i32::try_from(request.exptime).unwrap_or(if request.exptime < 0 { -1 } else { i32::MAX })
}

/// Appends the line that stores a request's value with `verb`, whatever its operation is.
pub(crate) fn encode_store(request: &Request, verb: Verb, cas: u64, out: &mut Vec<u8>) {
    store(request, verb, cas).encode(out);
}

fn store(request: &Request, verb: Verb, cas: u64) -> Command<'_> {
    Command::Store(StoreCommand {
        key: &request.key,
        cas,
        flags: request.flags,
        exptime: exptime(request),
        value_bytes: u32::try_from(request.value.len()).unwrap_or(u32::MAX),
        verb,
        quiet: false,
    })
}

/// Returns the meaning of a line as the answer to `op`. The line is neither a value nor the end of a get.
pub(crate) fn decode(op: Op, line: ReplyLine<'_>) -> Result<Reply, OutOfStep> {
    let outcome = match line {
        ReplyLine::Error(text) => return Ok(Reply::failure(Outcome::BadCommand, copy(text))),
        ReplyLine::ClientError(text) => {
            return Ok(Reply::failure(Outcome::ClientError, copy(text)));
        }
        ReplyLine::ServerError(text) => return Ok(server_error(text)),
        ReplyLine::Stored if op.is_update() => Outcome::Stored,
        ReplyLine::StaleStored if op.is_update() => Outcome::StaleStored,
        ReplyLine::NotStored if op.is_update() => Outcome::NotStored,
        // On a server that has only `cas`, this means that the lease is no longer valid.
        ReplyLine::Exists | ReplyLine::NotFound if op == Op::LeaseSet => Outcome::NotStored,
        ReplyLine::Exists if op.is_update() => Outcome::Exists,
        ReplyLine::NotFound if !op.is_get() => Outcome::NotFound,
        ReplyLine::Deleted if op == Op::Delete => Outcome::Deleted,
        ReplyLine::Touched if op == Op::Touch => Outcome::Touched,
        ReplyLine::Ok if op == Op::FlushAll => Outcome::Ok,
        ReplyLine::Version(text) if op == Op::Version => {
            return Ok(Reply { message: copy(text), ..Reply::new(Outcome::Ok) });
        }
        ReplyLine::Number(number) if op.is_arithmetic() => {
            return Ok(Reply { number, ..Reply::new(Outcome::Found) });
        }
        other => return Err(OutOfStep::unfit_line(op, other)),
    };
    Ok(Reply::new(outcome))
}

/// Interprets an `LVALUE`. With token 1 the client must wait; with any other token it fills the miss.
pub(crate) fn lease_outcome(token: u64, value_bytes: usize) -> Outcome {
    match (token, value_bytes) {
        (1, 0) => Outcome::NotFoundHot,
        (1, _) => Outcome::FoundStale,
        _ => Outcome::NotFound,
    }
}

/// Returns the text after `META <key> ` if the line is that answer for `key`.
pub(crate) fn meta_text<'b>(line: &'b [u8], key: &[u8]) -> Option<&'b [u8]> {
    line.strip_prefix(b"META ")?.strip_prefix(key)?.strip_prefix(b" ")
}

#[cfg(test)]
mod tests {
    use super::{encode, meta_text};
    use crate::{Op, Request};

    fn line(request: &Request) -> String {
        let mut out = Vec::new();
        encode(request, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_operation_is_the_line_that_memcached_or_mcrouter_reads() {
        let base = Request {
            value: b"abc"[..].into(),
            flags: 7,
            exptime: 30,
            token: 99,
            delta: 5,
            ..Request::new(Op::Get, "k")
        };
        for (op, expected) in [
            (Op::Get, "get k\r\n"),
            (Op::Gets, "gets k\r\n"),
            (Op::Gat, "gat 30 k\r\n"),
            (Op::Gats, "gats 30 k\r\n"),
            (Op::LeaseGet, "lease-get k\r\n"),
            (Op::MetaGet, "metaget k\r\n"),
            (Op::Set, "set k 7 30 3\r\n"),
            (Op::Add, "add k 7 30 3\r\n"),
            (Op::Replace, "replace k 7 30 3\r\n"),
            (Op::Append, "append k 7 30 3\r\n"),
            (Op::Prepend, "prepend k 7 30 3\r\n"),
            (Op::Cas, "cas k 7 30 3 99\r\n"),
            (Op::LeaseSet, "lease-set k 99 7 30 3\r\n"),
            (Op::Delete, "delete k 30\r\n"),
            (Op::Touch, "touch k 30\r\n"),
            (Op::Incr, "incr k 5\r\n"),
            (Op::Decr, "decr k 5\r\n"),
            (Op::FlushAll, "flush_all 30\r\n"),
            (Op::Version, "version\r\n"),
        ] {
            assert_eq!(line(&Request { op, ..base.clone() }), expected);
        }
        assert_eq!(line(&Request { exptime: 0, ..Request::new(Op::Delete, "k") }), "delete k\r\n");
    }

    #[test]
    fn times_that_the_wire_cannot_carry_mean_the_same_at_its_ends() {
        let at = |exptime| line(&Request { exptime, ..Request::new(Op::Touch, "k") });
        assert_eq!(at(i64::MAX), "touch k 2147483647\r\n");
        assert_eq!(at(i64::MIN), "touch k -1\r\n");
    }

    #[test]
    fn a_metaget_answers_for_its_own_key_only() {
        assert_eq!(meta_text(b"META k age: 1; exptime: 2", b"k"), Some(&b"age: 1; exptime: 2"[..]));
        assert_eq!(meta_text(b"META kk age: 1", b"k"), None);
    }
}
