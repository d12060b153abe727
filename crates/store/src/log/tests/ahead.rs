//! What is done before a log is full, so that writes wait for little when the next one begins.

use super::*;
use crate::turns::TURN_BYTES;

#[test]
fn the_record_that_ends_a_log_shares_the_sync_of_the_last_group() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    // The write and the freeze are in one group: until they are queued, the commit thread is held in this callback.
    let (go_on, held) = channel();
    let answering = move |_| held.recv().unwrap();
    log.committer().submit(batch(&[(b"before", None)]), Durability::Os, answering).unwrap();
    let durable = log.submit(batch(&[(b"last", Some(b"value"))]), Durability::Always);
    let (tell, frozen) = channel();
    log.committer().freeze(move |result| tell.send(result).unwrap_or(()));
    let [_, _, before] = disk.counts();
    go_on.send(()).unwrap();
    durable.recv().unwrap().unwrap();
    frozen.recv().unwrap().unwrap();
    assert_eq!(log.logs.lock().len(), 2);
    let of_the_next_log = 1;
    assert_eq!(disk.counts()[2] - before, 1 + of_the_next_log);
    assert_eq!(history(&reopen(&disk, 1, ReplayAs { is_newest: false, ..NEWEST })).len(), 2);
}

/// A read of all at once kept a processor for milliseconds, while writes waited for it.
#[test]
fn a_log_that_is_sorted_is_read_in_parts() {
    let disk = disk();
    let log = Log::start(&disk, 4 << 20);
    for n in 0..30 {
        log.put(&[n], &[n; 100_000]).unwrap();
    }
    let [before, ..] = disk.counts();
    let sorted = SortedLog::of(&log.logs.lock()[0], &hasher()).unwrap();
    assert_eq!(sorted.len(), 30);
    assert!(disk.counts()[0] - before > 3_000_000 / TURN_BYTES as u64);
}

#[test]
fn what_no_write_asks_to_sync_is_synced_before_the_log_is_full() {
    let disk = disk();
    let log = Log::start(&disk, 1 << 20);
    disk.hold_syncs(true);
    let put = |n: u8| {
        let written = log.submit(batch(&[(&[n], Some(&[n; 10_000]))]), Durability::Os);
        written.recv().unwrap().unwrap();
    };
    (0..20).for_each(put);
    // It is done by another thread: writes go on meanwhile.
    disk.await_held_syncs(1);
    (20..40).for_each(put);
    disk.hold_syncs(false);
    assert_eq!(log.logs.lock().len(), 1);
}
