//! What a client's line asks.
//!
//! `guira-proto` parses the line. This module makes owned requests of it, whose keys and values are slices of the buffer
//! that was read.

use bytes::Bytes;
use guira_client::{Op, Request};
use guira_proto::{
    Admin, BadLine, Command, CrawlTarget, KEY_BYTES_MAX, Limits, Meta, MetaVerb, Parsed,
    StoreCommand, Verb, Words, fixed, parse,
};

use crate::sessions::keys::Keys;
use crate::sessions::manners::{AsRouter, Manners, NOREPLY};
use crate::sessions::meta::{self, BAD_KEY, Wanted, op_of};
use crate::sessions::service::Listing;

/// A request as a client sent it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A get of one kind, for several keys.
    Get { op: Op, exptime: i64, keys: Keys },
    /// A get for one key, as most gets are.
    GetOne(Request),
    /// Anything else for one key, and `flush_all`.
    One { request: Request, is_quiet: bool },
    /// A meta command for one key.
    Meta { request: Request, wanted: Wanted },
    /// `stats`, with the words that follow it.
    Stats(String),
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity { level: u32, is_quiet: bool },
    /// A list of all items.
    List(Listing),
    /// `shutdown`.
    Shutdown,
    /// `quit`.
    Quit,
    /// A request that is answered at once with `line`. If `closes`, the connection is closed afterwards.
    Refused { line: &'static [u8], closes: bool },
}

impl Asked {
    /// The operation, if the request has exactly one.
    pub(crate) fn op(&self) -> Option<Op> {
        match self {
            Asked::Get { op, .. } => Some(*op),
            Asked::GetOne(request) | Asked::One { request, .. } | Asked::Meta { request, .. } => {
                Some(request.op)
            }
            Asked::Version => Some(Op::Version),
            _ => None,
        }
    }

    /// Whether the request must be carried through even after its client has gone.
    pub(crate) fn is_change<M: Manners>(&self) -> bool {
        match self {
            Asked::One { request, .. } => keeps_change::<M>(request.op),
            Asked::Meta { wanted, .. } => !wanted.is_get(),
            _ => false,
        }
    }

    /// Bytes of the value that the request sends.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Asked::One { request, .. } | Asked::Meta { request, .. } => request.value.len(),
            _ => 0,
        }
    }

    /// Keys of a get, whose values may be long; 0 for any other request.
    pub(crate) fn gets(&self) -> usize {
        match self {
            Asked::Get { keys, .. } => keys.len(),
            Asked::GetOne(_) => 1,
            Asked::Meta { wanted, .. } => wanted.is_get().into(),
            _ => 0,
        }
    }
}

/// Whether an operation is a change that is carried through even after its client has gone.
pub(crate) fn keeps_change<M: Manners>(op: Op) -> bool {
    let is_dropped = M::IS_SERVER && op == Op::FlushAll;
    !op.is_get() && !is_dropped
}

/// What the front of the input holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A whole request, and its length in bytes.
    Whole(Asked, usize),
    /// No whole request yet; at least this many bytes are needed in all.
    Partial(usize),
    /// A refused request. The next `swallow` bytes, its body, are to be discarded.
    Skip { line: &'static [u8], used: usize, swallow: u64 },
}

/// Returns the operation of the first request in `chunk` from `at` on, and its length. If it isn't a whole request, returns
/// no operation and the number of bytes that are left.
pub fn first(chunk: &Bytes, at: usize) -> (Option<Op>, usize) {
    match take::<AsRouter>(chunk, at, usize::MAX) {
        Taken::Whole(asked, used) => (asked.op(), used),
        _ => (None, chunk.len() - at),
    }
}

/// Takes one request from `chunk`, from `at` on. A server stores no value longer than `value_max`.
pub(crate) fn take<M: Manners>(chunk: &Bytes, at: usize, value_max: usize) -> Taken {
    let input = &chunk[at..];
    if input.first() == Some(&BINARY_MAGIC) {
        let line = if M::IS_SERVER { NOT_BINARY } else { MALFORMED };
        return Taken::Whole(Asked::Refused { line, closes: true }, input.len());
    }
    let limits = if M::IS_SERVER { &Limits::DEFAULT } else { &LIMITS };
    match parse(input, limits) {
        Ok(Parsed::Request { request, used }) => {
            if M::IS_SERVER
                && let Some(refused) = refused_by_server(&request, used, value_max)
            {
                return refused;
            }
            whole::<M>(chunk, at, request, used)
        }
        Ok(Parsed::Incomplete { at_least }) => Taken::Partial(at_least),
        // memcached closes the connection without a reply.
        Err(BadLine { reply: b"", used, close: true, .. })
            if M::IS_SERVER && used > limits.line_bytes_max =>
        {
            let refused = Asked::Refused { line: TOO_LONG, closes: true };
            Taken::Whole(refused, used.min(input.len()))
        }
        Err(BadLine { reply: line, used, swallow, close }) if M::IS_SERVER => match swallow {
            0 => Taken::Whole(Asked::Refused { line, closes: close }, used.min(input.len())),
            _ => Taken::Skip { line, used, swallow },
        },
        Err(error) => {
            let line = &input[..error.used.min(input.len())];
            if let Some(taken) = metaget(chunk, line) {
                return taken;
            }
            let line = if has_long_key(line) {
                BAD_KEY
            } else if is_meta(line) && !error.close {
                error.reply
            } else {
                // What follows can't be trusted to begin with a command.
                return Taken::Whole(Asked::Refused { line: MALFORMED, closes: true }, error.used);
            };
            match error.swallow {
                0 => Taken::Whole(Asked::Refused { line, closes: false }, error.used),
                swallow => Taken::Skip { line, used: error.used, swallow },
            }
        }
    }
}

/// Returns the refusal of a request that a server rejects before it looks at the body: a lease command, which memcached
/// doesn't have, or a value that is too long.
fn refused_by_server(request: &Command<'_>, used: usize, value_max: usize) -> Option<Taken> {
    let (bytes, line) = match request {
        Command::Get(get) if get.lease => {
            return Some(Taken::Whole(Asked::Refused { line: fixed::ERROR, closes: false }, used));
        }
        Command::Store(StoreCommand { verb: Verb::Lease, value_bytes, .. }) => {
            (*value_bytes, fixed::ERROR)
        }
        Command::Store(StoreCommand { value_bytes, quiet: true, .. }) => (*value_bytes, &b""[..]),
        Command::Store(store) => (store.value_bytes, fixed::TOO_LARGE),
        Command::MetaSet(meta) => (meta.value_bytes(), fixed::TOO_LARGE),
        _ => return None,
    };
    let is_refused = line == fixed::ERROR || bytes as usize > value_max;
    is_refused.then(|| Taken::Skip { line, used, swallow: u64::from(bytes) + 2 })
}

fn whole<M: Manners>(chunk: &Bytes, at: usize, line: Command<'_>, used: usize) -> Taken {
    let one = |request, is_quiet| Asked::One { request, is_quiet };
    let keyed = |op, key: &[u8]| Request::new(op, chunk.slice_ref(key));
    let asked = match line {
        Command::Get(get) => {
            let op = match (get.lease, get.touch.is_some(), get.cas) {
                (true, ..) => Op::LeaseGet,
                (_, false, false) => Op::Get,
                (_, false, true) => Op::Gets,
                (_, true, false) => Op::Gat,
                (_, true, true) => Op::Gats,
            };
            let exptime = get.touch.unwrap_or_default().into();
            let mut words = get.keys;
            match (words.next(), words.next()) {
                (Some(key), None) => Asked::GetOne(Request { exptime, ..keyed(op, key) }),
                _ => {
                    let keys = Keys::new(chunk.slice_ref(get.keys.rest()));
                    if keys.len() > KEYS_MAX {
                        let refused = Asked::Refused { line: TOO_MANY_KEYS, closes: false };
                        return Taken::Whole(refused, used);
                    }
                    Asked::Get { op, exptime, keys }
                }
            }
        }
        Command::Store(store) => return stored::<M>(chunk, at, store, used),
        Command::Delete { key, hold_off_s, quiet } => {
            let meta = (M::IS_SERVER && quiet).then(|| NOREPLY.into());
            one(Request { exptime: hold_off_s.into(), meta, ..keyed(Op::Delete, key) }, quiet)
        }
        Command::Arithmetic(a) => {
            let op = if a.decrement { Op::Decr } else { Op::Incr };
            one(Request { delta: a.delta, ..keyed(op, a.key) }, a.quiet)
        }
        Command::Touch { key, exptime, quiet } => {
            one(Request { exptime: exptime.into(), ..keyed(Op::Touch, key) }, quiet)
        }
        Command::FlushAll { exptime, quiet } => {
            one(Request { exptime: exptime.into(), ..Request::new(Op::FlushAll, "") }, quiet)
        }
        Command::Version => Asked::Version,
        Command::Quit => Asked::Quit,
        Command::Stats(words) => {
            let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
            Asked::Stats(words.join(" "))
        }
        Command::Admin { command: Admin::Shutdown(_), .. } => Asked::Shutdown,
        Command::MetaGet(meta) => metas::<M>(chunk, at, MetaVerb::Get, &meta),
        Command::MetaDelete(meta) => metas::<M>(chunk, at, MetaVerb::Delete, &meta),
        Command::MetaArithmetic(meta) => metas::<M>(chunk, at, MetaVerb::Arithmetic, &meta),
        Command::MetaSet(meta) => return meta_stored::<M>(chunk, at, &meta, used),
        Command::MetaNoop => Asked::Refused { line: fixed::META_NOOP, closes: false },
        Command::Verbosity { level, quiet: is_quiet } if M::IS_SERVER => {
            Asked::Verbosity { level, is_quiet }
        }
        Command::Admin {
            command: Admin::Metadump(CrawlTarget::All | CrawlTarget::Hash), ..
        } if M::IS_SERVER => Asked::List(Listing::Metadump),
        Command::Admin { command: Admin::Mgdump(CrawlTarget::All | CrawlTarget::Hash), .. }
            if M::IS_SERVER =>
        {
            Asked::List(Listing::Mgdump)
        }
        Command::Verbosity { quiet: true, .. } => Asked::Refused { line: b"", closes: false },
        Command::MetaDebug { .. } | Command::Verbosity { .. } | Command::Admin { .. } => {
            Asked::Refused { line: fixed::ERROR, closes: false }
        }
    };
    Taken::Whole(asked, used)
}

/// Most keys of a get. More are refused before any server is asked.
pub(crate) const KEYS_MAX: usize = 64 << 10;
pub(crate) const TOO_MANY_KEYS: &[u8] = b"CLIENT_ERROR too many keys: a get may have 65536\r\n";

fn stored<M: Manners>(chunk: &Bytes, at: usize, store: StoreCommand<'_>, used: usize) -> Taken {
    let value_bytes = store.value_bytes as usize;
    let end = used + value_bytes + 2;
    let Some(body) = chunk[at..].get(used..end) else { return Taken::Partial(end) };
    let Some(value) = body.strip_suffix(b"\r\n") else {
        return Taken::Whole(bad_end::<M>(store.quiet), end);
    };
    let request = Request {
        value: chunk.slice_ref(value),
        flags: store.flags,
        exptime: store.exptime.into(),
        token: store.cas,
        ..Request::new(op_of(store.verb), chunk.slice_ref(store.key))
    };
    Taken::Whole(Asked::One { request, is_quiet: store.quiet }, end)
}

/// The answer to a body that doesn't end where its line said.
fn bad_end<M: Manners>(is_quiet: bool) -> Asked {
    match (M::IS_SERVER, is_quiet) {
        (false, _) => Asked::Refused { line: MALFORMED, closes: true },
        (true, true) => Asked::Refused { line: b"", closes: false },
        (true, false) => Asked::Refused { line: fixed::BAD_DATA_CHUNK, closes: false },
    }
}

/// The flags of a meta command: the rest of its line behind the key, or behind the value's length.
fn flags_of(chunk: &Bytes, at: usize, verb: MetaVerb) -> &[u8] {
    let line = chunk[at..].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = Words::new(line.strip_suffix(b"\r").unwrap_or(line));
    let before = if verb == MetaVerb::Set { 3 } else { 2 };
    words.nth(before - 1);
    words.rest()
}

fn metas<M: Manners>(chunk: &Bytes, at: usize, verb: MetaVerb, command: &Meta<'_>) -> Asked {
    match meta::routed::<M>(chunk, verb, command, flags_of(chunk, at, verb)) {
        Ok((request, wanted)) => Asked::Meta { request, wanted },
        Err(line) => Asked::Refused { line, closes: false },
    }
}

fn meta_stored<M: Manners>(chunk: &Bytes, at: usize, command: &Meta<'_>, used: usize) -> Taken {
    let end = used + command.value_bytes() as usize + 2;
    let Some(body) = chunk[at..].get(used..end) else { return Taken::Partial(end) };
    let Some(value) = body.strip_suffix(b"\r\n") else {
        return Taken::Whole(bad_end::<M>(false), end);
    };
    let mut asked = metas::<M>(chunk, at, MetaVerb::Set, command);
    if let Asked::Meta { request, .. } = &mut asked {
        request.value = chunk.slice_ref(value);
    }
    Taken::Whole(asked, end)
}

/// mcrouter's `metaget KEY …`, which memcached doesn't have.
fn metaget(chunk: &Bytes, line: &[u8]) -> Option<Taken> {
    let keys = line.strip_prefix(b"metaget ")?.trim_ascii_end();
    let has_long_key = Words::new(keys).any(|key| key.len() > KEY_BYTES_MAX);
    let keys = Keys::new(chunk.slice_ref(keys));
    if !(1..=KEYS_MAX).contains(&keys.len()) || has_long_key {
        return None;
    }
    Some(Taken::Whole(Asked::Get { op: Op::MetaGet, exptime: 0, keys }, line.len()))
}

/// Whether the line is a meta command, whose clients know memcached's errors.
fn is_meta(line: &[u8]) -> bool {
    matches!(Words::new(line).next(), Some(b"mg" | b"ms" | b"md" | b"ma" | b"me" | b"mn"))
}

/// Whether the line has a key that is too long, which is why it was refused.
fn has_long_key(line: &[u8]) -> bool {
    let mut words = Words::new(line.trim_ascii_end());
    match words.next() {
        Some(b"get" | b"gets" | b"lease-get" | b"metaget" | b"gat" | b"gats") => {
            words.any(|word| word.len() > KEY_BYTES_MAX)
        }
        Some(_) => words.next().is_some_and(|word| word.len() > KEY_BYTES_MAX),
        None => false,
    }
}

/// The answer to a key that is too long.
pub(crate) fn bad_key<M: Manners>() -> &'static [u8] {
    if M::IS_SERVER { fixed::BAD_FORMAT } else { BAD_KEY }
}

/// A router's limits on lines. A line may be long enough that a key that is too long is reported as such.
const LIMITS: Limits = Limits { line_bytes_max: 64 << 10, multiget_line_bytes_max: LINE_BYTES_MAX };
/// Longer lines are refused, and their connections closed.
pub(crate) const LINE_BYTES_MAX: usize = 8 << 20;
/// The first byte of a request of the binary protocol. Such a request has no line's end, and its client waits for 24 bytes.
const BINARY_MAGIC: u8 = 0x80;
const NOT_BINARY: &[u8] =
    b"CLIENT_ERROR the binary protocol is not spoken here: use text or meta commands\r\n";
const TOO_LONG: &[u8] = b"CLIENT_ERROR line too long\r\n";
const MALFORMED: &[u8] = b"CLIENT_ERROR malformed request\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn take(chunk: &Bytes, at: usize) -> Taken {
        super::take::<AsRouter>(chunk, at, usize::MAX)
    }

    fn take_all(text: &'static str) -> Taken {
        take(&Bytes::from(text), 0)
    }

    #[test]
    fn a_line_becomes_requests_with_the_keys_that_it_named() {
        let Taken::Whole(Asked::Get { op, exptime, keys }, used) = take_all("gats 9 a b\r\n")
        else {
            panic!("a get");
        };
        assert_eq!((op, exptime, keys.len(), used), (Op::Gats, 9, 2, 12));
        let Taken::Whole(Asked::One { request, is_quiet }, 26) =
            take_all("lease-set k 5 1 2 3\r\nabc\r\nget")
        else {
            panic!("a lease-set: {:?}", take_all("lease-set k 5 1 2 3\r\nabc\r\nget"));
        };
        assert!(!is_quiet);
        assert_eq!(
            (request.token, request.flags, request.exptime, &request.value[..]),
            (5, 1, 2, &b"abc"[..])
        );
        let Taken::Whole(Asked::Get { op: Op::MetaGet, keys, .. }, _) = take_all("metaget k\r\n")
        else {
            panic!("a metaget");
        };
        assert_eq!(keys.collect::<Vec<_>>(), ["k"]);
    }

    #[test]
    fn a_meta_line_becomes_a_request_and_what_its_answer_needs() {
        let Taken::Whole(Asked::Meta { request, .. }, used) =
            take_all("ms k 3 T9 F5 MA\r\nabc\r\n")
        else {
            panic!("a meta set");
        };
        assert_eq!((request.op, request.exptime, request.flags, used), (Op::Append, 9, 5, 22));
        assert_eq!(request.value, "abc");
        // No text command appends only if nothing has changed; a `cas` does the rest.
        for (line, op, meta) in [
            ("ms k 3 C7 MA\r\nabc\r\n", Op::Append, Some("C7")),
            ("ms k 3 C7 MP\r\nabc\r\n", Op::Prepend, Some("C7")),
            ("ms k 3 C7 ME\r\nabc\r\n", Op::Add, Some("C7")),
            ("ms k 3 C7 MS\r\nabc\r\n", Op::Cas, None),
            ("ms k 3 C7 MR\r\nabc\r\n", Op::Cas, None),
        ] {
            let Taken::Whole(Asked::Meta { request, .. }, _) = take_all(line) else {
                panic!("a meta set");
            };
            assert_eq!((request.op, request.meta.as_deref()), (op, meta.map(str::as_bytes)));
        }
        let Taken::Whole(Asked::Meta { request, .. }, _) = take_all("mg a2V5 b v c T30\r\n") else {
            panic!("a meta get");
        };
        assert_eq!((request.op, &request.key[..], request.exptime), (Op::Gats, &b"key"[..], 30));
        let Taken::Whole(Asked::Meta { request, .. }, _) = take_all("mg k q v T9 N30 t\r\n") else {
            panic!("a meta get");
        };
        assert_eq!((request.op, request.meta.as_deref()), (Op::Gat, Some(&b"v T N30 t"[..])));
    }

    #[test]
    fn what_cannot_be_read_closes_the_connection_and_a_long_key_does_not() {
        assert_eq!(
            take_all("get\r\n"),
            Taken::Whole(Asked::Refused { line: MALFORMED, closes: true }, 5)
        );
        let long = "x".repeat(251);
        let line = Bytes::from(format!("get {long}\r\n"));
        let refused = Asked::Refused { line: BAD_KEY, closes: false };
        assert_eq!(take(&line, 0), Taken::Whole(refused, line.len()));
        let line = Bytes::from(format!("set {long} 0 0 3\r\nabc\r\n"));
        let skip = Taken::Skip { line: BAD_KEY, used: line.len() - 5, swallow: 5 };
        assert_eq!(take(&line, 0), skip);
    }

    #[test]
    fn a_client_of_the_binary_protocol_is_told() {
        let request = Bytes::from_static(b"\x80\x0b\0\0");
        let refused = |line| Taken::Whole(Asked::Refused { line, closes: true }, 4);
        assert_eq!(take(&request, 0), refused(MALFORMED));
        let taken = super::take::<crate::sessions::manners::AsServer>(&request, 0, usize::MAX);
        assert_eq!(taken, refused(NOT_BINARY));
    }

    #[test]
    fn a_storage_request_says_how_many_bytes_it_waits_for() {
        assert_eq!(take_all("set k 0 0 3\r\nab"), Taken::Partial(18));
        assert_eq!(take_all("set k 0 0"), Taken::Partial(10));
    }
}
