//! After a power failure at any instant, a prefix of the writes is found, with everything that was promised.

use super::*;
use fastrand::Rng;
use guira_disk::faulty::{Crashes, DiskOp, Fate, Injected};
use std::time::Duration;

/// An acknowledged batch.
struct Answered {
    /// The number of the disk's events when it was acknowledged.
    at: usize,
    is_durable: bool,
    last_seq: u64,
}

/// The history of a run up to an orderly end, and the disk that a kill just before the end leaves.
struct Run {
    disk: SimulatedDisk,
    killed: SimulatedDisk,
    answered: Vec<Answered>,
    all: History,
}

/// Writes batches of different sizes and durabilities into several logs.
fn run(seed: u64) -> Run {
    let mut rng = Rng::with_seed(seed);
    let disk = disk();
    let log = Log::start(&disk, 12 << 10);
    let (mut answered, mut all, mut seq) = (Vec::new(), Vec::new(), 0);
    for n in 0..40_u32 {
        let mut batch = Batch::new();
        for part in 0..rng.u8(1..4) {
            seq += 1;
            let key = [&n.to_le_bytes()[..], &[part]].concat();
            if rng.u8(0..4) == 0 {
                batch.delete(&key).unwrap();
                all.push((seq, key, None));
            } else {
                let value: Vec<u8> = (0..rng.usize(0..900)).map(|_| rng.u8(..)).collect();
                batch.put(&key, &value).unwrap();
                all.push((seq, key, Some(value)));
            }
        }
        let hour = Durability::Interval(Duration::from_secs(3600));
        let how = [Durability::Always, Durability::Os, hour][rng.usize(0..3)];
        log.submit(batch, how).recv().unwrap().unwrap();
        let is_durable = how == Durability::Always;
        answered.push(Answered { at: disk.events(), is_durable, last_seq: seq });
    }
    let killed = self::disk();
    for path in disk.list(Path::new(DIR)).unwrap() {
        let bytes = disk.contents(&path).unwrap();
        killed.create(&path, false).unwrap().write_at(&bytes, 0).unwrap();
    }
    log.close();
    Run { disk, killed, answered, all }
}

/// Replays all logs of a disk. Returns their records, in order.
fn recover(disk: &SimulatedDisk) -> History {
    let mut ids: Vec<u64> = (1..).take_while(|&id| disk.contents(&path(id)).is_some()).collect();
    let mut records = Vec::new();
    let mut is_newest = true;
    while let Some(id) = ids.pop() {
        let found = open(disk, id, ReplayAs { is_newest, ..NEWEST });
        let Replayed { log, lost_bytes, .. } = found.expect("no corruption");
        assert_eq!(lost_bytes, 0);
        records.extend(history(&log));
        is_newest = false;
    }
    records.sort();
    records
}

/// Checks the images at every instant of two runs.
#[test]
fn a_crash_at_any_instant_leaves_a_prefix_with_all_that_was_durable() {
    let mut recoveries = 0;
    let mut losses = 0;
    for seed in 0..2 {
        let Run { disk, answered, all, .. } = run(seed);
        let mut crashes = Crashes::of(disk.journal(), Path::new(DIR));
        loop {
            let at = crashes.at();
            let before = || answered.iter().filter(|it| it.at <= at);
            let promised = before().filter(|it| it.is_durable).map(|it| it.last_seq).max();
            let answered = before().map(|it| it.last_seq).max();
            for fate in [Fate::Lost, Fate::Kept, Fate::Drawn(1), Fate::Drawn(2)] {
                let image = crashes.image(fate);
                let found = recover(&image);
                assert_eq!(found, all[..found.len()], "a prefix, at {at} by {fate:?}");
                let last = found.last().map_or(0, |it| it.0);
                assert!(last >= promised.unwrap_or(0), "{last} of {promised:?}, at {at}");
                let is_kill = matches!(fate, Fate::Kept);
                assert!(!is_kill || last >= answered.unwrap_or(0), "a kill loses nothing");
                losses += usize::from(last < answered.unwrap_or(0));
                recoveries += 1;
                if recoveries % 16 == 0 {
                    assert_eq!(recover(&image), found, "a second replay finds the same");
                }
            }
            if !crashes.advance() {
                break;
            }
        }
    }
    assert!(recoveries > 500 && losses > 50, "{losses} of {recoveries} lost what wasn't durable");
}

#[test]
fn a_replay_that_fails_midway_can_be_done_again() {
    let Run { killed: disk, all, .. } = run(9);
    let newest = (1..).take_while(|&id| disk.contents(&path(id)).is_some()).last().unwrap();
    for op in [DiskOp::Open, DiskOp::Read, DiskOp::Resize, DiskOp::Write, DiskOp::Sync] {
        for skip in 0..2 {
            let faults = Injected { op, name: String::new(), skip, times: 1, errno: 5 };
            let again = run(9).killed;
            again.inject(faults);
            let failed = open(&again, newest, NEWEST);
            let is_passed = failed.is_ok();
            assert!(is_passed || matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
            assert!(!is_passed || skip == 1, "a fault of the first {op:?} was not noticed");
            again.heal();
            assert_eq!(recover(&again), all, "after a fault of {op:?}");
        }
    }
    let full = Injected { op: DiskOp::Write, name: String::new(), skip: 0, times: 1, errno: 28 };
    disk.inject(full);
    assert!(matches!(open(&disk, newest, NEWEST), Err(StoreError::NoSpace)));
    assert_eq!(recover(&disk), all);
}
