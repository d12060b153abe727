//! Stores into a cache that is full, may not evict, gives up pages or has its limit changed.

use super::*;
use crate::ClassCounter;

#[test]
fn a_cache_that_is_full_evicts_and_keeps_what_was_used() {
    let cache = small();
    let mut handle = cache.handle();
    // Miri fills 128 chunks, of which up to two batches of victims are free.
    let (items, value_bytes) = if cfg!(miri) { (400, 1_000) } else { (200_000, 32) };
    let value = vec![0; value_bytes];
    for n in 0..items {
        store_patiently(&mut handle, format!("key{n:013}").as_bytes(), &value);
        let favourite = handle.get(&handle.key(b"key0000000000000"), NOW);
        assert!(favourite.is_ok(), "evicted although hit between any two sets, at {n}");
        handle.quiesce();
    }
    let totals = cache.totals();
    assert!(totals.all(ClassCounter::Evicted) > items / 10);
    assert_eq!(totals.all(ClassCounter::Items), cache.len() as u64);
    let held = cache.len() * (20 + value_bytes);
    let least = if cfg!(miri) { 70 } else { 95 };
    assert!(held * 100 > cache.page_bytes_held() * least, "{held} of {}", cache.page_bytes_held());
}

#[test]
#[cfg_attr(miri, ignore = "takes Miri too long: hundreds of stores, more than a second each")]
fn memory_goes_to_the_sizes_that_are_stored() {
    let cache = of_bytes(if cfg!(miri) { 1 << 18 } else { 4 << 20 });
    let mut handle = cache.handle();
    let (items, value_bytes) = if cfg!(miri) { (300, 1_000) } else { (90_000, 32) };
    let filler = vec![0; value_bytes];
    for n in 0..items {
        store_patiently(&mut handle, format!("small{n:011}").as_bytes(), &filler);
        handle.quiesce();
    }
    assert!(cache.len() < items, "it is full");
    let sizes: &[usize] =
        if cfg!(miri) { &[100, 5_000, 30_000] } else { &[100, 1_000, 5_000, 30_000, 100_000] };
    for &size in sizes {
        let expected = pattern(size);
        store_patiently(&mut handle, b"other", &expected);
        handle.quiesce();
        assert_eq!(value(&handle, "other"), Ok(expected));
    }
}

#[test]
fn a_cache_that_may_not_evict_refuses_and_loses_nothing() {
    let memory_bytes = if cfg!(miri) { 1 << 17 } else { 1 << 18 };
    let config = CacheConfig {
        memory_bytes,
        evictions: false,
        hash_seed: Some(7),
        ..CacheConfig::default()
    };
    let cache = Cache::new(&config).unwrap();
    let handle = cache.handle();
    let mut stored = 0;
    while let Ok(stored_as) = handle.store(
        &handle.key(format!("k{stored}").as_bytes()),
        &[7; 1000],
        &StoreTerms::default(),
        NOW,
    ) {
        assert!(matches!(stored_as, Stored::Stored { .. }));
        stored += 1;
    }
    assert!(stored > memory_bytes / 1310, "{stored}");
    for n in 0..stored {
        assert_eq!(value(&handle, &format!("k{n}")), Ok(vec![7; 1000]));
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes Miri too long: more than ten minutes with 300 items")]
fn a_lower_limit_gives_memory_back_and_a_higher_one_takes_it() {
    let cache = small();
    let mut handle = cache.handle();
    let items = 90_000;
    let fill = |handle: &mut Handle<'_>| {
        for n in 0..items {
            store_patiently(handle, format!("key{n:013}").as_bytes(), &[0; 32]);
            handle.quiesce();
        }
    };
    fill(&mut handle);
    let full = cache.page_bytes_held();
    assert!(cache.set_memory_limit(full / 2));
    let mut sweeper = cache.sweeper();
    for _ in 0..10_000 {
        sweeper.step(NOW);
        handle.quiesce();
    }
    drop(sweeper); // a handle that ends no turns delays all reclamation
    assert!(cache.page_bytes_held() <= full / 2);
    fill(&mut handle);
    assert!(cache.page_bytes_held() <= full / 2, "the limit holds under stores");
    assert!(cache.set_memory_limit(2 * full) && !cache.set_memory_limit(100 * full));
    fill(&mut handle);
    assert!(cache.page_bytes_held() > full / 2);
}

/// Regression test: pages that were being given up kept items that were published in them afterwards, for good.
#[test]
#[cfg_attr(miri, ignore = "takes Miri too long: more than ten minutes with 256 stores")]
fn items_finished_in_a_page_on_its_way_out_are_evicted_too() {
    // Five items that don't all fit at once.
    let (memory_bytes, links) = if cfg!(miri) { (1 << 18, 7) } else { (1 << 20, 28) };
    let cache = of_bytes(memory_bytes);
    let mut handle = cache.handle();
    let mut held = Vec::new();
    for n in 0..5 {
        let (name, bytes) = (format!("held{n}"), pattern(links * 8184 + 848));
        let how = StoreTerms::default();
        let begun = handle.begin(&handle.key(name.as_bytes()), bytes.len(), &how, NOW);
        let Ok(mut new) = begun else { break };
        let mut rest = &bytes[..];
        while let Ok(room) = handle.room(&mut new, NOW) {
            let n = room.len().min(rest.len());
            if n == 0 {
                break;
            }
            room[..n].copy_from_slice(&rest[..n]);
            new.advance(n);
            rest = &rest[n..];
        }
        held.push((name, new));
    }
    for _ in 0..50 {
        let _ = handle.store(&handle.key(b"small"), b"v", &StoreTerms::default(), NOW);
        handle.quiesce();
    }
    for (name, new) in held {
        if new.missing_bytes() > 0 {
            handle.discard(new);
        } else {
            let stored =
                handle.publish(&handle.key(name.as_bytes()), new, &StoreTerms::default(), NOW);
            assert!(matches!(stored, Ok(Stored::Stored { .. })));
        }
    }
    for n in 0..memory_bytes >> 10 {
        store_patiently(&mut handle, format!("later{n}").as_bytes(), &[0; 300]);
        handle.quiesce();
    }
}
