//! Behaviour of stores, deletes, arithmetic and expiry, with one thread.

mod flushes;
mod room;

use crate::{
    Cache, CacheConfig, Claim, Compare, Counted, Deleted, Delta, EXPIRED, Handle, Invalidate, Miss,
    Mode, NoRoom, Slabs, StoreTerms, Stored, Touched,
};

const NOW: u32 = 100;

fn small() -> Cache {
    of_bytes(if cfg!(miri) { 1 << 17 } else { 4 << 20 })
}

/// A cache that places its keys alike in each run. A page has 64 KiB, and a chunk at most 8 KiB.
fn of_bytes(memory_bytes: usize) -> Cache {
    Cache::new(&CacheConfig { memory_bytes, hash_seed: Some(7), ..CacheConfig::default() }).unwrap()
}

fn set(handle: &Handle<'_>, key: &str, value: &[u8]) -> u64 {
    store(handle, key, value, &StoreTerms::default())
}

/// Stores an item, and returns its unique.
fn store(handle: &Handle<'_>, key: &str, value: &[u8], how: &StoreTerms) -> u64 {
    match handle.store(&handle.key(key.as_bytes()), value, how, NOW) {
        Ok(Stored::Stored { cas, .. }) => cas,
        other => panic!("{key}: {other:?}"),
    }
}

fn outcome(handle: &Handle<'_>, key: &str, value: &[u8], how: &StoreTerms) -> Stored {
    handle.store(&handle.key(key.as_bytes()), value, how, NOW).unwrap()
}

fn value(handle: &Handle<'_>, key: &str) -> Result<Vec<u8>, Miss> {
    let item = handle.get(&handle.key(key.as_bytes()), NOW)?;
    assert_eq!(item.key(), key.as_bytes());
    let value = item.value_parts().collect::<Vec<_>>().concat();
    assert_eq!(value.len(), item.value_bytes());
    Ok(value)
}

/// Bytes that differ by position, so that a misplaced piece shows.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i * 31 % 251).unwrap()).collect()
}

/// Stores, ending turns until there is memory.
fn store_patiently(handle: &mut Handle<'_>, key: &[u8], value: &[u8]) {
    for _ in 0..1000 {
        match handle.store(&handle.key(key), value, &StoreTerms::default(), NOW) {
            Ok(_) => return,
            Err(NoRoom::Later) => handle.quiesce(),
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("no room after 1000 turns");
}

#[test]
fn what_is_stored_is_found_under_its_key_only() {
    let cache = small();
    let handle = cache.handle();
    set(&handle, "a", b"1");
    set(&handle, "b", b"");
    set(&handle, "a", b"2");
    assert_eq!(value(&handle, "a"), Ok(b"2".to_vec()));
    assert_eq!(value(&handle, "b"), Ok(vec![]));
    assert_eq!(value(&handle, "c"), Err(Miss::Absent));
    assert_eq!(cache.len(), 2);
}

#[test]
fn a_key_of_16_and_a_value_of_32_bytes_take_one_chunk_of_52() {
    let cache = small();
    let handle = cache.handle();
    set(&handle, "0123456789abcdef", &[1; 32]);
    let item = handle.get(&handle.key(b"0123456789abcdef"), NOW).unwrap();
    assert_eq!(item.bytes(), 52);
    assert_eq!(cache.class_stats(item.class()).chunk_bytes, 52);
}

#[test]
fn each_mode_stores_under_its_condition_only() {
    let cache = small();
    let handle = cache.handle();
    let how = |mode| StoreTerms { mode, client_flags: 9, ..StoreTerms::default() };
    assert_eq!(outcome(&handle, "k", b"x", &how(Mode::Replace)), Stored::NotStored);
    assert_eq!(outcome(&handle, "k", b"x", &how(Mode::Append)), Stored::NotStored);
    assert!(matches!(outcome(&handle, "k", b"b", &how(Mode::Add)), Stored::Stored { .. }));
    assert_eq!(outcome(&handle, "k", b"x", &how(Mode::Add)), Stored::NotStored);
    let plain = |mode| StoreTerms { mode, ..StoreTerms::default() };
    assert!(matches!(
        outcome(&handle, "k", b"c", &plain(Mode::Append)),
        Stored::Stored { value_bytes: 2, .. }
    ));
    store(&handle, "k", b"a", &plain(Mode::Prepend));
    assert_eq!(value(&handle, "k"), Ok(b"abc".to_vec()));
    let item = handle.get(&handle.key(b"k"), NOW).unwrap();
    assert_eq!(item.client_flags(), 9, "append and prepend keep the old flags");
    store(&handle, "k", b"z", &plain(Mode::Replace));
    assert_eq!(value(&handle, "k"), Ok(b"z".to_vec()));
}

#[test]
fn an_append_of_nothing_is_a_change_of_an_item_that_is_there() {
    let cache = small();
    let handle = cache.handle();
    for mode in [Mode::Append, Mode::Prepend] {
        let how = StoreTerms { mode, ..StoreTerms::default() };
        let with = |cas| StoreTerms { compare: Some(Compare::Equal(cas)), ..how };
        assert_eq!(outcome(&handle, "none", b"", &how), Stored::NotStored);
        assert_eq!(outcome(&handle, "none", b"", &with(1)), Stored::NotFound);
        let before = set(&handle, "k", b"abc");
        let after = outcome(&handle, "k", b"", &how);
        let Stored::Stored { cas, value_bytes: 3, .. } = after else { panic!("{after:?}") };
        assert!(cas > before && cas == handle.cas_unique(&handle.key(b"k")));
        assert_eq!(outcome(&handle, "k", b"", &with(before)), Stored::Exists);
        assert!(store(&handle, "k", b"", &with(cas)) > cas);
        assert_eq!(value(&handle, "k"), Ok(b"abc".to_vec()));
        // A unique that the item holds itself is replaced by one of the stripe.
        let explicit = StoreTerms { explicit_cas: Some(5), ..StoreTerms::default() };
        store(&handle, "k", b"abc", &explicit);
        store(&handle, "k", b"", &how);
        assert_eq!(outcome(&handle, "k", b"", &with(5)), Stored::Exists);
        let expired = StoreTerms { exptime: EXPIRED, ..StoreTerms::default() };
        store(&handle, "k", b"abc", &expired);
        assert_eq!(outcome(&handle, "k", b"", &how), Stored::NotStored);
        let vivifying = StoreTerms { vivify: Some(0), ..how };
        store(&handle, "k", b"", &vivifying);
        assert_eq!(value(&handle, "k"), Ok(vec![]));
    }
}

#[test]
fn cas_stores_only_on_the_present_unique() {
    let cache = small();
    let handle = cache.handle();
    let with = |cas| StoreTerms { compare: Some(Compare::Equal(cas)), ..StoreTerms::default() };
    assert_eq!(outcome(&handle, "k", b"x", &with(1)), Stored::NotFound);
    let first = set(&handle, "k", b"1");
    assert_eq!(handle.cas_unique(&handle.key(b"k")), first);
    let second = store(&handle, "k", b"2", &with(first));
    assert!(second > first);
    assert_eq!(outcome(&handle, "k", b"3", &with(first)), Stored::Exists);
    assert_eq!(value(&handle, "k"), Ok(b"2".to_vec()));
    assert_eq!(handle.delete(&handle.key(b"k"), Some(first), NOW), Deleted::Exists);
    assert!(matches!(handle.delete(&handle.key(b"k"), Some(second), NOW), Deleted::Deleted { .. }));
    set(&handle, "k", b"4");
    assert_eq!(
        outcome(&handle, "k", b"5", &with(second)),
        Stored::Exists,
        "a new life, a new unique"
    );
}

#[test]
fn an_explicit_unique_is_kept_and_an_older_one_stores_as_stale() {
    let cache = small();
    let handle = cache.handle();
    let key = handle.key(b"k");
    let explicit =
        StoreTerms { explicit_cas: Some(1 << 40 | 5), exptime: 500, ..StoreTerms::default() };
    assert_eq!(store(&handle, "k", b"1", &explicit), 1 << 40 | 5);
    let item = handle.get(&key, NOW).unwrap();
    assert_eq!(handle.cas_of(&item, handle.cas_unique(&key)), 1 << 40 | 5);
    let older = StoreTerms { compare: Some(Compare::EqualOrOlder(7)), ..StoreTerms::default() };
    store(&handle, "k", b"2", &older);
    let item = handle.get_withheld(&key, NOW).unwrap();
    assert!(item.is_stale() && item.is_won() == Some(false));
    assert_eq!(item.exptime(), 500, "a stale store keeps the expiry");
}

#[test]
fn values_of_every_size_come_back_whole() {
    let cache = small();
    let mut handle = cache.handle();
    let sizes: &[usize] = if cfg!(miri) {
        &[0, 254, 255, 8_000, 9_000, 20_000]
    } else {
        &[0, 1, 254, 255, 256, 4_000, 8_100, 8_180, 8_192, 8_200, 20_000, 100_000, 1_000_000]
    };
    for &size in sizes {
        let expected = pattern(size);
        store_patiently(&mut handle, b"large", &expected);
        assert_eq!(value(&handle, "large"), Ok(expected), "{size}");
    }
}

#[test]
fn an_item_is_gone_in_its_expiry_second_and_a_touch_moves_it() {
    let cache = small();
    let handle = cache.handle();
    let key = handle.key(b"k");
    store(&handle, "k", b"v", &StoreTerms { exptime: 110, ..StoreTerms::default() });
    assert!(handle.get(&key, 109).is_ok());
    assert!(matches!(handle.touch(&key, 120, 109), Touched::Touched(_)));
    assert!(handle.get(&key, 119).is_ok());
    assert_eq!(handle.get(&key, 120).unwrap_err(), Miss::Expired);
    set(&handle, "k", b"w");
    assert!(matches!(handle.touch(&key, 130, 120), Touched::Touched(_)), "an item without expiry");
    assert_eq!(handle.get(&key, 129).unwrap().value(), Some(&b"w"[..]));
    assert!(matches!(handle.touch(&key, 140, 130), Touched::Miss(Miss::Expired)));
    set(&handle, "k", b"x");
    assert!(matches!(handle.touch(&key, EXPIRED, 120), Touched::Touched(_)));
    assert_eq!(handle.get(&key, 120).unwrap_err(), Miss::Expired);
    store(&handle, "dead", b"", &StoreTerms { exptime: EXPIRED, ..StoreTerms::default() });
    assert_eq!(value(&handle, "dead"), Err(Miss::Expired));
    let add = StoreTerms { mode: Mode::Add, ..StoreTerms::default() };
    assert!(matches!(outcome(&handle, "dead", b"1", &add), Stored::Stored { .. }));
}

#[test]
fn numbers_wrap_upwards_stop_downwards_and_keep_their_width() {
    let cache = small();
    let handle = cache.handle();
    let key = handle.key(b"n");
    let what = |delta, down| Delta { delta, down, ..Delta::default() };
    let number = |counted| match counted {
        Ok(Counted::Number { number, .. }) => number,
        other => panic!("{other:?}"),
    };
    assert_eq!(handle.arithmetic(&key, &what(1, false), NOW), Ok(Counted::NotFound));
    set(&handle, "n", b"10");
    assert_eq!(number(handle.arithmetic(&key, &what(1, true), NOW)), 9);
    assert_eq!(value(&handle, "n"), Ok(b"9 ".to_vec()));
    assert_eq!(number(handle.arithmetic(&key, &what(100, true), NOW)), 0);
    set(&handle, "n", b"18446744073709551615");
    assert_eq!(number(handle.arithmetic(&key, &what(2, false), NOW)), 1);
    set(&handle, "n", b"none");
    assert_eq!(handle.arithmetic(&key, &what(1, false), NOW), Ok(Counted::NonNumeric));
    let created = Delta { initial: Some((5, 200)), ..what(1, false) };
    assert_eq!(number(handle.arithmetic(&handle.key(b"new"), &created, NOW)), 5);
    assert_eq!(number(handle.arithmetic(&handle.key(b"new"), &created, NOW)), 6);
}

#[test]
fn a_stale_item_has_one_winner() {
    let cache = small();
    let handle = cache.handle();
    let key = handle.key(b"k");
    let before = set(&handle, "k", b"v");
    let stale = Invalidate { stale: true, exptime: Some(300), ..Invalidate::default() };
    assert!(matches!(handle.invalidate(&key, &stale, NOW), Ok(Deleted::Deleted { .. })));
    assert!(handle.cas_unique(&key) > before);
    assert!(handle.get(&key, NOW).is_err(), "withheld from who knows no leases");
    let item = handle.get_withheld(&key, NOW).unwrap();
    assert!(item.is_stale() && item.exptime() == 300);
    assert_eq!((item.claim(), item.claim()), (Claim::Won, Claim::Taken));
    assert!(matches!(handle.invalidate(&key, &stale, NOW), Ok(Deleted::Deleted { .. })));
    let marked = handle.get_withheld(&key, NOW).unwrap();
    assert_eq!(marked.is_won(), Some(false), "a new mark, a new winner");
    let empty = Invalidate { empty: true, ..Invalidate::default() };
    let unique = handle.cas_unique(&key);
    assert!(matches!(handle.invalidate(&key, &empty, NOW), Ok(Deleted::Deleted { .. })));
    assert_eq!(handle.cas_unique(&key), unique);
    assert_eq!(handle.get_withheld(&key, NOW).unwrap().value_bytes(), 0);
}

/// Regression test: a number padded with spaces beyond 65,535 bytes made the formatting machinery panic. The number
/// must be in one chunk; memcached's classes have large chunks even with little memory.
#[test]
fn a_number_keeps_any_width() {
    let slabs = Slabs::Memcached { chunk_bytes_max: 1 << 19 };
    let memory_bytes = 4 << 20;
    let cache = Cache::new(&CacheConfig { memory_bytes, slabs, ..CacheConfig::default() }).unwrap();
    let handle = cache.handle();
    let mut wide = vec![b' '; 70_000];
    wide[0] = b'5';
    set(&handle, "n", &wide);
    let up = Delta { delta: 1, ..Delta::default() };
    let counted = handle.arithmetic(&handle.key(b"n"), &up, NOW);
    assert!(matches!(counted, Ok(Counted::Number { number: 6, .. })));
    wide[0] = b'6';
    assert!(value(&handle, "n") == Ok(wide), "six, and its spaces");
}

/// Regression test: the copy that a touch makes had a field for a unique but did not write it, so it held bytes of
/// another item.
#[test]
fn a_touch_keeps_an_explicit_unique() {
    let cache = small();
    let handle = cache.handle();
    let key = handle.key(b"k");
    store(&handle, "k", b"v", &StoreTerms { explicit_cas: Some(100), ..StoreTerms::default() });
    assert!(matches!(handle.touch(&key, 500, NOW), Touched::Touched(_)));
    let item = handle.get(&key, NOW).unwrap();
    assert_eq!((item.exptime(), handle.cas_of(&item, 7)), (500, 100));
}

#[test]
fn what_a_short_request_has_copied_or_read_is_counted_and_what_its_client_sent_is_not() {
    // Each chunk size has a page of its own, so that no store has to wait for one.
    let cache = of_bytes(if cfg!(miri) { 1 << 19 } else { 4 << 20 });
    let handle = cache.handle();
    let bytes = if cfg!(miri) { 3_000 } else { 300_000 };
    set(&handle, "k", &vec![b'v'; bytes]);
    set(&handle, "n", &[&b"7"[..], &vec![b' '; 1000]].concat());
    assert!(handle.get(&handle.key(b"k"), NOW).is_ok());
    assert_eq!(handle.take_moved(), 0, "a set and a get");
    let append = StoreTerms { mode: Mode::Append, ..StoreTerms::default() };
    assert!(matches!(outcome(&handle, "k", b"xy", &append), Stored::Stored { .. }));
    assert_eq!(handle.take_moved(), bytes + 2, "an append");
    assert!(matches!(outcome(&handle, "k", b"", &append), Stored::Stored { .. }));
    assert_eq!(handle.take_moved(), 0, "an append of nothing");
    let stale = Invalidate { stale: true, explicit_cas: Some(9), ..Invalidate::default() };
    assert!(handle.invalidate(&handle.key(b"k"), &stale, NOW).is_ok());
    assert_eq!(handle.take_moved(), bytes + 2, "a mark for which a copy is made");
    assert!(matches!(handle.touch_withheld(&handle.key(b"k"), 0, NOW), Touched::Touched(_)));
    assert_eq!(handle.take_moved(), 0, "a touch that finds room");
    let one = Delta { delta: 1, ..Delta::default() };
    assert!(handle.arithmetic(&handle.key(b"n"), &one, NOW).is_ok());
    assert_eq!((handle.moved(), handle.take_moved()), (1001, 1001), "a number with spaces");
    handle.digest(&handle.peek(&handle.key(b"k"), NOW).unwrap());
    assert_eq!(handle.take_moved(), bytes + 2, "a digest");
}
