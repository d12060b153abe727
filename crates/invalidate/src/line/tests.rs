//! What may be sent, what is stored, and what a full journal does.

use std::thread;

use super::*;
use crate::key::Key;
use crate::rule::Delete;

fn limits(bytes: u64, when_full: WhenFull) -> JournalLimits {
    JournalLimits { bytes, keep: Duration::ZERO, when_full }
}

fn open(folder: &Path, limits: JournalLimits) -> (Line, Option<GtidPosition>) {
    Line::open("db", folder, &["c1", "c2"], limits, 1 << 20).unwrap()
}

fn place(offset: u64) -> LogPlace {
    LogPlace { file: "b.000001".into(), offset }
}

fn append(line: &Line, offset: u64) {
    let key = Key::new(format!("k{offset}").as_bytes()).unwrap();
    let deletes = Errand::Deletes(vec![Delete { key, how: None, to: None }]);
    line.append(Origin { place: place(offset), stamp: "".into(), at_s: 1 }, deletes).unwrap();
}

fn numbers(line: &Line, from: u64) -> Vec<u64> {
    match line.work(from, 1000, Duration::ZERO) {
        Work::Entries(entries) => entries.iter().map(|entry| entry.number).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn nothing_is_sent_before_the_snapshot_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let (line, read) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    assert_eq!(read, None);
    append(&line, 100);
    append(&line, 200);
    assert_eq!(line.wait_unproven().unwrap().until, 3);
    assert!(numbers(&line, 1).is_empty());
    assert!(!line.prove(3, &place(199)));
    assert_eq!(numbers(&line, 1), [1]);
    append(&line, 300);
    // The question was asked before the third entry existed: a snapshot in another file proves nothing about it.
    assert!(line.prove(3, &LogPlace { file: "c.000001".into(), offset: 4 }));
    assert_eq!(numbers(&line, 1), [1, 2]);
    line.release_unproven();
    assert_eq!(numbers(&line, 1), [1, 2, 3]);
    let reach = line.reach(0);
    assert_eq!((reach.proven, reach.released), (3, 4));
    assert_eq!(line.counts.barrier_passed_by.get(), 1);
}

/// Transaction numbers and GTIDs have no order: the last one proves nothing about those before it.
#[test]
fn a_restart_asks_about_each_transaction_where_places_have_no_order() {
    let gtids = LogPlace::file_of(&"3e11fa47-71ca-11e1-9e33-c80aa9429562".parse().unwrap());
    for file in [LogPlace::OF_TRANSACTIONS.into(), gtids, Arc::from("b.000001")] {
        let has_order = &*file == "b.000001";
        let folder = tempfile::tempdir().unwrap();
        let of = |offset| LogPlace { file: Arc::clone(&file), offset };
        let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
        for offset in [7, 5] {
            let origin = Origin { place: of(offset), stamp: "".into(), at_s: 1 };
            line.append(origin, Errand::Flush(None)).unwrap();
        }
        line.advance(&"0-1-9".parse().unwrap(), None);
        line.store().unwrap();
        drop(line);
        let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
        let asked = line.wait_unproven().unwrap();
        assert_eq!(line.prove_by(asked, |place| *place == of(5)), has_order, "{file}");
        assert!(line.prove_by(asked, |_| true));
        line.note_cursor(0, 3);
        line.note_cursor(1, 3);
        line.store().unwrap();
        drop(line);
        let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
        assert_eq!(line.wait_unproven(), None, "everybody has all: {file}");
    }
}

#[test]
fn a_restart_goes_on_from_what_was_stored_and_asks_the_barrier_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    append(&line, 100);
    append(&line, 200);
    line.prove(3, &place(500));
    line.note_cursor(0, 3);
    line.note_cursor(1, 2);
    line.advance(&"0-1-9".parse().unwrap(), None);
    line.store().unwrap();
    append(&line, 300);
    line.advance(&"0-1-10".parse().unwrap(), None);
    drop(line);
    let (line, read) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    assert_eq!(read, Some("0-1-9".parse().unwrap()));
    assert_eq!((line.cursor(0).cursor, line.cursor(1).cursor), (3, 2));
    assert_eq!(
        line.wait_unproven().unwrap().until,
        4,
        "what was appended after it is there as well"
    );
    assert!(numbers(&line, 2).is_empty());
    line.prove(4, &place(300));
    assert!(matches!(line.work(2, 10, Duration::ZERO), Work::Behind(_)));
    line.advance(&"0-1-10".parse().unwrap(), Some(&"0-1-9".parse().unwrap()));
    assert_eq!(line.read_so_far(), ("0-1-10".parse().unwrap(), Some(3)));
    let stored = || {
        line.store().unwrap();
        Stored::read(&folder.path().join("db")).unwrap().unwrap()
    };
    assert_eq!(stored().next, 3, "no host was seen to have what came after it");
    line.settle(None);
    let stored = stored();
    assert_eq!((stored.read.to_string(), stored.next), ("0-1-9".to_owned(), 4));
}

#[test]
fn positions_are_stored_one_at_a_time_and_none_before_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    line.store().unwrap();
    assert_eq!(Stored::read(&folder.path().join("db")), Ok(None), "it hasn't begun");
    thread::scope(|threads| {
        for server in 0..4 {
            let line = &line;
            threads.spawn(move || {
                for sequence in 0..50 {
                    line.advance(&format!("0-{server}-{sequence}").parse().unwrap(), None);
                    line.store().unwrap();
                }
            });
        }
    });
    let stored = Stored::read(&folder.path().join("db")).unwrap().unwrap();
    assert_eq!(stored.read, line.read_position());
}

#[test]
fn a_full_journal_gives_the_slowest_destination_up() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(5000, WhenFull::Taint));
    for offset in 1..300 {
        append(&line, offset);
        line.prove(offset + 1, &place(offset));
        line.note_cursor(0, offset + 1);
    }
    assert!(!line.cursor(0).is_tainted && line.cursor(1).is_tainted);
    assert!(line.figures().1 < 8000, "{:?}", line.figures());
    line.advance(&"0-1-1".parse().unwrap(), None);
    line.store().unwrap();
    drop(line);
    let (line, _) = open(folder.path(), limits(5000, WhenFull::Taint));
    assert!(line.cursor(1).is_tainted, "a restart doesn't hide it");
}

#[test]
fn a_full_journal_that_must_hold_waits_for_the_slowest() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(5000, WhenFull::Hold));
    let line = Arc::new(line);
    let writing = Arc::clone(&line);
    let thread = thread::spawn(move || (1..300).for_each(|offset| append(&writing, offset)));
    thread::sleep(Duration::from_millis(300));
    let (next, ..) = line.figures();
    assert!(next < 299, "{next}");
    for _ in 0..100 {
        let (next, ..) = line.figures();
        line.prove(next, &place(next));
        line.note_cursor(0, next);
        line.note_cursor(1, next);
        thread::sleep(Duration::from_millis(20));
    }
    thread.join().unwrap();
    assert_eq!(line.figures().0, 300);
}

#[test]
fn what_waits_for_a_lost_history_is_proven_by_a_snapshot_of_where_the_log_is_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    let end = |offset| LogPlace { file: "b.000001".into(), offset };
    line.append(
        Origin {
            place: LogPlace { file: "b.000099".into(), offset: 9 },
            stamp: "".into(),
            at_s: 1,
        },
        Errand::Flush(None),
    )
    .unwrap();
    line.begin_at(&"0-1-1".parse().unwrap(), end(500));
    assert!(!line.prove(2, &end(499)));
    assert!(line.prove(2, &end(500)));
    assert_eq!(numbers(&line, 1), [1]);
    line.begin_at(&"0-1-2".parse().unwrap(), end(600));
    append(&line, 700);
    assert!(!line.prove(3, &end(650)));
    assert!(line.prove(3, &end(700)));
}

#[test]
fn what_waits_is_proven_by_the_host_that_is_followed_and_by_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    append(&line, 100);
    let asked = line.wait_unproven().unwrap();
    assert_eq!((asked.turn, asked.until), (None, 2));
    line.follow_host(0, |_| None);
    assert!(!line.prove_by(asked, |_| true), "nobody knew whom to ask");
    let asked = line.wait_unproven().unwrap();
    line.follow_host(1, |before| (before.offset == 100).then(|| place(7)));
    assert!(!line.prove_by(asked, |_| true), "the other host was asked");
    assert!(numbers(&line, 1).is_empty());
    assert!(!line.prove(2, &place(6)));
    assert!(line.prove(2, &place(7)));
    assert_eq!(numbers(&line, 1), [1]);
    line.leave_host(0, "read-only");
    assert_eq!(line.host_left(1), None, "it is left already");
    line.leave_host(1, "read-only");
    assert_eq!(line.host_left(1), Some("read-only"));
    assert_eq!(line.host_left(2), None, "the next one isn't, though nothing of it is read yet");
    line.follow_host(2, |_| None);
    assert_eq!((line.host_left(1), line.host_left(2)), (None, None));
}

#[test]
fn after_the_position_was_removed_all_that_the_journal_has_goes_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(4000, WhenFull::Taint));
    for offset in 1..300 {
        append(&line, offset);
        line.prove(offset + 1, &place(offset));
        (0..2).for_each(|courier| line.note_cursor(courier, offset + 1));
    }
    line.advance(&"0-1-1".parse().unwrap(), None);
    line.store().unwrap();
    drop(line);
    std::fs::remove_file(folder.path().join("db/position")).unwrap();
    let (line, read) = open(folder.path(), limits(4000, WhenFull::Taint));
    assert_eq!(read, None);
    let first = line.cursor(0).cursor;
    assert!(first > 1 && first < 300, "{first}");
    assert_eq!(line.wait_unproven().unwrap().until, 300);
    line.begin_at(&"0-1-9".parse().unwrap(), place(5));
    line.prove(300, &place(5));
    assert!(matches!(line.work(first, 10, Duration::ZERO), Work::Behind(_)), "it can be read");
}

#[test]
fn after_a_sync_that_failed_no_position_is_stored_though_the_next_one_would_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    line.advance(&"0-1-1".parse().unwrap(), None);
    line.store().unwrap();
    append(&line, 100);
    line.advance(&"0-1-2".parse().unwrap(), None);
    let file = line.replace_file(None);
    assert!(line.store().is_err());
    line.replace_file(Some(file));
    assert!(line.store().is_err() && line.unsynced().is_some());
    let stored = Stored::read(&folder.path().join("db")).unwrap().unwrap();
    assert_eq!((stored.read.to_string(), stored.next), ("0-1-1".to_owned(), 1));
    drop(line);
    let (line, read) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    assert_eq!(read, Some("0-1-1".parse().unwrap()), "a new process goes on from there");
    append(&line, 200);
    line.store().unwrap();
}

/// Entries that all couriers have are removed, and the process is killed before it has stored the cursors.
#[test]
fn what_the_stored_position_needs_stays_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    for is_full in [true, false] {
        let limits = limits(if is_full { 5000 } else { 1 << 30 }, WhenFull::Taint);
        let (line, _) = open(folder.path(), limits);
        line.advance(&"0-1-1".parse().unwrap(), None);
        let (begin, ..) = line.figures();
        append(&line, begin);
        line.store().unwrap();
        for offset in begin + 1..begin + 300 {
            append(&line, offset);
            line.prove(offset + 1, &place(offset));
            (0..2).for_each(|courier| line.note_cursor(courier, offset + 1));
        }
        let state = line.state.lock();
        assert!(is_full || state.needed_after_crash() <= begin);
        assert!(state.couriers.iter().all(|courier| !courier.is_tainted));
        drop(state);
        assert!(!is_full || line.figures().1 < 8000, "{:?}", line.figures());
        // As if the process was killed between removing and storing.
        line.state.lock().trim(limits).unwrap();
        let next = line.figures().0;
        drop(line);
        let (line, _) = open(folder.path(), limits);
        assert_eq!(line.figures().0, next);
    }
}

/// A metrics scrape, or a store, must not meet a seat whose courier has no state yet.
#[test]
fn a_seat_is_there_no_sooner_than_its_couriers_state() {
    let folder = tempfile::tempdir().unwrap();
    let (line, _) = open(folder.path(), limits(1 << 30, WhenFull::Taint));
    thread::scope(|scope| {
        let state = line.state.lock();
        let takes = scope.spawn(|| line.take_seat("c3", None));
        // By then the thread has come as far as the lock lets it.
        thread::sleep(Duration::from_millis(100));
        assert_eq!((line.seats().len(), state.couriers.len()), (2, 2));
        drop(state);
        assert_eq!(takes.join().unwrap(), 2);
    });
    assert_eq!(line.taken_seats().len(), 3);
    assert_eq!(line.cursor(2), CourierState { cursor: 1, is_tainted: false });
}
