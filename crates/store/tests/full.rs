//! A disk that the store itself has filled: deletes and flushes are accepted, and the space that they free comes back
//! by itself.

use guira_disk::{Disk, SimulatedDisk};
use guira_store::{Batch, Db, Durability, Options, StoreError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

const DIR: &str = "/store";
const SPACE: u64 = 6 << 20;

fn options() -> Options {
    let mut options = Options::default();
    options.durability = Durability::Os;
    options.log_bytes = 256 << 10;
    options.partition_bytes = 256 << 10;
    options.runs_merge = 4;
    options.stall_max = Duration::from_secs(20);
    options
}

fn new_disk() -> (SimulatedDisk, Arc<dyn Disk>) {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    disk.set_space(Some(SPACE));
    (disk.clone(), Arc::new(disk))
}

fn open(disk: &Arc<dyn Disk>, options: Options) -> Db {
    Db::open_on(disk.clone(), Path::new(DIR), options).expect("a store")
}

fn key(n: u32) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    vec![n.to_le_bytes()[0]; 3000]
}

/// Puts until puts are refused although everything is merged. Returns how many were accepted.
fn fill(db: &Db) -> u32 {
    let (mut n, mut refused) = (0, 0);
    while n < 100_000 {
        match db.put(&key(n), &value(n)) {
            Ok(()) => (n, refused) = (n + 1, 0),
            Err(StoreError::NoSpace) if refused == 300 => return n,
            Err(StoreError::NoSpace) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("6 MiB hold less than that");
}

/// Waits until a put is accepted.
fn await_room(db: &Db) {
    await_that(db, || match db.put(b"more", b"room") {
        Err(StoreError::NoSpace) => false,
        done => done.is_ok(),
    });
}

fn await_that(db: &Db, is_so: impl Fn() -> bool) {
    for _ in 0..1500 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no room came back: {:?}", db.stats());
}

fn compact(db: &Db) {
    let done = db.compact();
    assert!(done.is_ok(), "a merge within the reserve: {done:?}, {:?}", db.stats());
}

#[test]
fn what_is_deleted_on_a_full_disk_makes_room_while_it_is_served() {
    let (disk, shared) = new_disk();
    let db = open(&shared, options());
    let taken = fill(&db);
    assert!(taken > 1000 && disk.used_bytes() > SPACE / 2, "{taken} puts");
    (0..taken).for_each(|n| db.delete(&key(n)).expect("a delete on a full disk"));
    await_room(&db);
    assert!((0..taken).all(|n| db.get(&key(n)).expect("an answer").is_none()));
    let again = fill(&db);
    assert!(again >= taken * 9 / 10, "{again} puts where {taken} went in before");
}

#[test]
fn half_of_it_deleted_leaves_the_other_half() {
    let (_, shared) = new_disk();
    let db = open(&shared, options());
    let taken = fill(&db);
    (0..taken).filter(|n| n % 2 == 0).for_each(|n| db.delete(&key(n)).expect("a delete"));
    await_room(&db);
    for n in 0..taken {
        let found = db.get(&key(n)).expect("an answer");
        assert_eq!(found.as_deref(), (n % 2 == 1).then_some(&value(n)[..]), "{n}");
    }
}

/// As `flush_all` does it: a put under its own key, and a rule by which everything older is dead.
#[test]
fn a_flush_is_taken_by_a_full_disk_and_makes_room() {
    let (_, shared) = new_disk();
    let horizon = Arc::new(AtomicU64::new(0));
    let rule = horizon.clone();
    let mut options = options();
    options.alive = Some(Arc::new(move |_, _, seq| seq >= rule.load(Relaxed)));
    let db = open(&shared, options);
    fill(&db);
    let flush = |is_freeing| {
        let mut batch = Batch::new();
        batch.put(b"flush", b"all").expect("a short key");
        if is_freeing {
            batch.set_freeing();
        }
        let (tell, told) = mpsc::channel();
        let (to, done) = (horizon.clone(), tell);
        let answer = move |seq: Result<u64, StoreError>| {
            seq.iter().for_each(|&seq| to.store(seq, Relaxed));
            done.send(seq).expect("a listener");
        };
        db.submit(batch, Durability::Always, answer)?;
        told.recv().expect("an answer")
    };
    assert!(matches!(flush(false), Err(StoreError::NoSpace)), "a put like any other");
    flush(true).expect("a flush on a full disk");
    await_room(&db);
    assert!(db.get(b"flush").expect("an answer").is_some());
    await_that(&db, || {
        let stats = db.stats();
        stats.last_entries + stats.young_entries < 20
    });
}

#[test]
fn a_horizon_on_a_full_disk_makes_room() {
    let (_, shared) = new_disk();
    let db = open(&shared, options());
    fill(&db);
    db.set_horizon(db.last_seq()).expect("a horizon");
    await_room(&db);
}

/// Another program took the space that the store had left, before the store was opened or while it was open.
#[test]
fn a_brimful_disk_opens_and_takes_deletes() {
    let (disk, shared) = new_disk();
    let db = open(&shared, options());
    let taken = fill(&db);
    compact(&db);
    drop(db);
    drop(open(&shared, options()));
    disk.set_space(Some(disk.used_bytes()));
    let db = open(&shared, options());
    assert!(matches!(db.put(b"a", b"b"), Err(StoreError::NoSpace)));
    assert!(db.get(&key(7)).expect("an answer").is_some());
    (0..taken).for_each(|n| db.delete(&key(n)).expect("a delete on a brimful disk"));
    db.snapshot().expect("a snapshot of a brimful disk");
    // The deletes free space, although there was none at all.
    await_that(&db, || disk.used_bytes() < SPACE / 4);
    disk.set_space(Some(SPACE));
    await_room(&db);
}

#[test]
fn without_space_for_any_log_it_opens_and_goes_on_once_there_is_some() {
    let (disk, shared) = new_disk();
    let db = open(&shared, options());
    let taken = fill(&db);
    compact(&db);
    drop(db);
    drop(open(&shared, options()));
    // The log that the orderly end left is empty. It is removed, and another program takes its space.
    for path in disk.list(Path::new(DIR)).expect("a folder") {
        if path.to_string_lossy().contains("L-") {
            disk.remove(&path).expect("an empty log");
        }
    }
    disk.set_space(Some(disk.used_bytes()));
    let db = open(&shared, options());
    assert!(matches!(db.delete(&key(0)), Err(StoreError::NoSpace)));
    assert_eq!(db.iter().expect("a snapshot").count(), taken as usize);
    db.sync().expect("nothing to do");
    disk.set_space(Some(disk.used_bytes() + (200 << 10)));
    (0..taken).for_each(|n| db.delete(&key(n)).expect("a delete"));
    disk.set_space(Some(SPACE));
    await_room(&db);
    drop(db);
    assert_eq!(open(&shared, options()).iter().expect("a snapshot").count(), 1);
}
