//! Runs are read back as written, whatever their entries' sizes, and no corrupt byte changes an answer.

use super::properties::RunFacts;
use super::*;
use crate::entry::{Entry, EntryKind};
use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, FileKind, Header};
use crate::hash::{Hasher, KeyHash};
use crate::options::{Options, RunIndex};
use guira_disk::{Disk, SimulatedDisk};
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/R-7";
const HEADER: Header =
    Header { kind: FileKind::Run, file_id: 7, uuid: [3; 16], hash_id: 5, before: 0 };

/// Hash, key, value (none: a delete) and sequence number, in order.
type Content = Vec<(KeyHash, Vec<u8>, Option<Vec<u8>>, u64)>;

fn content(count: u64, hasher: &Hasher, longest: usize) -> Content {
    let mut random = fastrand::Rng::with_seed(count);
    let mut content: Content = (0..count)
        .map(|n| {
            let key = format!("key {n}").into_bytes();
            let len =
                if random.u8(0..20) == 0 { random.usize(0..longest) } else { random.usize(0..300) };
            let value = (random.u8(0..6) > 0).then(|| vec![random.u8(..); len]);
            (hasher.hash(&key), key, value, 1000 - random.u64(0..900))
        })
        .collect();
    content.sort();
    content
}

fn write(disk: &Arc<dyn Disk>, content: &Content, options: &Options, is_young: bool) -> RunFacts {
    let how = if is_young {
        RunOptions::young(options, 1000, 8)
    } else {
        RunOptions::last(options, 1000)
    };
    let mut writer = RunWriter::create(disk, Path::new(PATH), &HEADER, how).unwrap();
    for (hash, key, value, seq) in content {
        let kind = if value.is_some() { EntryKind::Put } else { EntryKind::Delete };
        let value = value.as_deref().unwrap_or_default();
        writer.push(&Entry { hash: *hash, seq: *seq, kind, key, value }).unwrap();
    }
    writer.finish().unwrap()
}

/// A value, a delete, nothing, or corruption at a block.
type Found = Result<Option<Option<Vec<u8>>>, u64>;

/// Looks a key up in the run. Returns the result and the number of reads.
fn find(run: &Run, hash: KeyHash, key: &[u8]) -> (Found, usize) {
    let Some((mut block, mut blocks)) = run.locate(hash) else { return (Ok(None), 0) };
    let mut reads = 0;
    loop {
        let mut buffer = guira_disk::Buffer::zeroed(blocks * BLOCK_BYTES);
        reads += 1;
        run.file().read_at(&mut buffer, block * BLOCK_BYTES as u64).unwrap();
        match run.look(block, &buffer, hash, key) {
            Look::Put { value, .. } => return (Ok(Some(Some(value.to_vec()))), reads),
            Look::Deleted => return (Ok(Some(None)), reads),
            Look::Absent => return (Ok(None), reads),
            Look::At(other, all) => (block, blocks) = (other, all),
            Look::Longer(all) => blocks = all,
            Look::Corrupt(block) => return (Err(block), reads),
        }
    }
}

fn check(run: &Run, content: &Content, hasher: &Hasher) -> usize {
    let mut reads = 0;
    for (hash, key, value, _) in content {
        let (found, read) = find(run, *hash, key);
        assert_eq!(found, Ok(Some(value.clone())));
        reads += read;
    }
    for n in 0..200 {
        let key = format!("absent {n}").into_bytes();
        assert_eq!(find(run, hasher.hash(&key), &key).0, Ok(None));
    }
    reads
}

fn check_iter(run: &Run, content: &Content, from: KeyHash, to: KeyHash) {
    let mut iter = RunIter::new(run.clone(), from, to);
    for (hash, key, value, seq) in content.iter().filter(|it| from <= it.0 && it.0 <= to) {
        assert!(iter.advance().unwrap());
        let entry = iter.entry().unwrap();
        assert_eq!((entry.hash, entry.key, entry.seq), (*hash, &key[..], *seq));
        assert_eq!(entry.kind == EntryKind::Put, value.is_some());
        assert_eq!(entry.value, value.as_deref().unwrap_or_default());
    }
    assert!(!iter.advance().unwrap() && iter.entry().is_none() && !iter.advance().unwrap());
}

#[test]
fn entries_come_back_one_by_one_and_in_order() {
    for index in [RunIndex::Fence, RunIndex::EliasFano, RunIndex::Trie] {
        for (bits, longest) in [(128, 400), (128, 30_000), (8, 30_000), (0, 9000)] {
            let hasher = Hasher::from_seed([1; 16]).keeping(bits);
            let options = Options { index, ..Options::default() };
            let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::with_dir(Path::new("/")));
            let content = content(1000, &hasher, longest);
            let facts = write(&disk, &content, &options, bits == 128);
            let run = Run::open(&disk, Path::new(PATH), &HEADER, &hasher).unwrap();
            assert_eq!(*run.facts(), facts);
            assert_eq!(facts.entries, 1000);
            let reads = check(&run, &content, &hasher);
            assert!(bits < 128 || longest > 400 || reads <= 1020, "{index:?}: {reads} reads");
            check_iter(&run, &content, KeyHash(0), KeyHash::MAX);
            for pair in [(1 << 126, 1 << 127), (3, 1 << 120), (u128::MAX - 9, u128::MAX)] {
                check_iter(&run, &content, KeyHash(pair.0), KeyHash(pair.1));
            }
            let some = content[400].0;
            check_iter(&run, &content, some, some);
            assert_eq!(damage(&run), [0_u64; 0]);
        }
    }
}

/// The number of blocks to read at first, over all keys, and the number of reads.
fn cost(run: &Run, content: &Content) -> (usize, usize) {
    let located = content.iter().map(|it| run.locate(it.0).unwrap().1);
    let reads = content.iter().map(|(hash, key, _, _)| find(run, *hash, key).1);
    (located.sum(), reads.sum())
}

#[test]
fn entries_that_fill_blocks_badly_go_on_in_the_next_and_take_one_read() {
    let hasher = Hasher::from_seed([1; 16]);
    let mut random = fastrand::Rng::with_seed(8);
    // The range of value lengths; the most blocks read per key; the most bytes of disk per byte.
    for (lengths, blocks_most, space_most) in [
        (1000..1001, 1.45, 1.04),
        (500..1500, 1.45, 1.06),
        (255..300, 1.2, 1.09),
        (3000..3001, 2.0, 1.08),
        (4000..9000, 3.2, 1.08),
        (20_000..32_000, 8.5, 1.05),
        (33_000..60_000, 13.0, 1.08),
    ] {
        for index in [RunIndex::Fence, RunIndex::EliasFano, RunIndex::Trie] {
            let mut content: Content = (0..3000)
                .map(|n: u32| {
                    let key = format!("key {n:>16}").into_bytes();
                    let value = Some(vec![random.u8(..); random.usize(lengths.clone())]);
                    (hasher.hash(&key), key, value, 1000 - u64::from(n % 900))
                })
                .collect();
            content.sort();
            let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::with_dir(Path::new("/")));
            let options = Options { index, ..Options::default() };
            let facts = write(&disk, &content, &options, false);
            let run = Run::open(&disk, Path::new(PATH), &HEADER, &hasher).unwrap();
            let (blocks, reads) = cost(&run, &content);
            let body: usize = content.iter().map(|it| 20 + it.2.as_ref().unwrap().len()).sum();
            let space = facts.bytes as f64 / body as f64;
            let each = |n: usize| n as f64 / content.len() as f64;
            let seen = format!("{lengths:?} {index:?}: {} blocks, {space}", each(blocks));
            println!("{seen}, {} reads", each(reads));
            assert!(each(blocks) < blocks_most && space < space_most, "{seen}");
            assert!(each(reads) <= 1.01, "{seen}: {reads} reads");
            check(&run, &content, &hasher);
            check_iter(&run, &content, KeyHash(0), KeyHash::MAX);
            let (some, other) = (content[700].0, content[1900].0);
            check_iter(&run, &content, some, other);
            assert_eq!(damage(&run), [0_u64; 0]);
        }
    }
}

#[test]
fn a_young_run_answers_for_absent_keys_without_a_read() {
    let hasher = Hasher::from_seed([1; 16]);
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::with_dir(Path::new("/")));
    write(&disk, &content(3000, &hasher, 400), &Options::default(), true);
    let run = Run::open(&disk, Path::new(PATH), &HEADER, &hasher).unwrap();
    let absent = (0..20_000).map(|n: u32| hasher.hash(&n.to_le_bytes()));
    let located = absent.filter(|it| run.locate(*it).is_some()).count();
    assert!(located < 100, "{located} of 20,000");
    assert!(run.filter_bytes() < 3000 * 2 && run.index_bytes() < 3000);
}

#[test]
fn no_flipped_bit_gives_another_answer() {
    let hasher = Hasher::from_seed([1; 16]);
    let simulated = SimulatedDisk::with_dir(Path::new("/"));
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let content = content(150, &hasher, 9000);
    let facts = write(&disk, &content, &Options::default(), true);
    let mut random = fastrand::Rng::with_seed(3);
    let (mut refused, mut noticed) = (0, 0);
    for n in 0..600 {
        // Half of the flips hit the sections and the footer, which are a small part of the bytes.
        let area = if n % 2 == 0 { 0..facts.bytes } else { facts.end_block * 4096..facts.bytes };
        let (offset, bit) = (random.u64(area), 1 << random.u8(0..8));
        assert!(simulated.flip(Path::new(PATH), offset, bit));
        match Run::open(&disk, Path::new(PATH), &HEADER, &hasher) {
            Err(StoreError::Corrupt { .. } | StoreError::Foreign { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
            Ok(run) => {
                for (hash, key, value, _) in content.iter().step_by(7) {
                    let found = find(&run, *hash, key).0;
                    noticed += usize::from(found.is_err());
                    assert!(found.is_err() || found == Ok(Some(value.clone())), "at {offset}");
                }
                assert!(!damage(&run).is_empty(), "a verification overlooks byte {offset}");
            }
        }
        assert!(simulated.flip(Path::new(PATH), offset, bit));
    }
    assert!(refused > 50 && noticed > 20, "{refused} {noticed}");
}

/// The places that a verification reports.
fn damage(run: &Run) -> Vec<u64> {
    let mut places = Vec::new();
    verify(run, &mut |offset, _| places.push(offset)).unwrap();
    places
}

#[test]
fn every_damaged_unit_is_named() {
    let hasher = Hasher::from_seed([1; 16]);
    let simulated = SimulatedDisk::with_dir(Path::new("/"));
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let facts = write(&disk, &content(900, &hasher, 9000), &Options::default(), true);
    let run = Run::open(&disk, Path::new(PATH), &HEADER, &hasher).unwrap();
    let units: Vec<u64> = (0..run.units()).map(|it| run.block_of(it)).collect();
    assert!(units.len() as u64 + 1 < facts.end_block, "some are of several blocks");
    // Flips a bit in the head of one unit, then in the last block of the next.
    let mut expected = Vec::new();
    for (n, pair) in units.windows(2).enumerate().filter(|it| it.0 % 3 > 0) {
        let at = if n % 3 == 1 { pair[0] * 4096 + 17 } else { pair[1] * 4096 - 1 };
        assert!(simulated.flip(Path::new(PATH), at, 8));
        expected.push(pair[0] * 4096);
    }
    assert_eq!(damage(&run), expected);
    assert!(expected.len() > 20, "{} units", expected.len());
}

/// Entries go on from one unit to the next: who reads such an entry meets the damage of the second, too.
#[test]
fn damage_has_one_name_whoever_meets_it() {
    let hasher = Hasher::from_seed([1; 16]);
    let simulated = SimulatedDisk::with_dir(Path::new("/"));
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let content = content(900, &hasher, 9000);
    write(&disk, &content, &Options::default(), true);
    let run = Run::open(&disk, Path::new(PATH), &HEADER, &hasher).unwrap();
    let mut met = 0;
    for unit in (1..run.units()).step_by(3) {
        let block = run.block_of(unit);
        assert!(simulated.flip(Path::new(PATH), block * 4096 + 17, 8));
        assert_eq!(damage(&run), [block * 4096]);
        let mut iter = RunIter::new(run.clone(), KeyHash(0), KeyHash::MAX);
        let mut all = std::iter::from_fn(|| iter.advance().map(|is| is.then_some(())).transpose());
        let told = all.find_map(Result::err);
        let is_named = |it: &StoreError| matches!(it, StoreError::Corrupt { offset, .. } if *offset == block * 4096);
        assert!(told.as_ref().is_some_and(is_named), "{told:?}, not at {}", block * 4096);
        for (hash, key, ..) in &content {
            if let (Err(named), _) = find(&run, *hash, key) {
                assert_eq!(named, block);
                met += 1;
            }
        }
        assert!(simulated.flip(Path::new(PATH), block * 4096 + 17, 8));
    }
    assert!(met > 50, "{met}");
}

#[test]
fn an_unfinished_file_is_no_run() {
    let simulated = SimulatedDisk::with_dir(Path::new("/"));
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let hasher = Hasher::from_seed([1; 16]);
    write(&disk, &content(300, &hasher, 400), &Options::default(), true);
    let bytes = simulated.contents(Path::new(PATH)).unwrap();
    for cut in (0..bytes.len()).step_by(2048) {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::with_dir(Path::new("/")));
        disk.create(Path::new(PATH), false).unwrap().write_at(&bytes[..cut], 0).unwrap();
        let opened = Run::open(&disk, Path::new(PATH), &HEADER, &hasher);
        assert!(matches!(opened, Err(StoreError::Corrupt { .. })), "{cut} bytes");
    }
}
