//! Logs of made events, followed to the journal.

use super::*;
use crate::config::{InvalidateConfig, JournalLimits, WhenFull};
use crate::line::Work;
use crate::source::made::{self, Made};
use crate::source::packets::Packets;
use std::time::Duration;

fn config() -> InvalidateConfig {
    crate::config::parse(
        r#"{"state": "/nowhere", "destinations": {"c1": {"routers": ["r1"]}},
            "rules": [{"table": "shop.users", "keys": ["user:{id}", "name:{name}"]}],
            "sources": {"db": {"kind": "mariadb", "hosts": ["localhost"], "user": "guira", "server_id": 7,
              "comments": {"prefixes": ["page:"], "keys_max": 4096}}}}"#,
    )
    .unwrap()
}

/// What became of a log.
struct Told {
    keys: Vec<String>,
    position: String,
    stored: String,
    prepared: u64,
    why: String,
}

impl Told {
    fn keys(&self) -> Vec<&str> {
        self.keys.iter().map(|key| &**key).collect()
    }
}

/// Follows a log up to its end, where the connection breaks.
fn follow(log: &[Made]) -> Told {
    let (config, folder) = (config(), tempfile::tempdir().unwrap());
    let limits = JournalLimits { bytes: 1 << 30, keep: Duration::ZERO, when_full: WhenFull::Hold };
    let (line, _) = Line::open("db", folder.path(), &["c1"], limits, 64 << 20).unwrap();
    let naming = Naming { config: &config.sources[0], rules: &config.rules, line: &line };
    let mut said = Vec::new();
    log.iter().for_each(|event| made::put_packet(&mut said, &event.bytes(100)));
    let packets =
        Packets::over(Box::new(crate::source::dial::Script(io::Cursor::new(said))), false);
    let mut session = Session::over(packets);
    let stopped = Follow::new(naming, GtidPosition::default(), false).run(&mut session);
    let why = match stopped.unwrap_err() {
        Stopped::Trouble(trouble) => trouble.to_string(),
        Stopped::Halt(halt) => halt.words,
        Stopped::Gap(words) => words,
        Stopped::Journal(error) => error.to_string(),
    };
    line.release_unproven();
    let mut keys = Vec::new();
    let mut from = 1;
    while let Work::Entries(entries) = line.work(from, 1000, Duration::ZERO) {
        for entry in entries {
            keys.extend(entry.deletes().iter().map(|delete| delete.key.to_string()));
            from = entry.number + 1;
        }
    }
    line.store().unwrap();
    let stored = line.stored_position().map(|it| it.to_string()).unwrap_or_default();
    let position = line.read_position().to_string();
    Told { keys, position, stored, prepared: line.counts.prepared.get(), why }
}

const CUT: &str = "failed to fill whole buffer";

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
    // It never ends, and memory for all of it is never needed.
    let told = follow(&log);
    assert!((512..600).contains(&told.keys.len()), "{}", told.keys.len());
    assert_eq!(told.why, CUT);
}

#[test]
fn prepared_transactions_wait_in_a_file_and_go_with_their_second_part() {
    let rows: Vec<Vec<u8>> = (0..2000).map(|id| made::row(id, b"n", b"")).collect();
    let prepare = |sequence, name: &[u8], rows: &[Vec<u8>]| {
        [
            made::gtid(sequence, 64, name),
            made::query(b"XA START X'61',X'',1"),
            made::users(7),
            made::inserted(7, rows),
            Made(event::XA_PREPARE, vec![0; 14]),
        ]
    };
    let complete =
        |sequence, name: &[u8], text: &[u8]| [made::gtid(sequence, 128, name), made::query(text)];
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

/// MySQL's names come with the statement; `ONE PHASE` waits for nothing.
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
