//! The encoding of what a node asks of a slot's head, and of what the head answers: a request without its key, and how it
//! ended.
//!
//! ```text
//! command   op u8 │ flags u32 │ exptime i64 │ token u64 │ delta u64 │ bytes of meta u16, 0xffff: none │ meta │ value
//! answer    kind u8 │ outcome u8 │ two numbers u64 │ number of the change u64, 0: none
//! ```
//! The head decides by the rules of a single store. The node that serves the client words the reply.

use bytes::Bytes;
use guira_chain::slot::{Decision, Stand, WriteVerdict};
use guira_client::{Op, Outcome, Request};

use crate::decide::{Current, Effect, NON_NUMERIC, Order, Said, decide};
use crate::engine::Record;
use crate::horizon::Horizon;
use crate::terms::Terms;

/// The operations that a head understands. The index of one is its byte.
const OPS: [Op; 10] = [
    Op::Set,
    Op::Add,
    Op::Replace,
    Op::Append,
    Op::Prepend,
    Op::Cas,
    Op::Delete,
    Op::Touch,
    Op::Incr,
    Op::Decr,
];
const NO_META: u16 = u16::MAX;

/// Encodes a change as a command; `None`: no head understands it.
pub(super) fn command(request: &Request) -> Option<Vec<u8>> {
    let op = OPS.iter().position(|op| *op == request.op)?;
    let meta = request.meta.as_deref();
    let meta_bytes = meta.map_or(Some(NO_META), |it| u16::try_from(it.len()).ok())?;
    let mut out = Vec::with_capacity(31 + request.value.len());
    out.push(u8::try_from(op).ok()?);
    out.extend_from_slice(&request.flags.to_le_bytes());
    out.extend_from_slice(&request.exptime.to_le_bytes());
    out.extend_from_slice(&request.token.to_le_bytes());
    out.extend_from_slice(&request.delta.to_le_bytes());
    out.extend_from_slice(&meta_bytes.to_le_bytes());
    out.extend_from_slice(meta.unwrap_or_default());
    out.extend_from_slice(&request.value);
    Some(out)
}

/// Decodes a command. The request's key stays empty.
fn request(command: &[u8]) -> Option<Request> {
    let (op, rest) = command.split_first()?;
    let (flags, rest) = rest.split_first_chunk()?;
    let (exptime, rest) = rest.split_first_chunk()?;
    let (token, rest) = rest.split_first_chunk()?;
    let (delta, rest) = rest.split_first_chunk()?;
    let (meta_bytes, rest) = rest.split_first_chunk()?;
    let (meta, value) = match u16::from_le_bytes(*meta_bytes) {
        NO_META => (None, rest),
        bytes => {
            let (meta, value) = rest.split_at_checked(usize::from(bytes))?;
            (Some(meta.into()), value)
        }
    };
    Some(Request {
        flags: u32::from_le_bytes(*flags),
        exptime: i64::from_le_bytes(*exptime),
        token: u64::from_le_bytes(*token),
        delta: u64::from_le_bytes(*delta),
        meta,
        value: Bytes::copy_from_slice(value),
        ..Request::new(*OPS.get(usize::from(*op))?, Bytes::new())
    })
}

/// Returns what a command does and answers, given the present content of the key, at the Unix second `now`, for values up
/// to `value_max`.
pub(super) fn decided(
    there: Option<&Stand>,
    (command, seq): (&[u8], u64),
    (now, value_max): (u32, usize),
) -> Decision {
    let Some(request) = request(command) else {
        // The command comes from a node that errs, or is newer.
        return (None, WriteVerdict::Said(Vec::new()));
    };
    let terms = Terms::of(&request);
    let record = there.and_then(|it| {
        Some(Record { seq: it.version.seq, value: Bytes::copy_from_slice(it.value.as_deref()?) })
    });
    let current = Current::of(record.as_ref(), &Horizon::default(), now).ok();
    let order = Order { request: &request, terms: &terms, now, value_max };
    let (effect, said) = decide(order, current.as_ref());
    let (change, written) = match effect {
        Effect::Nothing => (None, None),
        Effect::Put(item) => (Some(Some(item.encode().into())), Some(seq)),
        Effect::Delete => (Some(None), Some(seq)),
    };
    (change, WriteVerdict::Said(answer(&said, written)))
}

fn answer(said: &Said, written: Option<u64>) -> Vec<u8> {
    let (kind, outcome, numbers) = match said {
        Said::Plain(outcome) => (0, *outcome, [0, 0]),
        Said::Store(outcome, bytes) => (1, *outcome, [*bytes as u64, 0]),
        Said::Number(number, expiry) => (2, Outcome::Found, [*number, u64::from(*expiry)]),
        Said::Fault(_) => (3, Outcome::ClientError, [0, 0]),
        // No command is a get.
        Said::Hit(_) => (0, Outcome::BadCommand, [0, 0]),
    };
    let mut out = vec![kind, outcome as u8];
    for number in numbers.into_iter().chain([written.unwrap_or(0)]) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out
}

/// Decodes an answer; `None`: the head didn't understand the command.
pub(super) fn said(answer: &[u8]) -> Option<(Said, Option<u64>)> {
    let (kind, rest) = answer.split_first()?;
    let (outcome, rest) = rest.split_first()?;
    let outcome = *Outcome::ALL.get(usize::from(*outcome))?;
    let numbers: Vec<u64> = rest.as_chunks().0.iter().map(|it| u64::from_le_bytes(*it)).collect();
    let [first, second, written] = numbers[..] else { return None };
    let said = match kind {
        0 => Said::Plain(outcome),
        1 => Said::Store(outcome, usize::try_from(first).ok()?),
        2 => Said::Number(first, u32::try_from(second).ok()?),
        3 => Said::Fault(NON_NUMERIC),
        _ => return None,
    };
    Some((said, Some(written).filter(|it| *it != 0)))
}

/// What a replicated store can't do yet, if the request asks for that.
pub(super) fn lacks(request: &Request, terms: &Terms) -> Option<&'static str> {
    let is_touching = matches!(request.op, Op::Gat | Op::Gats);
    if is_touching || request.op.is_get() && terms.may_write() {
        return Some("a replicated store has no gat, and no mg with T, N or R");
    }
    if terms.is_stale {
        return Some("a replicated store marks no item as stale (I)");
    }
    (request.op == Op::FlushAll).then_some("a replicated store has no flush_all")
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_chain::slot::Version;

    const NOW: u32 = 1_800_000_000;

    fn asked(op: Op, value: &'static str) -> Request {
        Request { value: value.into(), delta: 5, exptime: 60, ..Request::new(op, "k") }
    }

    /// What is there after a command, and what it answers.
    fn told(
        there: Option<&Stand>,
        request: &Request,
        seq: u64,
    ) -> (Option<Stand>, Said, Option<u64>) {
        let command = command(request).unwrap();
        let (change, verdict) = decided(there, (&command, seq), (NOW, 100));
        let WriteVerdict::Said(bytes) = verdict else { panic!("{verdict:?}") };
        let (said, written) = said(&bytes).unwrap();
        let after = match change {
            None => there.cloned(),
            Some(value) => Some(Stand { value, version: Version { epoch: 1, seq } }),
        };
        (after, said, written)
    }

    #[test]
    fn a_command_is_the_request_without_its_key() {
        for op in OPS {
            for meta in [None, Some(b"T5 v"[..].into())] {
                let sent =
                    Request { token: 3, flags: 7, meta, key: Bytes::new(), ..asked(op, "value") };
                let bytes = command(&sent).unwrap();
                assert_eq!(request(&bytes).as_ref(), Some(&sent));
                for cut in 0..31 {
                    assert_eq!(request(&bytes[..cut]), None, "{cut}");
                }
            }
        }
        assert_eq!(command(&asked(Op::Gat, "")), None);
        let newer = decided(None, (&[99; 40], 1), (NOW, 100));
        assert_eq!(newer, (None, WriteVerdict::Said(Vec::new())));
        assert!(said(&[]).is_none() && said(&[9; 26]).is_none() && said(&[0; 25]).is_none());
    }

    #[test]
    fn a_head_decides_as_a_single_store_does() {
        let (missing, said, written) = told(None, &asked(Op::Replace, "1"), 1);
        assert!(missing.is_none() && written.is_none());
        assert!(matches!(said, Said::Store(Outcome::NotStored, 1)));
        let (there, said, written) = told(None, &asked(Op::Add, "1"), 2);
        assert!(matches!(said, Said::Store(Outcome::Stored, 1)) && written == Some(2));
        let (there, said, written) = told(there.as_ref(), &asked(Op::Incr, ""), 3);
        assert!(matches!(said, Said::Number(6, expiry) if expiry == NOW + 60), "{said:?}");
        assert_eq!(written, Some(3));
        let cas = |token| Request { token, ..asked(Op::Cas, "x") };
        let (there, said, written) = told(there.as_ref(), &cas(2), 4);
        assert!(matches!(said, Said::Store(Outcome::Exists, 1)) && written.is_none());
        let (there, ..) = told(there.as_ref(), &cas(3), 5);
        let (there, said, _) = told(there.as_ref(), &asked(Op::Incr, ""), 6);
        assert!(matches!(said, Said::Fault(NON_NUMERIC)));
        let (there, said, _) = told(there.as_ref(), &asked(Op::Delete, ""), 7);
        assert!(matches!(said, Said::Plain(Outcome::Deleted)));
        assert_eq!(there.as_ref().map(|it| it.value.is_none()), Some(true));
        let (_, said, written) = told(there.as_ref(), &asked(Op::Delete, ""), 8);
        assert!(matches!(said, Said::Plain(Outcome::NotFound)) && written.is_none());
    }
}
