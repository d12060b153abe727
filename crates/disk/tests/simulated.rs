//! What the simulated disk loses, and what it never loses.

use guira_disk::faulty::{Crashes, DiskOp, Fate, Injected};
use guira_disk::{Disk, FileAccess, SimulatedDisk};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const DIR: &str = "/db";

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn disk() -> SimulatedDisk {
    SimulatedDisk::with_dir(Path::new(DIR))
}

/// Returns every state in which `name` is found, over all instants of the disk's journal from `since` on.
fn states(disk: &SimulatedDisk, since: usize, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    let mut crashes = Crashes::of(disk.journal(), Path::new(DIR));
    let mut found = BTreeSet::new();
    loop {
        if crashes.at() >= since {
            let drawn = (0..150).map(Fate::Drawn);
            for fate in [Fate::Lost, Fate::Kept].into_iter().chain(drawn) {
                found.insert(crashes.image(fate).contents(&path(name)));
            }
        }
        if !crashes.advance() {
            return found;
        }
    }
}

/// A disk with a durable file `one` of these bytes.
fn with_durable(bytes: &[u8]) -> SimulatedDisk {
    let disk = disk();
    let file = disk.create(&path("one"), false).expect("no fault");
    file.write_at(bytes, 0).expect("no fault");
    file.sync_data().expect("no fault");
    disk.sync_dir(Path::new(DIR)).expect("no fault");
    disk
}

fn open(disk: &SimulatedDisk) -> std::sync::Arc<dyn guira_disk::DiskFile> {
    disk.open(&path("one"), FileAccess { write: true, direct: false }).expect("no fault")
}

#[test]
fn what_was_synced_stays_and_what_was_not_may_go() {
    let disk = with_durable(&[1; 4096]);
    let since = disk.events();
    let file = open(&disk);
    file.write_at(&[2; 4096], 0).unwrap();
    let found = states(&disk, since, "one");
    let units: BTreeSet<Vec<u8>> = found
        .iter()
        .map(|it| {
            it.as_ref().expect("its name is durable").chunks(512).map(|unit| unit[0]).collect()
        })
        .collect();
    assert!(units.contains(&vec![1; 8]) && units.contains(&vec![2; 8]));
    assert!(units.len() > 4, "a sector tears at 512 bytes: {units:?}");
    file.sync_data().unwrap();
    let found = states(&disk, disk.events(), "one");
    assert_eq!(found, BTreeSet::from([Some(vec![2; 4096])]));
}

#[test]
fn sectors_of_one_epoch_are_found_in_any_order() {
    let disk = with_durable(&[0; 3 * 4096]);
    let file = open(&disk);
    for sector in 0..3 {
        file.write_at(&[1; 4096], sector * 4096).unwrap();
    }
    let found = states(&disk, disk.events(), "one");
    let whole = |bits: [u8; 3]| Some(bits.iter().flat_map(|&bit| [bit; 4096]).collect::<Vec<u8>>());
    for bits in [[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0]] {
        assert!(found.contains(&whole(bits)), "{bits:?} was never found");
    }
}

#[test]
fn a_sync_covers_what_was_written_before_it_began() {
    let disk = with_durable(&[0; 8]);
    let file = open(&disk);
    file.write_at(&[1; 8], 0).unwrap();
    disk.hold_syncs(true);
    std::thread::scope(|scope| {
        let sync = scope.spawn(|| file.sync_data());
        disk.await_held_syncs(1);
        file.write_at(&[2; 8], 0).unwrap();
        disk.hold_syncs(false);
        sync.join().unwrap().unwrap();
    });
    let found = states(&disk, disk.events(), "one");
    assert!(found.contains(&Some(vec![1; 8])) && !found.contains(&Some(vec![0; 8])), "{found:?}");
}

#[test]
fn a_sync_that_failed_once_loses_what_a_later_success_does_not_bring_back() {
    let disk = with_durable(&[0; 2 * 4096]);
    let file = open(&disk);
    file.write_at(&[1; 8], 0).unwrap();
    disk.inject(Injected::once(DiskOp::Sync, 5));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
    file.sync_data().unwrap();
    let mut live = [0; 8];
    file.read_at(&mut live, 0).unwrap();
    assert_eq!(live, [1; 8], "the cache still shows it");
    let starts = |disk: &SimulatedDisk| -> BTreeSet<u8> {
        states(disk, disk.events(), "one").into_iter().map(|it| it.unwrap()[0]).collect()
    };
    assert_eq!(starts(&disk), BTreeSet::from([0, 1]));
    // Writing to the sector makes it dirty again, so the next sync writes all of it.
    file.write_at(&[3], 100).unwrap();
    file.sync_data().unwrap();
    assert_eq!(starts(&disk), BTreeSet::from([1]));
}

#[test]
fn names_come_and_go_with_the_sync_of_their_folder() {
    let disk = with_durable(b"old");
    let since = disk.events();
    let file = disk.create(&path("new"), false).unwrap();
    file.write_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    assert!(states(&disk, since, "new").contains(&None), "a file's sync says nothing of its name");
    disk.rename(&path("new"), &path("one")).unwrap();
    let [old, new] = [b"old", b"new"].map(|it| Some(it.to_vec()));
    let renamed = disk.events();
    assert_eq!(states(&disk, renamed, "one"), BTreeSet::from([old, new.clone()]));
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(states(&disk, disk.events(), "one"), BTreeSet::from([new]));
    disk.remove(&path("one")).unwrap();
    assert!(states(&disk, disk.events(), "one").contains(&None));
}

#[test]
fn a_full_disk_takes_what_fits_and_says_so() {
    let disk = disk();
    disk.set_space(Some(10));
    let file = disk.create(&path("one"), false).unwrap();
    let full = file.write_at(&[1; 16], 0).unwrap_err();
    assert_eq!((full.kind(), file.len().unwrap()), (ErrorKind::StorageFull, 10));
    assert_eq!(file.allocate(11).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), 0);
    file.set_len(4).unwrap();
    file.write_at(&[2; 6], 4).unwrap();
    disk.set_space(None);
    file.write_at(&[3; 16], 0).unwrap();
    assert!(disk.flip(&path("one"), 3, 0x10) && !disk.flip(&path("one"), 16, 1));
    assert_eq!(disk.contents(&path("one")).unwrap()[2..5], [3, 0x13, 3]);
}

proptest! {
    /// For any writes, kept images have the state at that instant, and lost ones the state at the last sync.
    #[test]
    fn kept_is_the_present_and_lost_is_the_last_sync(
        steps in prop::collection::vec((0_u64..9_000, 1_usize..5_000, 0_u8..5), 1..30),
    ) {
        let disk = with_durable(b"");
        let file = open(&disk);
        let mut instants = vec![(disk.events(), Vec::new(), Vec::new())];
        for (number, (offset, len, kind)) in (1..).zip(steps) {
            match kind {
                0 => file.sync_data().unwrap(),
                1 => file.set_len(offset).unwrap(),
                _ => file.write_at(&vec![number; len], offset).unwrap(),
            }
            let now = disk.contents(&path("one")).unwrap();
            let durable = if kind == 0 { now.clone() } else { instants.last().unwrap().2.clone() };
            instants.push((disk.events(), now, durable));
        }
        let mut crashes = Crashes::of(disk.journal(), Path::new(DIR));
        for (at, now, durable) in instants {
            while crashes.at() < at {
                prop_assert!(crashes.advance());
            }
            let found = |fate| crashes.image(fate).contents(&path("one")).unwrap();
            prop_assert_eq!(found(Fate::Kept), now);
            prop_assert_eq!(found(Fate::Lost), durable);
        }
    }
}
