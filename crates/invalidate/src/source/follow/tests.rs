//! Logs of constructed events, followed to the journal.

use super::*;
use crate::config::{InvalidateConfig, JournalLimits, WhenFull};
use crate::line::Work;
use crate::source::made::{self, Made};
use crate::source::packets::Packets;
use crate::source::recovery::Recovered;
use std::time::Duration;

fn config() -> InvalidateConfig {
    config_by("count")
}

fn config_by(on_unknown: &str) -> InvalidateConfig {
    let text = r#"{"state": "/nowhere", "destinations": {"c1": {"routers": ["r1"]}},
            "rules": [{"table": "shop.users", "keys": ["user:{id}", "name:{name}"]}],
            "sources": {"db": {"kind": "mariadb", "hosts": ["localhost"], "user": "guira", "server_id": 7,
              "on_unknown": "count", "comments": {"prefixes": ["page:"], "keys_max": 4096}}}}"#;
    crate::config::parse(&text.replace("\"count\"", &format!("\"{on_unknown}\""))).unwrap()
}

/// The result of following a log.
struct Told {
    keys: Vec<String>,
    position: String,
    stored: String,
    prepared: u64,
    unknown: u64,
    why: String,
}

impl Told {
    fn keys(&self) -> Vec<&str> {
        self.keys.iter().map(|key| &**key).collect()
    }
}

/// Follows a log to its end, where the connection breaks.
fn follow(log: &[Made]) -> Told {
    let events: Vec<Vec<u8>> = log.iter().map(|event| event.bytes(100)).collect();
    follow_bytes(&events, false)
}

/// Like [`follow`], with a value of `on_unknown`.
fn follow_by(log: &[Made], on_unknown: &str) -> Told {
    let mut said = Vec::new();
    log.iter().for_each(|event| made::put_packet(&mut said, &event.bytes(100)));
    follow_with(&config_by(on_unknown), said, false)
}

/// Like [`follow`], with the bytes of events, which may have checksums.
fn follow_bytes(log: &[Vec<u8>], has_checksums: bool) -> Told {
    let mut said = Vec::new();
    log.iter().for_each(|event| made::put_packet(&mut said, event));
    follow_said(said, has_checksums)
}

/// Like [`follow`], with the bytes that a connection delivers.
fn follow_said(said: Vec<u8>, has_checksums: bool) -> Told {
    follow_with(&config(), said, has_checksums)
}

fn follow_with(config: &InvalidateConfig, said: Vec<u8>, has_checksums: bool) -> Told {
    follow_from(config, (said, has_checksums), |follow| follow)
}

/// Like [`follow_with`], after a change of the state from which it begins.
fn follow_from(
    config: &InvalidateConfig,
    (said, has_checksums): (Vec<u8>, bool),
    change: impl for<'f> FnOnce(Follow<'f>) -> Follow<'f>,
) -> Told {
    let folder = tempfile::tempdir().unwrap();
    let limits = JournalLimits { bytes: 1 << 30, keep: Duration::ZERO, when_full: WhenFull::Hold };
    let (line, _) = Line::open("db", folder.path(), &["c1"], limits, 64 << 20).unwrap();
    let naming = Naming { config: &config.sources[0], rules: &config.rules, line: &line };
    let packets =
        Packets::over(Box::new(crate::source::dial::Script(io::Cursor::new(said))), false);
    let mut session = Session::over(packets);
    let follow = Follow::new(naming, GtidPosition::default(), has_checksums);
    let stopped = change(follow).run(&mut session);
    let why = match stopped.unwrap_err() {
        Stopped::Trouble(trouble) => trouble.to_string(),
        Stopped::Halt(halt) => halt.words,
        Stopped::Gap(words) => words,
        Stopped::Journal(error) => error.to_string(),
        Stopped::OtherRules => "other rules".to_owned(),
    };
    line.release_unproven();
    let mut keys = Vec::new();
    let mut from = 1;
    while let Work::Entries(entries) = line.work(from, 1000, Duration::ZERO) {
        for entry in entries {
            keys.extend(entry.deletes().iter().map(|delete| delete.key.to_string()));
            keys.extend(matches!(entry.errand, Errand::Flush(_)).then(|| "FLUSH".to_owned()));
            from = entry.number + 1;
        }
    }
    line.store().unwrap();
    let stored = line.stored_position().map(|it| it.to_string()).unwrap_or_default();
    let position = line.read_position().to_string();
    Told {
        keys,
        position,
        stored,
        prepared: line.counts.prepared.get(),
        unknown: line.counts.unknown.get(),
        why,
    }
}

const CUT: &str = "it closed the connection";

#[test]
fn keys_of_rows_comments_and_compressed_events_are_journalled() {
    let one = made::row(1, b"a", b"");
    let log = [
        made::rotate("binlog.000001", 4),
        made::gtid(1, 0, b""),
        made::query(b"BEGIN /* mcinv:page:1 */"),
        made::other(8),
        made::users(7),
        made::inserted(7, &[one.clone(), made::row(2, b"b", b"long")]),
        made::users(7),
        made::updated(7, &[one, made::row(1, b"c", b"")]),
        made::xid(),
        made::gtid(2, 0, b""),
        made::compressed_query(b"BEGIN"),
        made::users(9),
        made::compressed_rows(9, &[made::row(3, b"d", b"")]),
        made::xid(),
        made::mysql_gtid(5),
        made::payload(&[
            made::query(b"BEGIN"),
            made::users(7),
            made::inserted(7, &[made::row(4, b"e", b"")]),
            made::xid(),
        ]),
        made::tagged_gtid(6),
        made::query(b"CREATE TABLE t (id INT)"),
    ];
    let told = follow(&log);
    assert_eq!(told.why, CUT);
    let expected = "page:1 user:1 name:a user:2 name:b name:c user:3 name:d user:4 name:e";
    assert_eq!(told.keys().join(" "), expected);
    let uuid = "09090909-0909-0909-0909-090909090909";
    assert_eq!(told.position, format!("{uuid}:5,{uuid}:audit:6"));
}

#[test]
fn comments_of_a_long_transaction_reach_the_journal_in_parts() {
    let comments = |from: u32| {
        let keys: Vec<String> = (from..from + 60).map(|number| format!("page:{number}")).collect();
        Made(event::ANNOTATE, format!("/* mcinv:{} */ UPDATE x", keys.join(",")).into_bytes())
    };
    let mut log = vec![made::gtid(1, 0, b""), made::query(b"BEGIN")];
    log.extend((0..10).map(|number| comments(number * 60)));
    // The transaction never ends, and never needs memory for all of it.
    let told = follow(&log);
    assert!((512..600).contains(&told.keys.len()), "{}", told.keys.len());
    assert_eq!(told.why, CUT);
}

/// The first part of an XA transaction that inserts rows.
fn prepare(sequence: u64, name: &[u8], rows: &[Vec<u8>]) -> [Made; 5] {
    [
        made::gtid(sequence, 64, name),
        made::query(b"XA START X'61',X'',1"),
        made::users(7),
        made::inserted(7, rows),
        Made(event::XA_PREPARE, vec![0; 14]),
    ]
}

/// The second part, with this statement.
fn complete(sequence: u64, name: &[u8], text: &[u8]) -> [Made; 2] {
    [made::gtid(sequence, 128, name), made::query(text)]
}

#[test]
fn prepared_transactions_wait_in_a_file_and_go_with_their_second_part() {
    let rows: Vec<Vec<u8>> = (0..2000).map(|id| made::row(id, b"n", b"")).collect();
    let mut log = prepare(1, b"a", &rows).to_vec();
    log.extend(prepare(2, b"b", &rows[..1]));
    let told = follow(&log);
    assert_eq!((told.keys.len(), told.prepared, &*told.stored), (0, 2, ""));
    log.extend(complete(3, b"b", b"XA ROLLBACK X'62',X'',1"));
    let told = follow(&log);
    assert_eq!((told.keys.len(), told.prepared, &*told.stored), (0, 1, ""));
    log.extend(complete(4, b"a", b"XA COMMIT X'61',X'',1"));
    let told = follow(&log);
    assert_eq!((told.prepared, &*told.position, &*told.stored), (0, "0-1-4", "0-1-4"));
    for id in 0..2000 {
        assert!(told.keys.contains(&format!("user:{id}")), "{id}");
    }
}

/// A description, with the time of a start of the server or 0.
fn format(created: u32) -> Made {
    let body = [&[4, 0][..], &[b'v'; 50], &created.to_le_bytes(), &[19, 0, 0, 0, 0, 0]];
    Made(event::FORMAT, body.concat())
}

/// The database crashes, and has `kept` afterwards, but not `lost`. It prepares `new` then.
#[test]
fn what_a_crash_took_is_waited_for_no_longer_once_its_second_part_can_not_come_any_more() {
    let prepare = |sequence, name: &[u8], id| {
        [
            made::gtid(sequence, 64, name),
            made::query(b"XA START X'61',X'',1"),
            made::users(7),
            made::inserted(7, &[made::row(id, b"n", b"")]),
            Made(event::XA_PREPARE, vec![0; 14]),
        ]
    };
    let complete =
        |sequence, name: &[u8], text: &[u8]| [made::gtid(sequence, 128, name), made::query(text)];
    let followed = |log: &[Made], created, end| {
        let mut all = vec![made::rotate("b.000001", 4), format(0)];
        all.extend(prepare(1, b"lost", 1));
        all.extend(prepare(2, b"late", 2));
        all.extend(prepare(3, b"kept", 3));
        all.extend([made::rotate("b.000002", 4), format(created)]);
        all.extend(prepare(4, b"new", 4));
        all.extend_from_slice(log);
        let mut said = Vec::new();
        all.iter().for_each(|event| made::put_packet(&mut said, &event.bytes(100)));
        let place = LogPlace { file: "b.000002".into(), offset: end };
        let names = ["kept".to_owned(), "other".to_owned()];
        let answer = move || Ok(Recovered::new(names.clone().into(), place.clone()));
        follow_from(&config(), (said, false), |follow| follow.asking(Box::new(answer)))
    };
    let late = complete(5, b"late", b"XA COMMIT X'62',X'',1");
    let told = followed(&late, 9, 101);
    assert_eq!((told.keys().join(" "), told.prepared), ("user:2 name:n".to_owned(), 3));
    let told = followed(&late, 0, 100);
    assert_eq!((told.keys().join(" "), told.prepared), ("user:2 name:n".to_owned(), 3));
    // The end of the log, as it was told, is read now.
    let mut log = late.to_vec();
    log.extend([made::rotate("b.000003", 4), format(0)]);
    let told = followed(&log, 9, 101);
    assert_eq!(told.keys().join(" "), "user:2 name:n user:1 name:n");
    assert_eq!((told.prepared, told.unknown, &*told.stored), (2, 0, ""));
    log.extend(complete(6, b"kept", b"XA COMMIT X'63',X'',1"));
    log.extend(complete(7, b"new", b"XA ROLLBACK X'64',X'',1"));
    let told = followed(&log, 9, 101);
    assert_eq!(told.keys().join(" "), "user:2 name:n user:1 name:n user:3 name:n");
    assert_eq!((told.prepared, &*told.stored), (0, "0-1-7"));
}

/// MariaDB crashes after it has logged the second part, and before its engine has done it.
#[test]
fn a_second_part_that_comes_again_after_a_crash_deletes_the_keys_again() {
    let ended: Arc<Mutex<Ended>> = Arc::default();
    let followed = |log: &[Made]| {
        let mut said = Vec::new();
        log.iter().for_each(|event| made::put_packet(&mut said, &event.bytes(100)));
        let ended = Arc::clone(&ended);
        follow_from(&config(), (said, false), |follow| follow.knowing(ended))
    };
    let long: Vec<Vec<u8>> = (0..9000).map(|id| made::row(id, b"n", b"")).collect();
    let mut log = prepare(1, b"a", &[made::row(1, b"n", b"")]).to_vec();
    log.extend(prepare(2, b"b", &[made::row(2, b"n", b"")]));
    log.extend(prepare(3, b"long", &long));
    log.extend(complete(4, b"a", b"XA COMMIT X'61',X'',1"));
    log.extend(complete(5, b"b", b"XA ROLLBACK X'62',X'',1"));
    log.extend(complete(6, b"long", b"XA ROLLBACK X'63',X'',1"));
    let told = followed(&log);
    assert_eq!(told.keys().join(" "), "user:1 name:n");
    // The connection is another one by then.
    let mut log = complete(7, b"a", b"XA COMMIT X'61',X'',1").to_vec();
    log.extend(complete(8, b"b", b"XA COMMIT X'62',X'',1"));
    let told = followed(&log);
    assert_eq!(told.keys().join(" "), "user:1 name:n user:2 name:n");
    assert_eq!((told.unknown, &*told.stored), (0, "0-1-8"));
    let told = followed(&complete(9, b"long", b"XA COMMIT X'63',X'',1"));
    assert_eq!((told.keys.len(), told.unknown), (0, 1), "it was too long to be kept");
}

/// MySQL names an XA transaction in its statement. `ONE PHASE` waits for no second part.
#[test]
fn a_long_transaction_in_one_phase_goes_at_once() {
    let rows: Vec<Vec<u8>> = (0..2000).map(|id| made::row(id, b"n", b"")).collect();
    let log = [
        made::mysql_gtid(1),
        made::query(b"XA START X'61',X'',1"),
        made::users(7),
        made::inserted(7, &rows),
        Made(event::XA_PREPARE, vec![1; 14]),
    ];
    let told = follow(&log);
    assert_eq!((told.prepared, &*told.why), (0, CUT));
    for id in 0..2000 {
        assert!(told.keys.contains(&format!("user:{id}")), "{id}");
    }
}

#[test]
fn an_endless_list_of_prepared_transactions_is_told_and_ends() {
    let prepare = |number: u64| {
        let name = number.to_string();
        [
            made::gtid(number, 64, name.as_bytes()),
            made::query(b"XA START"),
            Made(event::XA_PREPARE, vec![0; 14]),
        ]
    };
    let log: Vec<Made> = (1..10_010).flat_map(prepare).collect();
    let told = follow(&log);
    assert!(told.why.contains("more prepared XA transactions than are kept"), "{}", told.why);
    assert_eq!(told.keys.len(), 0);
}

#[test]
fn endless_tables_are_forgotten_at_the_end_of_a_statement_or_told() {
    let map = |number: u32, name: &str| {
        let id = [&number.to_le_bytes()[..], &[0; 4]].concat();
        let mut body =
            [&id[..], b"\x04shop\0", &[u8::try_from(name.len()).unwrap()], name.as_bytes()]
                .concat();
        body.extend_from_slice(&made::users(0).1[20..]);
        Made(event::TABLE_MAP, body)
    };
    let mut log = vec![made::gtid(1, 0, b""), made::query(b"BEGIN")];
    let long = "t".repeat(200);
    for number in 0..20_000 {
        log.extend([map(1000 + number, &long), made::inserted(7, &[])]);
        log.last_mut().unwrap().1[0] = 0xff;
        log.last_mut().unwrap().1[1..6].copy_from_slice(&[0xff, 0xff, 0, 0, 0]);
    }
    log.extend([made::users(7), made::inserted(7, &[made::row(1, b"n", b"")]), made::xid()]);
    let told = follow(&log);
    assert_eq!((told.keys().join(" "), &*told.why), ("user:1 name:n".to_owned(), CUT));
    let log: Vec<Made> = (0..20_000).map(|number| map(number, &long)).collect();
    assert!(follow(&log).why.contains("more tables than there can be"));
}

#[test]
fn an_offset_that_cant_be_is_told() {
    assert_eq!(moved((1 << 32) - 1, 5), Ok((1 << 32) + 5));
    assert_eq!(moved(7, 9), Ok(9));
    assert!(moved(u64::MAX, 5).is_err());
    let log = [made::rotate("binlog.000001", u64::MAX), made::gtid(1, 0, b"")];
    assert!(follow(&log).why.contains("an offset that can't be"));
    let log = [made::rotate(&"b".repeat(600), 4)];
    assert!(follow(&log).why.contains("whose name is too long"));
}

/// Bytes that can't be compressed: an event with 20 MB of them goes on in a second packet.
fn random(count: usize) -> Vec<u8> {
    let mut number = 7_u64;
    let next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        number.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn long_events_are_read_for_what_rules_need_and_kept_no_longer() {
    let (long, mut text) = (random(17_000_000), b"BEGIN /* ".to_vec());
    text.resize(3_000_000, b'x');
    text.extend_from_slice(b" */ /* mcinv:page:1 */");
    let rows =
        [made::row(1, b"a", &long), made::row(2, b"b", b""), made::row(3, b"c", &long[..1 << 20])];
    let log = [
        made::gtid(1, 0, b""),
        made::query(&text),
        made::other(8),
        made::inserted(8, std::slice::from_ref(&long)),
        Made(event::ANNOTATE, [&b"/* mcinv:page:2 */"[..], &long[..2 << 20]].concat()),
        made::users(7),
        made::inserted(7, &rows),
        made::updated(7, &rows[..2]),
        made::compressed_rows(7, &[made::row(4, b"d", &[0; 9_000_000])]),
        made::xid(),
        made::gtid(2, 0, b""),
        made::payload(&[
            made::query(b"BEGIN"),
            made::users(7),
            made::inserted(7, &[made::row(5, b"e", &long[..3_000_000])]),
            made::xid(),
        ]),
        made::gtid(3, 1, b""),
        made::compressed_query(&text),
    ];
    let expected = "page:1 page:2 user:1 name:a user:2 name:b user:3 name:c user:4 name:d user:5 name:e page:1";
    let told = follow(&log);
    assert_eq!(told.why, CUT);
    assert_eq!(told.keys().join(" "), expected);
    assert_eq!((&*told.position, told.unknown), ("0-1-3", 0));
    // The same with checksums. If one is wrong, nothing of its event is taken.
    let mut events: Vec<Vec<u8>> = log.iter().map(|event| event.bytes(100)).collect();
    for event in &mut events {
        let size = u32::try_from(event.len() + 4).unwrap().to_le_bytes();
        event[9..13].copy_from_slice(&size);
        let sum = crc32fast::hash(event).to_le_bytes();
        event.extend_from_slice(&sum);
    }
    let told = follow_bytes(&events, true);
    assert_eq!((told.keys().join(" "), &*told.why), (expected.to_owned(), CUT));
    let (first, _) = expected.split_once(" user:5").unwrap();
    for (at, keys) in [(6, ""), (11, first)] {
        let mut wrong = events.clone();
        wrong[at][2_000_000] ^= 1;
        let told = follow_bytes(&wrong, true);
        assert!(told.why.contains("whose checksum is wrong"), "{at}: {}", told.why);
        assert_eq!(told.keys().join(" "), keys, "{at}");
    }
}

#[test]
fn new_images_with_differences_are_found_in_long_events_too() {
    let row = |id, name: &[u8]| made::row(id, name, &random(2_000_000));
    // An update whose new images list the JSON columns that are differences: none, in both forms.
    let images = [row(1, b"a"), vec![0], row(1, b"b"), row(2, b"c"), vec![1], row(2, b"d")];
    let mut rows = made::updated(7, &images);
    rows.0 = rows::PARTIAL_UPDATE;
    let told = follow(&[made::mysql_gtid(1), made::users(7), rows, made::xid()]);
    let expected = "user:1 name:a name:b user:2 name:c name:d";
    assert_eq!((told.keys().join(" "), &*told.why), (expected.to_owned(), CUT));
}

#[test]
fn a_long_event_ends_with_its_last_packet_which_may_be_empty() {
    let of = |length| made::inserted(7, &[made::row(1, b"a", &vec![b'x'; length])]);
    // Two full packets, or three.
    let full = 2 * ((1 << 24) - 1) - of(0).bytes(100).len() - 1;
    for length in [full - 1, full, full + 1, full + 1000] {
        let told = follow(&[made::gtid(1, 0, b""), made::users(7), of(length), made::xid()]);
        assert_eq!(
            (told.keys().join(" ").as_str(), &*told.why),
            ("user:1 name:a", CUT),
            "{length}"
        );
    }
}

#[test]
fn a_connection_that_breaks_within_a_long_event_is_no_event_that_can_not_be_read() {
    let mut said = Vec::new();
    let event = made::inserted(7, &[made::row(1, b"a", &random(17_000_000))]).bytes(100);
    made::put_packet(&mut said, &event);
    // Within the first packet, between the two, in the head of the second, and within the second.
    let first = 4 + (1 << 24) - 1;
    for cut in [30, 3_000_000, first, first + 2, first + 4, first + 1000, said.len() - 1] {
        let told = follow_said(said[..cut].to_vec(), false);
        assert_eq!(told.why, CUT, "{cut}");
    }
}

#[test]
fn a_long_event_that_lies_about_its_length_is_told_and_a_key_of_megabytes_is_unknown() {
    let begin = [made::gtid(1, 0, b""), made::users(7)];
    let with = |event: Made| [&begin[..], &[event, made::xid()]].concat();
    let long = random(17_000_000);
    for size in [19, 27, 5000, 2_000_000, 30_000_000, u32::MAX] {
        let mut events: Vec<Vec<u8>> = with(made::inserted(7, &[made::row(1, b"a", &long)]))
            .iter()
            .map(|it| it.bytes(9))
            .collect();
        events[2][9..13].copy_from_slice(&size.to_le_bytes());
        let told = follow_bytes(&events, false);
        assert!(
            told.why.contains("it ends too early") || told.why.contains("as long as it says"),
            "{size}: {}",
            told.why
        );
        assert_eq!(told.keys.len(), 0, "{size}");
    }
    // The packet continues after the event.
    let mut events: Vec<Vec<u8>> = with(made::inserted(7, &[made::row(1, b"a", &long)]))
        .iter()
        .map(|it| it.bytes(9))
        .collect();
    events[2].extend_from_slice(&[0; 3]);
    let told = follow_bytes(&events, false);
    assert!(told.why.contains("as long as it says"), "{}", told.why);
    assert_eq!(told.keys.len(), 0);
    // A value that claims to continue beyond its event.
    let mut row = made::row(1, b"a", &long);
    row[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(follow(&with(made::inserted(7, &[row]))).why.contains("it ends too early"));
    // A rule needs the name, which has at most 60 KB: a hundred of them are too many.
    let rows: Vec<Vec<u8>> = (0..100).map(|id| made::row(id, &long[..60_000], b"")).collect();
    let told = follow(&with(made::inserted(7, &rows)));
    assert_eq!((told.unknown, told.keys.len(), &*told.why, &*told.position), (1, 0, CUT, "0-1-1"));
    // 12 MiB of zeros, compressed to a few bytes.
    let bomb = made::row(1, b"a", &vec![0; 12 << 20]);
    assert_eq!(follow(&with(made::compressed_rows(7, &[bomb]))).keys().join(" "), "user:1 name:a");
}

/// What can't be known, in a transaction, before it and instead of it, flushes all destinations once each. What is
/// known goes on.
#[test]
fn unknown_changes_and_events_flush_all_if_they_are_to() {
    let log = [
        made::rotate("binlog.000001", 4),
        made::gtid(1, 0, b""),
        made::query(b"BEGIN"),
        made::query(b"UPDATE users SET name = 'x'"),
        made::query(b"UPDATE users SET name = 'y'"),
        made::users(7),
        made::inserted(7, &[made::row(1, b"a", b"")]),
        made::xid(),
        Made(event::INCIDENT, vec![1, 0, 0]),
        Made(99, vec![0; 5]),
        made::gtid(2, 128, b"gone"),
        made::query(b"XA COMMIT X'61',X'',1"),
        made::gtid(3, 0, b""),
        made::query(b"BEGIN"),
        made::users(7),
        made::inserted(7, &[made::row(2, b"b", b"")]),
        made::xid(),
    ];
    let told = follow_by(&log, "flush");
    assert_eq!((&*told.why, &*told.position, told.unknown), (CUT, "0-1-3", 5));
    let expected = "user:1 name:a FLUSH FLUSH FLUSH FLUSH user:2 name:b";
    assert_eq!(told.keys().join(" "), expected);
    let told = follow_by(&log, "count");
    assert!(told.why.contains("its log lacks changes"), "{}", told.why);
    assert_eq!(told.keys().join(" "), "user:1 name:a");
    assert!(follow_by(&log, "stop").why.contains("on_unknown is stop"));
}
