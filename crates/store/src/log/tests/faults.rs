//! A full disk, failed writes, failed syncs, and corrupt records.

use super::*;
use guira_disk::DiskFile;
use guira_disk::faulty::{Crashes, DiskOp, Fate, Injected};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

fn keys_of(disk: &SimulatedDisk) -> Vec<Vec<u8>> {
    history(&reopen(disk, 1, NEWEST)).into_iter().map(|(_, key, _)| key).collect()
}

#[test]
fn a_log_that_finds_no_space_is_not_there() {
    let disk = disk();
    disk.set_space(Some(50_000));
    assert!(matches!(create(&disk, 1, 1 << 16), Err(StoreError::NoSpace)));
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), Vec::<PathBuf>::new());
    for (op, errno) in
        [(DiskOp::Create, EIO), (DiskOp::Write, EIO), (DiskOp::Sync, EIO), (DiskOp::SyncDir, EIO)]
    {
        disk.inject(Injected::once(op, errno));
        assert!(matches!(create(&disk, 1, 1 << 14), Err(StoreError::Io { .. })), "{op:?}");
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), Vec::<PathBuf>::new(), "{op:?}");
    }
    create(&disk, 1, 1 << 14).unwrap();
}

#[test]
fn a_write_that_finds_no_space_changes_nothing_and_the_next_one_goes_on() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 15);
    log.put(b"before", b"1").unwrap();
    // Allocated space turns out to be missing: at the first byte, and in the middle of a group.
    for (op, value_bytes) in [(DiskOp::Write, 10), (DiskOp::Write, 5000)] {
        disk.inject(Injected::once(op, ENOSPC));
        let refused = log.put(b"refused", &vec![1; value_bytes]);
        assert!(matches!(refused, Err(StoreError::NoSpace)), "{refused:?}");
    }
    let active = log.logs.lock()[0].clone();
    assert!(matches!(get(&active, &hasher(), b"refused").unwrap(), LogFind::Absent));
    log.put(b"after", b"2").unwrap();
    assert_eq!(log.logs.lock().len(), 1);
    log.close();
    assert_eq!(keys_of(&disk), [&b"before"[..], b"after"]);
}

#[test]
fn a_huge_value_waits_for_space_and_small_ones_do_not() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 15);
    disk.set_space(Some(disk.used_bytes() + 1000));
    assert!(matches!(log.put(b"huge", &vec![1; 1 << 16]), Err(StoreError::NoSpace)));
    for n in 0..50_u8 {
        log.put(&[n], &[n; 500]).unwrap();
    }
    disk.set_space(None);
    log.put(b"huge", &vec![1; 1 << 16]).unwrap();
    let logs = log.close();
    assert_eq!(logs.len(), 2, "the huge one has its own");
    assert_eq!(value(&logs[1], b"huge").map(|it| it.len()), Some(1 << 16));
}

/// A full log can be sealed on a full disk. Otherwise nothing could be converted, and space would never become free.
#[test]
fn without_space_for_another_log_writes_fail_until_there_is_some() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 14);
    disk.set_space(Some(disk.used_bytes()));
    let mut written = 0_u8;
    while log.put(&[written], &[written; 500]).is_ok() {
        written += 1;
    }
    assert!(written > 20 && log.logs.lock().len() == 1);
    assert!(log.logs.lock()[0].is_sealed(), "sealed, and ready to be converted");
    for _ in 0..3 {
        assert!(matches!(log.put(b"more", b"x"), Err(StoreError::NoSpace)));
    }
    log.freeze().unwrap();
    log.sync().unwrap();
    disk.set_space(None);
    log.put(b"more", b"x").unwrap();
    assert_eq!(log.close().len(), 2);
    assert_eq!(keys_of(&disk).len(), usize::from(written));
}

#[test]
fn a_failed_sync_fails_its_group_and_all_later_writes() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 15);
    log.put(b"before", b"1").unwrap();
    disk.hold_syncs(true);
    let held = log.submit(batch(&[(b"held", Some(b"x"))]), Durability::Always);
    disk.await_held_syncs(1);
    let waiting: Vec<_> =
        (0..5_u8).map(|n| log.submit(batch(&[(&[n], Some(b"x"))]), Durability::Always)).collect();
    disk.inject(Injected::once(DiskOp::Sync, EIO));
    disk.hold_syncs(false);
    // The fault may hit the held sync or the next one. One of them fails, and nothing succeeds after that.
    let mut answers: Vec<_> = vec![held.recv().unwrap()];
    answers.extend(waiting.iter().map(|it| it.recv().unwrap()));
    let failed = answers.iter().position(Result::is_err).expect("a failure");
    assert!(failed <= 1 && answers[failed..].iter().all(Result::is_err), "{answers:?}");
    // The disk works again, but it is unknown what it lost.
    let refused = log.committer().submit(batch(&[(b"x", None)]), Durability::Os, |_| {});
    assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
    assert!(matches!(log.sync(), Err(StoreError::ReadOnly)));
    assert!(matches!(log.freeze(), Err(StoreError::ReadOnly)));
    let active = log.logs.lock()[0].clone();
    assert_eq!(value(&active, b"before").as_deref(), Some(&b"1"[..]), "reads go on");
    let syncs = disk.counts()[2];
    log.close();
    assert_eq!(disk.counts()[2], syncs, "a second sync would hide the first");
    assert!(keys_of(&disk).contains(&b"before".to_vec()));
}

#[test]
fn a_failed_sync_of_an_interval_makes_the_log_read_only() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 15);
    disk.inject(Injected::once(DiskOp::Sync, EIO));
    let soon = Durability::Interval(Duration::from_millis(1));
    log.submit(batch(&[(b"ani", Some(b"1"))]), soon).recv().unwrap().unwrap();
    let refused = loop {
        if let Err(error) = log.committer().submit(Batch::new(), Durability::Os, |_| {}) {
            break error;
        }
        std::thread::yield_now();
    };
    assert!(matches!(refused, StoreError::ReadOnly), "{refused:?}");
}

#[test]
fn a_failed_write_or_seal_makes_the_log_read_only() {
    for op in [DiskOp::Write, DiskOp::Sync] {
        let disk = disk();
        let log = Log::start(&disk, 1 << 15);
        log.submit(batch(&[(b"ani", Some(b"1"))]), Durability::Os).recv().unwrap().unwrap();
        disk.inject(Injected::once(op, EIO));
        let failed = log.freeze();
        assert!(matches!(failed, Err(StoreError::Io { .. })), "{op:?}: {failed:?}");
        let refused = log.committer().submit(Batch::new(), Durability::Os, |_| {});
        assert!(matches!(refused, Err(StoreError::ReadOnly)));
        assert_eq!(log.logs.lock().len(), 1);
    }
    let disk = disk();
    let log = Log::start(&disk, 1 << 15);
    disk.inject(Injected::once(DiskOp::Write, EIO));
    let failed = log.put(b"ani", b"1");
    assert!(matches!(failed, Err(StoreError::Io { what: "write", .. })), "{failed:?}");
    assert!(matches!(log.sync(), Err(StoreError::ReadOnly)));
}

/// Writes more than the tail holds, so that records must be read.
fn longer_than_memory(disk: &SimulatedDisk) -> Log {
    let log = Log::start(disk, 4 << 20);
    for n in 0..100_u8 {
        log.put(&[n], &[n; 20_000]).unwrap();
    }
    log
}

#[test]
fn a_record_that_rotted_is_an_error_and_never_another_value() {
    let disk = disk();
    let log = longer_than_memory(&disk);
    let active = log.logs.lock()[0].clone();
    let start = 4096_u64;
    for at in (start..start + 33).chain([start + 10_000, start + 20_032]) {
        assert!(disk.flip(&path(1), at, 1));
        let found = get(&active, &hasher(), &[0]);
        assert!(matches!(found, Err(StoreError::Corrupt { offset: 4096, .. })), "{at}: {found:?}");
        assert!(disk.flip(&path(1), at, 1));
    }
    assert_eq!(value(&active, &[0]).as_deref(), Some(&[0; 20_000][..]));
    assert!(disk.flip(&path(1), start, 1));
    assert!(matches!(
        SortedLog::of(&active, &hasher()),
        Err(StoreError::Corrupt { offset: 4096, .. })
    ));
}

#[test]
fn a_key_whose_old_record_cannot_be_read_is_found_with_its_new_value() {
    let disk = disk();
    let log = longer_than_memory(&disk);
    let active = log.logs.lock()[0].clone();
    log.put(&[1], b"new").unwrap();
    assert_eq!(active.keys(), 100, "in place of the old record");
    disk.inject(Injected::once(DiskOp::Read, EIO));
    log.put(&[0], b"new").unwrap();
    assert_eq!(active.keys(), 101, "beside the old record");
    for key in [[0], [1]] {
        assert_eq!(value(&active, &key).as_deref(), Some(&b"new"[..]));
    }
}

#[test]
fn a_verification_names_each_damaged_record() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 16);
    let active = log.logs.lock()[0].clone();
    let places: Vec<u64> = (0..20_u8)
        .map(|n| {
            let at = active.written();
            log.put(&[n], &[n; 300]).unwrap();
            at
        })
        .collect();
    // If two adjacent records had corrupt heads, the start of the second one would be unknown.
    let expected: Vec<u64> = places.into_iter().step_by(2).collect();
    for (n, at) in (0..).zip(&expected) {
        let within = if n % 2 == 0 { 5 } else { 60 };
        assert!(disk.flip(&path(1), at + within, 1));
    }
    let mut found = Vec::new();
    crate::log::verify(&active, &mut |offset, _| found.push(offset)).unwrap();
    assert_eq!(found, expected);
}

/// A file system that lacks the space that it promised: a write leaves its bytes, and fails with "no space".
struct Leaky {
    file: Arc<dyn DiskFile>,
    leaks: AtomicUsize,
}

impl DiskFile for Leaky {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)?;
        let leaks = self.leaks.fetch_update(Relaxed, Relaxed, |it| it.checked_sub(1));
        if leaks.is_ok() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A log on a leaky disk, and its committer.
fn leaky(disk: &SimulatedDisk) -> (Arc<Leaky>, Committer) {
    let file = disk.create(&path(1), false).unwrap();
    file.write_at(&header(1).encode(), 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    let leaky = Arc::new(Leaky { file, leaks: AtomicUsize::new(0) });
    let active = Arc::new(LogFile::new(&path(1), leaky.clone(), &header(1), 1 << 15));
    let roll = || Err(StoreError::NoSpace);
    let options = CommitOptions { hasher: hasher(), next_seq: 1, tally: Arc::default() };
    (leaky, Committer::start(Some(active), Box::new(roll), options).unwrap())
}

fn submit(committer: &Committer, key: &'static [u8]) -> Receiver<bool> {
    let (tell, told) = channel();
    let done = move |result: Result<Committed, _>| tell.send(result.is_ok()).unwrap();
    let batch = batch(&[(key, Some(b"value"))]);
    committer.submit(batch, Durability::Always, done).unwrap();
    told
}

/// The disk reports "no space" although everything was written; in the second round also for the write that undoes it.
#[test]
fn a_refused_write_does_not_come_back_after_a_crash() {
    for leaks in 1..3 {
        let disk = disk();
        let (leaky, committer) = leaky(&disk);
        assert!(submit(&committer, b"before").recv().unwrap());
        leaky.leaks.store(leaks, Relaxed);
        assert!(!submit(&committer, b"refused").recv().unwrap());
        let mut crashes = Crashes::of(disk.journal(), Path::new(DIR));
        while crashes.advance() {}
        for fate in (0..20).map(Fate::Drawn).chain([Fate::Lost, Fate::Kept]) {
            assert_eq!(keys_of(&crashes.image(fate)), [b"before"], "{leaks}, {fate:?}");
        }
        assert!(submit(&committer, b"after").recv().unwrap(), "it goes on");
        drop(committer);
        assert_eq!(keys_of(&disk), [&b"before"[..], b"after"]);
    }
}

/// A refused batch must not be found after a later, shorter one that ends where one of its records begins.
#[test]
fn what_a_refused_write_left_is_not_replayed() {
    let disk = disk();
    let (leaky, committer) = leaky(&disk);
    let submit = |key| submit(&committer, key);
    assert!(submit(b"before").recv().unwrap());
    // Both records are in one group, and both are left in the file.
    let (go_on, held) = channel();
    let answering = move |_| held.recv().unwrap();
    committer.submit(Batch::new(), Durability::Os, answering).unwrap();
    let refused = [submit(b"gone-1"), submit(b"gone-2")];
    leaky.leaks.store(1, Relaxed);
    go_on.send(()).unwrap();
    assert!(refused.iter().all(|it| !it.recv().unwrap()));
    assert!(submit(b"after!").recv().unwrap());
    let killed = self::disk();
    let bytes = disk.contents(&path(1)).unwrap();
    killed.create(&path(1), false).unwrap().write_at(&bytes, 0).unwrap();
    assert_eq!(keys_of(&killed), [&b"before"[..], b"after!"]);
}
