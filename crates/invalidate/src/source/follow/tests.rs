//! Logs of constructed events, followed to the journal.

mod long;
mod prepared;

use super::*;
use crate::config::{InvalidateConfig, JournalLimits, WhenFull};
use crate::line::Work;
use crate::source::made::{self, Made};
use crate::source::packets::Packets;
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
