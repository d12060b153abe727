//! The tier over a simulated disk: a get finds what was stored last or nothing, whatever the disk does.

use super::*;
use crate::plan::Compaction;
use crate::settings::FileSpec;
use guira_disk::SimulatedDisk;
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;

const BUFFER: u64 = 8192;
const PAGE: u64 = 2 * BUFFER;

fn settings(pages: u64, tag_bits: u32) -> TierSettings {
    TierSettings {
        files: vec![FileSpec {
            path: "/flash".into(),
            bytes: pages * PAGE,
            bucket: Bucket::Default,
        }],
        page_bytes: PAGE,
        buffer_bytes: BUFFER,
        buffers_max: 4,
        entries: 1000,
        index_bytes_max: 1 << 20,
        tag_bits,
    }
}

fn disk() -> SimulatedDisk {
    SimulatedDisk::with_dir(Path::new("/"))
}

fn hash(key: u32) -> u64 {
    (u64::from(key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn record<'r>(key: &'r [u8], hash: u64) -> FlashRecord<'r> {
    FlashRecord {
        hash,
        key,
        value: b"",
        life: 0,
        accessed_s: 1,
        client_flags: 0,
        explicit_cas: None,
        key_binary: false,
        fetched: false,
    }
}

fn put(tier: &Tier, key: u32, value: &[u8]) -> Option<Draft> {
    let name = key.to_le_bytes();
    tier.forget(hash(key));
    let record = record(&name, hash(key));
    let mut parts = value.chunks(100);
    let draft = tier.place(Bucket::Default, (&record, value.len()), &mut parts, 0)?;
    tier.enter(hash(key), &draft);
    Some(draft)
}

/// Returns the value that a get would find.
fn get(tier: &Tier, key: u32) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    tier.look(hash(key), |entry| entries.push(entry));
    for entry in entries {
        let Some(ReadPlan { generation, source }) = tier.plan(entry) else { continue };
        let (bytes, skip) = match source {
            ReadSource::Memory(bytes) => (bytes, 0),
            ReadSource::File { file, offset, bytes, skip } => {
                let mut buffer = guira_disk::Buffer::zeroed(bytes);
                if file.read_at(&mut buffer, offset).is_err() {
                    tier.refuse(hash(key), entry, None);
                    continue;
                }
                (buffer.to_vec(), skip)
            }
        };
        match FlashRecord::read(&bytes[skip..], generation) {
            Ok(record) if record.key == key.to_le_bytes() => {
                if tier.is_current(hash(key), entry, generation) {
                    tier.hit(hash(key), entry);
                    return Some(record.value.to_vec());
                }
            }
            Ok(_) => tier.count_false_read(),
            Err(why) => tier.refuse(hash(key), entry, Some(why)),
        }
    }
    None
}

fn write_all(tier: &Tier) {
    while matches!(tier.write_one(Duration::ZERO), Ok(true)) {}
}

#[test]
fn what_was_put_is_read_from_buffers_and_from_the_file() {
    let tier = Tier::open(&disk(), &settings(8, 16)).unwrap();
    for key in 0..20 {
        put(&tier, key, &vec![key.to_le_bytes()[0]; 1000]).unwrap();
    }
    for written in [false, true] {
        for key in 0..20 {
            assert_eq!(get(&tier, key), Some(vec![key.to_le_bytes()[0]; 1000]), "{key}, {written}");
        }
        write_all(&tier);
    }
    assert!(tier.counted().bytes_read > 0);
    tier.flush();
    assert!((0..20).all(|key| get(&tier, key).is_none()));
}

#[test]
fn with_all_buffers_full_nothing_is_placed_and_nobody_waits() {
    let tier = Tier::open(&disk(), &settings(8, 16)).unwrap();
    let placed = (0..100).filter(|&key| put(&tier, key, &[1; 2000]).is_some()).count();
    assert_eq!(placed, 4 * 4);
    write_all(&tier);
    assert!(put(&tier, 1, &[1; 2000]).is_some());
}

/// A regression test: a single page kept its first content forever. It was never closed, as there was no other page to
/// open.
#[test]
fn a_single_page_is_used_anew_once_it_is_full() {
    let tier = Tier::open(&disk(), &settings(1, 16)).unwrap();
    for key in 0..100 {
        put(&tier, key, &[1; 2000]);
        write_all(&tier);
    }
    assert!(tier.page_counts().allocs > 3, "{:?}", tier.page_counts());
    assert_eq!(get(&tier, 99), Some(vec![1; 2000]));
}

#[test]
fn what_lives_in_a_sparse_page_is_moved_and_the_page_is_free() {
    let tier = Tier::open(&disk(), &settings(8, 16)).unwrap();
    for key in 0..60 {
        put(&tier, key, &vec![key.to_le_bytes()[0]; 900]).unwrap();
        write_all(&tier);
    }
    for key in (0..60).filter(|key| key % 4 != 0) {
        tier.forget(hash(key));
    }
    let policy =
        CompactionPolicy { compact_under: 8, drop_under: 1, max_frag: 0.8, drop_unread: false };
    let before = tier.pages().iter().filter(|page| page.version == 0).count();
    while let Action::Compact(what) = tier.next_action(&policy, 1) {
        if what.version > 4 {
            break;
        }
        let done = tier.compact(&what, &|_| false).unwrap();
        assert!(done.lost == 0 && done.rescues > 0, "{done:?}");
        write_all(&tier);
    }
    let after = tier.pages().iter().filter(|page| page.version == 0).count();
    assert!(after > before, "{before} {after}");
    for key in 0..60u32 {
        let want = (key % 4 == 0).then(|| vec![key.to_le_bytes()[0]; 900]);
        assert_eq!(get(&tier, key), want, "{key}");
    }
}

use crate::plan::{Action, CompactionPolicy};

#[test]
fn compaction_brings_nothing_back_over_a_flush() {
    let tier = Tier::open(&disk(), &settings(8, 16)).unwrap();
    for key in 0..20 {
        put(&tier, key, &vec![key.to_le_bytes()[0]; 900]).unwrap();
        write_all(&tier);
    }
    let first = tier.pages()[0];
    tier.flush();
    let what = Compaction {
        page: 0,
        version: first.version,
        drop_unread: false,
        has_cold: false,
        use_old: false,
    };
    tier.compact(&what, &|_| false).unwrap();
    assert!((0..20).all(|key| get(&tier, key).is_none()));
}

#[test]
fn a_file_in_use_and_sizes_that_cannot_be_are_refused() {
    let disk = disk();
    let _first = Tier::open(&disk, &settings(8, 16)).unwrap();
    let refused = |settings: &TierSettings| Tier::open(&disk, settings).err().unwrap().to_string();
    assert!(refused(&settings(8, 16)).contains("another process"));
    assert!(refused(&settings(0, 16)).contains("smaller than a page"));
    assert!(
        refused(&TierSettings { page_bytes: PAGE + 1, ..settings(8, 16) }).contains("multiple")
    );
}

#[derive(Clone, Debug)]
enum Step {
    Set(u32, usize),
    Delete(u32),
    Get(u32),
    Write,
    Compact,
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..60u32, 600..3000usize).prop_map(|(key, bytes)| Step::Set(key, bytes)),
        2 => (0..60u32).prop_map(Step::Delete),
        8 => (0..60u32).prop_map(Step::Get),
        6 => Just(Step::Write),
        1 => Just(Step::Compact),
        1 => (0..20u32).prop_map(|n| if n == 0 { Step::Flush } else { Step::Write }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// With tags of two bits, few pages and a compactor, a get finds the last value or nothing.
    #[test]
    fn no_overwritten_deleted_or_flushed_value_is_ever_found(
        steps in prop::collection::vec(step(), 1..400)
    ) {
        let tier = Tier::open(&disk(), &settings(4, 2)).unwrap();
        let mut last: HashMap<u32, Vec<u8>> = HashMap::new();
        let mut found = 0;
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Set(key, bytes) => {
                    let mut value = vec![at.to_le_bytes()[0]; bytes];
                    value[..8].copy_from_slice(&(at as u64).to_le_bytes());
                    put(&tier, key, &value);
                    last.insert(key, value);
                }
                Step::Delete(key) => {
                    tier.forget(hash(key));
                    last.remove(&key);
                }
                Step::Get(key) => {
                    let value = get(&tier, key);
                    found += usize::from(value.is_some());
                    if value.is_some() {
                        prop_assert_eq!(value.as_ref(), last.get(&key), "key {}", key);
                    }
                }
                Step::Write => write_all(&tier),
                Step::Compact => {
                    write_all(&tier);
                    let policy =
                        CompactionPolicy { compact_under: 4, drop_under: 1, max_frag: 1.0, drop_unread: false };
                    if let Action::Compact(what) = tier.next_action(&policy, 1) {
                        tier.compact(&what, &|_| false).unwrap();
                    }
                }
                Step::Flush => {
                    tier.flush();
                    last.clear();
                }
            }
        }
        let _ = found;
    }
}
