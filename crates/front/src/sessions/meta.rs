//! The meta commands: they are routed like any other request, and answered in memcached's words.
//!
//! A change that a text command can express travels as that text command, so that every server and every route understands
//! it: storing under conditions, deleting, counting. A change with any other flag (staleness by `I`, times of an item), and
//! each `mg`, travels as a meta command with its own flags.

use std::sync::Arc;

use bytes::Bytes;
use guira_client::{Op, Outcome, Output, Reply, Request};
use guira_proto::reply::{MetaReply, MetaStatus};
use guira_proto::{KEY_BYTES_MAX, Meta, MetaFlags, MetaVerb, Verb, decode_base64};

use crate::sessions::answer::append_error;
use crate::sessions::manners::Manners;

/// The part of a meta command that its answer needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    verb: MetaVerb,
    /// The flags as sent.
    flags: Bytes,
    is_base64: bool,
    is_quiet: bool,
    has_value: bool,
}

impl Wanted {
    /// Whether the command only reads.
    pub(crate) fn is_get(&self) -> bool {
        self.verb == MetaVerb::Get
    }
}

/// Turns a meta command into a request, or returns the line that refuses it.
pub(crate) fn routed<M: Manners>(
    chunk: &Bytes,
    verb: MetaVerb,
    meta: &Meta<'_>,
    flags: &[u8],
) -> Result<(Request, Wanted), &'static [u8]> {
    let mut decoded = [0; KEY_BYTES_MAX];
    let key = if meta.is_base64() {
        Bytes::copy_from_slice(decode_base64(meta.key(), &mut decoded).ok_or(BAD_KEY)?)
    } else {
        chunk.slice_ref(meta.key())
    };
    let mut request = Request::new(op(verb, meta), key);
    request.exptime = meta.ttl().unwrap_or_default().into();
    request.flags = meta.client_flags();
    request.token = meta.compare_cas().unwrap_or_default();
    request.delta = meta.delta();
    request.meta =
        if M::IS_SERVER { Some(flags.into()) } else { verbatim(verb, meta, &request.key) };
    let wanted = Wanted {
        verb,
        flags: chunk.slice_ref(flags),
        is_base64: meta.is_base64(),
        is_quiet: meta.quiet(),
        has_value: meta.has(b'v'),
    };
    Ok((request, wanted))
}

/// Returns the flags that have to travel as they are; `None`: a text command expresses the change.
fn verbatim(verb: MetaVerb, meta: &Meta<'_>, key: &[u8]) -> Option<Arc<[u8]>> {
    let (of_text, of_request): (&[u8], &[u8]) = match verb {
        // No text command replaces a get: a server may mark any hit as stale, and choose who fetches it again.
        MetaVerb::Get => (b"", b"bkqOPL"),
        MetaVerb::Set if meta.verb() == Verb::Cas => (b"bkqCFMTOPL", b"bkqFMTOPL"),
        // The text commands `append` and `prepend` compare nothing.
        MetaVerb::Set => (b"bkqFMTOPL", b"bkqFMTOPL"),
        MetaVerb::Delete => (b"bkqOPL", b"bkqOPL"),
        MetaVerb::Arithmetic => (b"bkqvDMOPL", b"bkqDMOPL"),
    };
    let is_plain = key.iter().all(|&byte| byte > b' ' && byte != 0x7f);
    if is_plain
        && verb != MetaVerb::Get
        && meta.flags().all(|flag| of_text.contains(&flag.letter()))
    {
        return None;
    }
    let words = meta.flags().filter(|flag| !of_request.contains(&flag.letter()));
    // The `T` of an `mg` keeps its place, but not its time: flags before it return the time before the touch.
    let is_place = |letter| verb == MetaVerb::Get && letter == b'T';
    let words: Vec<&[u8]> =
        words.map(|flag| if is_place(flag.letter()) { b"T" } else { flag.text() }).collect();
    Some(words.join(&b" "[..]).into())
}

/// The operation of a storage verb.
pub(crate) fn op_of(verb: Verb) -> Op {
    match verb {
        Verb::Set => Op::Set,
        Verb::Add => Op::Add,
        Verb::Replace => Op::Replace,
        Verb::Append => Op::Append,
        Verb::Prepend => Op::Prepend,
        Verb::Cas => Op::Cas,
        Verb::Lease => Op::LeaseSet,
    }
}

fn op(verb: MetaVerb, meta: &Meta<'_>) -> Op {
    match verb {
        MetaVerb::Get => match (meta.ttl().is_some(), meta.has(b'c')) {
            (false, false) => Op::Get,
            (false, true) => Op::Gets,
            (true, false) => Op::Gat,
            (true, true) => Op::Gats,
        },
        MetaVerb::Set => op_of(meta.verb()),
        MetaVerb::Delete => Op::Delete,
        MetaVerb::Arithmetic if meta.is_decrement() => Op::Decr,
        MetaVerb::Arithmetic => Op::Incr,
    }
}

/// Appends the answer to a meta command.
pub(crate) fn append<M: Manners>(output: &mut Output, wanted: &Wanted, key: &[u8], reply: &Reply) {
    let out = &mut output.bytes;
    if reply.outcome.is_error() {
        return append_error(out, reply);
    }
    let status = match (wanted.verb, reply.outcome) {
        (MetaVerb::Get, Outcome::Ok) if M::IS_SERVER => MetaStatus::Done,
        (MetaVerb::Get, _) if is_answer(reply) && wanted.has_value => {
            let answer = MetaReply::value(out, reply.value.len());
            append_flags::<M>(answer, wanted, key, reply);
            return append_value(output, &reply.value);
        }
        (MetaVerb::Arithmetic, Outcome::Found) if wanted.is_quiet => return,
        (MetaVerb::Arithmetic, Outcome::Found) if wanted.has_value => {
            let digits = reply.number.to_string();
            append_flags::<M>(MetaReply::value(out, digits.len()), wanted, key, reply);
            return append_value(output, &digits.into());
        }
        (MetaVerb::Get, _) if is_answer(reply) => MetaStatus::Done,
        (MetaVerb::Arithmetic, Outcome::Found) => MetaStatus::Done,
        (MetaVerb::Get, _) => {
            if !wanted.is_quiet {
                append_echoes(MetaReply::status(out, MetaStatus::Miss), wanted, key);
            }
            return;
        }
        (_, Outcome::NotFound | Outcome::NotFoundHot) => MetaStatus::NotFound,
        (_, Outcome::NotStored) => MetaStatus::NotStored,
        (_, Outcome::Exists) => MetaStatus::Exists,
        _ => MetaStatus::Done,
    };
    let is_expected = match wanted.verb {
        MetaVerb::Get => false,
        MetaVerb::Set => status == MetaStatus::Done,
        // `guira invalidate` relies on a router's silence: it takes each answer to a quiet delete for a refusal.
        MetaVerb::Delete | MetaVerb::Arithmetic => {
            status == MetaStatus::Done || !M::IS_SERVER && status == MetaStatus::NotFound
        }
    };
    if !(wanted.is_quiet && is_expected) {
        append_flags::<M>(MetaReply::status(out, status), wanted, key, reply);
    }
}

/// Whether the answer to a get is more than `EN`: an item, or a stub whose flags tell the client who fills the key.
fn is_answer(reply: &Reply) -> bool {
    let has_lease = |words: &Arc<[u8]>| {
        MetaFlags::new(words).any(|flag| matches!(flag.letter(), b'W' | b'X' | b'Z'))
    };
    reply.outcome == Outcome::Found || reply.meta.as_ref().is_some_and(has_lease)
}

/// Appends the flags of a miss: only what the client sent.
fn append_echoes(mut answer: MetaReply<'_>, wanted: &Wanted, key: &[u8]) {
    for flag in MetaFlags::new(&wanted.flags) {
        match flag.letter() {
            b'k' => answer.key(key, wanted.is_base64),
            b'O' => answer.echo(flag.text()),
            _ => {}
        }
    }
    answer.end();
}

fn append_flags<M: Manners>(mut answer: MetaReply<'_>, wanted: &Wanted, key: &[u8], reply: &Reply) {
    let told = || MetaFlags::new(reply.meta.as_deref().unwrap_or_default());
    let is_base64 =
        if M::IS_SERVER { told().any(|flag| flag.letter() == b'b') } else { wanted.is_base64 };
    for flag in MetaFlags::new(&wanted.flags) {
        let by_server = told().find(|told| told.letter() == flag.letter());
        match (flag.letter(), by_server) {
            (b'c' | b'f' | b'h' | b'l' | b's' | b't', Some(told)) => answer.echo(told.text()),
            (b'c' | b'f' | b's', None) if M::IS_SERVER => {}
            (b'c', None) if reply.meta.is_none() => answer.number(b'c', reply.token),
            // Servers return these flags for an item that they found, not for a change that they made.
            (b'f' | b's', None) if wanted.verb != MetaVerb::Get => {}
            (b'f', None) => answer.number(b'f', reply.flags.into()),
            (b'k', _) => answer.key(key, is_base64),
            (b's', None) => answer.number(b's', reply.value.len() as u64),
            (b'O', _) => answer.echo(flag.text()),
            _ => {}
        }
    }
    for flag in told().filter(|flag| matches!(flag.letter(), b'W' | b'X' | b'Z')) {
        answer.echo(flag.text());
    }
    answer.end();
}

fn append_value(output: &mut Output, value: &Bytes) {
    output.append_value(value);
    output.bytes.extend_from_slice(b"\r\n");
}

pub(crate) const BAD_KEY: &[u8] = b"CLIENT_ERROR bad key\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::manners::AsRouter;

    fn answered(verb: MetaVerb, flags: &'static str, reply: &Reply) -> String {
        let has = |letter| flags.split(' ').any(|flag| flag.starts_with(letter));
        let wanted = Wanted {
            verb,
            flags: flags.into(),
            is_base64: has('b'),
            is_quiet: has('q'),
            has_value: has('v'),
        };
        let mut out = Output::default();
        append::<AsRouter>(&mut out, &wanted, b"key", reply);
        String::from_utf8(out.bytes).unwrap_or_default()
    }

    #[test]
    fn answers_are_worded_as_memcacheds() {
        let hit = Reply {
            value: "abc".into(),
            flags: 7,
            token: 9,
            number: 12,
            ..Reply::new(Outcome::Found)
        };
        let miss = Reply::new(Outcome::NotFound);
        let stub = Reply { meta: Some(b"f0 s0 t30 W"[..].into()), ..miss.clone() };
        for (verb, flags, reply, line) in [
            (MetaVerb::Get, "s v f c k Ox1", &hit, "VA 3 s3 f7 c9 kkey Ox1\r\nabc\r\n"),
            (MetaVerb::Get, "f", &hit, "HD f7\r\n"),
            (MetaVerb::Get, "v k f", &miss, "EN kkey\r\n"),
            (MetaVerb::Get, "v q", &miss, ""),
            (MetaVerb::Get, "k b", &hit, "HD ka2V5 b\r\n"),
            (MetaVerb::Set, "s f k", &Reply::new(Outcome::Stored), "HD kkey\r\n"),
            (MetaVerb::Arithmetic, "s f k", &hit, "HD kkey\r\n"),
            (MetaVerb::Set, "q", &Reply::new(Outcome::Stored), ""),
            (MetaVerb::Set, "q", &Reply::new(Outcome::NotStored), "NS\r\n"),
            (MetaVerb::Set, "", &Reply::new(Outcome::Exists), "EX\r\n"),
            (MetaVerb::Delete, "O5", &Reply::new(Outcome::Deleted), "HD O5\r\n"),
            (MetaVerb::Delete, "q", &Reply::new(Outcome::Deleted), ""),
            (MetaVerb::Delete, "q", &miss, ""),
            (MetaVerb::Arithmetic, "v", &hit, "VA 2\r\n12\r\n"),
            (MetaVerb::Arithmetic, "", &miss, "NF\r\n"),
            (MetaVerb::Get, "v", &Reply::new(Outcome::Tko), "SERVER_ERROR unavailable\r\n"),
            (MetaVerb::Get, "t v N30 s", &stub, "VA 0 t30 s0 W\r\n\r\n"),
            (MetaVerb::Get, "t N30", &stub, "HD t30 W\r\n"),
        ] {
            assert_eq!(answered(verb, flags, reply), line, "{verb:?} {flags}");
        }
    }
}
