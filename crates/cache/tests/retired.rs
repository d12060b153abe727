//! Large values rewritten while a reader stays in its turn: retired chunks remain a share of the cache, and displace
//! no items.

use guira_cache::{
    Cache, CacheConfig, ClassCounter, Compare, Delta, Handle, Mode, NoRoom, StoreTerms, Touched,
};
use guira_index::IndexKind;

const NOW: u32 = 100;
const LARGE_BYTES: usize = if cfg!(miri) { 100_000 } else { 900_000 };
const MEMORY_BYTES: usize = if cfg!(miri) { 4 << 20 } else { 24 << 20 };
/// Bytes of a value that fits one chunk.
const CHUNK_BYTES: usize = 7500;
const TOUCHED: usize = if cfg!(miri) { 150 } else { 250 };
/// Bytes that may be retired before stores of large values wait.
const SHARE_BYTES: usize = if MEMORY_BYTES / 16 > 1 << 20 { MEMORY_BYTES / 16 } else { 1 << 20 };

/// One change of the large value, given the number of changes before.
type Change = fn(&Handle<'_>, u32) -> Result<(), NoRoom>;

fn store(handle: &Handle<'_>, value: &[u8], how: &StoreTerms) -> Result<(), NoRoom> {
    handle.store(&handle.key(b"large"), value, how, NOW).map(|_| ())
}

fn set(handle: &Handle<'_>, _: u32) -> Result<(), NoRoom> {
    store(handle, &vec![b'1'; LARGE_BYTES], &StoreTerms::default())
}

fn cas(handle: &Handle<'_>, _: u32) -> Result<(), NoRoom> {
    let unique = handle.cas_unique(&handle.key(b"large"));
    let compare = Some(Compare::Equal(unique));
    store(handle, &vec![b'1'; LARGE_BYTES], &StoreTerms { compare, ..StoreTerms::default() })
}

fn append(handle: &Handle<'_>, _: u32) -> Result<(), NoRoom> {
    store(handle, b"+", &StoreTerms { mode: Mode::Append, ..StoreTerms::default() })
}

fn prepend(handle: &Handle<'_>, _: u32) -> Result<(), NoRoom> {
    store(handle, b"+", &StoreTerms { mode: Mode::Prepend, ..StoreTerms::default() })
}

/// Increments a number in one chunk: a chained value is not a number.
fn count(handle: &Handle<'_>, _: u32) -> Result<(), NoRoom> {
    let one = Delta { delta: 1, ..Delta::default() };
    handle.arithmetic(&handle.key(b"number"), &one, NOW).map(|_| ())
}

/// Touches an item in one chunk for the first time, for which it has no field.
fn touch(handle: &Handle<'_>, n: u32) -> Result<(), NoRoom> {
    match handle.touch(&handle.key(format!("touched{n}").as_bytes()), NOW + 1000, NOW) {
        Touched::NoRoom(no_room) => Err(no_room),
        Touched::Touched(_) => Ok(()),
        Touched::Miss(_) => panic!("it was there"),
    }
}

/// How often `change` succeeds, of 300 attempts made as a worker makes them, while a reader stays in its turn.
fn succeeds(cache: &Cache, change: Change) -> u32 {
    let mut handle = cache.handle();
    let mut reader = cache.handle();
    let mut done = 0;
    for round in 0..300 {
        match change(&handle, done) {
            Ok(()) => done += 1,
            Err(NoRoom::Later) => {}
            Err(other) => panic!("{other:?}"),
        }
        // A worker without other work sleeps, and leaves its retired chunks to other threads.
        if round % 2 == 0 { handle.quiesce() } else { handle.asleep(|| ()) }
    }
    reader.quiesce();
    handle.quiesce();
    assert_eq!(change(&handle, done), Ok(()), "once the reader is gone");
    done
}

fn fill(cache: &Cache) -> usize {
    let mut handle = cache.handle();
    let mut put = |key: &str, value: &[u8]| {
        let stored = handle.store(&handle.key(key.as_bytes()), value, &StoreTerms::default(), NOW);
        assert!(stored.is_ok(), "{key}: {stored:?}");
        handle.quiesce();
    };
    put("large", &vec![b'1'; LARGE_BYTES]);
    put("number", &[&b"7"[..], &[b' '; CHUNK_BYTES]].concat());
    (0..TOUCHED).for_each(|n| put(&format!("touched{n}"), &[b't'; CHUNK_BYTES]));
    (0..MEMORY_BYTES / 4000).for_each(|n| put(&format!("small{n}"), &[b's'; 100]));
    cache.len()
}

#[test]
fn while_a_reader_lingers_rewriting_waits_and_evicts_nobody() {
    let kinds: &[IndexKind] = if cfg!(miri) { &[IndexKind::Cuckoo] } else { &IndexKind::ALL };
    let changes: [(&str, Change, usize); 6] = [
        ("set", set, LARGE_BYTES),
        ("cas", cas, LARGE_BYTES),
        ("append", append, LARGE_BYTES),
        ("prepend", prepend, LARGE_BYTES),
        ("incr", count, CHUNK_BYTES),
        ("touch", touch, CHUNK_BYTES),
    ];
    for &index in kinds {
        for (name, change, bytes) in changes {
            let config =
                CacheConfig { memory_bytes: MEMORY_BYTES, index, ..CacheConfig::default() };
            let cache = Cache::new(&config).expect("a small mapping");
            let items = fill(&cache);
            let done = succeeds(&cache, change) as usize;
            assert_eq!(cache.totals().all(ClassCounter::Evicted), 0, "{name} with {index:?}");
            assert_eq!(cache.len(), items, "{name} with {index:?}");
            let allowed = SHARE_BYTES / bytes + 2;
            assert!((1..=allowed.min(300)).contains(&done), "{name}: {done} of {allowed}");
        }
    }
}

#[test]
fn who_has_waited_long_enough_waits_no_more() {
    let cache = Cache::new(&CacheConfig { memory_bytes: MEMORY_BYTES, ..CacheConfig::default() });
    let cache = cache.expect("a small mapping");
    fill(&cache);
    let (handle, _reader) = (cache.handle(), cache.handle());
    while append(&handle, 0).is_ok() {}
    handle.hurry(true);
    assert_eq!(append(&handle, 0), Ok(()));
    handle.hurry(false);
    assert_eq!(append(&handle, 0), Err(NoRoom::Later));
    // Stores of small values never wait.
    assert!(handle.store(&handle.key(b"little"), b"x", &StoreTerms::default(), NOW).is_ok());
}
