//! Items that outlive their cache: after a clean stop, after a crash, and cases in which they must not be kept.
//!
//! A crash is a cache that is dropped without [`Cache::stop`]: its file is as its threads left it.
#![cfg(not(miri))]

use guira_cache::{
    Cache, CacheConfig, CacheConfigError, Compare, Deleted, Eviction, Found, IndexKind, Kept,
    MemoryFile, Mode, NoRoom, START_S, StoreTerms, Stored,
};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Unix time of the first start.
const UNIX_S: i64 = 1_700_000_000;

/// A memory file for one test.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("guira-restart-{}-{number}", std::process::id());
        Place(std::env::temp_dir().join(name))
    }

    fn meta(&self) -> PathBuf {
        self.0.with_extension("meta")
    }

    /// A cache over the file, `after_s` seconds after the first start.
    fn cache(&self, after_s: i64, config: &CacheConfig) -> Cache {
        self.try_cache(after_s, config).expect("a cache over the file")
    }

    fn try_cache(&self, after_s: i64, config: &CacheConfig) -> Result<Cache, CacheConfigError> {
        let file = MemoryFile { path: self.0.clone(), unix_s: UNIX_S + after_s };
        Cache::new(&CacheConfig { memory_file: Some(file), ..config.clone() })
    }

    /// The error of a cache over the file.
    fn refusal(&self) -> String {
        self.try_cache(0, &small()).err().expect("refused").to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_file(self.meta()).ok();
        fs::remove_file(&self.0).ok();
    }
}

fn small() -> CacheConfig {
    CacheConfig { memory_bytes: 8 << 20, ..CacheConfig::default() }
}

fn set(cache: &Cache, key: &[u8], value: &[u8], how: &StoreTerms) -> Stored {
    try_set(cache, key, value, how).expect("there is room")
}

/// Like `set`, for a full cache of few pages, which may have no room even after some turns.
fn try_set(cache: &Cache, key: &[u8], value: &[u8], how: &StoreTerms) -> Result<Stored, NoRoom> {
    let mut handle = cache.handle();
    let mut last = Err(NoRoom::Later);
    for _ in 0..TURNS {
        last = handle.store(&handle.key(key), value, how, cache.began_at_s());
        handle.quiesce();
        if !matches!(last, Err(NoRoom::Later)) {
            break;
        }
    }
    last
}

fn get(cache: &Cache, key: &[u8]) -> Option<(Vec<u8>, u32, u32)> {
    let handle = cache.handle();
    let item = handle.get(&handle.key(key), cache.began_at_s()).ok()?;
    let value = item.value_parts().collect::<Vec<_>>().concat();
    Some((value, item.client_flags(), item.exptime()))
}

fn delete(cache: &Cache, key: &[u8]) -> Deleted {
    let handle = cache.handle();
    handle.delete(&handle.key(key), None, cache.began_at_s())
}

#[expect(clippy::needless_pass_by_value, reason = "who stops a cache has no more use for it")]
fn stop(cache: Cache, after_s: i64) {
    cache.stop(cache.began_at_s(), UNIX_S + after_s).expect("a mark");
}

fn byte(n: usize) -> u8 {
    n.to_le_bytes()[0]
}

/// Values of every shape: empty, small, with a length word, chained.
fn values() -> Vec<(Vec<u8>, Vec<u8>, StoreTerms)> {
    let lengths = [0, 1, 32, 254, 255, 1000, 8_000, 8_192, 70_000, 500_000];
    let mut all = Vec::new();
    for (n, length) in lengths.into_iter().enumerate() {
        for (kind, client_flags, exptime) in
            [("a", 0, 0), ("b", 7, 0), ("c", 0, 500), ("d", 9, 600)]
        {
            let value: Vec<u8> = (0..length).map(|i| byte(i * 31 + n)).collect();
            let how = StoreTerms { client_flags, exptime, ..StoreTerms::default() };
            all.push((format!("{kind}{length}").into_bytes(), value, how));
        }
    }
    all
}

fn kept(cache: &Cache) -> (usize, usize, usize) {
    match cache.found() {
        Found::Stopped(kept) | Found::Crashed(kept) => (kept.items, kept.dead, kept.dropped),
        nothing => panic!("nothing was kept: {nothing:?}"),
    }
}

#[test]
fn every_item_is_there_again_after_a_stop_and_after_a_crash_under_any_index() {
    for index in IndexKind::ALL {
        for crashes in [false, true] {
            let (place, config) =
                (Place::new(), CacheConfig { index, memory_bytes: 32 << 20, ..small() });
            let cache = place.cache(0, &config);
            assert_eq!(cache.found(), &Found::New);
            for (key, value, how) in values() {
                assert!(matches!(set(&cache, &key, &value, &how), Stored::Stored { .. }));
            }
            if crashes {
                drop(cache);
            } else {
                stop(cache, 1);
            }
            let cache = place.cache(1, &config);
            assert!(matches!(cache.found(), Found::Crashed(_)) == crashes);
            assert_eq!(kept(&cache), (values().len(), 0, 0));
            assert_eq!(cache.len(), values().len());
            for (key, value, how) in values() {
                assert_eq!(get(&cache, &key), Some((value, how.client_flags, how.exptime)));
            }
        }
    }
}

#[test]
fn memory_that_was_free_is_used_again_and_nothing_leaks_over_many_restarts() {
    let (place, config) = (Place::new(), small());
    let mut held = Vec::new();
    for round in 0..6 {
        let cache = place.cache(round, &config);
        for (key, value, how) in values() {
            set(&cache, &key, &value, &how);
            if key.starts_with(b"b") {
                assert!(matches!(delete(&cache, &key), Deleted::Deleted { .. }));
            }
        }
        let used = |class| cache.class_stats(class).chunks_used;
        let chunks: usize = (0..cache.classes()).map(used).sum();
        held.push((cache.len(), chunks));
    }
    assert_eq!(held[0], held[5], "items and chunks after each round: {held:?}");
}

#[test]
fn items_stay_over_a_clean_stop_when_the_memory_limit_changes_and_they_fit() {
    let place = Place::new();
    let sized = |mib: usize| CacheConfig { memory_bytes: mib << 20, ..CacheConfig::default() };
    let cache = place.cache(0, &sized(16));
    set(&cache, b"key", b"value", &StoreTerms::default());
    stop(cache, 0);
    for (after_s, mib) in [(1, 12), (2, 20), (3, 16)] {
        let cache = place.cache(after_s, &sized(mib));
        assert!(matches!(cache.found(), Found::Stopped(_)), "{mib}: {:?}", cache.found());
        assert_eq!(get(&cache, b"key").expect("kept").0, b"value");
        stop(cache, after_s);
    }
}

#[test]
fn an_index_that_grew_is_as_large_after_a_restart_though_its_keys_are_gone() {
    for crashes in [false, true] {
        let place = Place::new();
        let cache = place.cache(0, &small());
        let keys: Vec<_> = (0..20_000).map(|n| format!("key-{n}").into_bytes()).collect();
        for key in &keys {
            assert!(matches!(
                set(&cache, key, b"x", &StoreTerms::default()),
                Stored::Stored { .. }
            ));
        }
        for key in &keys {
            assert!(matches!(delete(&cache, key), Deleted::Deleted { .. }));
        }
        let slots = cache.index_slots();
        assert!(slots > keys.len());
        cache.keep_time(cache.began_at_s(), UNIX_S);
        if crashes {
            drop(cache);
        } else {
            stop(cache, 1);
        }
        assert_eq!(place.cache(1, &small()).index_slots(), slots);
    }
}

#[test]
fn time_goes_on_while_nobody_serves() {
    let (place, config) = (Place::new(), small());
    let cache = place.cache(0, &config);
    let store = |exptime| StoreTerms { exptime, ..StoreTerms::default() };
    set(&cache, b"short", b"1", &store(START_S + 5));
    set(&cache, b"long", b"2", &store(START_S + 200));
    set(&cache, b"ever", b"3", &store(0));
    stop(cache, 0);
    let cache = place.cache(11, &config);
    assert_eq!(cache.began_at_s(), START_S + 11);
    assert_eq!(kept(&cache), (2, 1, 0));
    assert_eq!(get(&cache, b"short"), None);
    assert_eq!(get(&cache, b"long"), Some((b"2".to_vec(), 0, START_S + 200)));
    drop(cache);
    // The machine's clock was set back: the cache's clock stands still, but doesn't go back.
    let cache = place.cache(-1000, &config);
    assert_eq!(cache.began_at_s(), START_S + 11);
    drop(cache);
    let cache = place.cache(1000, &config);
    assert_eq!(get(&cache, b"long"), None);
    assert!(get(&cache, b"ever").is_some());
}

#[test]
fn what_was_flushed_stays_away_and_a_flush_to_come_comes() {
    let (place, config) = (Place::new(), small());
    let cache = place.cache(0, &config);
    set(&cache, b"old", b"1", &StoreTerms::default());
    assert!(cache.handle().flush(&mut None));
    set(&cache, b"new", b"2", &StoreTerms::default());
    cache.handle().flush_at(START_S + 10);
    drop(cache);
    let cache = place.cache(2, &config);
    assert_eq!(kept(&cache), (1, 1, 0));
    assert_eq!((get(&cache, b"old"), get(&cache, b"new").is_some()), (None, true));
    cache.handle().tick(START_S + 9);
    assert!(get(&cache, b"new").is_some());
    cache.handle().tick(START_S + 10);
    assert_eq!(get(&cache, b"new"), None);
    drop(cache);
    assert_eq!(kept(&place.cache(3, &config)), (0, 1, 0));
}

#[test]
fn an_item_that_was_not_published_or_is_deleted_or_replaced_does_not_come_up() {
    let (place, config) = (Place::new(), small());
    let cache = place.cache(0, &config);
    set(&cache, b"gone", b"1", &StoreTerms::default());
    set(&cache, b"twice", b"old", &StoreTerms::default());
    set(&cache, b"twice", b"new", &StoreTerms::default());
    assert!(matches!(delete(&cache, b"gone"), Deleted::Deleted { .. }));
    {
        let handle = cache.handle();
        let key = handle.key(b"half");
        let mut half =
            handle.begin(&key, 100_000, &StoreTerms::default(), START_S).expect("it works");
        handle.room(&mut half, START_S).expect("it works").fill(7);
    }
    drop(cache);
    let cache = place.cache(0, &config);
    assert_eq!(kept(&cache), (1, 0, 0));
    assert_eq!(get(&cache, b"twice"), Some((b"new".to_vec(), 0, 0)));
    assert_eq!((get(&cache, b"half"), get(&cache, b"gone")), (None, None));
}

#[test]
fn no_unique_from_before_a_restart_matches_after_it() {
    for crashes in [false, true] {
        let (place, config) = (Place::new(), small());
        let cache = place.cache(0, &config);
        let Stored::Stored { cas, .. } = set(&cache, b"k", b"1", &StoreTerms::default()) else {
            panic!("stored")
        };
        if crashes {
            drop(cache);
        } else {
            stop(cache, 0);
        }
        let cache = place.cache(0, &config);
        for _ in 0..3 {
            set(&cache, b"k", b"2", &StoreTerms::default());
        }
        let how = StoreTerms {
            compare: Some(Compare::Equal(cas)),
            mode: Mode::Set,
            ..StoreTerms::default()
        };
        assert_eq!(set(&cache, b"k", b"3", &how), Stored::Exists);
    }
}

#[test]
fn a_file_for_other_settings_is_emptied_and_the_reason_told() {
    let others = [
        (CacheConfig { memory_bytes: 1 << 30, ..small() }, "the size of pages"),
        (CacheConfig { growth_factor: Some(1.5), ..small() }, "other slab classes"),
        (CacheConfig { eviction: Eviction::Lru, ..small() }, "another eviction policy"),
    ];
    for (other, reason) in others {
        let place = Place::new();
        let cache = place.cache(0, &small());
        set(&cache, b"k", b"v", &StoreTerms::default());
        stop(cache, 0);
        let cache = place.cache(0, &other);
        let Found::Nothing(why) = cache.found() else { panic!("kept {:?}", cache.found()) };
        assert!(why.contains(reason), "{why}");
        assert_eq!(get(&cache, b"k"), None);
        drop(cache);
        assert_eq!(kept(&place.cache(0, &other)), (0, 0, 0), "and is of the new kind from then on");
    }
}

/// Corrupts one byte of a file.
fn damage(path: &Path, at: usize) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().read(true).write(true).open(path).expect("it works");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).expect("it works");
    file.write_all_at(&[byte[0] ^ 0x10], at as u64).expect("it works");
}

#[test]
fn a_damaged_head_is_not_believed() {
    let layout = (4, "the layout's version is 1 now");
    let purpose = (9, "its head is damaged");
    let page = (4096, "its head changed since the clean stop");
    for (at, reason) in [layout, purpose, page] {
        let place = Place::new();
        let cache = place.cache(0, &small());
        set(&cache, b"k", b"v", &StoreTerms::default());
        stop(cache, 0);
        damage(&place.0, at);
        let cache = place.cache(0, &small());
        let Found::Nothing(why) = cache.found() else { panic!("kept {:?}", cache.found()) };
        assert!(why.contains(reason), "{why}");
        assert!(cache.is_empty());
    }
}

#[test]
fn files_that_are_not_ours_are_left_alone() {
    let place = Place::new();
    fs::write(&place.0, "important").expect("it works");
    let refused = place.refusal();
    assert!(refused.contains("not a memory file of Guira"), "{refused}");
    assert_eq!(fs::read_to_string(&place.0).expect("it works"), "important");
    // A file of zeroes may be a disk image, or a database that is being created.
    for content in [&[0; 4096][..], b"Gui"] {
        fs::write(&place.0, content).expect("it works");
        let refused = place.refusal();
        assert!(refused.contains("not a memory file of Guira"), "{refused}");
        assert_eq!(fs::read(&place.0).expect("it works"), content);
    }
    fs::remove_file(&place.0).expect("it works");
    fs::write(place.meta(), "").expect("it works");
    let refused = place.refusal();
    assert!(refused.contains("it is not whole"), "{refused}");
}

#[test]
fn an_empty_file_is_taken_and_so_is_one_that_a_crash_left_without_its_head() {
    let place = Place::new();
    for content in [&b""[..], b"Guir"] {
        fs::write(&place.0, content).expect("it works");
        let cache = place.cache(0, &small());
        assert_eq!(*cache.found(), Found::New);
        set(&cache, b"key", b"value", &StoreTerms::default());
    }
}

#[test]
fn a_file_that_others_can_reach_is_refused_and_stays_as_it_is() {
    let (place, other) = (Place::new(), Place::new());
    drop(other.cache(0, &small()));
    let before = fs::read(&other.0).expect("it works");
    std::os::unix::fs::symlink(&other.0, &place.0).expect("it works");
    assert!(place.refusal().contains("symbolic link"), "{}", place.refusal());
    fs::remove_file(&place.0).expect("it works");
    fs::hard_link(&other.0, &place.0).expect("it works");
    assert!(place.refusal().contains("another name"), "{}", place.refusal());
    fs::remove_file(&place.0).expect("it works");
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    fs::set_permissions(&other.0, mode(0o620)).expect("it works");
    assert!(other.refusal().contains("others may write it"), "{}", other.refusal());
    fs::set_permissions(&other.0, mode(0o600)).expect("it works");
    assert!(fs::read(&other.0).expect("it works") == before, "it was changed");
}

#[test]
fn a_mark_is_not_written_through_a_link_that_somebody_laid() {
    let (place, config) = (Place::new(), small());
    let victim = Place::new();
    fs::write(&victim.0, "important").expect("it works");
    let cache = place.cache(0, &config);
    let draft = place.0.with_extension("meta.tmp");
    fs::remove_file(&draft).expect("it is reserved at the start");
    std::os::unix::fs::symlink(&victim.0, &draft).expect("it works");
    cache.stop(START_S, UNIX_S).expect("it stops");
    assert_eq!(fs::read_to_string(&victim.0).expect("it works"), "important");
    drop(cache);
    assert!(matches!(place.cache(0, &config).found(), Found::Stopped(_)));
}

#[test]
fn an_item_that_links_a_chunk_twice_is_dropped() {
    let (place, config) = (Place::new(), small());
    let cache = place.cache(0, &config);
    let how = StoreTerms::default();
    set(&cache, b"linked twice", &[b'v'; 100_000], &how);
    set(&cache, b"linked once!", &[b'v'; 100_000], &how);
    drop(cache);
    let mut bytes = fs::read(&place.0).expect("it works");
    let key = bytes.windows(12).position(|at| at == b"linked twice").expect("it is there");
    // The links' locations follow the key, whose length is a multiple of a word.
    let first = key + 12;
    bytes.copy_within(first..first + 4, first + 4);
    fs::write(&place.0, bytes).expect("it works");
    let cache = place.cache(1, &config);
    let kept = Kept { items: 1, dead: 0, dropped: 1 };
    assert_eq!(*cache.found(), Found::Crashed(kept));
    assert!(get(&cache, b"linked twice").is_none());
    assert_eq!(get(&cache, b"linked once!").map(|(value, ..)| value), Some(vec![b'v'; 100_000]));
}

#[test]
fn a_stop_with_threads_at_work_is_no_clean_stop() {
    let (place, config) = (Place::new(), small());
    let cache = place.cache(0, &config);
    let handle = cache.handle();
    assert!(cache.stop(START_S, UNIX_S).is_err());
    drop(handle);
    drop(cache);
    assert!(matches!(place.cache(0, &config).found(), Found::Crashed(_)));
}

/// A key never holds anything but its last value, whenever the process ends, and under eviction too.
#[test]
fn random_work_between_crashes_never_shows_a_wrong_value() {
    for eviction in Eviction::ALL {
        let (place, config) =
            (Place::new(), CacheConfig { memory_bytes: 2 << 20, eviction, ..small() });
        let mut truth: HashMap<u32, Option<Vec<u8>>> = HashMap::new();
        let mut state = 42_u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            u32::try_from(state >> 33).expect("31 bits")
        };
        for round in 0..8 {
            let cache = place.cache(round, &config);
            let mut hits = 0;
            for (key, value) in &truth {
                let found = get(&cache, &key.to_le_bytes()).map(|(value, ..)| value);
                assert!(found.is_none() || found == *value, "key {key} in round {round}");
                hits += usize::from(found.is_some());
            }
            assert!(round == 0 || hits > 100, "{hits} hits in round {round} under {eviction}");
            for _ in 0..3000 {
                let key = random() % 2000;
                if random() % 8 == 0 {
                    delete(&cache, &key.to_le_bytes());
                    truth.insert(key, None);
                } else {
                    let length = if random() % 50 == 0 { 10_000 } else { random() % 900 };
                    let value = vec![byte(random() as usize); length as usize];
                    let how = StoreTerms::default();
                    if try_set(&cache, &key.to_le_bytes(), &value, &how).is_ok() {
                        truth.insert(key, Some(value));
                    }
                }
            }
            if round % 2 == 0 { drop(cache) } else { stop(cache, round) }
        }
    }
}

/// Turns in which a store retries.
const TURNS: u32 = 20;
