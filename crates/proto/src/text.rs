//! The text commands, one function each, and the selection between them.
//!
//! The order of checks is memcached's, because it decides which error a client sees. Too few words come
//! first (that error is sent even with `noreply`), then a body length that can't be parsed, then
//! `noreply`, then everything else. Once the length is known, any later error discards the body.

mod admin;
mod meta;

use crate::key::{has_no_long_word, skip_spaces};
use crate::line::{Refusal, Verb, is_quiet, parse_value_bytes};
use crate::number::{parse_client_flags, parse_exptime, parse_i32, parse_u32, parse_u64};
use crate::{ArithmeticCommand, Command, Get, KEY_BYTES_MAX, MetaVerb, StoreCommand, Words, fixed};

type Line<'b> = Result<Command<'b>, Refusal>;

/// Parses one line, without its line end; `used` is its length including that.
#[inline]
pub(crate) fn parse_line(line: &[u8], used: usize) -> Line<'_> {
    if used < LINE_BYTES_MIN {
        return Err(Refusal::new(fixed::BAD_FORMAT));
    }
    match line {
        [b'g', b'e', b't', b' ', args @ ..] => get(args, false),
        [b'm', b'g', b' ', args @ ..] => meta::parse_meta(MetaVerb::Get, args),
        [b's', b'e', b't', b' ', args @ ..] => store(args, Verb::Set),
        _ => parse_word(line),
    }
}

fn parse_word(line: &[u8]) -> Line<'_> {
    let end = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
    let (word, args) = line.split_at(end);
    match word {
        b"get" => get(args, false),
        b"gets" => get(args, true),
        b"gat" => get_and_touch(args, false),
        b"gats" => get_and_touch(args, true),
        b"set" => store(args, Verb::Set),
        b"add" => store(args, Verb::Add),
        b"replace" => store(args, Verb::Replace),
        b"append" => store(args, Verb::Append),
        b"prepend" => store(args, Verb::Prepend),
        b"cas" => store(args, Verb::Cas),
        b"lease-get" => lease_get(args),
        b"lease-set" => lease_set(args),
        b"incr" => arithmetic(args, false),
        b"decr" => arithmetic(args, true),
        b"delete" => delete(args),
        b"touch" => touch(args),
        b"mg" => meta::parse_meta(MetaVerb::Get, args),
        b"ms" => meta::parse_meta(MetaVerb::Set, args),
        b"md" => meta::parse_meta(MetaVerb::Delete, args),
        b"ma" => meta::parse_meta(MetaVerb::Arithmetic, args),
        b"mn" => Ok(Command::MetaNoop),
        b"me" => meta::parse_debug(args),
        b"version" => Ok(Command::Version),
        b"quit" => Ok(Command::Quit),
        b"stats" => Ok(Command::Stats(Words::new(args))),
        b"watch" => admin::parse_watch(Words::new(args)),
        _ => admin::parse_admin(line),
    }
}

#[inline]
fn get(args: &[u8], cas: bool) -> Line<'_> {
    Ok(Command::Get(Get { keys: keys(args)?, cas, touch: None, lease: false }))
}

fn get_and_touch(args: &[u8], cas: bool) -> Line<'_> {
    let mut words = Words::new(args);
    let exptime = words.next().ok_or(BAD)?;
    if Words::new(words.rest()).next().is_none() {
        return Err(BAD);
    }
    let exptime = parse_i32(exptime).ok_or(Refusal::new(fixed::INVALID_EXPTIME))?;
    Ok(Command::Get(Get { keys: keys(words.rest())?, cas, touch: Some(exptime), lease: false }))
}

fn lease_get(args: &[u8]) -> Line<'_> {
    Ok(Command::Get(Get { keys: keys(args)?, cas: false, touch: None, lease: true }))
}

/// Checks that there is at least one key, and that none is too long.
#[inline]
fn keys(text: &[u8]) -> Result<Words<'_>, Refusal> {
    let keys = Words::new(text);
    let is_good = if text.len() <= KEY_BYTES_MAX {
        text.iter().any(|&b| b != b' ')
    } else {
        !skip_spaces(text).is_empty() && has_no_long_word(text)
    };
    if is_good { Ok(keys) } else { Err(BAD) }
}

#[inline]
fn store(args: &[u8], verb: Verb) -> Line<'_> {
    let mut words = Words::new(args);
    let (Some(key), Some(flags), Some(exptime), Some(bytes)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BAD);
    };
    let value_bytes = parse_value_bytes(bytes).ok_or(BAD)?;
    let quiet = is_quiet(words.rest());
    let cas = if verb == Verb::Cas { words.next().and_then(parse_u64) } else { Some(0) };
    match (parse_client_flags(flags), parse_exptime(exptime), cas) {
        (Some(flags), Some(exptime), Some(cas)) if key.len() <= KEY_BYTES_MAX => {
            Ok(Command::Store(StoreCommand { key, cas, flags, exptime, value_bytes, verb, quiet }))
        }
        _ => Err(BAD.unless(quiet).with_body(value_bytes)),
    }
}

/// Parses a `lease-set` in mcrouter's form: the token comes first, and is required.
fn lease_set(args: &[u8]) -> Line<'_> {
    let mut words = Words::new(args);
    let (Some(key), Some(token), Some(flags), Some(exptime), Some(bytes)) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BAD);
    };
    let value_bytes = parse_value_bytes(bytes).ok_or(BAD)?;
    let quiet = is_quiet(words.rest());
    let verb = Verb::Lease;
    match (parse_u64(token), parse_client_flags(flags), parse_exptime(exptime)) {
        (Some(cas), Some(flags), Some(exptime)) if key.len() <= KEY_BYTES_MAX => {
            Ok(Command::Store(StoreCommand { key, cas, flags, exptime, value_bytes, verb, quiet }))
        }
        _ => Err(BAD.unless(quiet).with_body(value_bytes)),
    }
}

fn arithmetic(args: &[u8], decrement: bool) -> Line<'_> {
    let mut words = Words::new(args);
    let (Some(key), Some(delta)) = (words.next(), words.next()) else { return Err(BAD) };
    let quiet = is_quiet(args);
    if key.len() > KEY_BYTES_MAX {
        return Err(BAD.unless(quiet));
    }
    match parse_u64(delta) {
        Some(delta) => Ok(Command::Arithmetic(ArithmeticCommand { key, delta, decrement, quiet })),
        None => Err(Refusal::new(fixed::INVALID_DELTA).unless(quiet)),
    }
}

/// Parses a `delete`. A number after the key is the time for which adds are refused (the paper's
/// hold-off, which mcrouter passes on). Other words there are ignored, but more than four after `delete`
/// are refused: memcached 1.6.45 ignores any number of them, while libmemcached's memcapable requires an
/// error for five.
fn delete(args: &[u8]) -> Line<'_> {
    let mut words = Words::new(args);
    let key = words.next().ok_or(BAD)?;
    let time = words.clone().next().filter(|word| word.iter().all(u8::is_ascii_digit));
    if words.nth(DELETE_WORDS_MAX - 1).is_some() {
        return Err(Refusal::new(fixed::DELETE_USAGE));
    }
    let quiet = is_quiet(args);
    if key.len() > KEY_BYTES_MAX {
        return Err(BAD.unless(quiet));
    }
    let hold_off_s = match time.map(parse_u32) {
        None => 0,
        Some(Some(seconds @ 0..=HOLD_OFF_MAX_S)) => seconds,
        Some(_) => return Err(Refusal::new(fixed::HOLD_OFF_TOO_LONG).unless(quiet)),
    };
    Ok(Command::Delete { key, hold_off_s, quiet })
}

fn touch(args: &[u8]) -> Line<'_> {
    let mut words = Words::new(args);
    let (Some(key), Some(exptime)) = (words.next(), words.next()) else { return Err(BAD) };
    let quiet = is_quiet(args);
    if key.len() > KEY_BYTES_MAX {
        return Err(BAD.unless(quiet));
    }
    match parse_i32(exptime) {
        Some(exptime) => Ok(Command::Touch { key, exptime, quiet }),
        None => Err(Refusal::new(fixed::INVALID_EXPTIME).unless(quiet)),
    }
}

const BAD: Refusal = Refusal::new(fixed::BAD_FORMAT);

/// Shorter lines, counted with their line end, are refused without being parsed.
const LINE_BYTES_MIN: usize = 4;

/// The longest time for which a delete refuses adds, in seconds.
pub const HOLD_OFF_MAX_S: u32 = 60;
/// The most words after `delete`.
const DELETE_WORDS_MAX: usize = 4;
