//! Several threads on one small cache that evicts all the time. A value that a reader gets is complete, belongs to
//! its key, and is no older than the last acknowledged one.

use guira_cache::{
    Cache, CacheConfig, ClassCounter, Compare, Counted, Deleted, Delta, Handle, Mode, NoRoom,
    StoreTerms, Stored,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

const NOW: u32 = 100;
const ROUNDS: u64 = if cfg!(miri) { 40 } else { 60_000 };

fn at(n: u64) -> usize {
    usize::try_from(n).expect("a small number")
}

fn cache(memory_bytes: usize) -> Cache {
    Cache::new(&CacheConfig { memory_bytes, ..CacheConfig::default() }).expect("a small mapping")
}

/// Retries, ending turns until there is memory.
fn patiently<T>(handle: &mut Handle<'_>, attempt: impl Fn(&Handle<'_>) -> Result<T, NoRoom>) -> T {
    for _ in 0..1_000_000 {
        match attempt(handle) {
            Ok(done) => return done,
            Err(NoRoom::Later) => {
                handle.quiesce();
                thread::yield_now();
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the memory never came");
}

/// A value, of one of four sizes, that contains its key and sequence number throughout.
fn value(key: u64, sequence: u64) -> Vec<u8> {
    let words = [2, 3, 20, 60][at((key + sequence) % 4)];
    (0..words).flat_map(|word| [key, sequence, word].map(u64::to_le_bytes).concat()).collect()
}

/// The sequence number in a value. The value must be complete and of this key.
fn sequence_of(key: u64, bytes: &[u8]) -> u64 {
    let sequence = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    assert_eq!(bytes, value(key, sequence), "a torn value, or one of another key");
    sequence
}

#[test]
fn a_get_returns_a_whole_value_no_older_than_the_last_acknowledged_one() {
    const KEYS: u64 = if cfg!(miri) { 6 } else { 3_000 };
    let cache = cache(if cfg!(miri) { 1 << 19 } else { 1 << 20 });
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let name = |key: u64| format!("key-{key}");
    thread::scope(|scope| {
        for writer in 0..2u64 {
            let (cache, acknowledged) = (&cache, &acknowledged);
            let running = scope.spawn(move || {
                let mut handle = cache.handle();
                for round in 0..ROUNDS {
                    let key = (round * 2 + writer) % KEYS; // each key has one writer
                    let sequence = acknowledged[at(key)].load(SeqCst) + 1;
                    let bytes = value(key, sequence);
                    patiently(&mut handle, |handle| {
                        let key = name(key);
                        handle.store(
                            &handle.key(key.as_bytes()),
                            &bytes,
                            &StoreTerms::default(),
                            NOW,
                        )
                    });
                    acknowledged[at(key)].store(sequence, SeqCst);
                    if round % 5 == 0 {
                        let gone = name(key);
                        handle.delete(&handle.key(gone.as_bytes()), None, NOW);
                    }
                    handle.quiesce();
                }
            });
            let stop = &stop;
            scope.spawn(move || {
                running.join().unwrap();
                stop.store(true, SeqCst);
            });
        }
        for reader in 0..2u64 {
            let (cache, acknowledged, stop) = (&cache, &acknowledged, &stop);
            scope.spawn(move || {
                let mut handle = cache.handle();
                let mut key = reader;
                while !stop.load(SeqCst) {
                    key = (key * 31 + 7) % KEYS;
                    let before = acknowledged[at(key)].load(SeqCst);
                    let name = name(key);
                    if let Ok(item) = handle.get(&handle.key(name.as_bytes()), NOW) {
                        let sequence = sequence_of(key, item.value().unwrap());
                        assert!(sequence >= before, "{sequence} read, {before} acknowledged");
                    }
                    handle.quiesce();
                }
            });
        }
    });
}

#[test]
fn no_increment_and_no_append_is_lost_or_doubled() {
    const THREADS: u64 = 3;
    let cache = cache(if cfg!(miri) { 4 << 20 } else { 64 << 20 });
    let rounds = ROUNDS / 20;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut handle = cache.handle();
                for _ in 0..rounds {
                    let up = Delta { delta: 1, initial: Some((1, 0)), ..Delta::default() };
                    patiently(&mut handle, |h| h.arithmetic(&h.key(b"count"), &up, NOW));
                    let how =
                        StoreTerms { mode: Mode::Append, vivify: Some(0), ..StoreTerms::default() };
                    patiently(&mut handle, |h| h.store(&h.key(b"list"), b"+", &how, NOW));
                    handle.quiesce();
                }
            });
        }
    });
    let handle = cache.handle();
    let count = handle.get(&handle.key(b"count"), NOW).unwrap();
    assert_eq!(count.value().unwrap(), (THREADS * rounds).to_string().as_bytes());
    let list = handle.get(&handle.key(b"list"), NOW).unwrap();
    assert_eq!(cache.totals().all(ClassCounter::Evicted), 0, "the cache is large enough");
    assert_eq!(list.value_bytes() as u64, THREADS * rounds);
}

#[test]
fn of_those_who_read_one_unique_one_stores() {
    let cache = cache(1 << 20);
    let wins = AtomicU64::new(0);
    let rounds = ROUNDS / 20;
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut handle = cache.handle();
                for _ in 0..rounds {
                    let key = handle.key(b"cell");
                    let unique = handle.cas_unique(&key);
                    let step = match handle.get(&key, NOW) {
                        Ok(item) => {
                            let text = std::str::from_utf8(item.value().unwrap()).unwrap();
                            (text.parse::<u64>().unwrap() + 1).to_string()
                        }
                        Err(_) => "1".to_string(),
                    };
                    let present = step != "1";
                    let how = StoreTerms {
                        mode: if present { Mode::Set } else { Mode::Add },
                        compare: present.then_some(Compare::Equal(unique)),
                        ..StoreTerms::default()
                    };
                    let stored = handle.store(&key, step.as_bytes(), &how, NOW);
                    if matches!(stored, Ok(Stored::Stored { .. })) {
                        wins.fetch_add(1, SeqCst);
                    }
                    handle.quiesce();
                }
            });
        }
    });
    let handle = cache.handle();
    let cell = handle.get(&handle.key(b"cell"), NOW).unwrap();
    assert_eq!(cell.value().unwrap(), wins.load(SeqCst).to_string().as_bytes());
    assert!(wins.load(SeqCst) >= rounds, "at least each round's first contender wins");
}

#[test]
fn chained_values_flushes_and_stolen_pages_keep_every_value_whole() {
    let cache = cache(if cfg!(miri) { 1 << 19 } else { 2 << 20 });
    let large = if cfg!(miri) { 20_000 } else { 100_000 };
    thread::scope(|scope| {
        for thread in 0..3u8 {
            let cache = &cache;
            scope.spawn(move || {
                let mut handle = cache.handle();
                for round in 0..ROUNDS / 60 {
                    let size = [40, 300, 9_000, large][at(round % 4)] + usize::from(thread);
                    let bytes = vec![thread + 1; size];
                    patiently(&mut handle, |handle| {
                        let name = format!("{}", round % 50);
                        handle.store(
                            &handle.key(name.as_bytes()),
                            &bytes,
                            &StoreTerms::default(),
                            NOW,
                        )
                    });
                    if thread == 0 && round % 100 == 99 {
                        handle.flush(&mut None);
                    }
                    let name = format!("{}", (round * 7) % 50);
                    if let Ok(item) = handle.get(&handle.key(name.as_bytes()), NOW) {
                        let whole = item.value_parts().collect::<Vec<_>>().concat();
                        assert!(whole == vec![whole[0]; whole.len()], "pieces of two values");
                        assert_eq!(whole.len(), item.value_bytes());
                    }
                    if round % 11 == 0 {
                        let gone = handle.delete(&handle.key(name.as_bytes()), None, NOW);
                        assert_ne!(gone, Deleted::Exists);
                    }
                    handle.quiesce();
                }
            });
        }
        scope.spawn(|| {
            let mut sweeper = cache.sweeper();
            for _ in 0..ROUNDS / 10 {
                sweeper.step(NOW);
            }
        });
    });
    let counted = cache.handle().arithmetic(&cache.handle().key(b"none"), &Delta::default(), NOW);
    assert_eq!(counted, Ok(Counted::NotFound));
}
