//! Lookups in a log: without I/O, by reads, after a replay, and among colliding hashes.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn the_newest_write_of_a_key_is_found_before_and_after_a_replay() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    assert_eq!(log.put(b"ani", b"one").unwrap(), 1);
    assert_eq!(log.put(b"ani", b"two").unwrap(), 2);
    assert_eq!(log.put(b"toco", &[7; 9000]).unwrap(), 3);
    let gone = log.submit(batch(&[(b"guan", Some(b"x")), (b"guan", None)]), Durability::Always);
    assert_eq!(gone.recv().unwrap().unwrap().first_seq, 4);
    assert_eq!(log.committer().last_seq(), 5);
    let before = log.close().pop().unwrap();
    let after = reopen(&disk, 1, NEWEST);
    for log in [&before, &after] {
        let find = |key: &[u8]| get(log, &hasher(), key).unwrap();
        assert!(matches!(find(b"ani"), LogFind::Put { value, seq: 2 } if value == "two"));
        assert!(matches!(find(b"toco"), LogFind::Put { value, seq: 3 } if value == vec![7; 9000]));
        assert!(matches!(find(b"guan"), LogFind::Deleted));
        assert!(matches!(find(b"rhea"), LogFind::Absent));
        assert_eq!((log.records(), log.seq_max(), log.keys()), (5, 5, 3));
    }
    assert!(after.is_sealed());
}

#[test]
fn what_was_just_written_is_found_without_a_read() {
    let disk = disk();
    let log = Log::start(&disk, 8 << 20);
    for n in 0..100_u32 {
        log.put(&n.to_le_bytes(), &[0; 30_000]).unwrap();
    }
    let active = log.logs.lock()[0].clone();
    let is_read = |n: u32| {
        let key = n.to_le_bytes();
        matches!(active.find(hasher().hash(&key), &key).unwrap(), LogFind::Read(_))
    };
    assert!(is_read(0) && !is_read(99) && !is_read(70));
    assert_eq!(value(&active, &0_u32.to_le_bytes()).map(|it| it.len()), Some(30_000));
    assert!(active.memory_bytes() < (1 << 20) + (1 << 20) / 2, "{}", active.memory_bytes());
}

#[test]
fn a_full_log_is_sealed_and_the_next_one_goes_on() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 16);
    for n in 0..500_u32 {
        log.put(&n.to_le_bytes(), &[1; 500]).unwrap();
    }
    log.put(b"huge", &vec![2; 1 << 18]).unwrap();
    log.put(b"last", b"x").unwrap();
    let logs = log.close();
    assert!(logs.len() > 4, "{} logs", logs.len());
    let mut expected = 1;
    for (id, log) in (1..).zip(&logs) {
        assert!(log.written() <= 1 << 16 || log.records() == 1, "{log:?}");
        let how = ReplayAs { is_newest: id == logs.len() as u64, ..NEWEST };
        for (seq, ..) in history(&reopen(&disk, id, how)) {
            assert_eq!(seq, expected);
            expected += 1;
        }
    }
    assert_eq!(expected, 503);
}

#[test]
fn a_freeze_seals_what_came_before_and_leaves_an_empty_log() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    log.freeze().unwrap();
    assert_eq!(log.logs.lock().len(), 1, "nothing to freeze");
    let answer = log.submit(batch(&[(b"ani", Some(b"1"))]), Durability::Os);
    log.freeze().unwrap();
    answer.recv().unwrap().unwrap();
    let logs = log.logs.lock().clone();
    assert!(logs.len() == 2 && logs[0].is_sealed() && logs[1].is_empty());
    assert_eq!(value(&logs[0], b"ani").as_deref(), Some(&b"1"[..]));
}

fn writes() -> impl Strategy<Value = Vec<Vec<(u8, Option<Vec<u8>>)>>> {
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
    let write = (0..40_u8, value);
    prop::collection::vec(prop::collection::vec(write, 1..5), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// With full hashes, and with hashes of 2 bits, which have only four values.
    #[test]
    fn replay_gives_what_was_submitted(batches in writes(), bits in prop::sample::select(vec![2, 128])) {
        let disk = disk();
        let hasher = hasher().keeping(bits);
        let log = Log::with_hasher(&disk, 1 << 16, hasher.clone());
        let mut model = BTreeMap::new();
        let mut seq = 0;
        let mut answers = Vec::new();
        for writes in &batches {
            let writes: Vec<_> = writes.iter().map(|(key, value)| ([*key; 3], value)).collect();
            for (key, value) in &writes {
                seq += 1;
                model.insert(*key, (seq, (*value).clone()));
            }
            let writes: Vec<Write<'_>> =
                writes.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
            answers.push(log.submit(batch(&writes), Durability::Os));
        }
        for answer in answers {
            prop_assert!(answer.recv().unwrap().is_ok());
        }
        let live = log.close();
        let replayed: Vec<_> = (1..=live.len() as u64)
            .map(|id| {
                let how = ReplayAs { is_newest: id == live.len() as u64, ..NEWEST };
                replay((&disk, &OpenProgress::default()), &path(id), &header(id), &hasher, how).unwrap().log
            })
            .collect();
        for logs in [live, replayed] {
            for (key, (seq, value)) in &model {
                let mut found = LogFind::Absent;
                for log in logs.iter().rev() {
                    found = get(log, &hasher, key).unwrap();
                    if !matches!(found, LogFind::Absent) {
                        break;
                    }
                }
                let is_right = match (&found, value) {
                    (LogFind::Put { value: got, seq: at }, Some(value)) => got == value && at == seq,
                    (LogFind::Deleted, None) => true,
                    _ => false,
                };
                prop_assert!(is_right, "{:?} instead of {:?}", found, (seq, value));
            }
            for log in &logs {
                let sorted = SortedLog::of(log, &hasher).unwrap();
                prop_assert_eq!(sorted.len(), log.keys());
                let keys: Vec<_> = entries(&sorted).map(|it| (it.hash, it.key)).collect();
                prop_assert!(keys.is_sorted_by(|a, b| a < b));
            }
        }
    }
}
