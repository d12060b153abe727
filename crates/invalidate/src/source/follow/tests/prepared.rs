//! XA transactions: their first part waits for the second one, over crashes and restarts.

use super::{CUT, config, follow, follow_from};
use crate::entry::LogPlace;
use crate::source::ended::Ended;
use crate::source::event;
use crate::source::made::{self, Made};
use crate::source::recovery::Recovered;
use parking_lot::Mutex;
use std::sync::Arc;

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
    let row = |id| [made::row(id, b"n", b"")];
    let followed = |log: &[Made], created, end| {
        let mut all = vec![made::rotate("b.000001", 4), format(0)];
        all.extend(prepare(1, b"lost", &row(1)));
        all.extend(prepare(2, b"late", &row(2)));
        all.extend(prepare(3, b"kept", &row(3)));
        all.extend([made::rotate("b.000002", 4), format(created)]);
        all.extend(prepare(4, b"new", &row(4)));
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
