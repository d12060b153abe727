//! What a journal keeps across restarts, torn records and failed syncs.

use super::*;
use crate::entry::LogPlace;
use crate::key::Key;
use crate::rule::Delete;

fn append(journal: &mut Journal, count: u64) {
    for _ in 0..count {
        let place = LogPlace { file: "b.000001".into(), offset: journal.next() };
        let key = Key::new(format!("key:{}", journal.next()).as_bytes()).unwrap();
        let deletes = Errand::Deletes(vec![Delete { key, how: None, to: None }]);
        journal.append(Origin { place, stamp: "".into(), at_s: 1 }, deletes).unwrap();
    }
}

/// Writes a segment of version 1 or 2, with `count` entries from `first` on.
fn old_segment(folder: &Path, version: u32, (first, count): (u64, u64)) {
    let mut file = b"GUIRAINV".to_vec();
    file.extend_from_slice(&version.to_le_bytes());
    file.extend_from_slice(&first.to_le_bytes());
    file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
    for number in first..first + count {
        let mut entry = number.to_le_bytes().to_vec();
        entry.extend_from_slice(&1_u32.to_le_bytes());
        entry.extend_from_slice(&number.to_le_bytes());
        entry.extend_from_slice(b"\x08\0b.000001");
        let key = format!("key:{number}");
        if version > 1 {
            entry.extend_from_slice(b"\x05\x000-1-5\0");
        }
        entry.extend_from_slice(&[0; 5]);
        entry.extend_from_slice(&u16::try_from(key.len()).unwrap().to_le_bytes());
        entry.extend_from_slice(key.as_bytes());
        entry.push(255);
        file.extend_from_slice(&u32::try_from(entry.len()).unwrap().to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(&entry).to_le_bytes());
        file.extend_from_slice(&entry);
    }
    fs::write(segment::path(folder, first), file).unwrap();
}

#[test]
fn a_journal_of_an_older_version_is_read_and_goes_on_in_a_new_file() {
    for (version, old) in [(1, 5), (1, 0), (2, 5)] {
        let folder = tempfile::tempdir().unwrap();
        old_segment(folder.path(), version, (1, old));
        let before = fs::read(segment::path(folder.path(), 1)).unwrap();
        let mut journal = Journal::open(folder.path(), 1, old + 1, 1000).unwrap();
        append(&mut journal, 3);
        let all: Vec<u64> = (1..=old + 3).collect();
        assert_eq!(read(&journal, 1), all);
        drop(journal);
        let journal = Journal::open(folder.path(), 1, old + 4, 1000).unwrap();
        assert_eq!(read(&journal, 1), all);
        let after = fs::read(segment::path(folder.path(), 1)).unwrap();
        assert_eq!(after == before, old > 0, "what was written stays as it was");
    }
    let folder = tempfile::tempdir().unwrap();
    old_segment(folder.path(), 1, (1, 2));
    let path = segment::path(folder.path(), 1);
    let mut later = fs::read(&path).unwrap();
    later[8] = 4;
    let sum = crc32c::crc32c(&later[..20]);
    later[20..24].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, later).unwrap();
    let told = Journal::open(folder.path(), 1, 3, 1000).unwrap_err();
    assert!(told.contains("has version 4 of the journal"), "{told}");
}

/// Returns the numbers of the entries in the files, from `from` on.
fn read(journal: &Journal, from: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut next = from;
    while next < journal.next() {
        let mut reader = SegmentReader::open(&journal.segment_of(next).unwrap()).unwrap();
        while let Some(entry) = reader.read().unwrap() {
            if entry.number >= next {
                assert_eq!(entry.deletes()[0].key.to_string(), format!("key:{}", entry.number));
                numbers.push(entry.number);
            }
        }
        assert!(reader.next > next, "no entry {next}");
        next = reader.next;
    }
    numbers
}

#[test]
fn entries_outlive_the_process_and_what_nobody_needs_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path(), 1, 1, 1000).unwrap();
    append(&mut journal, 200);
    assert!(journal.segments.len() > 3, "{}", journal.segments.len());
    assert_eq!(read(&journal, 1), (1..=200).collect::<Vec<_>>());
    let recent = journal.recent(198, 201, 10).unwrap();
    assert_eq!(recent.iter().map(|it| it.number).collect::<Vec<_>>(), [198, 199, 200]);
    assert!(journal.recent(1, 201, 10).is_none(), "memory is bounded");
    drop(journal);
    let mut journal = Journal::open(folder.path(), 100, 150, 1000).unwrap();
    assert_eq!(journal.next(), 201);
    append(&mut journal, 10);
    journal.trim(150, u64::MAX, Duration::from_secs(1000)).unwrap();
    assert_eq!(read(&journal, 1).len(), 210, "it is young, and there is room");
    journal.trim(150, 0, Duration::from_secs(1000)).unwrap();
    assert_eq!(read(&journal, 150), (150..=210).collect::<Vec<_>>());
    assert!(journal.segment_of(1).is_none());
}

/// Entries stay in memory while a courier has them, also after the journal has dropped them.
#[test]
fn what_is_taken_at_once_has_little_weight_and_is_one_entry_at_least() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path(), 1, 1, 64 << 20).unwrap();
    for (keys, count) in [(512, 100), (1, 500), (5000, 3)] {
        let delete = |number: u32| Delete {
            key: Key::new(format!("user:{number:0200}").as_bytes()).unwrap(),
            how: None,
            to: None,
        };
        let from = journal.next();
        for _ in 0..count {
            let place = LogPlace { file: "b.000001".into(), offset: journal.next() };
            let origin = Origin { place, stamp: "".into(), at_s: 1 };
            journal.append(origin, Errand::Deletes((0..keys).map(delete).collect())).unwrap();
        }
        let taken = journal.recent(from, journal.next(), 256).unwrap();
        let weight = |entries: &[Arc<Entry>]| entries.iter().map(|it| it.weight()).sum::<usize>();
        assert!(!taken.is_empty() && weight(&taken[1..]) < AT_ONCE, "{} entries", taken.len());
        assert_eq!(taken.len() == 256, keys == 1, "{} entries", taken.len());
    }
}

#[test]
fn a_torn_record_is_written_over_and_a_lost_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path(), 1, 1, 1000).unwrap();
    append(&mut journal, 5);
    let path = journal.segment_of(1).unwrap();
    drop(journal);
    let whole = fs::read(&path).unwrap();
    for cut in 1..50 {
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let told = Journal::open(folder.path(), 1, 6, 1000).unwrap_err();
        assert!(told.contains("entries 1 to 5 must be there"), "{told}");
        let mut journal = Journal::open(folder.path(), 1, 5, 1000).unwrap();
        assert_eq!(journal.next(), 5);
        append(&mut journal, 1);
        assert_eq!(read(&journal, 1), [1, 2, 3, 4, 5]);
    }
    let mut flipped = whole;
    flipped[60] ^= 1;
    fs::write(&path, &flipped).unwrap();
    assert!(Journal::open(folder.path(), 1, 6, 1000).is_err());
    fs::remove_file(&path).unwrap();
    assert!(Journal::open(folder.path(), 1, 6, 1000).is_err());
    // No entry is needed.
    assert_eq!(Journal::open(folder.path(), 6, 6, 1000).unwrap().next(), 6);
}

/// A device that accepts writes, and fails to sync them.
fn failing() -> Arc<File> {
    Arc::new(fs::OpenOptions::new().write(true).open("/dev/null").unwrap())
}

#[test]
fn after_a_sync_that_failed_nothing_is_appended_though_the_next_one_would_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path(), 1, 1, 1000).unwrap();
    append(&mut journal, 1);
    while journal.writer.bytes < SEGMENT_BYTES {
        append(&mut journal, 1);
    }
    let (file, next) = (journal.replace_file(failing()), journal.next());
    let place = || Origin {
        place: LogPlace { file: "b.000001".into(), offset: 1 },
        stamp: "".into(),
        at_s: 1,
    };
    assert!(journal.append(place(), Errand::Flush(None)).is_err());
    journal.replace_file(file);
    assert!(journal.append(place(), Errand::Flush(None)).is_err());
    assert!(journal.unsynced().is_some());
    assert_eq!((journal.next(), journal.segments.len()), (next, 1));
}

#[test]
fn what_no_position_proves_is_written_again_when_it_is_opened() {
    let year = Duration::from_secs(365 * 86_400);
    for is_old in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        if is_old {
            old_segment(folder.path(), 1, (1, 5));
        } else {
            append(&mut Journal::open(folder.path(), 1, 1, 1000).unwrap(), 5);
        }
        let path = segment::path(folder.path(), 1);
        let before = fs::read(&path).unwrap();
        for (next, is_written) in [(6, false), (5, true)] {
            let then = SystemTime::now() - year;
            File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
            Journal::open(folder.path(), 1, next, 1000).unwrap();
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            assert_eq!(modified.elapsed().unwrap() < year / 2, is_written, "{is_old} {next}");
            assert_eq!(fs::read(&path).unwrap(), before);
            // The new file that follows an old one.
            fs::remove_file(segment::path(folder.path(), 6)).ok();
        }
    }
}

#[test]
fn a_segment_that_was_being_made_when_the_power_went_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path(), 1, 1, 1000).unwrap();
    append(&mut journal, 3);
    fs::write(segment::path(folder.path(), 4), b"GUIRA").unwrap();
    let mut journal = Journal::open(folder.path(), 1, 4, 1000).unwrap();
    append(&mut journal, 2);
    assert_eq!(read(&journal, 1), [1, 2, 3, 4, 5]);
}
