//! When writes are acknowledged, and which writes share a sync.

use super::*;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

fn one(key: &[u8]) -> Batch {
    batch(&[(key, Some(b"value"))])
}

#[test]
fn writes_that_wait_together_share_a_sync_and_are_answered_after_it() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    disk.hold_syncs(true);
    let first = log.submit(one(b"first"), Durability::Always);
    disk.await_held_syncs(1);
    let others: Vec<_> = (0..50_u8).map(|n| log.submit(one(&[n]), Durability::Always)).collect();
    let active = log.logs.lock()[0].clone();
    for answer in others.iter().chain([&first]) {
        assert_eq!(answer.try_recv().unwrap_err(), TryRecvError::Empty);
    }
    assert_eq!(active.records(), 1, "the commit thread waits for the sync");
    disk.hold_syncs(false);
    assert_eq!(first.recv().unwrap().unwrap().first_seq, 1);
    for (answer, seq) in others.iter().zip(2..) {
        assert_eq!(answer.recv().unwrap().unwrap().first_seq, seq);
    }
    let counts = log.tally.read();
    assert_eq!((counts.syncs, counts.synced_writes), (2, 51));
    assert_eq!(active.unsynced(), 0);
}

#[test]
fn what_waits_for_no_sync_is_answered_and_found_while_a_sync_runs() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    let [_, _, syncs] = disk.counts();
    let hour = Durability::Interval(Duration::from_secs(3600));
    log.submit(one(b"os"), Durability::Os).recv().unwrap().unwrap();
    log.submit(one(b"interval"), hour).recv().unwrap().unwrap();
    assert_eq!(disk.counts()[2], syncs, "no sync");
    // Both writes are in one group: until they are queued, the commit thread is held in this callback.
    let (go_on, held) = channel();
    let answering = move |_| held.recv().unwrap();
    log.committer().submit(one(b"before"), Durability::Os, answering).unwrap();
    let [durable, os] =
        [Durability::Always, Durability::Os].map(|how| log.submit(one(b"both"), how));
    disk.hold_syncs(true);
    go_on.send(()).unwrap();
    os.recv().unwrap().unwrap();
    disk.await_held_syncs(1);
    assert_eq!(durable.try_recv().unwrap_err(), TryRecvError::Empty);
    disk.hold_syncs(false);
    durable.recv().unwrap().unwrap();
    let active = log.logs.lock()[0].clone();
    for key in [&b"os"[..], b"interval", b"both"] {
        assert_eq!(value(&active, key).as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn an_interval_ends_in_a_sync() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    let active = log.logs.lock()[0].clone();
    let before = active.written();
    disk.hold_syncs(true);
    // A long interval must not delay a short one, whichever comes first.
    for ms in [3_600_000, 20, 3_600_000] {
        let how = Durability::Interval(Duration::from_millis(ms));
        log.submit(one(b"ani"), how).recv().unwrap().unwrap();
    }
    assert_eq!(active.unsynced(), active.written() - before);
    disk.await_held_syncs(1);
    disk.hold_syncs(false);
    log.sync().unwrap();
    assert_eq!(active.unsynced(), 0);
}

#[test]
fn a_sync_and_an_end_make_all_durable() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    let active = log.logs.lock()[0].clone();
    log.submit(one(b"ani"), Durability::Os);
    log.sync().unwrap();
    assert_eq!((active.unsynced(), active.records()), (0, 1));
    for n in 0..100_u8 {
        log.submit(one(&[n]), Durability::Os);
    }
    log.close();
    assert_eq!((active.unsynced(), active.records()), (0, 101), "what waits is written");
}

#[test]
fn numbers_are_in_the_order_of_the_log_without_gaps() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let log = &log;
            scope.spawn(move || {
                for n in 0..100_u8 {
                    let (key, more) = ([thread, n], [thread, n, 0]);
                    let batch = batch(&[(&key, Some(&[n])), (&more, None)]);
                    let first = log.committer().submit(batch, Durability::Os, |_| {}).unwrap();
                    log.committer().submit(one(&[thread, n, 1]), Durability::Os, |_| {}).unwrap();
                    assert!(first <= log.committer().last_seq());
                }
            });
        }
    });
    let active = log.close().pop().unwrap();
    let all = history(&active);
    assert_eq!(all.len(), 1200);
    for ((seq, ..), expected) in all.iter().zip(1..) {
        assert_eq!(*seq, expected);
    }
    // The writes of one thread keep their order.
    for thread in 0..4 {
        let of_thread = all.iter().filter(|(_, key, _)| key[0] == thread);
        let keys: Vec<_> = of_thread.map(|(_, key, _)| key).collect();
        assert!(keys.is_sorted_by_key(|key| key[1]), "{keys:?}");
    }
}

#[test]
fn an_answer_may_end_the_log() {
    let disk = disk();
    let mut log = Log::start(&disk, 1 << 20);
    let committer = log.committer.take().unwrap();
    let (give, given) = channel::<Committer>();
    let (tell, told) = channel();
    let done = move |result: Result<Committed, _>| {
        drop(given.recv().unwrap());
        tell.send(result.is_ok()).unwrap();
    };
    committer.submit(one(b"ani"), Durability::Always, done).unwrap();
    give.send(committer).unwrap();
    assert!(told.recv().unwrap());
}

#[test]
fn who_writes_alone_changes_no_thread() {
    let disk = disk();
    let (rolled, here) = (Arc::new(Mutex::new(Vec::new())), std::thread::current().id());
    let (of_roll, its_disk) = (rolled.clone(), disk.clone());
    let roll = move || {
        let mut rolled = of_roll.lock();
        rolled.push(std::thread::current().id());
        create(&its_disk, rolled.len() as u64 + 1, 1 << 16)
    };
    let options = CommitOptions { hasher: hasher(), next_seq: 1, tally: Arc::default() };
    let first = create(&disk, 1, 1 << 16).unwrap();
    let committer = Committer::start(Some(first), Box::new(roll), options).unwrap();
    for how in [Durability::Os, Durability::Interval(Duration::from_secs(9)), Durability::Always] {
        let before = committer.last_seq();
        for n in 0..5_u64 {
            let written = committer.write(batch(&[(b"key", Some(&[7; 20_000]))]), how).unwrap();
            assert_eq!(written.first_seq, before + n + 1);
        }
    }
    // A log has room for three writes. The commit thread may take one while it starts.
    let rolled = rolled.lock();
    assert!(rolled.len() == 4 && rolled.contains(&here), "{rolled:?}");
}

#[test]
fn writes_of_many_threads_share_syncs_and_each_is_answered() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 22);
    disk.hold_syncs(true);
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let log = &log;
            scope.spawn(move || {
                let how = if thread < 6 { Durability::Always } else { Durability::Os };
                for n in 0..50_u8 {
                    let written = log.committer().write(one(&[thread, n]), how).unwrap();
                    let active = log.logs.lock()[0].clone();
                    assert!(value(&active, &[thread, n]).is_some(), "it is read at once");
                    assert!(written.first_seq <= log.committer().last_seq());
                }
            });
        }
        disk.await_held_syncs(1);
        disk.hold_syncs(false);
    });
    let counts = log.tally.read();
    assert_eq!((counts.synced_writes, counts.records_written), (300, 400));
    assert!(counts.syncs <= 300);
    let all = history(&log.close().pop().unwrap());
    assert!(all.iter().zip(1..).all(|((seq, ..), expected)| *seq == expected) && all.len() == 400);
}

#[test]
fn a_panic_in_an_answer_ends_all_writing_and_nobody_waits_for_ever() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    let (begun, is_begun) = channel();
    let panics = move |_| {
        begun.send(()).unwrap();
        panic!("a test's answer");
    };
    // Either the commit thread writes it, or the thread below.
    log.committer().submit(one(b"a"), Durability::Os, panics).unwrap();
    let write = || log.committer().write(one(b"b"), Durability::Always);
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
    assert!(matches!(written, Err(_) | Ok(Ok(_) | Err(StoreError::Closed))));
    is_begun.recv().unwrap();
    // The panic may not have taken effect yet.
    while !matches!(write(), Err(StoreError::Closed)) {
        std::thread::yield_now();
    }
    let active = log.close().remove(0);
    assert!(!active.is_sealed(), "nothing is written any more");
}

#[test]
fn lengths_that_none_may_have_are_refused() {
    let mut batch = Batch::new();
    for key in [&b""[..], &[0; 65_536]] {
        assert!(
            matches!(batch.put(key, b"v"), Err(StoreError::KeyLength(len)) if len == key.len())
        );
        assert!(matches!(batch.delete(key), Err(StoreError::KeyLength(len)) if len == key.len()));
    }
    assert!(batch.is_empty() && batch.bytes() == 0);
    batch.put(&[1; 65_535], b"").unwrap();
    assert_eq!((batch.len(), batch.bytes()), (1, 65_568));
    assert!(!batch.is_freeing());
}
