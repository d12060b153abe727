//! The lines of the meta commands: splits key, length and flags, which [`Meta`] interprets.

use crate::line::{Refusal, parse_value_bytes};
use crate::meta::{Meta, MetaVerb, is_base64, is_flag_like};
use crate::{Command, KEY_BYTES_MAX, Words, fixed};

/// Parses `mg`, `ms`, `md` or `ma` from the bytes after the command.
#[inline]
pub(super) fn parse_meta(verb: MetaVerb, args: &[u8]) -> Result<Command<'_>, Refusal> {
    let mut words = Words::new(args);
    let key = words.next().ok_or(Refusal::new(fixed::BAD_FORMAT))?;
    if verb == MetaVerb::Set {
        let bytes = words.next().and_then(parse_value_bytes);
        let bytes = bytes.ok_or(Refusal::new(fixed::BAD_FORMAT))?;
        return match Meta::new(verb, key, words.rest(), bytes) {
            Ok(meta) => Ok(Command::MetaSet(meta)),
            Err(reply) => Err(Refusal::new(reply).with_body(bytes)),
        };
    }
    let meta = Meta::new(verb, key, words.rest(), 0).map_err(Refusal::new)?;
    Ok(match verb {
        MetaVerb::Get => Command::MetaGet(meta),
        MetaVerb::Set => Command::MetaSet(meta),
        MetaVerb::Delete => Command::MetaDelete(meta),
        MetaVerb::Arithmetic => Command::MetaArithmetic(meta),
    })
}

/// Parses `me`.
pub(super) fn parse_debug(args: &[u8]) -> Result<Command<'_>, Refusal> {
    const BAD: Refusal = Refusal::new(fixed::BAD_FORMAT);
    let mut words = Words::new(args);
    let key = words.next().filter(|key| key.len() <= KEY_BYTES_MAX).ok_or(BAD)?;
    if Words::new(words.rest()).any(|flag| !is_flag_like(flag[0])) {
        return Err(BAD);
    }
    let base64 = words.next() == Some(b"b");
    if base64 && !is_base64(key) {
        return Err(BAD);
    }
    Ok(Command::MetaDebug { key, base64 })
}
