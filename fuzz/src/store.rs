//! A store with one changed file: it is refused, or it answers. Nothing panics or runs without a bound.
//!
//! Checksums are all zero here (`cfg(fuzzing)`), since nobody guesses one. So changed fields reach the code behind them.
//! The store holds a last level, a young run and a log, with entries that continue in the next block and one that is long.
//! Its disk is simulated.
//!
//! ```text
//! input    1 B: which index, and how the store is opened    then changes: where 3 B, how many bytes 1 B, the bytes
//! ```

use guira_disk::{Disk, SimulatedDisk};
use guira_store::{Db, Durability, Options, RunIndex, StoreError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

const DIR: &str = "/store";
const INDEXES: [RunIndex; 3] = [RunIndex::Fence, RunIndex::EliasFano, RunIndex::Trie];

type Files = Vec<(PathBuf, Vec<u8>)>;

static STORES: LazyLock<[Files; 3]> = LazyLock::new(|| INDEXES.map(files));

/// Opens the store after the input's changes to one of the files whose names begin with `name`.
pub fn open_changed(name: char, input: &[u8]) {
    let Some((&how, changes)) = input.split_first() else { return };
    let files = &STORES[usize::from(how & 3) % 3];
    let of_name = |at: &usize| {
        files[*at].0.file_name().is_some_and(|it| it.to_string_lossy().starts_with(name))
    };
    let chosen: Vec<usize> = (0..files.len()).filter(of_name).collect();
    let changed = chosen[usize::from(how >> 2 & 7) % chosen.len()];
    let mut bytes = files[changed].1.clone();
    change(&mut bytes, changes);
    let disk = disk(files, changed, &bytes);
    let mut options = options(RunIndex::Fence);
    (options.read_only, options.repair) = (how & 0x60 != 0, how & 0x80 != 0);
    let is_read_only = options.read_only;
    let Ok(db) = Db::open_on(Arc::new(disk.clone()), Path::new(DIR), options) else { return };
    for n in 0..92_u16 {
        // An error or any answer is right.
        let _ = db.get(&n.to_le_bytes());
    }
    if let Ok(entries) = db.iter() {
        let count = entries.take_while(Result::is_ok).count();
        assert!(count as u64 <= disk.used_bytes(), "{count} entries");
    }
    let _ = db.verify();
    if !is_read_only {
        if db.put(b"key", b"value").is_ok() {
            assert_eq!(db.get(b"key").expect("a put").as_deref(), Some(&b"value"[..]));
        }
        let _ = db.compact();
    }
    assert!(!matches!(db.stats().trouble, Some(StoreError::Panicked)), "a thread panicked");
}

fn change(bytes: &mut [u8], mut changes: &[u8]) {
    while let [low, middle, high, count, rest @ ..] = changes {
        let at = usize::from(*low) | usize::from(*middle) << 8 | usize::from(*high) << 16;
        let (new, rest) = rest.split_at(rest.len().min(usize::from(*count)));
        let at = at % bytes.len();
        let end = bytes.len().min(at + new.len());
        bytes[at..end].copy_from_slice(&new[..end - at]);
        changes = rest;
    }
}

fn disk(files: &Files, changed: usize, bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    disk.make_dir(Path::new(DIR)).expect("a folder");
    for (at, (path, content)) in files.iter().enumerate() {
        let content = if at == changed { bytes } else { content };
        let file = disk.create(path, false).expect("a file");
        file.write_at(content, 0).expect("a disk without a limit");
    }
    disk
}

fn options(index: RunIndex) -> Options {
    let mut options = Options::default();
    options.durability = Durability::Os;
    (options.log_bytes, options.partition_bytes) = (64 << 10, 64 << 10);
    (options.reserve_bytes, options.runs_merge, options.runs_soft) = (1, 12, 16);
    options.index = index;
    options
}

fn files(index: RunIndex) -> Files {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    let db = Db::open_on(Arc::new(disk.clone()), Path::new(DIR), options(index)).expect("a store");
    let put = |n: u16, len| db.put(&n.to_le_bytes(), &vec![7; len]).expect("a put");
    (0..60).for_each(|n| put(n, usize::from(n) * 40));
    put(60, 9000);
    put(61, 40_000);
    db.compact().expect("a merge");
    (50..80).for_each(|n| put(n, usize::from(n) * 9));
    db.delete(&3_u16.to_le_bytes()).expect("a delete");
    db.freeze().expect("a young run");
    (70..90).for_each(|n| put(n, 100));
    drop(db);
    let paths = disk.list(Path::new(DIR)).expect("a folder");
    paths.into_iter().filter_map(|path| Some((path.clone(), disk.contents(&path)?))).collect()
}
