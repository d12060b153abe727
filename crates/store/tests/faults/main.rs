//! A full disk, failing syncs, flipped bits, short reads, and rules that panic.

mod opening;

use guira_disk::faulty::{DiskOp, Injected};
use guira_disk::{Disk, SimulatedDisk, System};
use guira_store::{Db, Durability, Options, Snapshot, StoreError, WriteOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const DIR: &str = "/store";

fn options() -> Options {
    let mut options = Options::default();
    options.durability = Durability::Os;
    options.log_bytes = 128 << 10;
    options.partition_bytes = 64 << 10;
    options.reserve_bytes = 1;
    (options.runs_merge, options.runs_soft, options.runs_hard) = (2, 20, 30);
    options.stall_max = Duration::from_secs(20);
    options
}

fn new_disk() -> (SimulatedDisk, Arc<dyn Disk>) {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    (disk.clone(), Arc::new(disk))
}

fn open(disk: &Arc<dyn Disk>) -> Result<Db, StoreError> {
    Db::open_on(disk.clone(), Path::new(DIR), options())
}

fn pair(n: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("key {n}").into_bytes(), vec![(n % 251) as u8; 100 + (n % 7) as usize * 100])
}

fn fill(db: &Db, model: &mut Model, numbers: std::ops::Range<u32>) {
    for (key, value) in numbers.map(pair) {
        db.put(&key, &value).expect("a put");
        model.insert(key, value);
    }
}

fn check(db: &Db, model: &Model) {
    for (key, value) in model {
        let found = db.get(key).expect("an answer");
        assert_eq!(found.as_deref(), Some(&value[..]), "{}", String::from_utf8_lossy(key));
    }
    let snapshot = db.snapshot().expect("a snapshot");
    assert_eq!(count(&snapshot), model.len());
}

fn count(snapshot: &Snapshot) -> usize {
    let mut count = 0;
    snapshot.iter().for_each(|entry| count += usize::from(entry.expect("an entry").seq > 0));
    count
}

fn files(disk: &dyn Disk, letter: &str) -> Vec<PathBuf> {
    let all = disk.list(Path::new(DIR)).expect("a folder");
    let is_one =
        |it: &PathBuf| it.file_name().is_some_and(|it| it.to_string_lossy().starts_with(letter));
    all.into_iter().filter(is_one).collect()
}

#[test]
fn a_full_disk_at_any_file_is_told_and_passes_without_reopening() {
    for (op, name) in [
        (DiskOp::Write, "L-"),
        (DiskOp::Resize, "L-"),
        (DiskOp::Create, "L-"),
        (DiskOp::Write, "R-"),
        (DiskOp::Create, "R-"),
        (DiskOp::Sync, "R-"),
        (DiskOp::Write, "M-"),
    ] {
        for skip in [0, 2] {
            let (simulated, disk) = new_disk();
            let db = open(&disk).expect("a store");
            let mut model = Model::new();
            fill(&db, &mut model, 0..200);
            simulated.inject(Injected { op, name: name.to_owned(), skip, times: 3, errno: 28 });
            let mut refused = 0;
            for (key, value) in (200..1200).map(pair) {
                match db.put(&key, &value) {
                    Ok(()) => drop(model.insert(key, value)),
                    Err(StoreError::NoSpace) => refused += 1,
                    Err(other) => panic!("{op:?} {name}: {other}"),
                }
            }
            assert!(refused <= 3, "{op:?} {name}: {refused} puts were refused");
            check(&db, &model);
            simulated.heal();
            fill(&db, &mut model, 1200..1300);
            db.compact().expect("a merge after space came back");
            check(&db, &model);
            drop(db);
            check(&open(&disk).expect("the same store"), &model);
        }
    }
}

#[test]
fn a_disk_that_is_full_takes_deletes_and_then_goes_on() {
    let (simulated, disk) = new_disk();
    let mut options = options();
    options.reserve_bytes = 2 << 20;
    options.stall_max = Duration::from_millis(200);
    simulated.set_space(Some(5 << 20));
    let db = Db::open_on(disk.clone(), Path::new(DIR), options).expect("a store");
    let mut model = Model::new();
    let mut n = 0;
    let error = loop {
        let (key, value) = pair(n);
        match db.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(error) => break error,
        }
        n += 1;
        assert!(n < 100_000, "5 MiB hold less than that");
    };
    assert!(matches!(error, StoreError::NoSpace), "{error}");
    assert!(n > 1000, "only {n} puts went in");
    check(&db, &model);
    for (key, _) in (0..n).filter(|n| n % 2 == 0).map(pair) {
        db.delete(&key).expect("a delete on a full disk");
        model.remove(&key);
    }
    check(&db, &model);
    simulated.set_space(Some(50 << 20));
    db.compact().expect("a merge after space came back");
    fill(&db, &mut model, n..n + 500);
    check(&db, &model);
    drop(db);
    check(&open(&disk).expect("the same store"), &model);
}

#[test]
fn after_a_failed_sync_of_a_log_it_is_read_only_until_reopened() {
    let (simulated, disk) = new_disk();
    let mut model = Model::new();
    let db = open(&disk).expect("a store");
    fill(&db, &mut model, 0..50);
    db.sync().expect("a sync");
    simulated.inject(Injected { name: "L-".to_owned(), ..Injected::once(DiskOp::Sync, 5) });
    let always = WriteOptions { durability: Durability::Always };
    db.put_with(b"lost?", b"1", always).expect_err("a sync that failed");
    for _ in 0..3 {
        let refused = db.put_with(b"lost?", b"2", always);
        assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
    }
    for (key, value) in &model {
        assert_eq!(db.get(key).expect("reads go on").as_deref(), Some(&value[..]));
    }
    drop(db);
    let db = open(&disk).expect("the same store");
    fill(&db, &mut model, 50..60);
    for (key, value) in &model {
        assert_eq!(db.get(key).expect("an answer").as_deref(), Some(&value[..]));
    }
    let unsure = db.get(b"lost?").expect("an answer");
    assert!(unsure.is_none() || unsure.as_deref() == Some(b"1"), "{unsure:?}");
}

#[test]
fn after_a_failed_sync_of_the_manifest_nothing_is_lost() {
    let (simulated, disk) = new_disk();
    let mut model = Model::new();
    let db = open(&disk).expect("a store");
    fill(&db, &mut model, 0..300);
    simulated.inject(Injected { name: "M-".to_owned(), ..Injected::once(DiskOp::Sync, 5) });
    db.freeze().expect_err("an edit that may be lost");
    check_each(&db, &model);
    drop(db);
    let db = open(&disk).expect("the same store");
    check(&db, &model);
    db.compact().expect("a merge");
    check(&db, &model);
}

fn check_each(db: &Db, model: &Model) {
    for (key, value) in model {
        assert_eq!(db.get(key).expect("an answer").as_deref(), Some(&value[..]));
    }
}

/// Copies the files to another disk.
fn copy_of(disk: &SimulatedDisk) -> SimulatedDisk {
    let copy = SimulatedDisk::with_dir(Path::new("/"));
    copy.make_dir(Path::new(DIR)).expect("a folder");
    for path in disk.list(Path::new(DIR)).expect("a folder") {
        let bytes = disk.contents(&path).expect("a file");
        copy.create(&path, false).and_then(|it| it.write_at(&bytes, 0)).expect("a copy");
    }
    copy
}

#[test]
fn a_flipped_bit_gives_the_value_or_an_error() {
    let (simulated, disk) = new_disk();
    let mut model = Model::new();
    let db = open(&disk).expect("a store");
    fill(&db, &mut model, 0..400);
    db.compact().expect("a merge");
    fill(&db, &mut model, 300..450);
    db.freeze().expect("a young run");
    fill(&db, &mut model, 440..500);
    drop(db);
    let mut random = fastrand::Rng::with_seed(3);
    let (mut opened, mut refused, mut errors) = (0, 0, 0);
    for path in disk.list(Path::new(DIR)).expect("a folder") {
        let Some(bytes) = simulated.contents(&path).filter(|it| !it.is_empty()) else { continue };
        for _ in 0..24 {
            let (offset, bit) = (random.usize(0..bytes.len()) as u64, 1 << random.u8(0..8));
            assert!(simulated.flip(&path, offset, bit));
            let copy: Arc<dyn Disk> = Arc::new(copy_of(&simulated));
            match open(&copy) {
                Err(_) => refused += 1,
                Ok(db) => {
                    opened += 1;
                    for (key, value) in &model {
                        match db.get(key) {
                            Ok(found) => {
                                assert_eq!(
                                    found.as_deref(),
                                    Some(&value[..]),
                                    "{} at {offset}",
                                    path.display()
                                );
                            }
                            Err(StoreError::Corrupt { .. }) => errors += 1,
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            }
            assert!(simulated.flip(&path, offset, bit));
        }
    }
    assert!(opened > 10 && refused > 10 && errors > 10, "{opened} {refused} {errors}");
}

#[test]
fn a_verification_names_all_damage_of_a_file_up_to_a_hundred_places() {
    let (simulated, disk) = new_disk();
    let mut options = options();
    options.partition_bytes = 8 << 20;
    let db = Db::open_on(disk.clone(), Path::new(DIR), options).expect("a store");
    fill(&db, &mut Model::new(), 0..2000);
    db.compact().expect("a merge");
    fill(&db, &mut Model::new(), 0..50);
    let run = files(&*disk, "R-").pop().expect("a run");
    for damaged in [1, 100, 130] {
        (1..=damaged).for_each(|block| assert!(simulated.flip(&run, block * 4096 + 100, 1)));
        let found = db.verify().expect("it can be read");
        let named: Vec<u64> = found.corrupt.iter().map(|it| it.offset / 4096).collect();
        assert_eq!(named, (1..=damaged.min(100)).collect::<Vec<_>>());
        assert_eq!((found.damaged_files, found.unnamed), (1, damaged.saturating_sub(100)));
        assert!(found.corrupt.iter().all(|it| it.path == run));
        (1..=damaged).for_each(|block| assert!(simulated.flip(&run, block * 4096 + 100, 1)));
    }
}

#[test]
fn a_short_read_is_an_error_once() {
    let (simulated, disk) = new_disk();
    let mut model = Model::new();
    let db = open(&disk).expect("a store");
    fill(&db, &mut model, 0..300);
    db.compact().expect("a merge");
    for errno in [0, 5] {
        simulated.inject(Injected { name: "R-".to_owned(), ..Injected::once(DiskOp::Read, errno) });
        db.get(&pair(7).0).expect_err("a read that failed");
        check(&db, &model);
    }
}

#[test]
fn files_vanish_only_after_the_last_snapshot_that_reads_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let db = Db::open_on(Arc::new(System), dir, options()).expect("a store");
    let mut model = Model::new();
    fill(&db, &mut model, 0..500);
    db.freeze().expect("a young run");
    let snapshot = db.snapshot().expect("a snapshot");
    fill(&db, &mut Model::new(), 500..900);
    for (key, _) in (0..500).map(pair) {
        db.delete(&key).expect("a delete");
    }
    db.compact().expect("a merge");
    for (key, value) in &model {
        assert_eq!(db.get(key).expect("an answer"), None);
        assert_eq!(snapshot.get(key).expect("an answer").as_deref(), Some(&value[..]));
    }
    assert_eq!(count(&snapshot), model.len());
    let runs = |prefix: &str| {
        let names = std::fs::read_dir(dir).expect("a folder");
        let names = names.map(|it| it.expect("an entry").file_name());
        names.filter(|it| it.to_string_lossy().starts_with(prefix)).count()
    };
    let before = runs("R-");
    drop(snapshot);
    for _ in 0..500 {
        if runs("R-") < before {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{before} runs, and none went after the snapshot");
}

#[test]
fn what_the_horizon_covers_is_dead_after_reopening_and_a_merge_drops_it() {
    let (_, disk) = new_disk();
    let mut db = open(&disk).expect("a store");
    fill(&db, &mut Model::new(), 0..300);
    db.compact().expect("a merge");
    fill(&db, &mut Model::new(), 200..400);
    db.set_horizon(db.last_seq()).expect("a horizon");
    let mut model = Model::new();
    fill(&db, &mut model, 390..410);
    for _ in 0..2 {
        check(&db, &model);
        for (key, _) in (0..390).map(pair) {
            assert_eq!(db.get(&key).expect("an answer"), None);
        }
        drop(db);
        db = open(&disk).expect("the same store");
    }
    db.compact().expect("a merge");
    assert_eq!(db.stats().last_entries, 20);
    check(&db, &model);
}

#[test]
fn a_rule_that_panics_ends_merges_and_nobody_waits_for_them() {
    let (_, disk) = new_disk();
    let mut options = options();
    options.alive =
        Some(Arc::new(|key, _, _| if key == b"bad" { panic!("a rule's mistake") } else { true }));
    (options.logs_hard, options.runs_merge) = (2, 1);
    let db = Db::open_on(disk.clone(), Path::new(DIR), options).expect("a store");
    db.put(b"bad", b"value").expect("a put");
    let (tell, told) = mpsc::channel();
    let db = Arc::new(db);
    let waiting = db.clone();
    std::thread::spawn(move || {
        for _ in 0..3 {
            let _ = tell.send(waiting.compact());
        }
        // Until there are too many logs that wait for conversion.
        let refused =
            (0..100_000).map(pair).find_map(|(key, value)| waiting.put(&key, &value).err());
        let _ = tell.send(refused.map_or(Ok(()), Err));
    });
    for _ in 0..4 {
        let answer = told.recv_timeout(Duration::from_secs(15)).expect("an answer");
        assert!(matches!(answer, Err(StoreError::Panicked)), "{answer:?}");
    }
    assert!(matches!(db.stats().trouble, Some(StoreError::Panicked)));
    assert_eq!(db.get(b"bad").expect("an answer").as_deref(), Some(&b"value"[..]));
    drop(db);
    let db = (0..500).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        open(&disk).ok()
    });
    let db = db.expect("the lock is gone");
    db.compact().expect("a merge without that rule");
    assert_eq!(db.get(b"bad").expect("an answer").as_deref(), Some(&b"value"[..]));
}
