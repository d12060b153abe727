//! Openings: a second opener, one that is called off, a store that is opened for reading only, and what else a folder has.

use super::{DIR, Model, check, copy_of, files, fill, new_disk, open, options};
use guira_disk::Disk;
use guira_disk::faulty::{DiskOp, Injected};
use guira_store::{Batch, Db, Durability, OpenProgress, StoreError};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[test]
fn a_second_opener_is_told_that_the_store_is_open() {
    let (_, disk) = new_disk();
    let first = open(&disk).expect("a store");
    assert!(matches!(open(&disk), Err(StoreError::Locked(_))));
    drop(first);
    drop(open(&disk).expect("the lock is gone"));
    let folder = tempfile::tempdir().expect("a folder");
    let first = Db::open(folder.path(), options()).expect("a store");
    assert!(matches!(Db::open(folder.path(), options()), Err(StoreError::Locked(_))));
    drop(first);
    drop(Db::open(folder.path(), options()).expect("the lock is gone"));
}

#[test]
fn a_store_that_is_only_read_changes_no_file() {
    let (simulated, disk) = new_disk();
    let mut model = Model::new();
    let db = open(&disk).expect("a store");
    fill(&db, &mut model, 0..300);
    db.compact().expect("a merge");
    fill(&db, &mut model, 250..350);
    drop(db);
    let (events, mut only_read) = (simulated.events(), options());
    only_read.read_only = true;
    let db = Db::open_on(disk.clone(), Path::new(DIR), only_read.clone()).expect("a store");
    check(&db, &model);
    assert!(matches!(db.put(b"a", b"b"), Err(StoreError::ReadOnly)));
    assert!(matches!(db.compact(), Err(StoreError::ReadOnly)));
    drop(db);
    assert_eq!(simulated.events(), events, "a file was changed");
    let none = Db::open_on(disk, Path::new("/nothing"), only_read);
    assert!(none.is_err(), "there is no store to read");
}

/// The owner of a store that is served removes files between a reader's look at the list and its opening of them.
#[test]
fn a_reader_looks_again_for_a_file_that_is_gone_and_calls_it_damage_if_it_is_listed_still() {
    let (simulated, disk) = new_disk();
    let mut model = Model::new();
    let db = open(&disk).expect("a store");
    fill(&db, &mut model, 0..300);
    db.freeze().expect("a run");
    fill(&db, &mut model, 300..350);
    let mut only_read = options();
    only_read.read_only = true;
    let reader = || Db::open_on(disk.clone(), Path::new(DIR), only_read.clone());
    const GONE: i32 = 2;
    // A log is also opened to learn its length.
    for (name, skip) in [("R-", 0), ("L-", 1), ("M-", 0)] {
        let name = name.to_owned();
        simulated.inject(Injected { name, skip, ..Injected::once(DiskOp::Open, GONE) });
        let read = reader().and_then(|db| db.verify()).expect("it was removed by its owner");
        assert!(read.corrupt.is_empty() && read.files > 1, "{read:?}");
    }
    let run = files(&*disk, "R-").remove(0);
    disk.remove(&run).expect("a removed run");
    let refused = reader().map(drop);
    assert!(matches!(refused, Err(StoreError::Missing { .. })), "{refused:?}");
}

/// An opening that is cancelled before it begins still proceeds to the first run or record.
#[test]
fn an_opening_that_is_called_off_loses_nothing() {
    let (simulated, disk) = new_disk();
    let mut model = Model::new();
    let db = open(&disk).expect("it opens");
    fill(&db, &mut model, 0..300);
    db.freeze().expect("a run");
    drop(db);
    for part in 1..4 {
        // At first there are only runs, later also a log.
        let progress = OpenProgress::default();
        progress.cancel();
        let opened = Db::open_watched(disk.clone(), Path::new(DIR), options(), &progress);
        assert!(matches!(opened.map(drop), Err(StoreError::Cancelled)));
        assert!(progress.runs_open() <= 1 && progress.log_bytes_replayed() < 4096);
        let progress = OpenProgress::default();
        let copy: Arc<dyn Disk> = Arc::new(copy_of(&simulated));
        let db = Db::open_watched(copy, Path::new(DIR), options(), &progress).expect("it opens");
        assert_eq!(progress.runs(), progress.runs_open());
        assert_eq!(progress.log_bytes(), progress.log_bytes_replayed(), "{part}");
        check(&db, &model);
        drop(db);
        let db = open(&disk).expect("it opens");
        fill(&db, &mut model, part * 100..part * 100 + 50);
        drop(db);
    }
}

/// A copy shares the log's file, and opening the copy seals it.
#[test]
fn a_log_that_somebody_may_write_to_is_not_copied() {
    let (_, disk) = new_disk();
    let mut model = Model::new();
    let db = open(&disk).expect("a store");
    fill(&db, &mut model, 0..50);
    let mut only_read = options();
    only_read.read_only = true;
    let reader = || Db::open_on(disk.clone(), Path::new(DIR), only_read.clone()).expect("a store");
    let refused = reader().checkpoint("/copy");
    assert!(matches!(refused, Err(StoreError::Option(_))), "{refused:?}");
    drop(db);
    reader().checkpoint("/copy").expect("a copy of a closed store");
    let copy = Db::open_on(disk.clone(), Path::new("/copy"), options()).expect("the copy");
    check(&copy, &model);
}

#[test]
fn a_store_that_its_last_answer_drops_is_locked_until_its_log_is_written() {
    let (_, disk) = new_disk();
    let db = Arc::new(open(&disk).expect("a store"));
    let (go, may_go) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let (last, again) = (db.clone(), disk.clone());
    let write = |key: &[u8]| {
        let mut batch = Batch::new();
        batch.put(key, b"value").expect("a short key");
        batch
    };
    let done = move |_| {
        may_go.recv().expect("a word");
        drop(last);
        tell.send(open(&again).map(drop)).expect("a listener");
    };
    db.submit(write(b"first"), Durability::Os, done).expect("an accepted write");
    db.submit(write(b"second"), Durability::Os, |_| {}).expect("an accepted write");
    drop(db);
    go.send(()).expect("a listener");
    let refused = told.recv().expect("an answer");
    assert!(matches!(refused, Err(StoreError::Locked(_))), "{refused:?}");
    let db = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        open(&disk).ok()
    });
    let db = db.expect("the lock is gone");
    for key in [&b"first"[..], b"second"] {
        assert_eq!(db.get(key).expect("an answer").as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let (_, disk) = new_disk();
    drop(open(&disk).expect("a store"));
    disk.remove(&Path::new(DIR).join("CURRENT")).expect("a removed file");
    let refused = open(&disk).map(|_| ());
    assert!(matches!(refused, Err(StoreError::Foreign { .. })), "{refused:?}");
}

#[test]
fn strays_of_a_crash_are_removed() {
    let (_, disk) = new_disk();
    drop(open(&disk).expect("a store"));
    for name in ["R-00000000000000ff", "M-00000000000000fe", "CURRENT.new"] {
        disk.create(&Path::new(DIR).join(name), false).expect("a stray");
    }
    disk.create(&Path::new(DIR).join("notes.txt"), false).expect("a file of somebody");
    drop(open(&disk).expect("a store"));
    assert!(files(&*disk, "R-").is_empty());
    assert_eq!(files(&*disk, "M-").len(), 1);
    assert_eq!((files(&*disk, "CURRENT").len(), files(&*disk, "notes").len()), (1, 1));
}
