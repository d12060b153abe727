//! Tests of the laws: a stream means the same however it is cut and whatever follows, and what is parsed can be encoded.

use guira_proto::reply::{self, ReplyLimits, ReplyParsed};
use guira_proto::{BadLine, Command, Limits, Parsed, parse, parse_from};
use proptest::prelude::*;

use crate::lines;

const LIMITS: Limits = Limits::DEFAULT;

/// What a connection receives from a stream: each request in canonical form with its body, and each refusal.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    events: Vec<(Vec<u8>, Vec<u8>)>,
    refusals: Vec<(usize, BadLine)>,
    is_closed: bool,
}

/// A connection as a server would have it.
#[derive(Default)]
struct Connection {
    buffer: Vec<u8>,
    scanned: usize,
    body_left: usize,
    swallow_left: usize,
    heard: Heard,
}

impl Connection {
    fn receive(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
        while self.step() {}
    }

    /// Consumes one request, refusal or part of a body. Returns false if more bytes are needed.
    fn step(&mut self) -> bool {
        if self.buffer.is_empty() || self.heard.is_closed {
            return false;
        }
        if self.swallow_left > 0 {
            let taken = self.buffer.len().min(self.swallow_left);
            self.buffer.drain(..taken);
            self.swallow_left -= taken;
            return true;
        }
        if self.body_left > 0 {
            let taken = self.buffer.len().min(self.body_left);
            let body = &mut self.heard.events.last_mut().expect("its line came").1;
            body.extend(self.buffer.drain(..taken));
            self.body_left -= taken;
            return true;
        }
        match parse_from(&self.buffer, self.scanned, &LIMITS) {
            Ok(Parsed::Request { request, used }) => {
                let mut line = Vec::new();
                request.encode(&mut line);
                self.body_left = body_bytes(&request);
                self.heard.events.push((line, Vec::new()));
                self.drop_front(used);
            }
            Ok(Parsed::Incomplete { at_least }) => {
                assert!(at_least > self.buffer.len());
                self.scanned = self.buffer.len();
                return false;
            }
            Err(error) => {
                self.heard.refusals.push((self.heard.events.len(), error));
                self.heard.is_closed = error.close;
                self.swallow_left = usize::try_from(error.swallow).expect("under 2^31 + 2");
                self.drop_front(error.used);
            }
        }
        true
    }

    fn drop_front(&mut self, used: usize) {
        self.buffer.drain(..used);
        self.scanned = 0;
    }
}

fn body_bytes(request: &Command<'_>) -> usize {
    match request {
        Command::Store(store) => store.value_bytes as usize + 2,
        Command::MetaSet(meta) => meta.value_bytes() as usize + 2,
        _ => 0,
    }
}

fn hear<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Heard {
    let mut connection = Connection::default();
    for piece in pieces {
        connection.receive(piece);
    }
    connection.heard
}

fn wire(line: &str) -> Vec<u8> {
    format!("{line}\r\n").into_bytes()
}

#[test]
fn a_mere_prefix_is_never_an_error() {
    for (line, _) in lines::rows() {
        let wire = wire(&line);
        for cut in 0..wire.len() {
            match parse(&wire[..cut], &LIMITS) {
                Ok(Parsed::Incomplete { at_least }) => {
                    assert!(cut < at_least && at_least <= wire.len());
                }
                other => panic!("{line:?} cut at {cut}: {other:?}"),
            }
            let resumed = parse_from(&wire, cut, &LIMITS);
            assert_eq!(resumed, parse(&wire, &LIMITS), "{line:?} resumed at {cut}");
        }
    }
}

#[test]
fn each_line_cut_at_each_byte_gives_the_same_requests() {
    for (line, _) in lines::rows() {
        let mut stream = wire(&line);
        stream.extend_from_slice(b"hello\r\nmg after v\r\nset x 0 0 3\r\nabc\r\nget y\r\n");
        let whole = hear([&stream[..]]);
        for cut in 0..=stream.len() {
            assert_eq!(hear([&stream[..cut], &stream[cut..]]), whole, "{line:?} cut at {cut}");
        }
        assert_eq!(hear(stream.chunks(1)), whole, "{line:?} byte by byte");
    }
}

#[test]
fn what_follows_the_line_does_not_matter() {
    for (line, _) in lines::rows() {
        let wire = wire(&line);
        let alone = parse(&wire, &LIMITS);
        for garbage in [&b"\n"[..], b" noreply\r\n", b"\0\xff\x80", b"get k\r\n", b"HTTP/1.1\r\n"] {
            let followed = [&wire[..], garbage].concat();
            assert_eq!(parse(&followed, &LIMITS), alone, "{line:?} then {garbage:?}");
        }
    }
}

#[test]
fn what_was_scanned_is_not_searched_again() {
    let input = b"get a\nget b\n";
    assert_eq!(parse_from(input, input.len(), &LIMITS), Ok(Parsed::Incomplete { at_least: 13 }));
    assert_eq!(parse_from(input, usize::MAX, &LIMITS), Ok(Parsed::Incomplete { at_least: 13 }));
}

#[test]
fn a_long_line_without_end_closes_unless_it_is_a_multiget() {
    let open = |start: &[u8], length: usize| {
        let mut line = start.to_vec();
        line.resize(length, b' ');
        match parse(&line, &LIMITS) {
            Ok(Parsed::Incomplete { .. }) => true,
            Err(BadLine { reply: b"", close: true, used, .. }) if used == length => false,
            other => panic!("{other:?}"),
        }
    };
    let spaces = [b' '; 101];
    for (start, length, is_open) in [
        (&b"incr k"[..], 2048, true),
        (b"incr k", 2049, false),
        (b"", 2049, false),
        (b"mg k", 2049, false),
        (b"gat 0 k", 2049, false),
        (b"get", 2049, true),
        (b"gets k", 2049, true),
        (b"getsk", 2049, false),
        (&[&spaces[..100], b"get k"].concat(), 4096, true),
        (&[&spaces[..101], b"get k"].concat(), 4096, false),
        (b"get k", 8 << 20, true),
        (b"get k", (8 << 20) + 1, false),
    ] {
        assert_eq!(
            open(start, length),
            is_open,
            "{:?} … {length}",
            start.escape_ascii().to_string()
        );
    }
    let mut whole = b"incr k ".to_vec();
    whole.resize(4000, b' ');
    whole.extend_from_slice(b"1\r\n");
    assert!(matches!(parse(&whole, &LIMITS), Ok(Parsed::Request { .. })), "complete, so accepted");
    let endless = [b"get k".repeat(2 << 20), b"\n".to_vec()].concat();
    assert!(matches!(parse(&endless, &LIMITS), Err(BadLine { close: true, .. })));
}

const REPLIES: &[&str] = &[
    "VALUE k 5 3\r\nabc\r\n",
    "VALUE k 4294967295 0 18446744073709551615\r\n\r\n",
    "VA 2\r\n\r\n\r\n",
    "VA 3 c5 t-1 W\r\nabc\r\n",
    "HD\r\n",
    "HD t30 Oabc\r\n",
    "EN\r\n",
    "NF kfoo\r\n",
    "NS\r\n",
    "EX c0\r\n",
    "END\r\n",
    "STORED\r\n",
    "NOT_STORED\r\n",
    "STALE_STORED\r\n",
    "LVALUE k 18446744073709551615 5 3\r\nabc\r\n",
    "LVALUE k 1 0 0\r\n\r\n",
    "EXISTS\r\n",
    "NOT_FOUND\r\n",
    "DELETED\r\n",
    "TOUCHED\r\n",
    "OK\r\n",
    "RESET\r\n",
    "MN\r\n",
    "0\r\n",
    "18446744073709551615\r\n",
    "STAT pid 1\r\n",
    "STAT 1:chunk size\r\n",
    "VERSION 1.6.45\r\n",
    "ME k exp=-1 la=0\r\n",
    "ERROR\r\n",
    "ERROR Too many open connections\r\n",
    "CLIENT_ERROR bad data chunk\r\n",
    "SERVER_ERROR out of memory\r\n",
    "BUSY currently processing crawler request\r\n",
    "key=a exp=-1 la=0 cas=1\r\n",
];

#[test]
fn replies_are_whole_or_not_there_and_can_be_written_again() {
    for text in REPLIES {
        let wire = text.as_bytes();
        for cut in 0..wire.len() {
            let parsed = reply::parse(&wire[..cut], &ReplyLimits::DEFAULT);
            let Ok(ReplyParsed::Incomplete { at_least }) = parsed else {
                panic!("{text:?} cut at {cut}: {parsed:?}");
            };
            assert!(cut < at_least && at_least <= wire.len(), "{text:?} cut at {cut}");
        }
        let followed = [wire, b"x\r\n"].concat();
        let Ok(ReplyParsed::Reply { reply, used }) = reply::parse(&followed, &ReplyLimits::DEFAULT)
        else {
            panic!("{text:?} is whole");
        };
        assert_eq!(used, wire.len());
        let mut out = Vec::new();
        reply.encode(&mut out);
        assert_eq!(out, wire, "{reply:?}");
    }
}

#[test]
fn a_reply_that_is_no_reply_is_refused() {
    use reply::ReplyError::{BadHeader, BadValueEnd, LineTooLong, ValueTooLong};
    let limits = ReplyLimits { line_bytes_max: 30, value_bytes_max: 10 };
    for (text, error) in [
        ("VALUE k 0\r\n", BadHeader),
        ("LVALUE k 0 1\r\n", BadHeader),
        ("LVALUE k 0 1 1 1\r\n", BadHeader),
        ("VALUE k 0 x\r\n", BadHeader),
        ("VALUE k 0 1 2 3\r\n", BadHeader),
        ("VALUE  0 1\r\n", BadHeader),
        ("VA x\r\n", BadHeader),
        ("VA 11\r\n", ValueTooLong),
        ("VA 4294967295\r\n", ValueTooLong),
        ("VA 1\r\nabc", BadValueEnd),
        ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", LineTooLong),
        ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", LineTooLong),
    ] {
        assert_eq!(reply::parse(text.as_bytes(), &limits), Err(error), "{text:?}");
    }
}

/// Streams that resemble the protocol: its words, in any order.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        8 => proptest::sample::select(lines::rows().map(|(line, _)| line.into_bytes()).collect::<Vec<_>>()),
        4 => proptest::sample::select(
            [" ", "\r\n", "\n", "\r", "noreply", "0", "5", "-1", "get ", "mg ", "ms k 2 ", "set k 0 0 3"]
                .map(|word| word.as_bytes().to_vec()).to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(word, 0..12).prop_map(|words| words.join(&b"\r\n"[..]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_means_the_same_however_it_is_cut(
        stream in soup(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts.into_iter().chain([stream.len()]) {
            pieces.push(&stream[start..cut]);
            start = cut;
        }
        prop_assert_eq!(hear(pieces), hear([&stream[..]]));
    }

    #[test]
    fn what_is_read_can_be_written_and_read_again(stream in soup()) {
        if let Ok(Parsed::Request { request, used }) = parse(&stream, &LIMITS) {
            prop_assert!(used <= stream.len());
            let mut line = Vec::new();
            request.encode(&mut line);
            let expected = Ok(Parsed::Request { request, used: line.len() });
            prop_assert_eq!(parse(&line, &LIMITS), expected);
        }
    }

    #[test]
    fn no_bytes_panic(input in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&input, &LIMITS);
        let _ = reply::parse(&input, &ReplyLimits::DEFAULT);
        let _ = hear([&input[..]]);
    }
}
