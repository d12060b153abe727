//! Changed files with correct checksums are refused, or give a store that answers. Nothing panics or runs without a
//! bound.
//!
//! A changed byte alone never passes a checksum. So each mutant is a real file with a few changed fields, whose
//! checksums were all recomputed as `docs/store-format.md` describes. Seeds are fixed; `MUTANTS` is the number of
//! mutants of each kind.

use guira_disk::{Disk, SimulatedDisk};
use guira_store::{Db, Durability, Options, RunIndex, StoreError};
use std::hash::Hasher;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/store";
const BLOCK: usize = 4096;

type Files = Vec<(PathBuf, Vec<u8>)>;
type Seal = Box<dyn Fn(&mut [u8])>;

fn options(index: RunIndex) -> Options {
    let mut options = Options::default();
    options.durability = Durability::Os;
    (options.log_bytes, options.partition_bytes) = (64 << 10, 64 << 10);
    (options.reserve_bytes, options.runs_merge, options.runs_soft) = (1, 12, 16);
    options.index = index;
    options
}

/// The files of a store with a last level, a young run, and a log. Some entries continue in the next block, and one is
/// long.
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

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    let read = bytes.get(at..at + len).unwrap_or_default();
    read.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

fn crc(parts: &[&[u8]]) -> [u8; 4] {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part)).to_le_bytes()
}

fn set(bytes: &mut [u8], at: usize, value: [u8; 4]) {
    bytes[at..at + 4].copy_from_slice(&value);
}

fn seal_block(bytes: &mut [u8], at: usize, more: &[u8]) {
    let sum = crc(&[&bytes[at..at + BLOCK - 4], more]);
    set(bytes, at + BLOCK - 4, sum);
}

/// The areas of a file to change, and the function that recomputes its checksums.
struct Shape {
    areas: Vec<Range<usize>>,
    seal: Seal,
}

fn of_run(bytes: &[u8]) -> Shape {
    let footer = bytes.len() - BLOCK;
    let slots = (0..8).map(|n| footer + 24 + n * 24).filter(|at| bytes[at + 4] != 0);
    let sections: Vec<_> = slots
        .map(|at| (number(bytes, at + 8, 8), number(bytes, at + 16, 8)))
        .map(|(offset, len)| offset..offset + len)
        .collect();
    let (mut units, mut at) = (Vec::new(), BLOCK);
    while at < sections[0].start {
        let end = at + number(bytes, at + 8, 4) * BLOCK;
        units.push(at..end);
        at = end;
    }
    let mut areas = vec![0..64, footer..footer + 160];
    areas.extend(units.iter().flat_map(|it| [it.start + 8..it.start + 32, it.start + 32..it.end]));
    // Sections are short, so they are listed as often as units.
    let often = areas.len().div_ceil(sections.len());
    areas.extend((0..often).flat_map(|_| sections.clone()));
    Shape { areas, seal: Box::new(move |bytes| seal_run(bytes, &units, &sections)) }
}

fn seal_run(bytes: &mut [u8], units: &[Range<usize>], sections: &[Range<usize>]) {
    let footer = bytes.len() - BLOCK;
    seal_block(bytes, 0, &[]);
    let file_id = bytes[16..24].to_vec();
    for unit in units {
        let sum = crc(&[&bytes[unit.start + 32..unit.end]]);
        set(bytes, unit.start + 4, sum);
        let block = ((unit.start / BLOCK) as u64).to_le_bytes();
        let sum = crc(&[&file_id, &block, &bytes[unit.start + 4..unit.start + 32]]);
        set(bytes, unit.start, sum);
    }
    for (section, slot) in sections.iter().zip((footer + 24..).step_by(24)) {
        let sum = crc(&[&bytes[section.clone()]]);
        set(bytes, slot, sum);
    }
    let mut whole = twox_hash::XxHash3_64::new();
    whole.write(&bytes[..footer]);
    bytes[footer + 16..footer + 24].copy_from_slice(&whole.finish().to_le_bytes());
    seal_block(bytes, footer, &[]);
}

/// The records of a log or of a manifest. `len` returns the length of the record at a place.
fn records(bytes: &[u8], mut at: usize, len: fn(&[u8], usize) -> usize) -> Vec<Range<usize>> {
    let mut records = Vec::new();
    while at + 32 <= bytes.len() && number(bytes, at, 8) != 0 {
        let end = at + len(bytes, at);
        records.push(at..end);
        at = end;
    }
    records
}

fn len_in_log(bytes: &[u8], at: usize) -> usize {
    let body = number(bytes, at + 24, 2) + number(bytes, at + 28, 4);
    (32 + body).next_multiple_of(8)
}

fn of_log(bytes: &[u8]) -> Shape {
    let parts = records(bytes, BLOCK, len_in_log);
    let heads = parts.iter().map(|it| it.start + 8..it.start + 32);
    let areas = std::iter::once(0..64).chain(heads).chain(parts.clone()).collect();
    Shape { areas, seal: Box::new(move |bytes| seal_log(bytes, &parts)) }
}

fn seal_log(bytes: &mut [u8], parts: &[Range<usize>]) {
    seal_block(bytes, 0, &[]);
    let salt = crc(&[&bytes[16..24], &bytes[24..40], &bytes[40..48]]);
    for part in parts {
        let sum = crc(&[&salt, &bytes[part.start + 8..part.start + 32]]);
        set(bytes, part.start + 4, sum);
        let end = part.start + len_in_log(bytes, part.start);
        if end <= bytes.len() {
            let sum = crc(&[&salt, &bytes[part.start + 4..end]]);
            set(bytes, part.start, sum);
        }
    }
}

fn len_in_manifest(bytes: &[u8], at: usize) -> usize {
    (8 + number(bytes, at + 4, 4)).next_multiple_of(8)
}

fn of_manifest(bytes: &[u8]) -> Shape {
    let parts = records(bytes, 3 * BLOCK, len_in_manifest);
    let marks = [BLOCK..BLOCK + 24, 2 * BLOCK..2 * BLOCK + 24];
    let areas = std::iter::once(0..64).chain(marks);
    let areas = areas.chain(parts.iter().flat_map(|it| [it.start + 4..it.start + 8, it.clone()]));
    let areas = areas.collect();
    Shape { areas, seal: Box::new(move |bytes| seal_manifest(bytes, &parts)) }
}

fn seal_manifest(bytes: &mut [u8], parts: &[Range<usize>]) {
    seal_block(bytes, 0, &[]);
    for mark in [0, 1_u64] {
        let at = usize::try_from(mark + 1).expect("small") * BLOCK;
        seal_block(bytes, at, &mark.to_le_bytes());
    }
    let id = bytes[16..24].to_vec();
    for part in parts {
        let end = part.start + 8 + number(bytes, part.start + 4, 4);
        if end <= bytes.len() {
            let offset = (part.start as u64).to_le_bytes();
            let sum = crc(&[&id, &offset, &bytes[part.start + 4..end]]);
            set(bytes, part.start, sum);
        }
    }
}

fn of_current(bytes: &[u8]) -> Shape {
    let areas = std::iter::once(0..bytes.len()).collect();
    Shape { areas, seal: Box::new(|_| ()) }
}

/// Changes one byte, or a few adjacent ones, to values at which numbers and lengths are likely to fail.
fn change(bytes: &mut [u8], area: Range<usize>, random: &mut fastrand::Rng) {
    let at = random.usize(area.clone());
    match random.u8(0..6) {
        0 => bytes[at] ^= 1 << random.u8(0..8),
        1 => bytes[at] = bytes[at].wrapping_add(1),
        2 => bytes[at] = bytes[at].wrapping_sub(1),
        3 => bytes[at] = random.u8(..),
        4 => bytes[at..area.end.min(at + 4)].fill(0xff),
        _ => bytes[at..area.end.min(at + 8)].fill(0),
    }
}

/// Opens the store and reads all of it. True if it opens.
fn check(files: &Files, (changed, bytes): (usize, &[u8]), random: &mut fastrand::Rng) -> bool {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    disk.make_dir(Path::new(DIR)).expect("a folder");
    for (at, (path, content)) in files.iter().enumerate() {
        let content = if at == changed { bytes } else { content };
        let file = disk.create(path, false).expect("a file");
        file.write_at(content, 0).expect("a disk without a limit");
    }
    let mut options = options(RunIndex::Fence);
    options.read_only = random.u8(0..8) > 0;
    options.repair = random.bool();
    let is_read_only = options.read_only;
    let Ok(db) = Db::open_on(Arc::new(disk.clone()), Path::new(DIR), options) else { return false };
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
        assert!(!matches!(db.stats().trouble, Some(StoreError::Panicked)), "a thread panicked");
    }
    true
}

/// Each file of another format is refused before anything else in it is trusted, and no file is changed.
#[test]
fn a_file_of_another_format_is_refused_with_what_to_do() {
    // The background may convert the log that closing seals into a run. Then an opening just removes the log.
    let mut refused = (0..100).map(|_| refused_for_their_format(&files(RunIndex::Fence)));
    assert_eq!(refused.find(|it| it.contains('L')).as_deref(), Some("LMR"));
}

/// The first letters of the files that were refused.
fn refused_for_their_format(files: &Files) -> String {
    let mut refused = std::collections::BTreeSet::new();
    let formats: [(u8, &str); 3] = [(1, "copy the items"), (2, "copy the items"), (5, "newer")];
    for ((at, (path, content)), (format, what_to_do)) in
        files.iter().enumerate().flat_map(|file| formats.map(|format| (file, format)))
    {
        if !content.starts_with(b"SILTRS") {
            continue;
        }
        assert_eq!(number(content, 6, 2), 4, "as the page of the format says");
        let mut bytes = content.clone();
        bytes[6] = format;
        seal_block(&mut bytes, 0, &[]);
        let disk = SimulatedDisk::with_dir(Path::new("/"));
        disk.make_dir(Path::new(DIR)).expect("a folder");
        for (of, (path, content)) in files.iter().enumerate() {
            let file = disk.create(path, false).expect("a file");
            let content = if of == at { &bytes } else { content };
            file.write_at(content, 0).expect("a disk without a limit");
        }
        let opened = Db::open_on(Arc::new(disk.clone()), Path::new(DIR), options(RunIndex::Fence));
        let told = match opened.map(drop) {
            Err(told) => told.to_string(),
            // No list names this file, so each opening removes it.
            Ok(()) => {
                assert!(disk.contents(path).is_none(), "{} is believed", path.display());
                continue;
            }
        };
        refused.extend(path.file_name().and_then(|it| it.to_str()?.chars().next()));
        let names_it = told.starts_with(&path.display().to_string());
        assert!(names_it && told.contains(what_to_do), "{format}: {told}");
        assert!(disk.contents(path) == Some(bytes), "{told}");
    }
    refused.into_iter().collect()
}

/// Format 3 is the same except for the filters of young runs.
#[test]
fn a_store_of_format_3_is_read_and_written_on() {
    let disk = SimulatedDisk::with_dir(Path::new("/"));
    disk.make_dir(Path::new(DIR)).expect("a folder");
    for (path, mut content) in files(RunIndex::Fence) {
        if content.starts_with(b"SILTRS") {
            content[6] = 3;
            seal_block(&mut content, 0, &[]);
            if path.file_name().is_some_and(|it| it.to_string_lossy().starts_with('R')) {
                (of_run(&content).seal)(&mut content);
            }
        }
        disk.create(&path, false).and_then(|it| it.write_at(&content, 0)).expect("a copy");
    }
    for _ in 0..2 {
        let open = Db::open_on(Arc::new(disk.clone()), Path::new(DIR), options(RunIndex::Fence));
        let db = open.expect("a store");
        assert!((4..90).all(|n: u16| db.get(&n.to_le_bytes()).expect("an answer").is_some()));
        assert_eq!(db.verify().expect("it reads").damaged_files, 0);
        db.compact().expect("a merge");
        db.put(&4_u16.to_le_bytes(), b"more").expect("a put");
    }
}

/// Tries mutants of all files whose names begin with `name`. Returns how many opened.
fn mutate(index: RunIndex, name: &str, shape: fn(&[u8]) -> Shape) -> usize {
    let files = files(index);
    let count = std::env::var("MUTANTS").ok().and_then(|it| it.parse().ok()).unwrap_or(400);
    let of_name =
        |it: &PathBuf| it.file_name().is_some_and(|it| it.to_string_lossy().starts_with(name));
    let chosen: Vec<usize> = (0..files.len()).filter(|at| of_name(&files[*at].0)).collect();
    assert!(!chosen.is_empty());
    let mut opened = 0;
    for seed in 0..count {
        let mut random = fastrand::Rng::with_seed(seed);
        let at = chosen[random.usize(0..chosen.len())];
        let mut shape = shape(&files[at].1);
        shape.areas.retain(|it| !it.is_empty());
        let mut bytes = files[at].1.clone();
        (shape.seal)(&mut bytes);
        assert!(bytes == files[at].1, "checksums are computed as the store does");
        for _ in 0..random.usize(1..4) {
            let area = shape.areas[random.usize(0..shape.areas.len())].clone();
            change(&mut bytes, area, &mut random);
        }
        (shape.seal)(&mut bytes);
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(&files, (at, &bytes), &mut random)
        }));
        opened += usize::from(tried.unwrap_or_else(|_| panic!("{name}, {index:?}: seed {seed}")));
    }
    println!("{name}, {index:?}: {opened} of {count} opened");
    opened
}

#[test]
fn changed_runs_are_refused_or_answer() {
    for index in [RunIndex::Fence, RunIndex::EliasFano, RunIndex::Trie] {
        assert!(mutate(index, "R-", of_run) > 0);
    }
}

#[test]
fn changed_logs_are_refused_or_answer() {
    assert!(mutate(RunIndex::Fence, "L-", of_log) > 0);
}

#[test]
fn changed_lists_of_files_are_refused_or_answer() {
    assert!(mutate(RunIndex::Fence, "M-", of_manifest) > 0);
}

#[test]
fn a_changed_current_is_refused_or_answers() {
    mutate(RunIndex::Fence, "CURRENT", of_current);
}
