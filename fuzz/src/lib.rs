//! The laws that the fuzz targets check, on whatever bytes they are given.
//!
//! Each input is copied to a heap block of its own size first, so that AddressSanitizer sees a read past its end.
//!
//! Run one with `cargo fuzz run text -- -max_total_time=600` (nightly, or `RUSTC_BOOTSTRAP=1` on stable). `canary` must
//! crash: it shows that the others could.

#![forbid(unsafe_code)]

mod packets;
mod store;

pub use packets::{check_datagram, check_packets};
pub use store::open_changed;

use guira_proto::reply::{self, ReplyLimits, ReplyParsed};
use guira_proto::{Command, KEY_BYTES_MAX, Limits, Parsed, decode_base64, parse, parse_from};

const LIMITS: Limits = Limits::DEFAULT;

/// Parses a whole stream, request by request, and checks the laws on each.
pub fn check_requests(stream: &[u8]) {
    let mut rest = stream;
    while !rest.is_empty() {
        let Some(taken) = check_request(rest) else { return };
        rest = &rest[taken.min(rest.len())..];
    }
}

/// Checks one request at the front of `input`; how many bytes it and its body take, if the stream goes on.
fn check_request(input: &[u8]) -> Option<usize> {
    let input = input.to_vec();
    let parsed = parse(&input, &LIMITS);
    let (used, body) = match parsed {
        Ok(Parsed::Incomplete { at_least }) => {
            assert!(!input.contains(&b'\n') && at_least > input.len());
            return None;
        }
        Ok(Parsed::Request { request, used }) => {
            assert_written_again(&request);
            assert_walkable(&request);
            (used, body_bytes(&request))
        }
        Err(error) => {
            assert!(error.reply.is_empty() || error.reply.ends_with(b"\r\n"));
            if error.close {
                assert!(error.used <= input.len());
                return None;
            }
            (error.used, usize::try_from(error.swallow).expect("under 2^31 + 2"))
        }
    };
    assert!(used <= input.len(), "read past the end");
    let line = input[..used].to_vec();
    assert_eq!(line.iter().position(|&b| b == b'\n'), Some(used - 1), "more than one line");
    assert_eq!(parse(&line, &LIMITS), parsed, "what follows the line mattered");
    // A longer line is refused while it is unfinished, if nobody would wait for it.
    if used <= LIMITS.line_bytes_max {
        for cut in cuts(used) {
            let prefix = line[..cut].to_vec();
            let Ok(Parsed::Incomplete { .. }) = parse(&prefix, &LIMITS) else {
                panic!("a prefix of {cut} bytes is not incomplete");
            };
            assert_eq!(parse_from(&line, cut, &LIMITS), parsed, "resumed at {cut}");
        }
    }
    Some(used.saturating_add(body))
}

/// Each cut of a short line, some of a long one.
fn cuts(used: usize) -> impl Iterator<Item = usize> {
    (0..used).step_by(used / 64 + 1)
}

fn body_bytes(request: &Command<'_>) -> usize {
    match request {
        Command::Store(store) => store.value_bytes as usize + 2,
        Command::MetaSet(meta) => meta.value_bytes() as usize + 2,
        _ => 0,
    }
}

fn assert_written_again(request: &Command<'_>) {
    let mut line = Vec::new();
    request.encode(&mut line);
    let expected = Parsed::Request { request: *request, used: line.len() };
    assert_eq!(parse(&line, &LIMITS), Ok(expected), "written as {}", line.escape_ascii());
    let mut again = Vec::new();
    request.encode(&mut again);
    assert_eq!(again, line);
}

/// What a server relies on once a request was accepted.
fn assert_walkable(request: &Command<'_>) {
    let good = |key: &[u8]| (1..=KEY_BYTES_MAX).contains(&key.len()) && !key.contains(&b' ');
    match request {
        Command::Get(get) => {
            assert!(get.keys.count() > 0 && get.keys.into_iter().all(good));
        }
        Command::Store(store) => assert!(good(store.key)),
        Command::Delete { key, .. } | Command::Touch { key, .. } => assert!(good(key)),
        Command::Arithmetic(arithmetic) => assert!(good(arithmetic.key)),
        Command::MetaDebug { key, base64 } => {
            assert!(good(key));
            assert!(!base64 || decode_base64(key, &mut [0; KEY_BYTES_MAX]).is_some());
        }
        Command::MetaGet(meta)
        | Command::MetaSet(meta)
        | Command::MetaDelete(meta)
        | Command::MetaArithmetic(meta) => {
            assert!(good(meta.key()) && meta.flags().count() <= 18);
            for flag in meta.flags() {
                assert!(meta.has(flag.letter()));
                assert!(flag.letter() != b'O' || flag.text().len() <= 32);
            }
            let decoded = decode_base64(meta.key(), &mut [0; KEY_BYTES_MAX]).map(<[u8]>::len);
            assert!(!meta.is_base64() || decoded.is_some_and(|length| length > 0));
        }
        _ => {}
    }
}

/// Parses a whole stream of replies and checks the laws on each.
pub fn check_replies(stream: &[u8]) {
    let limits = ReplyLimits { line_bytes_max: 512, value_bytes_max: 4096 };
    let mut rest = stream;
    while !rest.is_empty() {
        let input = rest.to_vec();
        let parsed = reply::parse(&input, &limits);
        let (reply, used) = match parsed {
            Ok(ReplyParsed::Reply { reply, used }) => (reply, used),
            Ok(ReplyParsed::Incomplete { at_least }) => {
                assert!(at_least > input.len());
                return;
            }
            Err(_) => return,
        };
        assert!(used <= input.len());
        let whole = input[..used].to_vec();
        assert_eq!(reply::parse(&whole, &limits), parsed, "what follows the reply mattered");
        for cut in cuts(used) {
            let prefix = whole[..cut].to_vec();
            let Ok(ReplyParsed::Incomplete { at_least }) = reply::parse(&prefix, &limits) else {
                panic!("a prefix of {cut} bytes is not incomplete");
            };
            assert!(at_least <= used);
        }
        let mut out = Vec::new();
        reply.encode(&mut out);
        let again = ReplyParsed::Reply { reply, used: out.len() };
        assert_eq!(reply::parse(&out, &ReplyLimits::DEFAULT), Ok(again));
        rest = &rest[used..];
    }
}
