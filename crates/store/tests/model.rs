//! The store compared with a `BTreeMap`, for any order of writes, freezes, merges, snapshots, flushes and reopenings.
//!
//! Sizes are tiny, so that a few hundred operations fill logs, create runs and split partitions. Cases run on the
//! simulated disk, on a real one, and with hashes of 8 and of 0 bits, in which keys collide.

use guira_disk::{Disk, SimulatedDisk, System};
use guira_store::{Batch, Db, Durability, Options, RunIndex, Snapshot};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Op {
    Put(u16, usize),
    Delete(u16),
    Batch(Vec<(u16, Option<usize>)>),
    Get(u16),
    MultiGet(Vec<u16>),
    Iterate,
    Freeze,
    Compact,
    Snapshot,
    DropSnapshot(usize),
    Flush,
    Reopen,
    Checkpoint,
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..200_usize, 3 => 1000..6000_usize, 1 => 8000..30_000_usize]
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..120_u16;
    prop_oneof![
        30 => (key.clone(), lengths()).prop_map(|(key, len)| Op::Put(key, len)),
        8 => key.clone().prop_map(Op::Delete),
        6 => prop::collection::vec((key.clone(), prop::option::of(lengths())), 1..12)
            .prop_map(Op::Batch),
        12 => key.clone().prop_map(Op::Get),
        4 => prop::collection::vec(key, 1..20).prop_map(Op::MultiGet),
        3 => Just(Op::Iterate),
        3 => Just(Op::Freeze),
        2 => Just(Op::Compact),
        2 => Just(Op::Snapshot),
        2 => (0..4_usize).prop_map(Op::DropSnapshot),
        1 => Just(Op::Flush),
        3 => Just(Op::Reopen),
        1 => Just(Op::Checkpoint),
    ]
}

fn key(n: u16) -> Vec<u8> {
    // Some keys are long, and some are prefixes of others.
    let pad = if n.is_multiple_of(17) { 300 } else { usize::from(n % 5) };
    format!("key-{n}-{}", "p".repeat(pad)).into_bytes()
}

fn value(n: u16, step: usize, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(n) << 32 | step as u64);
    (0..len).map(|_| random.u8(..)).collect()
}

/// Each opening writes its runs with another index than the previous one.
fn options(hash_bits: Option<u8>, openings: usize) -> Options {
    let mut options = Options::default();
    options.index = [RunIndex::Fence, RunIndex::Trie, RunIndex::EliasFano][openings % 3];
    options.durability = Durability::Os;
    options.log_bytes = 64 << 10;
    options.partition_bytes = 64 << 10;
    options.reserve_bytes = 1;
    (options.runs_merge, options.runs_soft, options.runs_hard) = (3, 30, 40);
    // In some openings merges wait for more runs if the last level is larger.
    options.last_per_young = [0, 1][openings / 3 % 2];
    options.runs_most = 6;
    options.hash_bits = hash_bits;
    options
}

/// A store, its model, and the model's state at each snapshot.
struct Pair {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    hash_bits: Option<u8>,
    db: Option<Db>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    openings: usize,
    checkpoints: usize,
}

impl Pair {
    fn open(disk: Arc<dyn Disk>, dir: &Path, hash_bits: Option<u8>) -> Self {
        let db = Some(Db::open_on(disk.clone(), dir, options(hash_bits, 0)).expect("a store"));
        let (model, snapshots) = (Model::new(), Vec::new());
        let dir = dir.to_owned();
        Self { disk, dir, hash_bits, db, model, snapshots, openings: 0, checkpoints: 0 }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    fn apply(&mut self, step: usize, op: &Op) {
        match op {
            Op::Put(n, len) => {
                self.db().put(&key(*n), &value(*n, step, *len)).expect("a put");
                self.model.insert(key(*n), value(*n, step, *len));
            }
            Op::Delete(n) => {
                self.db().delete(&key(*n)).expect("a delete");
                self.model.remove(&key(*n));
            }
            Op::Batch(parts) => self.write(step, parts),
            Op::Get(n) => self.check_get(*n),
            Op::MultiGet(ns) => {
                let keys: Vec<_> = ns.iter().map(|n| key(*n)).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let found = self.db().multi_get(&keys).expect("values");
                for (key, item) in keys.iter().zip(found) {
                    assert_eq!(item.as_deref(), self.model.get(*key).map(Vec::as_slice));
                }
            }
            Op::Iterate => {
                let snapshot = self.db().snapshot().expect("a snapshot");
                check_all(&snapshot, &self.model);
            }
            Op::Freeze => self.db().freeze().expect("a frozen log"),
            Op::Compact => self.db().compact().expect("a merge"),
            Op::Snapshot => {
                if self.snapshots.len() < 3 {
                    let snapshot = self.db().snapshot().expect("a snapshot");
                    self.snapshots.push((snapshot, self.model.clone()));
                }
            }
            Op::DropSnapshot(n) => {
                if *n < self.snapshots.len() {
                    let (snapshot, model) = self.snapshots.remove(*n);
                    check_all(&snapshot, &model);
                }
            }
            Op::Flush => {
                self.db().set_horizon(self.db().last_seq()).expect("a horizon");
                self.model.clear();
            }
            Op::Reopen => self.reopen(),
            Op::Checkpoint => self.checkpoint(),
        }
    }

    fn write(&mut self, step: usize, parts: &[(u16, Option<usize>)]) {
        let mut batch = Batch::new();
        for (at, (n, len)) in parts.iter().enumerate() {
            let at = step * 100 + at;
            match len {
                Some(len) => {
                    batch.put(&key(*n), &value(*n, at, *len)).expect("a short key");
                    self.model.insert(key(*n), value(*n, at, *len));
                }
                None => {
                    batch.delete(&key(*n)).expect("a short key");
                    self.model.remove(&key(*n));
                }
            }
        }
        self.db().write(batch).expect("a batch");
    }

    fn reopen(&mut self) {
        for (snapshot, model) in self.snapshots.drain(..) {
            check_all(&snapshot, &model);
        }
        self.db = None;
        self.openings += 1;
        let options = options(self.hash_bits, self.openings);
        let db = Db::open_on(self.disk.clone(), &self.dir, options);
        self.db = Some(db.expect("the same store"));
    }

    fn checkpoint(&mut self) {
        self.checkpoints += 1;
        let dir = self.dir.join(format!("checkpoint-{}", self.checkpoints));
        self.db().checkpoint(&dir).expect("a checkpoint");
        let options = options(self.hash_bits, self.openings);
        let copy = Db::open_on(self.disk.clone(), &dir, options).expect("a copy");
        check_all(&copy.snapshot().expect("a snapshot"), &self.model);
    }

    fn check_get(&self, n: u16) {
        let found = self.db().get(&key(n)).expect("an answer");
        assert_eq!(found.as_deref(), self.model.get(&key(n)).map(Vec::as_slice), "key {n}");
        assert_eq!(self.db().contains(&key(n)).expect("an answer"), found.is_some());
    }

    fn check(&self) {
        (0..130).for_each(|n| self.check_get(n));
        check_all(&self.db().snapshot().expect("a snapshot"), &self.model);
        assert_eq!(self.db().verify().expect("sound files").corrupt, Vec::new());
    }
}

fn check_all(snapshot: &Snapshot, model: &Model) {
    let mut found = Model::new();
    for entry in snapshot.iter() {
        let entry = entry.expect("an entry");
        let before = found.insert(entry.key.to_vec(), entry.value.to_vec());
        assert!(before.is_none(), "a key came twice");
    }
    assert!(found == *model, "an iteration gave {} keys, not {}", found.len(), model.len());
    for (key, value) in model.iter().take(10) {
        let item = snapshot.get(key).expect("an answer").expect("a value");
        assert!(item[..] == value[..]);
    }
}

fn run(disk: Arc<dyn Disk>, dir: &Path, hash_bits: Option<u8>, ops: &[Op]) {
    let mut pair = Pair::open(disk, dir, hash_bits);
    for (step, op) in ops.iter().enumerate() {
        pair.apply(step, op);
    }
    pair.check();
    pair.reopen();
    pair.check();
    pair.db().compact().expect("a merge");
    pair.check();
}

/// The number of cases per test, which `PROPTEST_CASES` overrides for a long run.
fn config(cases: u32) -> ProptestConfig {
    let cases =
        std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, max_shrink_iters: 300, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn on_the_simulated_disk_it_is_a_map(ops in prop::collection::vec(op(), 1..250)) {
        let dir = Path::new("/store");
        run(Arc::new(SimulatedDisk::with_dir(Path::new("/"))), dir, None, &ops);
    }

    #[test]
    fn with_8_bits_of_hash_it_is_a_map(ops in prop::collection::vec(op(), 1..250)) {
        let dir = Path::new("/store");
        run(Arc::new(SimulatedDisk::with_dir(Path::new("/"))), dir, Some(8), &ops);
    }
}

proptest! {
    #![proptest_config(config(6))]

    #[test]
    fn on_a_real_disk_it_is_a_map(ops in prop::collection::vec(op(), 1..200)) {
        let folder = tempfile::tempdir().expect("a folder");
        run(Arc::new(System), &folder.path().join("store"), None, &ops);
    }

    #[test]
    fn with_all_keys_of_one_hash_it_is_a_map(ops in prop::collection::vec(op(), 1..120)) {
        let dir = Path::new("/store");
        run(Arc::new(SimulatedDisk::with_dir(Path::new("/"))), dir, Some(0), &ops);
    }
}
