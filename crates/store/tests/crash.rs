//! After a kill at any moment, the store has everything that it acknowledged, and nothing that was never written.
//!
//! A child process writes from four threads, each to its own keys. The n-th operation of a thread follows from the
//! cycle's number, the thread and n alone. Once an operation is acknowledged, its number is written to the thread's
//! file, which outlives the process. The parent kills the child, opens the store itself and compares: each thread's
//! keys are as after all acknowledged operations, or as after one more, which may have been in progress. A batch is one
//! operation, so a partly applied batch is detected.
//!
//! Some children abort at a point that the store passes: between the steps of a conversion, of a merge, of an edit of
//! the manifest. `make crashes` runs the long test: 1,500 deaths.

use guira_store::{Batch, Db, Durability, Options, WriteOptions};
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const THREADS: u64 = 4;
const KEYS: u64 = 300;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// An operation: the new value of each of its keys.
struct Op {
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    durability: Durability,
}

/// The `n`-th operation of a thread.
fn op(cycle: u64, thread: u64, n: u64) -> Op {
    let mut random = fastrand::Rng::with_seed(cycle << 40 ^ thread << 32 ^ n);
    let count = if random.u8(0..8) == 0 { random.usize(2..6) } else { 1 };
    let mut changes = Vec::new();
    for _ in 0..count {
        let key = format!("thread {thread} key {}", random.u64(0..KEYS)).into_bytes();
        let is_delete = random.u8(0..5) == 0;
        let len =
            if random.u8(0..40) == 0 { random.usize(4000..20_000) } else { random.usize(0..400) };
        let mut value = format!("{cycle} {thread} {n} ").into_bytes();
        value.resize(value.len() + len, random.u8(..));
        changes.push((key, (!is_delete).then_some(value)));
    }
    let levels =
        [Durability::Always, Durability::Interval(Duration::from_millis(5)), Durability::Os];
    let level = [2, 2, 2, 2, 1, 2, 2, 2, 1, 0][random.usize(0..10)];
    Op { changes, durability: levels[level] }
}

fn apply(model: &mut Model, op: &Op) {
    for (key, value) in &op.changes {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.log_bytes = 256 << 10;
    options.partition_bytes = 128 << 10;
    options.reserve_bytes = 1;
    (options.runs_merge, options.runs_soft, options.runs_hard) = (2, 8, 12);
    options.manifest_bytes = 16 << 10;
    options
}

/// The child process. Does nothing unless a parent started it.
#[test]
#[ignore = "the child of the other tests"]
fn child() {
    let Ok(folder) = env::var("GUIRA_CRASH_FOLDER").map(PathBuf::from) else { return };
    let number = |name: &str| env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let cycle = number("GUIRA_CRASH_CYCLE").expect("a cycle");
    let mut options = options();
    if let Ok(wanted) = env::var("GUIRA_CRASH_POINT") {
        let left = AtomicU64::new(number("GUIRA_CRASH_PASSES").unwrap_or(0));
        options.at_point = Some(Arc::new(move |point| {
            if point == wanted && left.fetch_sub(1, Relaxed) == 0 {
                std::process::abort();
            }
        }));
    }
    let db = Arc::new(Db::open(folder.join("store"), options).expect("the store opens"));
    let writers = (0..THREADS).map(|thread| {
        let (db, folder) = (db.clone(), folder.clone());
        thread::spawn(move || write(&db, &folder, cycle, thread))
    });
    let writers: Vec<_> = writers.collect();
    let mut random = fastrand::Rng::with_seed(cycle);
    loop {
        thread::sleep(Duration::from_millis(random.u64(1..30)));
        match random.u8(0..6) {
            0 => db.compact().expect("a merge"),
            1 | 2 => db.freeze().expect("a frozen log"),
            3 => drop(db.snapshot().expect("a snapshot")),
            _ => {}
        }
        assert!(writers.iter().all(|it| !it.is_finished()), "a writer gave up");
    }
}

fn write(db: &Db, folder: &Path, cycle: u64, thread: u64) {
    let acks = ack_file(folder, thread);
    for n in 0.. {
        let op = op(cycle, thread, n);
        let mut batch = Batch::new();
        for (key, value) in &op.changes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
            .expect("a short key");
        }
        db.write_with(batch, WriteOptions { durability: op.durability }).expect("a write");
        acks.write_all_at(&(n + 1).to_le_bytes(), 0).expect("an acknowledgement");
    }
}

fn ack_file(folder: &Path, thread: u64) -> File {
    let path = folder.join(format!("acks-{thread}"));
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .read(true)
        .open(path)
        .expect("a file")
}

/// Returns how many operations of the thread were acknowledged, and resets the count.
fn take_acks(folder: &Path, thread: u64) -> u64 {
    let file = ack_file(folder, thread);
    let mut bytes = [0; 8];
    let count = file.read_exact_at(&mut bytes, 0).map_or(0, |()| u64::from_le_bytes(bytes));
    file.set_len(0).expect("an empty file");
    count
}

fn start(folder: &Path, cycle: u64, point: Option<(&str, u64)>) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "child", "--ignored", "--nocapture"]);
    command.env("GUIRA_CRASH_FOLDER", folder).env("GUIRA_CRASH_CYCLE", cycle.to_string());
    if let Some((name, passes)) = point {
        command.env("GUIRA_CRASH_POINT", name).env("GUIRA_CRASH_PASSES", passes.to_string());
    }
    let errors = File::create(folder.join("child.txt")).expect("a file");
    command.stdout(Stdio::null()).stderr(errors).spawn().expect("a child")
}

/// Waits for the child to die, and kills it after `longest`. True if it died by itself, of `abort`.
fn await_death(folder: &Path, child: &mut Child, longest: Duration) -> bool {
    let mut waited = Duration::ZERO;
    let step = Duration::from_millis(2);
    while waited < longest {
        if let Some(status) = child.try_wait().expect("a status") {
            let text = fs::read_to_string(folder.join("child.txt")).unwrap_or_default();
            assert_eq!(status.code(), None, "the child failed before it was killed: {text}");
            return true;
        }
        thread::sleep(step);
        waited += step;
    }
    child.kill().expect("a kill");
    child.wait().expect("a status");
    false
}

/// Compares the store with the models after `cycle`, and brings the models up to date.
fn check(folder: &Path, cycle: u64, models: &mut [Model]) -> u64 {
    let db = Db::open(folder.join("store"), options()).expect("the store opens after a kill");
    let mut acknowledged = 0;
    let mut all = Model::new();
    for (thread, model) in (0_u64..).zip(models.iter_mut()) {
        let count = take_acks(folder, thread);
        acknowledged += count;
        (0..count).for_each(|n| apply(model, &op(cycle, thread, n)));
        if !matches(&db, thread, model) {
            apply(model, &op(cycle, thread, count));
            let is_right = matches(&db, thread, model);
            assert!(
                is_right,
                "cycle {cycle}, thread {thread}: not as after {count} operations, nor one more"
            );
        }
        all.extend(model.clone());
    }
    let snapshot = db.snapshot().expect("a snapshot");
    let found = snapshot.iter().map(|it| it.expect("an entry"));
    let found: Model = found.map(|it| (it.key.to_vec(), it.value.to_vec())).collect();
    assert!(
        found == all,
        "cycle {cycle}: an iteration gives {} keys, not {}",
        found.len(),
        all.len()
    );
    if cycle.is_multiple_of(10) {
        assert_eq!(db.verify().expect("sound files").corrupt, Vec::new());
    }
    acknowledged
}

fn matches(db: &Db, thread: u64, model: &Model) -> bool {
    (0..KEYS).all(|n| {
        let key = format!("thread {thread} key {n}").into_bytes();
        db.get(&key).expect("an answer").as_deref() == model.get(&key).map(Vec::as_slice)
    })
}

/// The points at which the store calls the hook.
const POINTS: [&str; 8] = [
    "before an edit",
    "after an edit",
    "convert: half written",
    "convert: written",
    "convert: published",
    "merge: half written",
    "merge: written",
    "merge: published",
];

fn crash(cycles: u64, seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut models = vec![Model::new(); usize::try_from(THREADS).expect("few")];
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut acknowledged, mut by_point) = (0, BTreeMap::<&str, u64>::new());
    for cycle in 1..=cycles {
        let point = (cycle % 2 == 0).then(|| POINTS[random.usize(0..POINTS.len())]);
        let passes = random.u64(0..6);
        let mut child = start(folder.path(), cycle, point.map(|name| (name, passes)));
        let longest = if point.is_some() { 400 } else { random.u64(5..150) };
        let died = await_death(folder.path(), &mut child, Duration::from_millis(longest));
        if let Some(point) = point.filter(|_| died) {
            *by_point.entry(point).or_default() += 1;
        }
        acknowledged += check(folder.path(), cycle, &mut models);
    }
    eprintln!("{cycles} deaths, {acknowledged} acknowledged operations, at points: {by_point:?}");
    assert!(acknowledged > cycles, "only {acknowledged} operations were acknowledged");
    assert!(cycles < 100 || by_point.len() == POINTS.len(), "not all points: {by_point:?}");
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    crash(12, 7);
}

#[test]
#[ignore = "minutes: make crashes"]
fn what_was_acknowledged_is_there_after_1500_kills() {
    crash(1500, fastrand::u64(..));
}
