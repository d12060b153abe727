//! Logs that are cut short, and logs with a flipped bit.

use super::*;
use crate::log::record::{RecordKind, Salt, put_unstamped, stamp};
use guira_disk::FileAccess;

/// A log of single writes and batches, each durable before the next one: its bytes, where its writes end, and its
/// history.
struct Written {
    bytes: Vec<u8>,
    ends: Vec<u64>,
    history: History,
    /// The history's length at each end.
    counts: Vec<usize>,
}

fn written() -> Written {
    let disk = disk();
    let log = Log::start(&disk, 6 << 10);
    let active = log.logs.lock()[0].clone();
    let (mut ends, mut counts, mut count) = (vec![active.written()], vec![0], 0);
    let writes: [&[Write<'_>]; 6] = [
        &[(b"a", Some(b"first"))],
        &[(b"b", Some(&[7; 20])), (b"c", None), (b"dd", Some(b""))],
        &[(b"e", None)],
        &[(b"f", Some(&[9; 60]))],
        &[(b"g", Some(b"1")), (b"h", Some(b"2"))],
        &[(b"last", Some(b"of all"))],
    ];
    for writes in writes {
        log.submit(batch(writes), Durability::Always).recv().unwrap().unwrap();
        ends.push(active.written());
        count += writes.len();
        counts.push(count);
    }
    // The log as a kill leaves it: an orderly end would seal it.
    let bytes = disk.contents(&path(1)).unwrap();
    Written { bytes, ends, history: history(&active), counts }
}

fn disk_with(bytes: &[u8]) -> SimulatedDisk {
    let disk = disk();
    disk.create(&path(1), false).unwrap().write_at(bytes, 0).unwrap();
    disk
}

impl Written {
    /// The part of the history before the first changed byte.
    fn kept(&self, bytes: &[u8]) -> &[Owned] {
        let is_whole = |ends: &&[u64]| {
            let [from, to] = [ends[0], ends[1]].map(|it| usize::try_from(it).unwrap());
            bytes.get(from..to) == Some(&self.bytes[from..to])
        };
        let writes = self.ends.windows(2).take_while(is_whole).count();
        &self.history[..self.counts[writes]]
    }
}

#[test]
fn a_log_that_is_cut_at_any_byte_keeps_what_is_whole() {
    let written = written();
    let [first, end] = [written.ends[0], written.ends[6]];
    for cut in first..=end {
        let at = usize::try_from(cut).unwrap();
        let short = written.bytes[..at].to_vec();
        let mut zeroed = written.bytes.clone();
        zeroed[at..].fill(0);
        let mut garbage = written.bytes.clone();
        garbage[at..].fill(0xa5);
        for bytes in [short, zeroed, garbage] {
            let disk = disk_with(&bytes);
            let expected = written.kept(&bytes);
            for how in [ReplayAs { read_only: true, ..NEWEST }, NEWEST] {
                let log = reopen(&disk, 1, how);
                assert_eq!(history(&log), expected, "cut at {cut}");
                for (_, key, value) in expected {
                    assert_eq!(&super::value(&log, key), value);
                }
                assert_eq!(log.is_sealed(), !how.read_only);
                assert!(!how.read_only || disk.contents(&path(1)) == Some(bytes.clone()));
            }
            // The log is sealed now, so it is whole as an older log, too.
            let again = reopen(&disk, 1, ReplayAs { is_newest: false, ..NEWEST });
            assert_eq!(again.records(), expected.len() as u64);
        }
    }
}

#[test]
fn a_flipped_bit_is_corruption_where_a_later_record_calls_it_durable() {
    let written = written();
    let [first, last, end] = [0, 5, 6].map(|at| written.ends[at]);
    for at in first..end {
        let disk = disk_with(&written.bytes);
        assert!(disk.flip(&path(1), at, 1 << (at % 8)));
        let kept = written.kept(&disk.contents(&path(1)).unwrap());
        let found = open(&disk, 1, NEWEST);
        if at < last {
            let start = written.ends.iter().rev().find(|&&end| end <= at).unwrap();
            let Err(StoreError::Corrupt { offset, .. }) = &found else {
                panic!("a flip at {at}: {found:?}")
            };
            assert_eq!(offset, start, "a flip at {at}");
            assert_eq!(disk.contents(&path(1)).unwrap().len(), written.bytes.len(), "not cut");
        } else {
            let Ok(Replayed { log, lost_bytes: 0, .. }) = found else {
                panic!("a flip at {at}: {found:?}")
            };
            assert_eq!(history(&log), kept, "a flip at {at}");
            continue;
        }
        let repair = ReplayAs { repair: true, ..NEWEST };
        let Ok(Replayed { log, lost_bytes, .. }) = open(&disk, 1, repair) else { panic!("{at}") };
        assert_eq!(history(&log), kept);
        assert_eq!(lost_bytes, end - log.written() + 64, "up to the last record, and the new seal");
        assert_eq!(history(&reopen(&disk, 1, NEWEST)), kept);
    }
}

#[test]
fn a_log_before_the_newest_is_whole_or_corrupt() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 15);
    for n in 0..10_u8 {
        log.submit(batch(&[(&[n], Some(&[n; 50]))]), Durability::Os);
    }
    log.freeze().unwrap();
    let logs = log.close();
    let end = logs[0].written();
    let older = ReplayAs { is_newest: false, ..NEWEST };
    assert_eq!(history(&reopen(&disk, 1, older)).len(), 10);
    for at in 4096..end {
        assert!(disk.flip(&path(1), at, 2));
        let found = open(&disk, 1, older);
        assert!(matches!(found, Err(StoreError::Corrupt { .. })), "a flip at {at}: {found:?}");
        assert!(disk.flip(&path(1), at, 2));
    }
    assert!(disk.flip(&path(1), 4096 + 100, 2));
    let repaired = open(&disk, 1, ReplayAs { repair: true, ..older });
    assert!(matches!(repaired, Ok(Replayed { lost_bytes: 500.., .. })), "{repaired:?}");
    assert_eq!(history(&reopen(&disk, 1, older)).len(), 1, "cut, and sealed again");
}

/// A log gets its name after its header is durable, so no crash leaves the name without a header.
#[test]
fn a_log_without_a_whole_header_is_damaged() {
    let written = written();
    let cut = &written.bytes[..4095];
    for bytes in [&[][..], &[0; 100], &[0; 4096], &[0; 20_000], cut] {
        for how in [NEWEST, ReplayAs { is_newest: false, ..NEWEST }] {
            let found = open(&disk_with(bytes), 1, how);
            assert!(matches!(found, Err(StoreError::Corrupt { offset: 0, .. })), "{found:?}");
        }
    }
    for at in [0, 7, 9, 20, 50, 4095] {
        let disk = disk_with(&written.bytes);
        assert!(disk.flip(&path(1), at, 1));
        let found = open(&disk, 1, NEWEST);
        assert!(matches!(found, Err(StoreError::Corrupt { offset: 0, .. })), "{at}: {found:?}");
    }
    let header = Header { before: 1, ..header(1) }.encode();
    let found = open(&disk_with(&header), 1, NEWEST);
    assert!(matches!(found, Err(StoreError::Corrupt { offset: 0, .. })), "{found:?}");
}

#[test]
fn a_log_of_another_store_or_number_is_foreign() {
    let written = written();
    let disk = disk_with(&written.bytes);
    let others = [
        Header { file_id: 2, ..header(1) },
        Header { uuid: [6; 16], ..header(1) },
        Header { hash_id: 0, ..header(1) },
        Header { kind: FileKind::Run, ..header(1) },
    ];
    for other in others {
        let found = replay((&disk, &OpenProgress::default()), &path(1), &other, &hasher(), NEWEST);
        assert!(matches!(found, Err(StoreError::Foreign { .. })), "{found:?}");
    }
    let missing =
        replay((&disk, &OpenProgress::default()), &path(9), &header(9), &hasher(), NEWEST);
    assert!(matches!(missing, Err(StoreError::Io { what: "open", .. })));
}

/// Whole records, in an order that no committer writes.
#[test]
fn a_batch_is_taken_only_with_all_its_records_and_numbers_grow() {
    let salt = Salt::of(&header(1));
    let write = |records: &[(RecordKind, u64, &[u8])]| {
        let mut bytes = header(1).encode().to_vec();
        for (kind, seq, value) in records {
            let (from, key) = (bytes.len(), if value.is_empty() { &b"key"[..] } else { b"" });
            put_unstamped(&mut bytes, *kind, key, value);
            stamp(&mut bytes[from..], salt, *seq, 0);
        }
        history(&reopen(&disk_with(&bytes), 1, NEWEST)).len()
    };
    let (begin, end) = (RecordKind::BatchBegin, RecordKind::BatchEnd);
    let put = RecordKind::Entry(EntryKind::Put);
    let two = 2_u32.to_le_bytes();
    let ends = [two, [0; 4]].concat();
    assert_eq!(write(&[(put, 1, b""), (put, 2, b"")]), 1, "the newest of the key");
    assert_eq!(write(&[(put, 2, b""), (put, 2, b"")]), 1);
    assert_eq!(write(&[(put, 2, b""), (put, 1, b"")]), 1);
    for records in [
        &[(begin, 1, &two[..]), (put, 1, b""), (end, 1, &ends)][..],
        &[(begin, 1, &two), (put, 1, b""), (put, 2, b""), (end, 2, &ends)],
        &[(begin, 1, &two), (put, 1, b""), (put, 3, b""), (end, 3, &ends)],
        &[(begin, 1, &two), (begin, 1, &two)],
        &[(end, 1, &ends)],
    ] {
        assert_eq!(write(records), 0, "{records:?}");
    }
}

/// Records of one file aren't accepted as records of another, even at the same place and with the same number.
#[test]
fn a_value_that_holds_a_log_is_only_a_value() {
    let written = written();
    let disk = disk();
    let log = Log::start(&disk, 1 << 16);
    let records = &written.bytes[4096..];
    for at in 0..8 {
        log.put(b"a log", &records[at..]).unwrap();
    }
    log.close();
    let file = disk.open(&path(1), FileAccess { write: true, direct: false }).unwrap();
    let len = file.len().unwrap();
    // The first record is corrupt, and the records in its value must not be found after it.
    assert!(disk.flip(&path(1), 4096 + 3, 1));
    let found = open(&disk, 1, ReplayAs { repair: true, ..NEWEST });
    let Ok(Replayed { log, .. }) = found else { panic!("{found:?}") };
    assert!(history(&log).is_empty() && len > 4096);
}
