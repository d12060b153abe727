//! The manifest under power loss, flipped bits, a full disk and failing syncs.

use super::*;
use crate::file::BLOCK_BYTES;
use crate::hash::KeyHash;
use guira_disk::SimulatedDisk;
use guira_disk::faulty::{Crashes, DiskOp, Fate, Injected};
use std::ffi::OsStr;

const DIR: &str = "/store";

fn empty_set() -> FileSet {
    FileSet::new(Identity { uuid: [1; 16], seed: [2; 16], hash_bits: 128 })
}

struct Fixture {
    simulated: SimulatedDisk,
    disk: Arc<dyn Disk>,
    tally: Arc<Tally>,
}

impl Fixture {
    fn on(simulated: SimulatedDisk) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        Self { simulated, disk, tally: Arc::default() }
    }

    fn new() -> Self {
        Self::on(SimulatedDisk::with_dir(Path::new(DIR)))
    }

    fn create(&self) -> Manifest {
        let at = (&self.disk, Path::new(DIR));
        let manifest = Manifest::create(at, (1, 9), empty_set(), &self.tally).unwrap();
        manifest.make_current().unwrap();
        manifest
    }

    fn read(&self) -> Result<Option<FoundManifest>, StoreError> {
        read(&*self.disk, Path::new(DIR))
    }

    fn set(&self) -> FileSet {
        self.read().unwrap().expect("a store").set
    }
}

fn young(n: u64) -> [Edit; 1] {
    [Edit::Young { id: 2 * n, logs_from: 2 * n - 1 }]
}

#[test]
fn a_directory_without_current_has_no_store() {
    assert!(Fixture::new().read().unwrap().is_none());
}

#[test]
fn edits_are_there_after_reopening() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    for n in 1..20 {
        manifest.append(&young(n), (2 * n + 1, 100 * n)).unwrap();
        assert_eq!(fixture.set(), *manifest.set());
    }
    let found = fixture.read().unwrap().unwrap();
    let at = (&fixture.disk, Path::new(DIR));
    let mut again = Manifest::resume(at, found, &fixture.tally).unwrap();
    again.append(&[Edit::Horizon(7)], (0, 0)).unwrap();
    let set = fixture.set();
    assert_eq!((set.horizon, set.young.len(), set.next_id, set.last_seq), (7, 19, 40, 1900));
}

#[test]
fn after_a_loss_of_power_each_acknowledged_edit_is_there() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    let mut acknowledged = vec![(fixture.simulated.events(), 0)];
    for n in 1..5 {
        manifest.append(&young(n), (0, 0)).unwrap();
        acknowledged.push((fixture.simulated.events(), n));
    }
    let mut crashes = Crashes::of(fixture.simulated.journal(), Path::new(DIR));
    let mut images = 0;
    while crashes.advance() {
        let fates = (0..40).map(Fate::Drawn).chain([Fate::Lost, Fate::Kept]);
        for fate in fates {
            let found = Fixture::on(crashes.image(fate)).read().unwrap();
            let least = acknowledged.iter().rev().find(|it| it.0 <= crashes.at()).map(|it| it.1);
            let edits = found.map(|it| it.set.young.len() as u64);
            let is_right = match (least, edits) {
                (None, None) => true,
                (least, Some(edits)) => {
                    edits >= least.unwrap_or(0) && edits <= least.unwrap_or(0) + 1
                }
                (Some(_), None) => false,
            };
            assert!(is_right, "event {}: {edits:?}, at least {least:?}", crashes.at());
            images += 1;
        }
    }
    assert!(images > 500, "{images} images");
}

#[test]
fn a_flipped_bit_never_gives_another_set() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    (1..4).for_each(|n| manifest.append(&young(n), (0, 0)).unwrap());
    let whole = fixture.set();
    for (path, from) in
        [(manifest.path().to_owned(), BLOCK_BYTES), (Path::new(DIR).join(CURRENT), 0)]
    {
        let len = fixture.simulated.contents(&path).unwrap().len();
        let mut refused = 0;
        for offset in (0..256).chain(from..from + 64).chain(from.max(3 * BLOCK_BYTES).min(len)..len)
        {
            for bit in 0..8 {
                if !fixture.simulated.flip(&path, offset as u64, 1 << bit) {
                    continue;
                }
                match fixture.read() {
                    Ok(found) => assert_eq!(found.unwrap().set, whole, "{offset}, bit {bit}"),
                    Err(_) => refused += 1,
                }
                assert!(fixture.simulated.flip(&path, offset as u64, 1 << bit));
            }
        }
        assert!(refused > 200, "only {refused} flips in {} were noticed", path.display());
    }
}

/// The power fails after the record was synced and before the mark was. The next process must not rely on the old mark.
#[test]
fn an_edit_outside_the_marks_counts_and_is_inside_after_the_next_start() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    manifest.append(&young(1), (0, 0)).unwrap();
    let before = fixture.simulated.contents(manifest.path()).unwrap();
    let from = usize::try_from(manifest.end).unwrap();
    manifest.append(&young(2), (0, 0)).unwrap();
    let file = fixture.disk.open(manifest.path(), FileAccess { write: true, direct: false });
    let file = file.unwrap();
    file.write_at(&before[BLOCK_BYTES..3 * BLOCK_BYTES], BLOCK_BYTES as u64).unwrap();
    for _ in 0..2 {
        let found = fixture.read().unwrap().unwrap();
        assert_eq!((&found.set, found.end), (manifest.set(), manifest.end));
        Manifest::resume((&fixture.disk, Path::new(DIR)), found, &fixture.tally).unwrap();
    }
    file.write_at(&[1], from as u64).unwrap();
    assert!(matches!(fixture.read().map(drop), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_mark_that_rotted_is_written_again_and_two_are_told() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    (1..4).for_each(|n| manifest.append(&young(n), (0, 0)).unwrap());
    let path = manifest.path().to_owned();
    for at in MARK_OFFSETS {
        assert!(fixture.simulated.flip(&path, at + 17, 1));
        let found = fixture.read().unwrap().unwrap();
        assert_eq!(found.set, *manifest.set());
        manifest =
            Manifest::resume((&fixture.disk, Path::new(DIR)), found, &fixture.tally).unwrap();
    }
    assert_eq!(manifest.marks, Marks::both(manifest.end));
    MARK_OFFSETS.iter().for_each(|at| assert!(fixture.simulated.flip(&path, at + 17, 1)));
    assert!(matches!(fixture.read().map(drop), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_manifest_that_current_names_and_that_is_gone_is_told_as_that() {
    let fixture = Fixture::new();
    let manifest = fixture.create();
    fixture.disk.remove(manifest.path()).unwrap();
    let missing = fixture.read().map(drop).unwrap_err();
    assert!(missing.to_string().starts_with("/store/CURRENT names /store/M-"), "{missing}");
}

/// A process is killed before the new `CURRENT` is durable, the next process continues, and then the power fails.
#[test]
fn a_manifest_that_goes_on_is_the_one_that_current_durably_names() {
    let fixture = Fixture::new();
    let old = fixture.create();
    let at = (&fixture.disk, Path::new(DIR));
    let new = Manifest::create(at, (2, 9), empty_set(), &fixture.tally).unwrap();
    let killed = Injected { skip: 0, ..Injected::once(DiskOp::SyncDir, 5) };
    fixture.simulated.inject(killed);
    new.make_current().unwrap_err();
    let found = fixture.read().unwrap().unwrap();
    assert_eq!(found.id, 2);
    let mut again = Manifest::resume(at, found, &fixture.tally).unwrap();
    fixture.disk.remove(old.path()).unwrap();
    again.append(&young(1), (0, 0)).unwrap();
    let mut crashes = Crashes::of(fixture.simulated.journal(), Path::new(DIR));
    while crashes.advance() {}
    for fate in (0..40).map(Fate::Drawn).chain([Fate::Lost, Fate::Kept]) {
        assert_eq!(Fixture::on(crashes.image(fate)).set(), *again.set(), "{fate:?}");
    }
}

#[test]
fn a_damaged_header_is_corruption() {
    let fixture = Fixture::new();
    let path = fixture.create().path().to_owned();
    for byte in [0, 20, 4000] {
        assert!(fixture.simulated.flip(&path, byte, 1));
        let found = fixture.read().map(drop);
        assert!(matches!(found, Err(StoreError::Corrupt { offset: 0, .. })), "{byte}: {found:?}");
        assert!(fixture.simulated.flip(&path, byte, 1));
    }
    assert!(fixture.read().is_ok());
}

/// Corruption destroys the last edit and everything after it in the file.
#[test]
fn an_edit_that_was_acknowledged_is_never_taken_for_a_torn_one() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    manifest.append(&young(1), (0, 0)).unwrap();
    let from = usize::try_from(manifest.end).unwrap();
    manifest.append(&young(2), (0, 0)).unwrap();
    let bytes = fixture.simulated.contents(manifest.path()).unwrap();
    let file = fixture.disk.open(manifest.path(), FileAccess { write: true, direct: false });
    let file = file.unwrap();
    for junk in [0, 0xa5] {
        for end in [from + 1, from + 40, bytes.len()] {
            file.write_at(&vec![junk; end - from], from as u64).unwrap();
            let found = fixture.read().map(|it| it.unwrap().set.young.len());
            assert!(matches!(found, Err(StoreError::Corrupt { .. })), "{junk} to {end}: {found:?}");
            file.write_at(&bytes[from..], from as u64).unwrap();
        }
    }
    file.set_len(from as u64).unwrap();
    assert!(matches!(fixture.read().map(drop), Err(StoreError::Corrupt { .. })), "it is cut");
}

#[test]
fn a_full_disk_refuses_an_edit_and_takes_the_next() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    manifest.append(&young(1), (0, 0)).unwrap();
    let mut n = 2;
    for spare in 0..40 {
        fixture.simulated.set_space(Some(fixture.simulated.used_bytes() + spare));
        let first = n;
        let e = loop {
            match manifest.append(&young(n), (0, 0)) {
                Ok(()) => n += 1,
                Err(e) => break e,
            }
        };
        assert!(matches!(e, StoreError::NoSpace), "{e}");
        assert_eq!(fixture.set(), *manifest.set());
        assert!(!manifest.is_poisoned());
        assert!(spare > 0 || n - first > 500, "only {} edits on a full disk", n - first);
    }
    fixture.simulated.set_space(None);
    manifest.append(&young(n), (0, 0)).unwrap();
    assert_eq!(fixture.set(), *manifest.set());
}

#[test]
fn after_a_failed_sync_no_edit_is_taken() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    fixture.simulated.inject(Injected::once(DiskOp::Sync, 5));
    manifest.append(&young(1), (0, 0)).unwrap_err();
    let refused = manifest.append(&young(2), (0, 0));
    assert!(matches!(refused, Err(StoreError::ReadOnly)) && manifest.is_poisoned());
    assert!(fixture.set().young.len() <= 1);
}

#[test]
fn a_long_manifest_is_written_anew() {
    let fixture = Fixture::new();
    let mut manifest = fixture.create();
    let old = manifest.path().to_owned();
    let many = vec![Edit::Horizon(1); 1 << 17];
    let mut n = 1;
    while manifest.path() == old {
        manifest.append(&many, (2 * n + 1, 0)).unwrap();
        manifest.append(&young(n), (2 * n + 2, 0)).unwrap();
        n += 1;
        assert!(n < 20, "it is longer than 4 MiB and still the old one");
    }
    assert_eq!(fixture.simulated.contents(&old), None);
    assert!(manifest.end < 5 * BLOCK_BYTES as u64);
    assert_eq!(fixture.set(), *manifest.set());
    manifest.append(&[Edit::Horizon(99)], (0, 0)).unwrap();
    assert_eq!((fixture.set().horizon, fixture.set().young.len() as u64), (99, n - 1));
}

#[test]
fn a_failure_while_writing_anew_leaves_one_that_counts() {
    for (op, skip) in [
        (DiskOp::Create, 0),
        (DiskOp::Create, 1),
        (DiskOp::Write, 2),
        (DiskOp::Write, 3),
        (DiskOp::Sync, 3),
        (DiskOp::Sync, 2),
        (DiskOp::SyncDir, 0),
        (DiskOp::SyncDir, 1),
        (DiskOp::Rename, 0),
    ] {
        let fixture = Fixture::new();
        let mut manifest = fixture.create();
        let long = vec![Edit::Horizon(1); 500_000];
        let fault = Injected { skip, ..Injected::once(op, 28) };
        fixture.simulated.inject(fault);
        let _ = manifest.append(&long, (2, 0));
        let _ = manifest.append(&young(1), (3, 0));
        fixture.simulated.heal();
        // A reader finds what was acknowledged; a poisoned manifest acknowledges nothing.
        let after = manifest.append(&[Edit::Horizon(5)], (0, 0));
        assert_eq!(after.is_err(), manifest.is_poisoned(), "{op:?} {skip}");
        let may_name_either = matches!((op, skip), (DiskOp::Rename, 0) | (DiskOp::SyncDir, 1));
        assert_eq!(manifest.is_poisoned(), may_name_either, "{op:?} {skip}");
        assert_eq!(fixture.set(), *manifest.set(), "{op:?} {skip}");
    }
}

#[test]
fn names_of_files_come_back_and_others_are_refused() {
    for kind in [FileKind::Log, FileKind::Run, FileKind::Manifest, FileKind::Fixed] {
        let name = file_name(kind, 0xabc);
        assert_eq!(parse_name(OsStr::new(&name)), Some((kind, 0xabc)));
    }
    for name in [
        "L-1",
        "L-0000000000000ABC",
        "X-0000000000000abc",
        "CURRENT",
        "",
        "é-0000000000000000",
        "R-ffffffffffffffff",
    ] {
        assert_eq!(parse_name(OsStr::new(name)), None, "{name}");
    }
    assert_eq!(KeyHash::MAX.0, u128::MAX);
}
