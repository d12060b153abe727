//! Meta commands with the caller's own flags: a router passes them on for clients that use the meta protocol.
//!
//! # Invariants
//! 1. Everything that has a field in [`Request`] is written from that field. So a route that changes an expiry or a
//!    value changes what is sent. All other flags are sent, and returned, as they were written.
//! 2. `mg` always asks for value and flags, because a route may store elsewhere what it found. An expiry among the
//!    flags of `mg` is only the letter `T`: it marks the place for the request's expiry.
//! 3. A stub only shows which client must fill the key, so it is a miss. A client that asked for its flags finds them
//!    in the reply.

use std::io::Write;
use std::str::FromStr;

use bytes::Bytes;
use guira_proto::reply::MetaStatus;
use guira_proto::{MetaFlags, append_base64};

use super::OutOfStep;
use crate::{Op, Outcome, Reply, Request};

/// Appends the line of a request with meta flags, without the body. Returns false if its operation has no meta command.
pub(crate) fn encode(request: &Request, out: &mut Vec<u8>) -> bool {
    let words = request.meta.as_deref().unwrap_or_default();
    let has = |letter: u8| MetaFlags::new(words).any(|flag| flag.letter() == letter);
    let Request { op, value, flags, exptime, delta, .. } = request;
    let has_place = words.split(|&b| b == b' ').any(|word| word == TIMES_PLACE);
    let Some(command) = command(*op) else { return false };
    let rest = match op {
        Op::Gat | Op::Gats if !has_place => format!(" T{exptime}"),
        Op::Incr => format!(" D{delta}"),
        Op::Decr => format!(" MD D{delta}"),
        _ if op.is_update() => {
            let mode = match op {
                Op::Add => " ME",
                Op::Replace => " MR",
                Op::Append => " MA",
                Op::Prepend => " MP",
                _ => "",
            };
            format!(" {} F{flags} T{exptime}{mode}", value.len())
        }
        _ => String::new(),
    };
    out.extend_from_slice(command.as_bytes());
    out.push(b' ');
    let is_plain = request.key.iter().all(|&b| b > b' ' && b != 0x7f);
    if is_plain {
        out.extend_from_slice(&request.key);
    } else {
        append_base64(out, &request.key);
    }
    out.extend_from_slice(rest.as_bytes());
    if !is_plain {
        out.extend_from_slice(b" b");
    }
    if command == "mg" {
        for letter in [b'v', b'f'].into_iter().filter(|&letter| !has(letter)) {
            out.extend_from_slice(&[b' ', letter]);
        }
    }
    if has_place {
        for word in words.split(|&b| b == b' ') {
            // Writing to a vector can't fail.
            let _ = match (word, op) {
                (TIMES_PLACE, Op::Gat | Op::Gats) => write!(out, " T{exptime}"),
                (TIMES_PLACE, _) => Ok(()),
                _ => out.write_all(&[b" ", word].concat()),
            };
        }
    } else if !words.is_empty() {
        out.push(b' ');
        out.extend_from_slice(words);
    }
    // Writing to a vector can't fail.
    let _ = out.write_all(b"\r\n");
    true
}

/// Returns the meta command of an operation, if it has one.
fn command(op: Op) -> Option<&'static str> {
    match op {
        Op::Get | Op::Gets | Op::Gat | Op::Gats => Some("mg"),
        Op::Delete => Some("md"),
        Op::Incr | Op::Decr => Some("ma"),
        _ => op.is_update().then_some("ms"),
    }
}

/// Whether a request's flags can be sent: the operation has a meta command, and the flags stay on one line and ask for
/// a reply.
pub(crate) fn is_sound(op: Op, words: &[u8]) -> bool {
    let is_line = words.iter().all(|&b| b >= b' ' && b != 0x7f);
    let is_quiet = || MetaFlags::new(words).any(|flag| flag.letter() == b'q');
    command(op).is_some() && is_line && !is_quiet()
}

/// Returns what the reply means to a route, with its flags for the client. `value` is the value of a `VA`.
pub(crate) fn decode(
    op: Op,
    status: Option<MetaStatus>,
    flags: MetaFlags<'_>,
    value: Bytes,
) -> Result<Reply, OutOfStep> {
    let mut reply = Reply { value, ..Reply::new(Outcome::Found) };
    let (mut is_stale, mut is_leased, mut is_ours, mut words) = (false, false, false, Vec::new());
    for flag in flags {
        match flag.letter() {
            b'f' => reply.flags = number(flag.token()).unwrap_or(0),
            b'c' => reply.token = number(flag.token()).unwrap_or(0),
            b'X' => is_stale = true,
            b'Z' => is_leased = true,
            b'W' => (is_leased, is_ours) = (true, true),
            _ => {}
        }
        if !words.is_empty() {
            words.push(b' ');
        }
        words.extend_from_slice(flag.text());
    }
    reply.meta = Some(words.into());
    reply.outcome = match (op, status) {
        (op, None) if op.is_get() => match (is_ours, is_leased && reply.value.is_empty()) {
            // This client must fill the key: a miss, perhaps with a stale value.
            (true, _) if is_stale || reply.value.is_empty() => Outcome::NotFound,
            (_, true) => Outcome::NotFoundHot,
            _ if is_stale => Outcome::FoundStale,
            _ => Outcome::Found,
        },
        (op, Some(MetaStatus::Miss)) if op.is_get() => Outcome::NotFound,
        (op, None) if op.is_arithmetic() => {
            let counted = number(reply.value.trim_ascii_end());
            reply.number = counted.ok_or_else(|| OutOfStep("a count that is no number".into()))?;
            Outcome::Found
        }
        (op, Some(MetaStatus::Done)) if op.is_arithmetic() => Outcome::Found,
        (Op::Delete, Some(MetaStatus::Done)) => Outcome::Deleted,
        (op, Some(MetaStatus::Done)) if op.is_update() => Outcome::Stored,
        (op, Some(MetaStatus::NotFound)) if !op.is_get() => Outcome::NotFound,
        (op, Some(MetaStatus::NotStored)) if !op.is_get() => Outcome::NotStored,
        (op, Some(MetaStatus::Exists)) if !op.is_get() => Outcome::Exists,
        (op, _) => return Err(OutOfStep::unfit(op)),
    };
    Ok(reply)
}

/// Marks the place of the expiry among the flags of a get that touches.
const TIMES_PLACE: &[u8] = b"T";

fn number<N: FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, is_sound};
    use crate::{Op, Outcome, Request};
    use bytes::Bytes;
    use guira_proto::MetaFlags;
    use guira_proto::reply::MetaStatus;

    #[test]
    fn flags_that_would_be_other_commands_or_no_answer_are_not_sent() {
        assert!(is_sound(Op::Get, b"v t Oabc"));
        assert!(is_sound(Op::Cas, b"C5 I"));
        for (op, words) in [
            (Op::Get, &b"v\r\nflush_all"[..]),
            (Op::Get, b"v q"),
            (Op::Touch, b"t"),
            (Op::LeaseGet, b"v"),
        ] {
            assert!(!is_sound(op, words), "{op:?}");
        }
    }

    #[test]
    fn fields_are_written_from_the_request_and_the_rest_as_it_came() {
        let base = Request {
            value: "abc".into(),
            flags: 7,
            exptime: 30,
            delta: 5,
            ..Request::new(Op::Get, "k")
        };
        for (op, words, expected) in [
            (Op::Get, "t h N30", "mg k v f t h N30\r\n"),
            (Op::Get, "v t f", "mg k v t f\r\n"),
            (Op::Gats, "c E9 v", "mg k T30 f c E9 v\r\n"),
            (Op::Gat, "t R60 T v", "mg k f t R60 T30 v\r\n"),
            (Op::Get, "t T v", "mg k f t v\r\n"),
            (Op::Set, "I c", "ms k 3 F7 T30 I c\r\n"),
            (Op::Append, "N60", "ms k 3 F7 T30 MA N60\r\n"),
            (Op::Delete, "I T30", "md k I T30\r\n"),
            (Op::Decr, "N0 J13 t v", "ma k MD D5 N0 J13 t v\r\n"),
        ] {
            let mut out = Vec::new();
            let request = Request { op, meta: Some(words.as_bytes().into()), ..base.clone() };
            assert!(encode(&request, &mut out));
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
        let meta = Some((&b""[..]).into());
        let binary = Request { meta, ..Request::new(Op::Delete, &b"a b\xff"[..]) };
        let mut out = Vec::new();
        assert!(encode(&binary, &mut out));
        assert_eq!(out, b"md YSBi/w== b\r\n");
    }

    #[test]
    fn a_stub_is_a_miss_whose_flags_are_kept() {
        let of = |flags: &'static str, value: &'static str| {
            let flags = MetaFlags::new(flags.as_bytes());
            let reply = decode(Op::Get, None, flags, Bytes::from(value)).unwrap();
            (reply.outcome, reply.meta.map(|words| words.to_vec()))
        };
        assert_eq!(of("s0 c2 W", ""), (Outcome::NotFound, Some(b"s0 c2 W".to_vec())));
        assert_eq!(of("Z", "").0, Outcome::NotFoundHot);
        assert_eq!(of("f5 X W", "old").0, Outcome::NotFound);
        assert_eq!(of("f5 X Z", "old").0, Outcome::FoundStale);
        assert_eq!(of("W t3", "soon to expire").0, Outcome::Found, "to be fetched again early");
        assert_eq!(of("f5", "").0, Outcome::Found);
    }

    #[test]
    fn a_status_that_cannot_be_the_answer_is_out_of_step() {
        for (op, status) in [(Op::Get, MetaStatus::Exists), (Op::Set, MetaStatus::Miss)] {
            assert!(decode(op, Some(status), MetaFlags::new(b""), Bytes::new()).is_err());
        }
    }
}
