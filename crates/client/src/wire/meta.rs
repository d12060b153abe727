//! The meta protocol's side of a connection, leases on stock memcached among it (`mg` with `N`, `ms` with `C`).
//!
//! # Leases
//! ```text
//! mg k v f c N10    ─▶ VA … c7 W     ours to fill: token 7 + 2, so that none is 0 or 1
//!                      VA … c7 Z     somebody else's: wait
//! ms k n C7         ─▶ HD stored; EX, NF: the lease is void
//! ```
//! Whoever wins leaves a stub of ten seconds, so that the next lease comes when memcached's `lease-get` would give one.
//!
//! # Invariants
//! 1. A stub, and what was marked stale, is a miss for every get but a lease-get.
//! 2. What has no meta command is left to the text protocol, which the same connection speaks.

use std::io::Write;

use bytes::Bytes;
use guira_proto::MetaFlags;
use guira_proto::reply::MetaStatus;

use super::OutOfStep;
use crate::{Op, Outcome, Reply, Request};

/// Appends the line of `request`, without the body of a storage request; false if there is no such meta command.
pub(crate) fn encode(request: &Request, out: &mut Vec<u8>) -> bool {
    let Request { op, key, value, flags, exptime, token, delta } = request;
    let (command, rest) = match op {
        Op::Get => ("mg", "v f".into()),
        Op::Gets => ("mg", "v f c".into()),
        Op::Gat => ("mg", format!("v f T{exptime}")),
        Op::Gats => ("mg", format!("v f c T{exptime}")),
        Op::LeaseGet => ("mg", format!("v f c N{LEASE_S}")),
        Op::MetaGet => ("mg", "h l s t".into()),
        Op::Touch => ("mg", format!("T{exptime}")),
        Op::Set => ("ms", format!("{} F{flags} T{exptime}", value.len())),
        Op::Add => ("ms", format!("{} F{flags} T{exptime} ME", value.len())),
        Op::Replace => ("ms", format!("{} F{flags} T{exptime} MR", value.len())),
        Op::Append => ("ms", format!("{} MA", value.len())),
        Op::Prepend => ("ms", format!("{} MP", value.len())),
        Op::Cas => ("ms", format!("{} F{flags} T{exptime} C{token}", value.len())),
        Op::LeaseSet => {
            let cas = token.saturating_sub(TOKENS_RESERVED);
            ("ms", format!("{} F{flags} T{exptime} C{cas}", value.len()))
        }
        Op::Delete if *exptime == 0 => ("md", String::new()),
        Op::Incr => ("ma", format!("v D{delta}")),
        Op::Decr => ("ma", format!("v MD D{delta}")),
        Op::Delete | Op::FlushAll | Op::Version => return false,
    };
    out.extend_from_slice(command.as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    if !rest.is_empty() {
        // Writing to a vector cannot fail.
        let _ = write!(out, " {rest}");
    }
    out.extend_from_slice(b"\r\n");
    true
}

/// The flags of a `VA` header.
pub(crate) fn flags_of(header: &[u8]) -> MetaFlags<'_> {
    let words = header.trim_ascii_end();
    let start = words.iter().skip(3).position(|&b| b == b' ').map_or(words.len(), |at| at + 3);
    MetaFlags::new(&words[start..])
}

/// What a meta reply means as the answer to `op`; `value` is that of a `VA`.
pub(crate) fn decode(
    op: Op,
    status: Option<MetaStatus>,
    flags: MetaFlags<'_>,
    value: Bytes,
) -> Result<Reply, OutOfStep> {
    let Some(status) = status.filter(|_| op != Op::MetaGet) else {
        return found(op, flags, value);
    };
    let outcome = match (status, op) {
        (MetaStatus::Done, Op::Delete) => Outcome::Deleted,
        (MetaStatus::Done, Op::Touch) => Outcome::Touched,
        (MetaStatus::Done, op) if op.is_update() => Outcome::Stored,
        (MetaStatus::NotFound | MetaStatus::Exists, Op::LeaseSet) => Outcome::NotStored,
        (MetaStatus::Exists, Op::Cas) => Outcome::Exists,
        (MetaStatus::NotStored, op) if op.is_update() => Outcome::NotStored,
        (MetaStatus::NotFound, op) if !op.is_get() => Outcome::NotFound,
        (MetaStatus::Miss, op) if op.is_get() || op == Op::Touch => Outcome::NotFound,
        _ => return Err(OutOfStep(format!("{op:?} was answered with {status:?}"))),
    };
    Ok(Reply::new(outcome))
}

/// A `VA`, or the `HD` of a get without value.
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
        other => Err(OutOfStep(format!("{other:?} was answered with a value"))),
    }
}

/// For how long a winner has the lease. Seconds.
const LEASE_S: u32 = 10;

/// Tokens 0 and 1 mean something else, and a cas unique may be either.
const TOKENS_RESERVED: u64 = 2;
