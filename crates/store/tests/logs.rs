//! Which logs an opening needs, and its error when one is missing or corrupt.

use guira_disk::faulty::{DiskOp, Injected};
use guira_disk::{Disk, FileAccess, SimulatedDisk};
use guira_store::{Db, Durability, Options, StoreError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/store";

fn options() -> Options {
    let mut options = Options::default();
    options.durability = Durability::Always;
    options.log_bytes = 64 << 10;
    (options.reserve_bytes, options.logs_hard) = (1, 20);
    options
}

fn open(disk: &SimulatedDisk) -> Result<Db, StoreError> {
    Db::open_on(Arc::new(disk.clone()), Path::new(DIR), options())
}

fn logs(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let all = disk.list(Path::new(DIR)).expect("a folder");
    all.into_iter().filter(|it| it.to_string_lossy().starts_with("/store/L-")).collect()
}

/// Prevents logs from being converted into runs.
fn hold_conversions(disk: &SimulatedDisk) {
    let name = "R-".to_owned();
    disk.inject(Injected { name, times: usize::MAX, ..Injected::once(DiskOp::Create, 5) });
}

/// A store with `n` values in four logs and no run. Returns the disk and `n`.
fn with_four_logs() -> (SimulatedDisk, u32) {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    hold_conversions(&disk);
    let db = open(&disk).expect("a store");
    let mut n = 0_u32;
    while logs(&disk).len() < 4 {
        db.put(&n.to_le_bytes(), &[7; 1000]).expect("a put");
        n += 1;
    }
    drop(db);
    (disk, n)
}

fn count(db: &Db) -> usize {
    db.iter().expect("a snapshot").filter(|it| it.as_ref().expect("an entry").seq > 0).count()
}

#[test]
fn a_log_that_a_later_one_names_must_be_there() {
    let (disk, n) = with_four_logs();
    assert_eq!(count(&open(&disk).expect("the same store")), n as usize);
    for at in 0..3 {
        let (disk, _) = with_four_logs();
        let paths = logs(&disk);
        disk.remove(&paths[at]).expect("a log");
        let missing = open(&disk).expect_err("a log is missing").to_string();
        let told = format!("{} names {}", paths[at + 1].display(), paths[at].display());
        assert!(missing.starts_with(&told), "{missing}");
        let mut repair = options();
        repair.repair = true;
        let db = Db::open_on(Arc::new(disk.clone()), Path::new(DIR), repair);
        let left = count(&db.expect("what is left"));
        assert!(left > n as usize / 2 && left < n as usize, "{left} of {n}");
    }
}

#[test]
fn a_log_that_is_cut_is_damaged_at_any_length() {
    for at in 0..4 {
        for len in [0, 100, 4095, 4096, 10_000] {
            let (disk, _) = with_four_logs();
            let path = &logs(&disk)[at];
            let file = disk.open(path, FileAccess { write: true, direct: false });
            file.and_then(|it| it.set_len(len)).expect("a cut");
            // Nothing records the length of the newest log, so a cut of it outside its header isn't detected.
            if at == 3 && len >= 4096 {
                continue;
            }
            let found = open(&disk).map(drop);
            let is_told =
                matches!(&found, Err(StoreError::Corrupt { path: told, .. }) if told == path);
            assert!(is_told, "log {at}, cut to {len}: {found:?}");
        }
    }
}

/// The next log can't be made durable, and can't be removed either.
#[test]
fn a_log_that_was_made_in_vain_is_no_hindrance() {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    hold_conversions(&disk);
    let db = open(&disk).expect("a store");
    db.put(b"first", b"value").expect("a put");
    // The faults skip the removal before the log is created and that of its unfinished name, and hit that of its name.
    disk.inject(Injected::once(DiskOp::SyncDir, 5));
    let name = "L-".to_owned();
    disk.inject(Injected { name, skip: 2, ..Injected::once(DiskOp::Remove, 5) });
    db.snapshot().expect_err("a log that can't be made");
    db.put(b"second", b"value").expect("a put");
    db.snapshot().expect("a log that can be made");
    db.put(b"third", b"value").expect("a put");
    drop(db);
    assert_eq!(logs(&disk).len(), 4, "one was made in vain");
    let stray = Path::new("/store/L-00000000000000ff.new");
    disk.create(stray, false).expect("what a crash leaves");
    let db = open(&disk).expect("the same store");
    assert_eq!(count(&db), 3);
    assert!(disk.contents(stray).is_none());
    assert_eq!(logs(&disk).len(), 4, "it is removed, and there is a new one");
}
