//! Pages that move between slab classes: their items are kept where there is room, and nothing else changes.

use guira_cache::{
    Automove, Cache, CacheConfig, ClassCounter, Eviction, Handle, StoreTerms, Stored, Sweeper,
    Touched, Unmoved,
};
use std::sync::atomic::{AtomicBool, Ordering};

const NOW: u32 = 100;
const VALUE_BYTES: usize = 1000;

fn cache(memory_bytes: usize, eviction: Eviction) -> Cache {
    let config =
        CacheConfig { memory_bytes, eviction, hash_seed: Some(7), ..CacheConfig::default() };
    Cache::new(&config).expect("a small cache")
}

/// Stores an item, ending turns until there is memory. Returns its unique and class.
fn set(handle: &mut Handle<'_>, n: usize, value: &[u8], how: &StoreTerms) -> (u64, usize) {
    let name = name(n);
    loop {
        match handle.store(&handle.key(name.as_bytes()), value, how, NOW) {
            Ok(Stored::Stored { cas, class, .. }) => return (cas, class),
            Ok(other) => panic!("{other:?}"),
            Err(_) => handle.quiesce(),
        }
    }
}

fn name(n: usize) -> String {
    format!("key-{n:07}")
}

/// A value that differs by key, and by position.
fn value(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((n * 7 + at * 31) % 251).expect("below 251")).collect()
}

fn read(handle: &Handle<'_>, n: usize) -> Option<Vec<u8>> {
    let name = name(n);
    let item = handle.get(&handle.key(name.as_bytes()), NOW).ok()?;
    Some(item.value_parts().collect::<Vec<_>>().concat())
}

/// Steps the sweeper until the requested page has moved, or the move was called off.
fn finish(cache: &Cache, handle: &mut Handle<'_>, sweeper: &mut Sweeper<'_>) {
    sweeper.step(NOW);
    for _ in 0..10_000 {
        handle.quiesce();
        sweeper.step(NOW);
        if !cache.moves().is_running {
            return;
        }
    }
    panic!("the move doesn't end: {:?}", cache.moves());
}

#[test]
fn an_item_that_moves_keeps_its_value_its_unique_and_its_expiry() {
    let cache = cache(4 << 20, Eviction::default());
    let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
    let how = StoreTerms { client_flags: 77, exptime: 500, ..StoreTerms::default() };
    let count = 3 * (cache.page_bytes() / (VALUE_BYTES + 64));
    let mut class = 0;
    for n in 0..count {
        class = set(&mut handle, n, &value(n, VALUE_BYTES), &how).1;
    }
    let (from, to) = (cache.class_stats(class), class + 3);
    // Frees a page's worth of chunks, spread over the pages.
    for n in (0..count).step_by(2) {
        handle.delete(&handle.key(name(n).as_bytes()), None, NOW);
    }
    handle.quiesce();
    let unique = |n| handle.cas_unique(&handle.key(name(n).as_bytes()));
    let uniques: Vec<u64> = (0..count).map(unique).collect();
    cache.reassign(Some(class), Some(to)).unwrap();
    finish(&cache, &mut handle, &mut sweeper);
    let moves = cache.moves();
    assert_eq!((moves.pages, moves.evicted, moves.no_room), (1, 0, 0), "{moves:?}");
    assert!(moves.items > 0, "{moves:?}");
    assert_eq!(cache.class_stats(class).pages, from.pages - 1);
    assert_eq!(cache.class_stats(to).pages, 1);
    for n in (1..count).step_by(2) {
        assert_eq!(read(&handle, n), Some(value(n, VALUE_BYTES)), "{n}");
        let name = name(n);
        let key = handle.key(name.as_bytes());
        let item = handle.peek(&key, NOW).unwrap();
        assert_eq!((item.client_flags(), item.exptime()), (77, 500));
        assert_eq!(handle.cas_unique(&key), uniques[n]);
    }
    assert_eq!(cache.totals().all(ClassCounter::Items), (count / 2) as u64);
}

#[test]
fn a_full_class_loses_a_pages_worth_of_items_to_a_move_and_not_more() {
    for eviction in Eviction::ALL {
        let cache = cache(2 << 20, eviction);
        let mut handle = cache.handle();
        let mut class = 0;
        for n in 0..4000 {
            class = set(&mut handle, n, &value(n, VALUE_BYTES), &StoreTerms::default()).1;
        }
        let mut sweeper = cache.sweeper();
        handle.quiesce();
        let before = (0..4000).filter(|&n| read(&handle, n).is_some()).count();
        let stats = cache.class_stats(class);
        cache.reassign(Some(class), None).unwrap();
        finish(&cache, &mut handle, &mut sweeper);
        let kept = (0..4000).filter(|&n| {
            let found = read(&handle, n);
            assert!(found.as_ref().is_none_or(|v| *v == value(n, VALUE_BYTES)), "{n}");
            found.is_some()
        });
        let lost = before - kept.count();
        assert_eq!(cache.class_stats(class).pages, stats.pages - 1, "{eviction}");
        assert!(lost <= 2 * stats.chunks_per_page, "{eviction}: {lost} lost");
        assert!(cache.moves().items > 0, "{eviction}");
    }
}

/// Fills the cache, then deletes two of three items, so that each page keeps some. Returns the items that are left.
fn thinned(cache: &Cache, handle: &mut Handle<'_>) -> Vec<usize> {
    let mut count = 0;
    while cache.totals().all(ClassCounter::Evicted) == 0 {
        set(handle, count, &value(count, VALUE_BYTES), &StoreTerms::default());
        handle.quiesce();
        count += 1;
    }
    for n in (0..count).filter(|n| n % 3 != 0) {
        handle.delete(&handle.key(name(n).as_bytes()), None, NOW);
    }
    handle.quiesce();
    (0..count).filter(|&n| read(handle, n).is_some()).collect()
}

/// Half a minute of upkeep, with automatic page moves.
fn upkeep(cache: &Cache, handle: &mut Handle<'_>) {
    cache.set_automove(Automove { level: 1, ..Automove::default() });
    let mut sweeper = cache.sweeper();
    for second in NOW..NOW + 30 {
        for _ in 0..100 {
            handle.quiesce();
            sweeper.step(second);
        }
    }
}

#[test]
fn free_chunks_of_many_pages_become_pages_that_another_class_takes_without_evicting() {
    for eviction in Eviction::ALL {
        let cache = cache(4 << 20, eviction);
        let mut handle = cache.handle();
        let left = thinned(&cache, &mut handle);
        let (held, evicted) = (cache.page_bytes_held(), cache.totals().all(ClassCounter::Evicted));
        upkeep(&cache, &mut handle);
        let free = cache.pages_returned() * cache.page_bytes();
        assert!(free > held / 2, "{eviction}: {free} of {held} bytes are in the pool");
        assert!(cache.page_bytes_backed() >= held, "{eviction}: the process keeps them");
        for &n in &left {
            assert_eq!(read(&handle, n), Some(value(n, VALUE_BYTES)), "{eviction}: {n}");
        }
        let small = 100;
        for n in 0..free / (small + 64) {
            set(&mut handle, 1_000_000 + n, &value(n, small), &StoreTerms::default());
            handle.quiesce();
        }
        assert_eq!(cache.totals().all(ClassCounter::Evicted), evicted, "{eviction}");
    }
}

#[test]
fn a_cache_that_never_evicts_gathers_free_chunks_when_it_is_full() {
    let config = CacheConfig { memory_bytes: 4 << 20, evictions: false, ..CacheConfig::default() };
    let cache: Cache = Cache::new(&config).expect("a small cache");
    let mut handle = cache.handle();
    let stores = |handle: &mut Handle<'_>, n: usize, len: usize| {
        let name = name(n);
        handle.quiesce();
        handle
            .store(&handle.key(name.as_bytes()), &value(n, len), &StoreTerms::default(), NOW)
            .is_ok()
    };
    let count = (0..).find(|&n| !stores(&mut handle, n, VALUE_BYTES)).expect("it gets full");
    for n in (0..count).filter(|n| n % 3 != 0) {
        handle.delete(&handle.key(name(n).as_bytes()), None, NOW);
    }
    assert!(!stores(&mut handle, count, 2 * VALUE_BYTES), "no page for another class");
    upkeep(&cache, &mut handle);
    for n in count..count + count / 5 {
        assert!(stores(&mut handle, n, 2 * VALUE_BYTES), "{n} of {count}");
    }
}

/// Each page of a class has the head of an item whose links have no room elsewhere.
#[test]
fn free_chunks_are_not_gathered_at_the_price_of_an_item() {
    const PAGES: usize = 28;
    let cache = cache(PAGES << 16, Eviction::default());
    assert_eq!(cache.page_bytes(), 1 << 16);
    let mut handle = cache.handle();
    let class = set(&mut handle, 0, &value(0, VALUE_BYTES), &StoreTerms::default()).1;
    let slots = cache.class_stats(class).chunks_per_page;
    let chained = (5 << 16..6 << 16)
        .step_by(16)
        .find(|&len| set(&mut handle, 0, &value(0, len), &StoreTerms::default()).1 == class);
    let chained = chained.expect("a head of each class");
    let is_chained = |n: usize| n.is_multiple_of(slots);
    for n in 0..4 * slots {
        let len = if is_chained(n) { chained } else { VALUE_BYTES };
        set(&mut handle, n, &value(n, len), &StoreTerms::default());
        handle.quiesce();
    }
    assert_eq!(cache.class_stats(class).pages, 4);
    for n in 10_000.. {
        if cache.page_bytes_held() == PAGES << 16 {
            break;
        }
        set(&mut handle, n, &value(n, 4 * VALUE_BYTES), &StoreTerms::default());
    }
    for n in (0..4 * slots).filter(|&n| !is_chained(n)) {
        handle.delete(&handle.key(name(n).as_bytes()), None, NOW);
    }
    handle.quiesce();
    let evicted = cache.totals().all(ClassCounter::Evicted);
    upkeep(&cache, &mut handle);
    assert!(cache.moves().no_room > 0, "it tried: {:?}", cache.moves());
    assert_eq!(cache.totals().all(ClassCounter::Evicted), evicted);
    assert!(!cache.moves().is_running, "it gave up");
    for n in (0..4).map(|page| page * slots) {
        assert_eq!(read(&handle, n), Some(value(n, chained)), "{n}");
    }
}

#[test]
fn pages_in_the_pool_go_back_to_the_system_when_the_limit_falls() {
    let cache = cache(4 << 20, Eviction::default());
    let mut handle = cache.handle();
    let left = thinned(&cache, &mut handle);
    for n in left {
        handle.delete(&handle.key(name(n).as_bytes()), None, NOW);
    }
    handle.quiesce();
    let page_bytes = cache.page_bytes();
    let (held, backed) = (cache.page_bytes_held(), cache.page_bytes_backed());
    assert!(held < 8 * page_bytes && backed > 32 * page_bytes, "{held} {backed}");
    assert!(cache.set_memory_limit(16 * page_bytes));
    let mut sweeper = cache.sweeper();
    for _ in 0..200 {
        handle.quiesce();
        sweeper.step(NOW);
    }
    assert_eq!(cache.page_bytes_backed(), 16 * page_bytes);
    assert_eq!(cache.pages_returned() * page_bytes, 16 * page_bytes - cache.page_bytes_held());
}

#[test]
fn a_moved_item_keeps_its_place_in_the_lru_order() {
    let cache = cache(2 << 20, Eviction::Lru);
    let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
    let slots = cache.page_bytes() / (VALUE_BYTES + 64);
    let count = 4 * slots;
    let mut class = 0;
    for n in 0..count {
        class = set(&mut handle, n, &value(n, VALUE_BYTES), &StoreTerms::default()).1;
    }
    // Room for a page's items, made by deleting the newest ones.
    for n in count - 2 * slots..count {
        handle.delete(&handle.key(name(n).as_bytes()), None, NOW);
    }
    handle.quiesce();
    cache.reassign(Some(class), None).unwrap();
    finish(&cache, &mut handle, &mut sweeper);
    assert_eq!(cache.totals().all(ClassCounter::Evicted), 0);
    drop(sweeper); // A handle that ends no turns delays all reclamation.
    for n in 10_000..20_000 {
        set(&mut handle, n, &value(n, VALUE_BYTES), &StoreTerms::default());
        if cache.totals().all(ClassCounter::Evicted) > 20 {
            break;
        }
    }
    let oldest = count - 2 * slots;
    let left: Vec<usize> = (0..oldest).filter(|&n| read(&handle, n).is_some()).collect();
    let gone = oldest - left.len();
    assert!(gone > 20 && left == (gone..oldest).collect::<Vec<_>>(), "{left:?}");
}

#[test]
fn a_chained_item_moves_as_a_whole() {
    let cache = cache(4 << 20, Eviction::default());
    let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
    let len = 3 * cache.page_bytes() / 8;
    for n in 0..40 {
        set(&mut handle, n, &value(n, len), &StoreTerms::default());
    }
    for n in (0..40).step_by(2) {
        handle.delete(&handle.key(name(n).as_bytes()), None, NOW);
    }
    handle.quiesce();
    cache.reassign(Some(cache.classes() - 1), None).unwrap();
    finish(&cache, &mut handle, &mut sweeper);
    assert!(cache.moves().chained > 0 && cache.moves().pages == 1, "{:?}", cache.moves());
    for n in (1..40).step_by(2) {
        assert_eq!(read(&handle, n), Some(value(n, len)), "{n}");
    }
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let cache = cache(4 << 20, Eviction::default());
    let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
    let mut class = 0;
    for n in 0..400 {
        class = set(&mut handle, n, &value(n, VALUE_BYTES), &StoreTerms::default()).1;
    }
    assert_eq!(cache.reassign(Some(class), Some(class)), Err(Unmoved::Same));
    assert_eq!(cache.reassign(Some(cache.classes()), None), Err(Unmoved::BadClass));
    assert_eq!(cache.reassign(Some(class), Some(999)), Err(Unmoved::BadClass));
    assert_eq!(cache.reassign(Some(class + 1), Some(class)), Err(Unmoved::NoSpare));
    // One to be moved, and one to wait.
    assert_eq!(cache.reassign(Some(class), None), Ok(()));
    assert_eq!(cache.reassign(Some(class), None), Ok(()));
    assert_eq!(cache.reassign(Some(class), None), Err(Unmoved::Busy));
    finish(&cache, &mut handle, &mut sweeper);
    assert_eq!(cache.reassign(Some(class), None), Ok(()));
}

#[test]
fn a_move_that_an_item_in_the_making_holds_up_is_called_off() {
    let cache = cache(4 << 20, Eviction::default());
    let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
    let slots = cache.page_bytes() / (VALUE_BYTES + 64);
    let mut news = Vec::new();
    for n in 0..3 * slots {
        let key = name(n);
        let how = StoreTerms::default();
        news.push(handle.begin(&handle.key(key.as_bytes()), VALUE_BYTES, &how, NOW).unwrap());
    }
    let class = (0..cache.classes()).find(|&c| cache.class_stats(c).pages > 0).unwrap();
    let before = cache.class_stats(class);
    cache.reassign(Some(class), Some(class + 1)).unwrap();
    finish(&cache, &mut handle, &mut sweeper);
    assert_eq!((cache.moves().pages, cache.class_stats(class).pages), (0, before.pages));
    news.into_iter().for_each(|new| handle.discard(new));
    assert_eq!(cache.class_stats(class).chunks_used, 0);
}

/// Threads read, touch and overwrite while pages move back and forth. Each value read is complete and of its key, an
/// acknowledged touch is in force, and an overwritten value doesn't come back.
#[test]
fn under_moves_no_value_is_torn_stale_or_lost() {
    let keys = if cfg!(miri) { 40 } else { 400 };
    let rounds = if cfg!(miri) { 2 } else { 20 };
    let cache = cache(4 << 20, Eviction::default());
    let stop = AtomicBool::new(false);
    let mut class = 0;
    {
        let mut handle = cache.handle();
        let how = StoreTerms { exptime: NOW + 1, ..StoreTerms::default() };
        for n in 0..keys {
            class = set(&mut handle, n, &value(n, VALUE_BYTES), &how).1;
        }
    }
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (cache, stop) = (&cache, &stop);
            scope.spawn(move || {
                let mut handle = cache.handle();
                let mut version = 0;
                while !stop.load(Ordering::Relaxed) {
                    version += 1;
                    for n in (thread..keys).step_by(2) {
                        let name = name(n);
                        let key = handle.key(name.as_bytes());
                        let exptime = NOW + 10 + version % 1000;
                        assert!(matches!(handle.touch(&key, exptime, NOW), Touched::Touched(_)));
                        assert_eq!(handle.peek(&key, NOW).unwrap().exptime(), exptime, "{name}");
                        let salt = usize::try_from(version).unwrap() * 1000 + n;
                        if n % 3 == 0 {
                            let how = StoreTerms { exptime, ..StoreTerms::default() };
                            set(&mut handle, n, &value(salt, VALUE_BYTES), &how);
                            assert_eq!(read(&handle, n), Some(value(salt, VALUE_BYTES)), "{n}");
                        } else {
                            assert_eq!(read(&handle, n), Some(value(n, VALUE_BYTES)), "{n}");
                        }
                    }
                    handle.quiesce();
                }
            });
        }
        let mut sweeper = cache.sweeper();
        while cache.moves().pages < rounds {
            // The page returns by itself: a class that needs a page takes one from the pool.
            let _ = cache.reassign(Some(class), None);
            sweeper.step(NOW);
            sweeper.asleep(std::thread::yield_now);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(cache.totals().all(ClassCounter::Evicted), 0);
    assert!(cache.moves().items > 0);
}

/// Requests keys by `key` and stores missing ones, a thousand requests per second. Returns the hit rate in percent
/// over the last tenth.
fn run(
    handle: &mut Handle<'_>,
    sweeper: &mut Sweeper<'_>,
    (from_s, seconds): (u32, u32),
    key: impl Fn(usize) -> (usize, usize),
) -> u32 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(from_s);
    let mut hits = 0;
    for second in from_s..from_s + seconds {
        for _ in 0..1000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (n, bytes) = key(usize::try_from(state >> 33).expect("31 bits"));
            let name = name(n);
            if handle.get(&handle.key(name.as_bytes()), second).is_ok() {
                hits += u32::from(second >= from_s + seconds - seconds / 10);
            } else {
                let value = value(n, bytes);
                let store = StoreTerms::default();
                while handle.store(&handle.key(name.as_bytes()), &value, &store, second).is_err() {
                    handle.quiesce();
                    sweeper.asleep(|| ());
                }
            }
            handle.quiesce();
        }
        for _ in 0..20 {
            handle.quiesce();
            sweeper.step(second);
        }
    }
    hits / (seconds / 10 * 10)
}

#[test]
#[cfg_attr(miri, ignore = "minutes of requests")]
fn memory_follows_a_workload_whose_sizes_shift_and_comes_to_rest() {
    let shifted = |level| {
        let cache = cache(2 << 20, Eviction::default());
        cache.set_automove(Automove { level, ..Automove::default() });
        let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
        // First two thousand keys of 900 bytes, nearly all of which fit, and few of 100 bytes; then the other way
        // round.
        let small = |r: usize| {
            if r.is_multiple_of(50) { (50_000 + r % 100, 100) } else { (r % 2000, 900) }
        };
        let large = |r: usize| {
            if r.is_multiple_of(50) { (r % 100, 900) } else { (50_000 + r % 12_000, 100) }
        };
        run(&mut handle, &mut sweeper, (NOW, 20), small);
        let after = run(&mut handle, &mut sweeper, (NOW + 20, 80), large);
        let moved = cache.moves().pages;
        run(&mut handle, &mut sweeper, (NOW + 100, 20), large);
        (after, moved, cache.moves().pages - moved)
    };
    let (without, none, _) = shifted(0);
    let (with, moved, later) = shifted(1);
    assert!(none == 0 && moved > 5, "{none} {moved}");
    assert!(with >= without + 10, "{without} % of hits without, {with} % with moves");
    assert!(later <= 5, "{later} moves in twenty seconds of the same workload");
}
