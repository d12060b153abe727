//! What is appended again, in which order it is stored, and what isn't known well enough.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::config::{JournalLimits, WhenFull, parse};
use crate::entry::Errand;
use crate::key::Key;
use crate::line::Line;
use crate::position::Stored;
use crate::rule::Delete;

/// The host that is asked. Others made what the tests read.
const OWN: u32 = 7;
const CONFIG: &str = r#"{"state": "/s", "sources": {"db": {"kind": "mariadb", "hosts": ["/a", "/b"], "user": "u", "server_id": 9}},
    "rules": [{"table": "s.t", "keys": ["k:{id}"]}], "destinations": {"c1": {"routers": ["r:1"]}}}"#;

fn follower(folder: &Path) -> Follower {
    let config = parse(CONFIG).unwrap().sources.remove(0);
    let limits = JournalLimits { bytes: 1 << 30, keep: Duration::ZERO, when_full: WhenFull::Taint };
    let (line, read) = Line::open("db", folder, &["c1"], limits, 1 << 20).unwrap();
    Follower {
        config,
        rules: [].into(),
        line: Arc::new(line),
        desk: None,
        read,
        turn: 1,
        has_gap: false,
        ended: Arc::default(),
    }
}

fn place(offset: u64) -> LogPlace {
    LogPlace { file: "b.000001".into(), offset }
}

/// Appends a transaction with one key, which has the same name.
fn append(follower: &Follower, stamp: &str) {
    let key = Key::new(stamp.as_bytes()).unwrap();
    let deletes = Errand::Deletes(vec![Delete { key, how: None, to: None }]);
    let origin = Origin { place: place(1), stamp: stamp.into(), at_s: 1 };
    follower.line.append(origin, deletes).unwrap();
}

fn read_to(follower: &Follower, stamps: &[&str], position: &str) {
    stamps.iter().for_each(|stamp| append(follower, stamp));
    follower.line.advance(&position.parse().unwrap(), None);
}

fn settle(follower: &Follower, state: &str, is_replica: bool) -> Result<(), String> {
    let history = History::of_state(state).unwrap();
    let standing = Standing { history, own: OwnName::Server(OWN), is_replica, place: place(50) };
    follower.settle::<io::Error>(&standing).map_err(|stopped| match stopped {
        Stopped::Gap(words) => words,
        Stopped::Trouble(error) | Stopped::Journal(error) => error.to_string(),
        Stopped::Halt(halt) => halt.words,
        Stopped::OtherRules => "other rules".to_owned(),
    })
}

/// Returns the journal's keys from a number on, and the position.
fn keys(follower: &Follower, from: u64) -> (String, String) {
    let mut keys = Vec::new();
    for entry in segment::entries(follower.line.folder(), from).unwrap() {
        keys.extend(entry.unwrap().deletes().iter().map(|it| it.key.to_string()));
    }
    (keys.join(" "), follower.line.read_position().to_string())
}

fn stored(folder: &Path) -> (String, u64) {
    let stored = Stored::read(&folder.join("db")).unwrap().unwrap();
    (stored.read.to_string(), stored.next)
}

#[test]
fn what_a_host_lacks_is_appended_again_before_the_position_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let one = follower(folder.path());
    read_to(&one, &["0-1-1", "0-1-2", "1-1-1", "0-1-3", "0-1-4"], "0-1-5,1-1-1");
    one.line.store().unwrap();
    // The position can't be stored: the next daemon finds the same loss again.
    let obstacle = folder.path().join("db/position.new");
    std::fs::create_dir(&obstacle).unwrap();
    assert!(settle(&one, "0-1-2,0-2-9,1-1-1", false).is_err());
    drop(one);
    assert_eq!(stored(folder.path()), ("0-1-5,1-1-1".to_owned(), 6));
    std::fs::remove_dir(&obstacle).unwrap();
    let two = follower(folder.path());
    assert_eq!(settle(&two, "0-1-2,0-2-9,1-1-1", false), Ok(()));
    let (lost, rewound) = ("0-1-3 0-1-4", "0-1-2,1-1-1".to_owned());
    // Once by the first daemon, once by the second.
    assert_eq!(keys(&two, 6), (format!("{lost} {lost}"), rewound.clone()));
    assert_eq!(stored(folder.path()), (rewound.clone(), 10));
    assert_eq!((two.line.counts.lost.get(), two.line.counts.resent.get()), (2, 2));
    assert_eq!(two.line.turn(), Some(1));
    // The loss is over.
    assert_eq!(settle(&two, "0-1-2,0-2-20,1-1-1", false), Ok(()));
    assert_eq!(keys(&two, 10), (String::new(), rewound));
}

#[test]
fn what_the_journal_has_beyond_the_stored_position_counts_as_read() {
    let folder = tempfile::tempdir().unwrap();
    let one = follower(folder.path());
    read_to(&one, &["0-1-1", "0-1-2"], "0-1-2");
    one.line.store().unwrap();
    read_to(&one, &["0-1-3", "0-1-4"], "0-1-4");
    drop(one);
    let two = follower(folder.path());
    // The entries must not count as settled before a host was asked.
    two.line.store().unwrap();
    assert_eq!(stored(folder.path()), ("0-1-2".to_owned(), 3));
    assert_eq!(settle(&two, "0-1-3,0-2-4", false), Ok(()));
    assert_eq!(keys(&two, 5), ("0-1-4".to_owned(), "0-1-2".to_owned()));
    assert_eq!(stored(folder.path()), ("0-1-2".to_owned(), 6));
}

#[test]
fn what_is_lost_may_fill_several_segments_of_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let one = follower(folder.path());
    let stamps: Vec<String> = (1..=100).map(|number| format!("0-1-{number}")).collect();
    let stamps: Vec<&str> = stamps.iter().map(|stamp| &**stamp).collect();
    read_to(&one, &stamps, "0-1-100");
    assert!(segment::firsts(one.line.folder()).unwrap().len() > 2);
    assert_eq!(settle(&one, "0-1-5,0-2-6", false), Ok(()));
    assert_eq!(keys(&one, 101), (stamps[5..].join(" "), "0-1-5".to_owned()));
    assert_eq!(one.line.counts.lost.get(), 95);
    // After a crash, too, the journal has all of them, across its segments.
    drop(one);
    let two = follower(folder.path());
    assert_eq!(keys(&two, 1).0, [&stamps[..], &stamps[5..]].concat().join(" "));
}

#[test]
fn while_a_transaction_is_prepared_it_goes_back_to_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let one = follower(folder.path());
    read_to(&one, &["0-1-1", "0-1-5"], "0-1-5");
    let [read, held] = ["0-1-5", "0-1-2"].map(|it| it.parse().unwrap());
    one.line.advance(&read, Some(&held));
    assert_eq!(settle(&one, "0-1-4", false), Ok(()));
    assert_eq!(keys(&one, 3), ("0-1-5".to_owned(), "0-1-2".to_owned()));
}

#[test]
fn a_replica_that_lags_is_trouble_and_one_that_went_on_otherwise_lacks_it() {
    let folder = tempfile::tempdir().unwrap();
    let one = follower(folder.path());
    read_to(&one, &["0-1-1", "0-1-2"], "0-1-2");
    let told = settle(&one, "0-1-1", true).unwrap_err();
    assert!(told.contains("it lags behind"), "{told}");
    assert_eq!((one.line.turn(), keys(&one, 3).0.as_str()), (None, ""));
    assert_eq!(settle(&one, "0-1-1,0-2-2", true), Ok(()));
    assert_eq!(keys(&one, 3), ("0-1-2".to_owned(), "0-1-1".to_owned()));
}

#[test]
fn a_journal_that_does_not_reach_back_and_a_log_of_another_are_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let one = follower(folder.path());
    // The oldest segments are removed: no courier needs them.
    for number in 1..200 {
        read_to(&one, &[&format!("0-1-{number}")], &format!("0-1-{number}"));
    }
    one.line.follow_host(1, |_| None);
    one.line.prove(200, &place(1));
    one.line.note_cursor(0, 200);
    one.line.store().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    one.line.store().unwrap();
    let first = segment::firsts(one.line.folder()).unwrap()[0];
    assert!(first > 100, "{first}");
    let told = settle(&one, "0-1-7", false).unwrap_err();
    assert!(told.contains("doesn't reach back"), "{told}");
    assert_eq!(keys(&one, 200), (String::new(), "0-1-199".to_owned()));
    // With the oldest segment that is left the logs have something in common.
    assert_eq!(settle(&one, &format!("0-1-{first}"), false), Ok(()));
    assert!(keys(&one, 200).0.ends_with("0-1-199"));
    let folder = tempfile::tempdir().unwrap();
    let two = follower(folder.path());
    read_to(&two, &["0-1-1"], "0-1-1");
    for other in ["", "0-2-5", "1-1-1"] {
        let told = settle(&two, other, false).unwrap_err();
        assert!(told.contains("it is another database"), "{told}");
    }
}

/// Also if another server made the last transaction that was read: then the journal tells.
#[test]
fn a_host_that_lacks_what_it_made_itself_is_a_gap() {
    for (stamps, state) in [
        (&["0-7-5", "0-7-6"][..], "0-7-1"),
        (&["0-7-5", "0-7-6"], ""),
        (&["0-1-2", "0-7-5", "0-1-6"], "0-1-2,0-7-3"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let one = follower(folder.path());
        read_to(&one, stamps, stamps[stamps.len() - 1]);
        let told = settle(&one, state, false).unwrap_err();
        assert!(told.contains("gives their numbers again"), "{told}");
        assert_eq!(one.line.counts.resent.get(), 0);
    }
}
