//! After a loss of power the store is as after a prefix of the writes, and no synced write is missing.
//!
//! The simulated disk keeps a journal of writes, syncs and renames. The test walks through it, and at many instants
//! builds disks as they may be found: sectors of 4 KiB lost, kept or torn, in any order since the last sync. There is
//! one writer, so the log's order is the writer's. The content must be exactly what the map was after some write.

use guira_disk::faulty::{Crashes, DiskOp, Fate, Injected};
use guira_disk::{Disk, SimulatedDisk};
use guira_store::{Batch, Db, Durability, Options, WriteOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    let mut options = Options::default();
    options.durability = Durability::Os;
    options.log_bytes = 64 << 10;
    options.partition_bytes = 64 << 10;
    options.reserve_bytes = 1;
    (options.runs_merge, options.runs_soft, options.runs_hard) = (2, 20, 30);
    options.manifest_bytes = 16 << 10;
    options
}

/// The history of the writer: the map after each write, and the events at which each write began and ended.
struct History {
    states: Vec<Model>,
    /// The event at which the write began, the event at which it was answered, and whether it waited for the disk.
    writes: Vec<(usize, usize, bool)>,
}

fn write(disk: &SimulatedDisk, seed: u64) -> History {
    let mut random = fastrand::Rng::with_seed(seed);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut db = Db::open_on(shared.clone(), Path::new("/store"), options()).expect("a store");
    let mut history = History { states: vec![Model::new()], writes: Vec::new() };
    for n in 0..260_u32 {
        let mut state = history.states.last().expect("a state").clone();
        let mut batch = Batch::new();
        for _ in 0..if random.u8(0..6) == 0 { 4 } else { 1 } {
            let key = format!("key {}", random.u8(0..60)).into_bytes();
            if random.u8(0..5) == 0 {
                batch.delete(&key).expect("a short key");
                state.remove(&key);
            } else {
                let value = vec![random.u8(..); random.usize(0..3000)];
                batch.put(&key, &value).expect("a short key");
                state.insert(key, value);
            }
        }
        let is_synced = random.u8(0..4) == 0;
        let durability = if is_synced { Durability::Always } else { Durability::Os };
        let begun = disk.events();
        db.write_with(batch, WriteOptions { durability }).expect("a write");
        history.writes.push((begun, disk.events(), is_synced));
        history.states.push(state);
        match random.u8(0..40) {
            0 => db.freeze().expect("a frozen log"),
            1 => db.compact().expect("a merge"),
            2 => drop(db.snapshot().expect("a snapshot")),
            3 => {
                drop(db);
                db = Db::open_on(shared.clone(), Path::new("/store"), options()).expect("a store");
            }
            _ => {}
        }
        if n % 50 == 49 {
            db.sync().expect("a sync");
        }
    }
    history
}

fn contents(disk: &SimulatedDisk) -> Model {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let db = Db::open_on(shared, Path::new("/store"), options()).expect("the store opens");
    let snapshot = db.snapshot().expect("a snapshot");
    let found = snapshot.iter().map(|it| it.expect("an entry"));
    found.map(|it| (it.key.to_vec(), it.value.to_vec())).collect()
}

fn power_loss(seed: u64, instants: usize, draws: u64) {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    let history = write(&disk, seed);
    let journal = disk.journal();
    let step = (journal.len() / instants).max(1);
    let mut crashes = Crashes::of(journal, Path::new("/"));
    let mut images = 0;
    while crashes.advance() {
        if !crashes.at().is_multiple_of(step) {
            continue;
        }
        let draws = (0..draws).map(|it| Fate::Drawn(it ^ seed << 20 ^ crashes.at() as u64));
        for fate in draws.chain([Fate::Lost, Fate::Kept]) {
            check(&crashes.image(fate), &history, crashes.at(), fate);
            images += 1;
        }
    }
    assert!(images >= instants, "{images} images");
}

fn check(image: &SimulatedDisk, history: &History, at: usize, fate: Fate) {
    let synced = history.writes.iter().rposition(|it| it.1 <= at && it.2);
    let begun = history.writes.iter().rposition(|it| it.0 <= at);
    let (least, most) = (synced.map_or(0, |it| it + 1), begun.map_or(0, |it| it + 1));
    let found = contents(image);
    let is_right = (least..=most).any(|n| history.states[n] == found);
    let as_after = history.states.iter().position(|it| *it == found);
    assert!(
        is_right,
        "event {at}, {fate:?}: {} keys, as after write {as_after:?}; expected one of {least}..={most}",
        found.len()
    );
}

#[test]
fn a_prefix_with_all_synced_writes_survives() {
    power_loss(1, 60, 2);
}

#[test]
#[ignore = "minutes: make crashes"]
fn a_prefix_with_all_synced_writes_survives_everywhere() {
    for seed in 2..12 {
        power_loss(seed, 1500, 3);
    }
}

/// The process is killed at any sync of a folder while it creates the store. The next one continues, and the power fails.
#[test]
fn a_store_whose_making_was_interrupted_keeps_its_name() {
    for skip in 0..4 {
        let disk = SimulatedDisk::with_dir(Path::new("/"));
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let open = || Db::open_on(shared.clone(), Path::new("/store"), options());
        disk.inject(Injected { skip, ..Injected::once(DiskOp::SyncDir, 5) });
        drop(open().expect_err("a folder that can't be synced"));
        let db = open().expect("a store");
        let how = WriteOptions { durability: Durability::Always };
        db.put_with(b"key", b"value", how).expect("a durable write");
        let mut crashes = Crashes::of(disk.journal(), Path::new("/"));
        while crashes.advance() {}
        let found = contents(&crashes.image(Fate::Lost));
        assert_eq!(found.len(), 1, "the sync after {skip} failed");
    }
}
