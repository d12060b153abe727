//! The grammar as tables: lines, and their canonical lines or refusals.

use crate::lines::{self, Expect};
use guira_proto::{
    BadLine, Command, KEY_BYTES_MAX, Limits, Parsed, Verb, decode_base64, fixed, parse, reply,
};

fn request(line: &str) -> Command<'_> {
    match parse(line.as_bytes(), &Limits::DEFAULT) {
        Ok(Parsed::Request { request, used }) if used == line.len() => request,
        other => panic!("{line:?}: {other:?}"),
    }
}

fn canonical(request: Command<'_>) -> String {
    let mut out = Vec::new();
    request.encode(&mut out);
    String::from_utf8(out).expect("the tables are ASCII")
}

#[test]
fn each_line_means_what_the_table_says() {
    for (line, expect) in lines::rows() {
        for end in ["\r\n", "\n"] {
            let wire = format!("{line}{end}");
            // A line may be too short with one line end and long enough with the other.
            if end == "\n" && (3..4).contains(&wire.len()) {
                continue;
            }
            let parsed = parse(wire.as_bytes(), &Limits::DEFAULT);
            let error = |reply, swallow, close| BadLine { reply, used: wire.len(), swallow, close };
            match (expect, parsed) {
                (Expect::Same, Ok(Parsed::Request { request, used })) => {
                    assert_eq!((canonical(request), used), (line.clone() + "\r\n", wire.len()));
                }
                (Expect::As(other), Ok(Parsed::Request { request, used })) => {
                    assert_eq!(canonical(request), lines::expand(other) + "\r\n", "{line}");
                    assert_eq!(used, wire.len());
                }
                (Expect::Says(reply), Err(found)) => {
                    assert_eq!(found, error(reply, 0, false), "{line}");
                }
                (Expect::Swallows(reply, swallow), Err(found)) => {
                    assert_eq!(found, error(reply, swallow, false), "{line}");
                }
                (Expect::HangUp, Err(found)) => assert_eq!(found, error(b"", 0, true), "{line}"),
                (expect, parsed) => panic!("{line:?}: expected {expect:?}, got {parsed:?}"),
            }
        }
    }
}

/// The lines that only a server can choose, because they depend on its items or its flags.
const SERVER_ONLY: &str = "
    END STORED NOT_STORED STALE_STORED EXISTS NOT_FOUND DELETED TOUCHED OK RESET META_NOOP META_MISS
    BAD_DATA_CHUNK NON_NUMERIC BAD_COMMAND_LINE ILLEGAL_SLAB_ID STATS_DETAIL_USAGE STATS_DETAIL_NOT_ALLOWED
    STATS_CACHEDUMP_NOT_ALLOWED FLUSH_NOT_ALLOWED WATCH_NOT_ALLOWED METADUMP_NOT_ALLOWED MGDUMP_NOT_ALLOWED
    METADUMP_PIPELINED MGDUMP_PIPELINED WATCH_PIPELINED CRAWLER_DISABLED CRAWLER_BUSY CRAWLER_NOT_STARTED CRAWLER_UNKNOWN
    CRAWLER_START_FAILED CRAWLER_STOP_FAILED SLABS_BUSY SLABS_BAD_CLASS SLABS_NO_SPARE SLABS_SAME SLABS_DISABLED
    MEMLIMIT_OUT_OF_BOUNDS WATCHER_TOO_MANY WATCHER_FAILED SHUTDOWN_NOT_ENABLED SHUTDOWN_MODE TOO_LARGE
    OUT_OF_MEMORY_STORING OUT_OF_MEMORY_READING_BODY OUT_OF_MEMORY_WRITING OUT_OF_MEMORY_STATS
    OUT_OF_MEMORY_READING OUT_OF_MEMORY OUT_OF_MEMORY_NEW_ITEM TOO_MANY_CONNECTIONS
    UNAUTHENTICATED AUTH_TOKEN_TOO_LONG AUTH_BAD_END AUTH_BAD_TOKEN AUTH_FAILED";

#[test]
fn every_line_the_parser_can_say_is_in_the_table() {
    let said = |text: &[u8]| {
        lines::rows().any(|(_, expect)| match expect {
            Expect::Says(reply) | Expect::Swallows(reply, _) => reply == text,
            _ => false,
        })
    };
    for (name, text) in fixed::ALL {
        let is_server_only = SERVER_ONLY.split_whitespace().any(|other| other == *name);
        assert_ne!(said(text), is_server_only, "{name} is said by the parser or by the server");
    }
}

#[test]
fn a_store_line_carries_its_numbers() {
    let Command::Store(store) = request("cas k 7 -30 5 99 noreply\r\n") else { panic!() };
    assert_eq!((store.key, store.flags, store.exptime, store.cas), (&b"k"[..], 7, -30, 99));
    assert_eq!((store.value_bytes, store.verb, store.quiet), (5, Verb::Cas, true));
    let Command::Get(get) = request("gats 30 a b\r\n") else { panic!() };
    assert_eq!((get.touch, get.cas), (Some(30), true));
    assert_eq!(get.keys.collect::<Vec<_>>(), [b"a", b"b"]);
}

#[test]
fn meta_flags_are_found_by_letter_and_walked_in_order() {
    let line = "mg Zm9v b v k Oxyz T30 N-1 R5 C18446744073709551615 E9 q\r\n";
    let Command::MetaGet(meta) = request(line) else { panic!() };
    assert_eq!((meta.ttl(), meta.vivify(), meta.recache()), (Some(30), Some(-1), Some(5)));
    assert_eq!((meta.compare_cas(), meta.new_cas()), (Some(u64::MAX), Some(9)));
    assert!(meta.quiet() && meta.has(b'v') && !meta.has(b't') && !meta.has(b'!'));
    assert!(meta.is_base64());
    assert_eq!(decode_base64(meta.key(), &mut [0; KEY_BYTES_MAX]), Some(&b"foo"[..]));
    let walked: Vec<_> = meta.flags().map(|flag| (flag.letter(), flag.token())).collect();
    assert_eq!(walked[..4], [(b'b', &b""[..]), (b'v', b""), (b'k', b""), (b'O', b"xyz")]);
    assert_eq!(walked.len(), 10);

    let Command::MetaArithmetic(meta) = request("ma k\r\n") else { panic!() };
    assert_eq!((meta.delta(), meta.initial(), meta.is_decrement()), (1, 0, false));
    assert_eq!((meta.ttl(), meta.compare_cas(), meta.vivify()), (None, None, None));
    let Command::MetaArithmetic(meta) = request("ma k D5 J7 MD\r\n") else { panic!() };
    assert_eq!((meta.delta(), meta.initial(), meta.is_decrement()), (5, 7, true));
}

#[test]
fn the_mode_of_ms_and_a_cas_choose_the_verb() {
    for (flags, verb) in [
        ("", Verb::Set),
        (" MS", Verb::Set),
        (" ME", Verb::Add),
        (" MA", Verb::Append),
        (" MP", Verb::Prepend),
        (" MR", Verb::Replace),
        (" C5", Verb::Cas),
        (" MS C5", Verb::Cas),
        (" MR C5", Verb::Cas),
        (" ME C5", Verb::Add),
        (" MA C5", Verb::Append),
    ] {
        let line = format!("ms k 12 F3{flags}\r\n");
        let Command::MetaSet(meta) = request(&line) else { panic!("{line}") };
        assert_eq!((meta.verb(), meta.value_bytes(), meta.client_flags()), (verb, 12, 3), "{line}");
    }
}

#[test]
fn replies_are_written_as_memcached_writes_them() {
    let mut out = Vec::new();
    reply::value_header(&mut out, b"k", 5, 100, None);
    reply::value_header(&mut out, b"k", 0, 0, Some(18));
    reply::number(&mut out, 0);
    reply::stat(&mut out, "pid", b"1");
    reply::version(&mut out, "1.6.45");
    let mut meta = reply::MetaReply::value(&mut out, 3);
    meta.number(b'c', 10);
    meta.ttl(None);
    meta.ttl(Some(7));
    meta.key(b"foo", true);
    meta.echo(b"Oabc");
    meta.marks(true, true, false);
    meta.end();
    let mut meta = reply::MetaReply::status(&mut out, reply::MetaStatus::Done);
    meta.key(b"foo", false);
    meta.marks(false, true, true);
    meta.end();
    reply::MetaDebug {
        key: b"k",
        is_base64: false,
        exptime: -9,
        idle_s: 2,
        cas: 3,
        is_fetched: true,
        class: 1,
        size: 66,
    }
    .encode(&mut out);
    expect_test::expect![[r"
        VALUE k 5 100
        VALUE k 0 0 18
        0
        STAT pid 1
        VERSION 1.6.45
        VA 3 c10 t-1 t7 kZm9v b Oabc Z X
        HD kfoo X W
        ME k exp=-1 la=2 cas=3 fetch=yes cls=1 size=66
    "]]
    .assert_eq(&String::from_utf8(out).unwrap().replace("\r\n", "\n"));
}
