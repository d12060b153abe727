//! A request as a node gets it, and its reply as the client gets it: a change carries a number, and an append asks for the
//! length that it leaves.

use std::io::Write;

use bytes::Buf;
use guira_chain::slot::WriteTag;
use guira_client::{Op, Outcome, Reply, Request};
use guira_proto::{MetaFlag, MetaFlags};

use crate::key;

/// Whether a request is a change that can carry a number.
pub(super) fn is_numbered(request: &Request) -> bool {
    match request.op {
        // No meta command has this delete's hold-off.
        Op::Delete => request.meta.is_some() || request.exptime == 0,
        op => op.is_update() || op.is_arithmetic(),
    }
}

/// Whether a change brings only a part of the value that is stored.
fn brings_part(request: &Request) -> bool {
    matches!(request.op, Op::Append | Op::Prepend)
}

/// Whether the client wants to know the length of what is stored.
fn asks_length(request: &Request) -> bool {
    let mut flags = MetaFlags::new(request.meta.as_deref().unwrap_or_default());
    flags.any(|flag| flag.letter() == LENGTH)
}

/// The length of the value that was stored, if one was. If a node tells it and the client didn't ask, that flag is taken out of
/// the reply.
pub(super) fn stored_length(request: &Request, reply: &mut Reply) -> Option<usize> {
    if reply.outcome != Outcome::Stored {
        return None;
    }
    if !brings_part(request) {
        return Some(request.value.len());
    }
    let words = reply.meta.take()?;
    let told = MetaFlags::new(&words).find(|flag| flag.letter() == LENGTH);
    let bytes = told.and_then(|flag| str::from_utf8(flag.token()).ok()?.parse().ok());
    let is_kept = |flag: &MetaFlag<'_>| asks_length(request) || flag.letter() != LENGTH;
    let kept: Vec<_> = MetaFlags::new(&words).filter(is_kept).map(|it| it.text()).collect();
    reply.meta = Some(kept.join(&b' ').into());
    bytes
}

/// The request as it is sent: without the routing prefix, and a change with its number.
pub(super) fn dressed(request: &Request, tag: Option<WriteTag>) -> Request {
    let mut dressed = request.clone();
    dressed.key.advance(key::prefix(&request.key).len());
    let Some(tag) = tag else { return dressed };
    let mut words = Vec::new();
    // Writing to a vector doesn't fail.
    let _ = match &request.meta {
        Some(flags) => MetaFlags::new(flags)
            .filter(|flag| flag.letter() != WriteTag::LETTER)
            .try_for_each(|flag| words.write_all(&[flag.text(), b" "].concat())),
        None if request.op == Op::Cas => write!(words, "C{} ", request.token),
        None if request.op.is_arithmetic() => write!(words, "v "),
        None => Ok(()),
    };
    if brings_part(request) && !asks_length(request) {
        words.extend([LENGTH, b' ']);
    }
    let _ = write!(words, "{tag}");
    dressed.meta = Some(words.into());
    dressed
}

/// The flag with the length of the stored value.
const LENGTH: u8 = b's';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_travels_with_its_number_and_a_read_without() {
        let tag = WriteTag { id: (42, 7), is_repeated: true };
        let text = "L0000002a0000000000000007r";
        let of = |op| Request { token: 5, ..Request::new(op, "/a/b/k") };
        let meta = |words: &str| Request { meta: Some(words.as_bytes().into()), ..of(Op::Set) };
        for (request, words) in [
            (of(Op::Set), text.to_owned()),
            (of(Op::Delete), text.to_owned()),
            (of(Op::Cas), format!("C5 {text}")),
            (of(Op::Decr), format!("v {text}")),
            (of(Op::Append), format!("s {text}")),
            (meta("T30 Lhint O\\"), format!("T30 O\\ {text}")),
            (meta(""), text.to_owned()),
        ] {
            assert!(is_numbered(&request));
            let sent = dressed(&request, Some(tag));
            assert_eq!(sent.key, "k");
            let meta = sent.meta.map(|words| String::from_utf8_lossy(&words).into_owned());
            assert_eq!(meta.as_deref(), Some(&words[..]));
        }
        let held_off = Request { exptime: 5, ..of(Op::Delete) };
        for request in [of(Op::Get), of(Op::Touch), held_off] {
            assert!(!is_numbered(&request));
            assert_eq!(dressed(&request, None).meta, None);
        }
    }

    #[test]
    fn the_length_of_what_an_append_left_is_known_here_and_told_only_who_asked() {
        let reply = |outcome, words: &str| Reply {
            meta: Some(words.as_bytes().into()),
            ..Reply::new(outcome)
        };
        let asked = |op, meta: Option<&str>| Request {
            value: "more".into(),
            meta: meta.map(|words| words.as_bytes().into()),
            ..Request::new(op, "k")
        };
        for (request, told, bytes, kept) in [
            (asked(Op::Append, None), "s700000", Some(700_000), ""),
            (asked(Op::Append, Some("MA c Oq")), "c9 s700000 Oq", Some(700_000), "c9 Oq"),
            (asked(Op::Prepend, Some("MP s c")), "s9 c1", Some(9), "s9 c1"),
            (asked(Op::Append, Some("MA")), "", None, ""),
            (asked(Op::Set, Some("c")), "c7", Some(4), "c7"),
        ] {
            let mut reply = reply(Outcome::Stored, told);
            assert_eq!(stored_length(&request, &mut reply), bytes, "{told}");
            assert_eq!(reply.meta.as_deref(), Some(kept.as_bytes()));
        }
        let mut refused = reply(Outcome::NotStored, "");
        assert_eq!(stored_length(&asked(Op::Append, None), &mut refused), None);
    }
}
