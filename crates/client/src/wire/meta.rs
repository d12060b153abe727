//! The meta protocol of a connection, with leases on stock memcached (`mg` with `N`, and `cas`).
//!
//! # Leases
//! ```text
//! mg k v f c N10    ─▶ VA … c7 W     this client fills it: token 7 + 2, so that none is 0 or 1
//!                      VA … c7 Z     another client fills it: wait
//! cas k f t n 7     ─▶ STORED; EXISTS, NOT_FOUND: the lease is no longer valid
//! ```
//! The client that wins leaves a stub that lasts ten seconds. So the next lease is given when memcached's `lease-get`
//! would give one.
//!
//! # Invariants
//! 1. A stub or a stale value is a miss for every get except a lease-get.
//! 2. Requests without a meta command are left to the text protocol, which the same connection speaks. So are requests
//!    that store a value: a server that doesn't know `ms` would read the value as commands.

use std::io::Write;

use bytes::Bytes;
use guira_proto::reply::MetaStatus;
use guira_proto::{MetaFlags, Verb};

use super::{OutOfStep, text, verbatim};
use crate::{Op, Outcome, Reply, Request};

/// Appends the line of `request`, without the body of a storage request. Returns false if there is no such meta
/// command.
pub(crate) fn encode(request: &Request, out: &mut Vec<u8>) -> bool {
    if request.meta.is_some() {
        return verbatim::encode(request, out);
    }
    let Request { op, key, exptime, token, delta, .. } = request;
    let (command, rest) = match op {
        Op::Get => ("mg", "v f".into()),
        Op::Gets => ("mg", "v f c".into()),
        Op::Gat => ("mg", format!("v f T{exptime}")),
        Op::Gats => ("mg", format!("v f c T{exptime}")),
        Op::LeaseGet => ("mg", format!("v f c N{LEASE_S}")),
        Op::MetaGet => ("mg", "h l s t".into()),
        Op::Touch => ("mg", format!("T{exptime}")),
        Op::LeaseSet => {
            let cas = token.saturating_sub(TOKENS_RESERVED);
            text::encode_store(request, Verb::Cas, cas, out);
            return true;
        }
        op if op.is_update() => return false,
        Op::Delete if *exptime == 0 => ("md", String::new()),
        Op::Incr => ("ma", format!("v D{delta}")),
        Op::Decr => ("ma", format!("v MD D{delta}")),
        _ => return false,
    };
    out.extend_from_slice(command.as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    if !rest.is_empty() {
        // Writing to a vector can't fail.
        let _ = write!(out, " {rest}");
    }
    out.extend_from_slice(b"\r\n");
    true
}

/// Returns the flags of a `VA` header.
pub(crate) fn flags_of(header: &[u8]) -> MetaFlags<'_> {
    let words = header.trim_ascii_end();
    let start = words.iter().skip(3).position(|&b| b == b' ').map_or(words.len(), |at| at + 3);
    MetaFlags::new(&words[start..])
}

/// Returns the meaning of a meta reply to `op`. `value` is the value of a `VA`.
pub(crate) fn decode(
    op: Op,
    status: Option<MetaStatus>,
    flags: MetaFlags<'_>,
    value: Bytes,
) -> Result<Reply, OutOfStep> {
    // A metaget has no value: its hit is an `HD` line.
    let is_hit = |status: &MetaStatus| op == Op::MetaGet && *status == MetaStatus::Done;
    let is_stale = || flags.clone().any(|flag| flag.letter() == b'X');
    let Some(status) = status.filter(|status| !is_hit(status)) else {
        return found(op, flags, value);
    };
    let outcome = match (status, op) {
        (MetaStatus::Done, Op::Delete) => Outcome::Deleted,
        (MetaStatus::Done, Op::Touch) if is_stale() => Outcome::NotFound,
        (MetaStatus::Done, Op::Touch) => Outcome::Touched,
        (MetaStatus::NotFound, op) if !op.is_get() && !op.is_update() => Outcome::NotFound,
        (MetaStatus::Miss, op) if op.is_get() || op == Op::Touch => Outcome::NotFound,
        _ => return Err(OutOfStep::unfit(op)),
    };
    Ok(Reply::new(outcome))
}

/// Interprets a `VA`, or the `HD` of a get without a value.
fn found(op: Op, flags: MetaFlags<'_>, value: Bytes) -> Result<Reply, OutOfStep> {
    let mut reply = Reply { value, ..Reply::new(Outcome::Found) };
    let (mut is_stale, mut is_others, mut is_ours, mut text) = (false, false, false, String::new());
    for flag in flags {
        let number = || std::str::from_utf8(flag.token()).ok().and_then(|n| n.parse::<u64>().ok());
        match flag.letter() {
            b'f' => reply.flags = number().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            b'c' => reply.token = number().unwrap_or(0),
            b'X' => is_stale = true,
            b'Z' => is_others = true,
            b'W' => is_ours = true,
            b't' if op == Op::MetaGet => {
                // mcrouter writes a Unix time here, and 0 for never.
                let exptime = number().map_or(0, |left| unix_s().saturating_add(left));
                text += &format!("exptime: {exptime}; ");
            }
            _ => {}
        }
        text += &String::from_utf8_lossy(flag.text());
        text.push(' ');
    }
    let is_stub = reply.value.is_empty() && (is_others || is_ours);
    match op {
        Op::Get | Op::Gets | Op::Gat | Op::Gats if is_stale || is_stub => {
            Ok(Reply::new(Outcome::NotFound))
        }
        Op::Get | Op::Gets | Op::Gat | Op::Gats => Ok(reply),
        Op::LeaseGet if is_ours => {
            let token = reply.token.saturating_add(TOKENS_RESERVED);
            Ok(Reply { outcome: Outcome::NotFound, token, ..reply })
        }
        Op::LeaseGet if is_stub => Ok(Reply { token: 1, ..Reply::new(Outcome::NotFoundHot) }),
        Op::LeaseGet if is_stale => Ok(Reply { outcome: Outcome::FoundStale, token: 1, ..reply }),
        Op::LeaseGet => Ok(Reply { token: 0, ..reply }),
        Op::MetaGet => Ok(Reply { message: text.trim_end().to_owned().into(), ..reply }),
        Op::Incr | Op::Decr => {
            let number =
                std::str::from_utf8(&reply.value).ok().and_then(|n| n.trim_end().parse().ok());
            let number = number.ok_or_else(|| OutOfStep("a count that is no number".into()))?;
            Ok(Reply { number, ..Reply::new(Outcome::Found) })
        }
        other => Err(OutOfStep::unfit(other)),
    }
}

fn unix_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// How long the winner has the lease, in seconds.
const LEASE_S: u32 = 10;

/// Tokens 0 and 1 have other meanings, and a cas unique may be either.
const TOKENS_RESERVED: u64 = 2;

#[cfg(test)]
mod tests {
    use super::{decode, encode, flags_of, unix_s};
    use crate::{Op, Outcome, Reply, Request};
    use bytes::Bytes;
    use guira_proto::MetaFlags;
    use guira_proto::reply::MetaStatus;

    fn value(op: Op, flags: &str, value: &'static str) -> Reply {
        decode(op, None, MetaFlags::new(flags.as_bytes()), Bytes::from(value)).unwrap()
    }

    #[test]
    fn each_operation_is_the_line_that_memcached_reads() {
        let base = Request {
            value: b"abc"[..].into(),
            flags: 7,
            exptime: 30,
            token: 99,
            delta: 5,
            ..Request::new(Op::Get, "k")
        };
        for (op, expected) in [
            (Op::Get, "mg k v f\r\n"),
            (Op::Gets, "mg k v f c\r\n"),
            (Op::Gat, "mg k v f T30\r\n"),
            (Op::Gats, "mg k v f c T30\r\n"),
            (Op::LeaseGet, "mg k v f c N10\r\n"),
            (Op::MetaGet, "mg k h l s t\r\n"),
            (Op::Touch, "mg k T30\r\n"),
            (Op::LeaseSet, "cas k 7 30 3 97\r\n"),
            (Op::Incr, "ma k v D5\r\n"),
            (Op::Decr, "ma k v MD D5\r\n"),
        ] {
            let mut out = Vec::new();
            assert!(encode(&Request { op, ..base.clone() }, &mut out), "{op:?}");
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut out = Vec::new();
        assert!(encode(&Request::new(Op::Delete, "k"), &mut out));
        assert_eq!(out, b"md k\r\n");
        for op in [Op::Delete, Op::FlushAll, Op::Version, Op::Set, Op::Append, Op::Cas] {
            assert!(!encode(&Request { op, ..base.clone() }, &mut out), "{op:?} is for text");
        }
    }

    #[test]
    fn a_stub_and_a_stale_value_are_misses_for_all_but_a_lease_get() {
        for op in [Op::Get, Op::Gets, Op::Gat, Op::Gats] {
            assert_eq!(value(op, "f0 c7 Z", "").outcome, Outcome::NotFound);
            assert_eq!(value(op, "f0 c7 W", "").outcome, Outcome::NotFound);
            assert_eq!(value(op, "f0 c7 X Z", "old").outcome, Outcome::NotFound);
            assert_eq!(value(op, "f0 c7", "").outcome, Outcome::Found, "an empty value is one");
        }
    }

    #[test]
    fn a_lease_is_won_waited_for_or_not_needed() {
        let won = value(Op::LeaseGet, "f0 c1 W", "");
        assert_eq!((won.outcome, won.token), (Outcome::NotFound, 3), "never 0 or 1");
        let waits = value(Op::LeaseGet, "f0 c7 Z", "");
        assert_eq!((waits.outcome, waits.token), (Outcome::NotFoundHot, 1));
        let won = value(Op::LeaseGet, "f5 c7 X W", "old");
        assert_eq!((won.outcome, won.flags, &won.value[..]), (Outcome::NotFound, 5, &b"old"[..]));
        let waits = value(Op::LeaseGet, "f5 c7 X Z", "old");
        assert_eq!((waits.outcome, waits.token), (Outcome::FoundStale, 1));
        assert_eq!(value(Op::LeaseGet, "f5 c7", "v").outcome, Outcome::Found);
    }

    #[test]
    fn a_metaget_says_when_an_item_ends_and_that_there_is_none() {
        let hit = |flags: &'static str| {
            let flags = MetaFlags::new(flags.as_bytes());
            decode(Op::MetaGet, Some(MetaStatus::Done), flags, Bytes::new()).unwrap()
        };
        let ever = hit("h1 l5 s3 t-1");
        assert_eq!(ever.outcome, Outcome::Found);
        assert!(ever.message.windows(10).any(|words| words == b"exptime: 0"), "{ever:?}");
        let soon = String::from_utf8(hit("t100").message.to_vec()).unwrap();
        let at: u64 = soon.split([' ', ';']).find_map(|word| word.parse().ok()).unwrap();
        assert!((99..=100).contains(&(at - unix_s())), "{soon}");
        let none = MetaFlags::new(b"");
        let miss = decode(Op::MetaGet, Some(MetaStatus::Miss), none, Bytes::new()).unwrap();
        assert_eq!(miss.outcome, Outcome::NotFound);
    }

    #[test]
    fn a_status_that_cannot_be_the_answer_is_out_of_step() {
        let no_flags = || MetaFlags::new(b"");
        for (op, status) in [
            (Op::Get, MetaStatus::Done),
            (Op::Get, MetaStatus::NotFound),
            (Op::Delete, MetaStatus::Exists),
            (Op::Incr, MetaStatus::Done),
            (Op::Set, MetaStatus::Done),
        ] {
            assert!(decode(op, Some(status), no_flags(), Bytes::new()).is_err(), "{op:?}");
        }
        assert!(decode(Op::Set, None, no_flags(), Bytes::new()).is_err());
        assert!(decode(Op::Incr, None, no_flags(), Bytes::from("x")).is_err());
    }

    #[test]
    fn the_flags_of_a_header_begin_behind_its_length() {
        for (header, expected) in [("VA 5000 f7 c9\r\n", "f7 c9"), ("VA 5000\r\n", "")] {
            let found: Vec<_> = flags_of(header.as_bytes()).map(|flag| flag.text()).collect();
            assert_eq!(found.join(&b" "[..]), expected.as_bytes());
        }
    }
}
