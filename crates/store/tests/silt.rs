//! The paper's layout passes the store's own tests: against a `BTreeMap`, after a loss of power, and with flipped bits.

use guira_disk::faulty::{Crashes, DiskOp, Fate, Injected};
use guira_disk::{Disk, SimulatedDisk, System};
use guira_store::StoreError;
use guira_store::silt::{Silt, SiltKey, SiltOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Model = BTreeMap<SiltKey, Vec<u8>>;

#[derive(Clone, Debug)]
enum Op {
    Put(u16),
    Delete(u16),
    Get(u16),
    Convert,
    Merge,
    Sync,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..150_u16;
    prop_oneof![
        30 => key.clone().prop_map(Op::Put),
        10 => key.clone().prop_map(Op::Delete),
        15 => key.prop_map(Op::Get),
        2 => Just(Op::Convert),
        1 => Just(Op::Merge),
        1 => Just(Op::Sync),
        2 => Just(Op::Reopen),
    ]
}

/// How keys are chosen.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// Spread evenly, as the paper requires.
    Even,
    /// All with the same last four bytes: all keys collide in the cuckoo tables.
    SameTail,
    /// All in one bucket of the trie, and adjacent in order.
    SameHead,
}

fn key(keys: Keys, n: u16) -> SiltKey {
    match keys {
        Keys::Even => fastrand::Rng::with_seed(n.into()).u128(..).to_be_bytes(),
        Keys::SameTail => (u128::from(n) << 100 | 7).to_be_bytes(),
        Keys::SameHead => u128::from(n).to_be_bytes(),
    }
}

fn value(options: &SiltOptions, n: u16, step: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(n) << 32 | step as u64);
    (0..options.value_bytes).map(|_| random.u8(..)).collect()
}

/// For 1000 value bytes, four records of 1024 bytes fill a block. With other lengths, records may lie in two blocks.
fn tiny(value_bytes: usize, is_sparse: bool, is_weak: bool) -> SiltOptions {
    SiltOptions { value_bytes, buckets: 8, hash_stores: 3, is_sparse, is_weak }
}

fn run(disk: &Arc<dyn Disk>, dir: &Path, options: SiltOptions, keys: Keys, ops: &[Op]) {
    let open = || Silt::open(disk.clone(), dir, options).expect("a store");
    let mut model = Model::new();
    let mut silt = open();
    for (step, op) in ops.iter().enumerate() {
        match *op {
            Op::Put(n) => {
                silt.put(&key(keys, n), &value(&options, n, step)).expect("a put");
                model.insert(key(keys, n), value(&options, n, step));
            }
            Op::Delete(n) => {
                silt.delete(&key(keys, n)).expect("a delete");
                model.remove(&key(keys, n));
            }
            Op::Get(n) => {
                let found = silt.get(&key(keys, n)).expect("an answer");
                assert_eq!(found.as_ref(), model.get(&key(keys, n)), "step {step}, key {n}");
            }
            Op::Convert => silt.convert().expect("a conversion"),
            Op::Merge => silt.merge().expect("a merge"),
            Op::Sync => silt.sync().expect("a sync"),
            Op::Reopen => {
                silt.sync().expect("a sync");
                drop(silt);
                silt = open();
            }
        }
    }
    check(&silt, &model, keys);
    silt.convert().expect("a conversion");
    silt.merge().expect("a merge");
    check(&silt, &model, keys);
    let figures = silt.figures();
    assert_eq!(figures.sorted.entries, model.len() as u64, "deleted keys are gone");
    assert_eq!((figures.log.entries, figures.hash.entries, figures.hash_stores), (0, 0, 0));
}

fn check(silt: &Silt, model: &Model, keys: Keys) {
    for n in 0..200 {
        let key = key(keys, n);
        assert_eq!(silt.get(&key).expect("an answer").as_ref(), model.get(&key), "key {n}");
    }
}

fn layouts() -> [SiltOptions; 4] {
    [
        tiny(1000, false, false),
        tiny(1000, true, true),
        tiny(1000, true, false),
        tiny(37, true, true),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..Default::default() })]

    #[test]
    fn on_the_simulated_disk_it_is_a_map(ops in prop::collection::vec(op(), 1..400)) {
        for options in layouts() {
            for keys in [Keys::Even, Keys::SameTail, Keys::SameHead] {
                let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::with_dir(Path::new("/")));
                run(&disk, Path::new("/silt"), options, keys, &ops);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..Default::default() })]

    #[test]
    fn on_a_real_disk_it_is_a_map(ops in prop::collection::vec(op(), 1..300)) {
        for options in layouts() {
            let folder = tempfile::tempdir().expect("a folder");
            let disk: Arc<dyn Disk> = Arc::new(System);
            run(&disk, &folder.path().join("silt"), options, Keys::Even, &ops);
        }
    }
}

/// After a loss of power the store is as after a prefix of the writes, and no synced write is missing.
#[test]
fn a_prefix_with_all_synced_writes_survives() {
    // A lost block is a hole of whole records if they are large; small records are torn.
    [tiny(37, true, true), tiny(1000, true, false)].into_iter().for_each(power_loss);
}

fn power_loss(options: SiltOptions) {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let dir = Path::new("/silt");
    let mut silt = Silt::open(shared, dir, options).expect("a store");
    let mut random = fastrand::Rng::with_seed(4);
    let mut states = vec![Model::new()];
    // The events at which each write began; the writes that were durable, and since which event.
    let (mut begun, mut durable) = (Vec::new(), Vec::new());
    for step in 0..300 {
        let (n, mut state) = (random.u16(0..60), states[step].clone());
        begun.push(disk.events());
        if random.u8(0..4) == 0 {
            silt.delete(&key(Keys::Even, n)).expect("a delete");
            state.remove(&key(Keys::Even, n));
        } else {
            silt.put(&key(Keys::Even, n), &value(&options, n, step)).expect("a put");
            state.insert(key(Keys::Even, n), value(&options, n, step));
        }
        states.push(state);
        if random.u8(0..5) == 0 {
            silt.sync().expect("a sync");
            durable.push((step + 1, disk.events()));
        }
    }
    drop(silt);
    let mut crashes = Crashes::of(disk.journal(), Path::new("/"));
    let mut images = 0;
    while crashes.advance() {
        let least = durable.iter().rev().find(|it| it.1 <= crashes.at()).map_or(0, |it| it.0);
        let most = begun.iter().filter(|&&it| it <= crashes.at()).count();
        for fate in [Fate::Lost, Fate::Kept, Fate::Drawn(1), Fate::Drawn(2)] {
            let image: Arc<dyn Disk> = Arc::new(crashes.image(fate));
            let silt = Silt::open(image, dir, options).expect("the store opens");
            let found: Model = (0..60)
                .filter_map(|n| {
                    let key = key(Keys::Even, n);
                    Some((key, silt.get(&key).expect("an answer")?))
                })
                .collect();
            let is_right = (least..=most).any(|n| states[n] == found);
            assert!(is_right, "event {}, {fate:?}: none of {least}..={most}", crashes.at());
            images += 1;
        }
    }
    assert!(images > 500, "{images} images");
}

fn filled(disk: &SimulatedDisk, options: SiltOptions) -> (Silt, Model) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut silt = Silt::open(shared, Path::new("/silt"), options).expect("a store");
    let mut model = Model::new();
    for n in 0..150 {
        silt.put(&key(Keys::Even, n), &value(&options, n, 0)).expect("a put");
        model.insert(key(Keys::Even, n), value(&options, n, 0));
    }
    silt.sync().expect("a sync");
    let figures = silt.figures();
    let entries = [figures.log, figures.hash, figures.sorted].map(|it| it.entries);
    assert!(entries.iter().all(|&it| it > 0), "each stage has some: {entries:?}");
    (silt, model)
}

/// A get or an opening gives the right value or reports the corruption. Only a corrupt log may end early.
#[test]
fn a_flipped_bit_never_gives_a_wrong_value() {
    let options = tiny(37, true, true);
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    let (silt, model) = filled(&disk, options);
    let dir = Path::new("/silt");
    let files = disk.list(dir).expect("a list");
    drop(silt);
    let mut crashes = Crashes::of(disk.journal(), Path::new("/"));
    while crashes.advance() {}
    let stages = disk.contents(&dir.join("STAGES")).expect("the stages");
    let log = u64::from_le_bytes(stages[24..32].try_into().expect("its number"));
    let log = dir.join(format!("F-{log:016x}"));
    let mut told = 0;
    for path in files.iter().filter(|it| !it.ends_with("LOCK")) {
        let len = disk.contents(path).expect("a file").len() as u64;
        for at in (0..len).step_by(29) {
            let image = crashes.image(Fate::Kept);
            assert!(image.flip(path, at, 1 << (at % 8)));
            let Ok(silt) = Silt::open(Arc::new(image), dir, options) else {
                told += 1;
                continue;
            };
            for (key, value) in &model {
                match silt.get(key) {
                    Ok(Some(found)) => assert!(found == *value, "{path:?} at {at}"),
                    Ok(None) => assert!(*path == log, "{path:?} at {at}: a key is lost"),
                    Err(StoreError::Corrupt { .. }) => told += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
    assert!(told > 50, "{told} flips were told");
}

#[test]
fn a_full_disk_and_a_failed_sync_lose_nothing_and_the_next_put_tries_again() {
    for op in [DiskOp::Create, DiskOp::Write, DiskOp::Sync, DiskOp::SyncDir, DiskOp::Rename] {
        for skip in 0..8 {
            let options = tiny(37, false, true);
            let disk = SimulatedDisk::with_dir(Path::new("/"));
            let (mut silt, mut model) = filled(&disk, options);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let open = || Silt::open(shared.clone(), Path::new("/silt"), options).expect("a store");
            disk.inject(Injected { skip, ..Injected::once(op, 28) });
            for n in 150..400_u16 {
                let (key, value) = (key(Keys::Even, n), value(&options, n, 0));
                if silt.put(&key, &value).is_err() {
                    if matches!(silt.sync(), Err(StoreError::ReadOnly)) {
                        drop(silt);
                        silt = open();
                    }
                    silt.put(&key, &value).expect("the disk has room again");
                }
                model.insert(key, value);
            }
            silt.sync().expect("a sync");
            let check = |silt: &Silt, when: &str| {
                for (key, value) in &model {
                    let found = silt.get(key).expect("an answer");
                    assert_eq!(found.as_ref(), Some(value), "{op:?} after {skip}, {when}");
                }
            };
            check(&silt, "as it runs");
            drop(silt);
            check(&open(), "reopened");
        }
    }
}

#[test]
fn what_makes_no_sense_is_told() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::with_dir(Path::new("/")));
    let dir = Path::new("/silt");
    let good = tiny(37, false, false);
    for options in [
        SiltOptions { value_bytes: 0, ..good },
        SiltOptions { value_bytes: 2 << 20, ..good },
        SiltOptions { buckets: 0, ..good },
        SiltOptions { buckets: 12, ..good },
        SiltOptions { buckets: 1 << 16, ..good },
        SiltOptions { hash_stores: 0, ..good },
    ] {
        let told = Silt::open(disk.clone(), dir, options).err();
        assert!(matches!(told, Some(StoreError::Option(_))), "{options:?}: {told:?}");
    }
    let mut silt = Silt::open(disk.clone(), dir, good).expect("a store");
    assert!(matches!(silt.put(&[0; 16], b"short"), Err(StoreError::ValueLength(5))));
    let second = Silt::open(disk.clone(), dir, good).err();
    assert!(matches!(second, Some(StoreError::Locked(_))), "{second:?}");
    drop(silt);
    let other = Silt::open(disk, dir, SiltOptions { value_bytes: 38, ..good }).err();
    assert!(matches!(other, Some(StoreError::Foreign { .. })), "{other:?}");
}
