//! The entry points of fuzzers: logs, streams, logins and answers of databases, with any bytes. Nothing may panic, hang
//! or take much memory. A position that was read must be the same after it was stored.

use std::io::Cursor;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::dial::Script;
use super::event;
use super::follow::Follow;
use super::made::{self, Made};
use super::naming::Naming;
use super::packets::Packets;
use super::postgres::{fuzz_login, fuzz_stream};
use super::session::Session;
use crate::config::{InvalidateConfig, JournalLimits, WhenFull};
use crate::line::{Line, Question};
use crate::position::GtidPosition;

/// Reads a binary log. The first byte selects a constructed log, in which the other bytes change bytes. If there is no
/// such log, the input is events: a kind, a length of two bytes, a body.
#[cfg(fuzzing)]
pub fn fuzz_binlog(input: &[u8]) {
    binlog(line(), input);
}

/// Reads a stream of PostgreSQL, in the manner of [`fuzz_binlog`].
#[cfg(fuzzing)]
pub fn fuzz_pgoutput(input: &[u8]) {
    pgoutput(line(), input);
}

/// Reads the answers of a database to a login and to a statement.
#[cfg(fuzzing)]
pub fn fuzz_answers(input: &[u8]) {
    answers(input);
}

fn binlog(line: &Line, input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let logs = logs();
    let mut said = Vec::new();
    match logs.get(usize::from(*choice)) {
        Some(log) => {
            let mut events: Vec<Vec<u8>> = log.iter().map(|event| event.bytes(100)).collect();
            for change in rest.chunks_exact(4) {
                let at = usize::from(change[0]) % events.len();
                let event = &mut events[at];
                let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % event.len();
                event[at] = change[3];
            }
            events.iter().for_each(|event| made::put_packet(&mut said, event));
        }
        None => {
            let mut rest = rest;
            while let [kind, low, high, after @ ..] = rest {
                let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
                let (body, after) = after.split_at(length);
                made::put_packet(&mut said, &Made(*kind, body.to_vec()).bytes(100));
                rest = after;
            }
        }
    }
    let naming = Naming { config: &config().sources[0], rules: &config().rules, line };
    // The end of the input ends the connection.
    let _ = Follow::new(naming, GtidPosition::default(), false).run(&mut session(said));
    settle(line);
}

fn pgoutput(line: &Line, input: &[u8]) {
    fuzz_stream(Naming { config: &config().sources[1], rules: &config().rules, line }, input);
    settle(line);
}

fn answers(input: &[u8]) {
    let source = &config().sources[0];
    let _ = session(input.to_vec()).log_in(source, "secret");
    let _ = session(input.to_vec()).query("SELECT 1");
    fuzz_login(input);
}

fn session(said: Vec<u8>) -> Session {
    Session::over(Packets::over(Box::new(Script(Cursor::new(said))), false))
}

/// Releases and acknowledges all entries.
fn settle(line: &Line) {
    let (next, ..) = line.figures();
    line.prove_by(Question { turn: line.turn(), until: next }, |_| true);
    line.note_cursor(0, next);
    let position = line.read_position();
    let again: GtidPosition =
        position.to_string().parse().expect("a position is read as it is written");
    assert_eq!(again, position);
}

fn logs() -> Vec<Vec<Made>> {
    let one = made::row(1, b"a", b"body");
    let two = [one.clone(), made::row(2, b"bb", b"")].concat();
    let begin = || made::query(b"BEGIN /* mcinv:page:1,page:%32 */");
    let whole = |gtid: Made, rows: Made| {
        vec![
            made::rotate("b.000001", 4),
            gtid,
            begin(),
            made::other(8),
            made::users(7),
            rows,
            made::xid(),
        ]
    };
    let xa = |gtid: Made, end: u8| {
        vec![
            gtid,
            made::query(b"XA START X'61',X'',1"),
            made::users(7),
            made::inserted(7, std::slice::from_ref(&one)),
            Made(event::XA_PREPARE, vec![end; 14]),
        ]
    };
    vec![
        whole(made::gtid(1, 0, b""), made::inserted(7, &[one.clone(), two.clone()])),
        whole(made::mysql_gtid(1), made::updated(7, &[two])),
        whole(made::tagged_gtid(3), made::compressed_rows(7, std::slice::from_ref(&one))),
        vec![
            made::mysql_gtid(9),
            made::payload(&[
                begin(),
                made::users(7),
                made::inserted(7, std::slice::from_ref(&one)),
                made::xid(),
            ]),
        ],
        [
            xa(made::gtid(1, 64, b"a"), 0),
            vec![made::gtid(2, 128, b"a"), made::query(b"XA COMMIT X'61',X'',1")],
        ]
        .concat(),
        xa(made::mysql_gtid(4), 1),
        vec![
            made::gtid(1, 1, b""),
            made::compressed_query(b"TRUNCATE TABLE `users` /* mcinv:page:1 */"),
        ],
        vec![made::gtid(1, 1, b""), made::query(b"DROP TABLE IF EXISTS users, other.t")],
    ]
}

fn config() -> &'static InvalidateConfig {
    static CONFIG: OnceLock<InvalidateConfig> = OnceLock::new();
    CONFIG.get_or_init(|| {
        crate::config::parse(
            r#"{"state": "/nowhere", "destinations": {"c1": {"routers": ["r1"]}},
                "rules": [{"table": "shop.users", "keys": ["user:{id}", "name:{name|lower|md5}", "kind:{kind}"], "on_truncate": ["all"]},
                          {"table": "shop.users", "on": ["update"], "changed": ["name"], "keys": ["was:{old.name}"]}],
                "sources": {
                  "db": {"kind": "mariadb", "hosts": ["localhost"], "user": "guira", "server_id": 7, "outbox": "shop.mcinv",
                         "comments": {"prefixes": ["page:"]}},
                  "pg": {"kind": "postgres", "hosts": ["localhost"], "user": "guira", "database": "shop", "messages": "mcinv",
                         "comments": {"prefixes": ["page:"]}}}}"#,
        )
        .expect("it can be read")
    })
}

#[cfg(fuzzing)]
fn line() -> &'static Line {
    static LINE: OnceLock<Line> = OnceLock::new();
    LINE.get_or_init(|| {
        open(&std::env::temp_dir().join(format!("guira-fuzz-{}", std::process::id())))
    })
}

fn open(folder: &Path) -> Line {
    let limits = JournalLimits { bytes: 1 << 20, keep: Duration::ZERO, when_full: WhenFull::Taint };
    Line::open("db", folder, &["c1"], limits, 1 << 20).expect("a folder for a journal").0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first byte selects a constructed log or stream, or none.
    fn input() -> impl Strategy<Value = Vec<u8>> {
        (0..12_u8, proptest::collection::vec(any::<u8>(), 0..80)).prop_map(|(first, mut rest)| {
            rest.insert(0, first);
            rest
        })
    }

    #[test]
    fn no_input_of_the_fuzzers_panics() {
        let folder = tempfile::tempdir().unwrap();
        let line = open(folder.path());
        let mut runner = proptest::test_runner::TestRunner::default();
        let ran = runner.run(&input(), |input| {
            binlog(&line, &input);
            pgoutput(&line, &input);
            answers(&input);
            Ok(())
        });
        ran.unwrap();
    }
}
