//! A command voids a key's lease token if it changes the key, and only then.

use super::Leased;
use crate::{Cache, CacheConfig, Deleted, Handle, Key, LeaseTerms, Mode, StoreTerms, Stored};

const KEY: &[u8] = b"key";

fn small() -> Cache {
    let memory_bytes = if cfg!(miri) { 1 << 17 } else { 4 << 20 };
    let leases = LeaseTerms { keys_max: 64, ..LeaseTerms::default() };
    Cache::new(&CacheConfig { memory_bytes, leases, ..CacheConfig::default() })
        .expect("a small cache")
}

/// A command and its name.
type Command = (&'static str, fn(&Handle<'_>, &Key<'_>));

/// A unique that no item has.
const NO_UNIQUE: u64 = 1 << 62;

fn storing(mode: Mode, compare: Option<u64>) -> StoreTerms {
    StoreTerms { mode, compare: compare.map(crate::Compare::Equal), ..StoreTerms::default() }
}

/// Commands that are refused both where there is no value and where there is a stale one.
const REFUSED: &[Command] = &[
    ("cas", |handle, key| {
        let how = storing(Mode::Set, Some(NO_UNIQUE));
        let stored = handle.store(key, b"1", &how, 100).unwrap();
        assert!(matches!(stored, Stored::NotFound | Stored::Exists), "{stored:?}");
    }),
    ("replace", |handle, key| {
        let how = storing(Mode::Replace, None);
        assert_eq!(handle.store(key, b"1", &how, 100), Ok(Stored::NotStored));
    }),
    ("append", |handle, key| {
        let how = storing(Mode::Append, None);
        assert_eq!(handle.store(key, b"1", &how, 100), Ok(Stored::NotStored));
    }),
    ("incr", |handle, key| {
        let counted = handle.arithmetic(key, &crate::Delta::default(), 100);
        assert_eq!(counted, Ok(crate::Counted::NotFound));
    }),
    ("add of a key that is held off", |handle, key| {
        handle.actor.features.holdoff.lay(key.hash, 200, 100);
        let how = StoreTerms { may_be_held_off: true, ..storing(Mode::Add, None) };
        assert_eq!(handle.store(key, b"1", &how, 100), Ok(Stored::NotStored));
    }),
];

/// Commands that are refused where there is a stale value.
const REFUSED_BY_STALE: &[Command] = &[
    ("delete of another unique", |handle, key| {
        assert_eq!(handle.delete(key, Some(NO_UNIQUE), 100), Deleted::Exists);
    }),
    ("stale mark of another unique", |handle, key| {
        let compare = Some(NO_UNIQUE);
        let what = crate::Invalidate { stale: true, compare, ..Default::default() };
        assert_eq!(handle.invalidate(key, &what, 100), Ok(Deleted::Exists));
    }),
];

#[test]
fn a_command_that_changes_nothing_leaves_the_token_good() {
    for is_stale in [false, true] {
        let of_stale = if is_stale { REFUSED_BY_STALE } else { &[] };
        for (name, refused) in REFUSED.iter().chain(of_stale) {
            let cache = small();
            let handle = cache.handle();
            let key = handle.key(KEY);
            if is_stale {
                handle.store(&key, b"0", &StoreTerms::default(), 100).unwrap();
                let what = crate::Invalidate { stale: true, ..Default::default() };
                handle.invalidate(&key, &what, 100).unwrap();
            }
            let Leased::Granted { token, .. } = handle.lease_get(&key, 100) else {
                panic!("{name}: the first who misses gets a token")
            };
            refused(&handle, &key);
            let stored =
                handle.lease_store(&key, b"2", (&StoreTerms::default(), token), 100).unwrap();
            assert!(matches!(stored, Stored::Stored { .. }), "{name}, {is_stale}: {stored:?}");
        }
    }
}

#[test]
fn a_conditional_command_that_changes_the_key_voids_the_token() {
    let changes: &[Command] = &[
        ("add", |handle, key| {
            handle.store(key, b"1", &storing(Mode::Add, None), 100).unwrap();
        }),
        ("incr that creates", |handle, key| {
            let what = crate::Delta { initial: Some((1, 0)), ..Default::default() };
            handle.arithmetic(key, &what, 100).unwrap();
        }),
        ("delete of nothing with a unique", |handle, key| {
            assert_eq!(handle.delete(key, Some(1), 100), Deleted::NotFound);
        }),
        ("append that creates", |handle, key| {
            let how = StoreTerms { vivify: Some(0), ..storing(Mode::Append, None) };
            handle.store(key, b"1", &how, 100).unwrap();
        }),
    ];
    for (name, change) in changes {
        let cache = small();
        let handle = cache.handle();
        let key = handle.key(KEY);
        let Leased::Granted { token, .. } = handle.lease_get(&key, 100) else {
            panic!("{name}: the first who misses gets a token")
        };
        change(&handle, &key);
        handle.delete(&key, Some(NO_UNIQUE), 100);
        let before = handle.get(&key, 100).ok().map(|item| item.value().map(<[u8]>::to_vec));
        let _ = handle.lease_store(&key, b"2", (&StoreTerms::default(), token), 100).unwrap();
        let after = handle.get(&key, 100).ok().map(|item| item.value().map(<[u8]>::to_vec));
        assert_eq!(after, before, "{name}: a late value is not stored");
    }
}
