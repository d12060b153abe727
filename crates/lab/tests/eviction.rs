//! The policies in the cache, compared with the same policies as simulators: the same requests and space give the same
//! hits.
//!
//! The cache differs in that it evicts in batches, keeps a reserve, and decides per slab class; that may cost or gain a
//! little, not more.

use guira_cache::{
    Cache, CacheConfig, ClassCounter, Eviction, Handle, Mode, NoRoom, StoreTerms, Stored,
};
use guira_lab::policies::PolicyKind;
use guira_policy::{Access, mix};

const KEYS: f64 = 100_000.0;

/// Requests whose keys are popular in inverse proportion to their rank.
fn requests(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|n| {
        let unit = (mix(n) >> 11) as f64 / (1u64 << 53) as f64;
        key(unit)
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "below the number of keys"
)]
fn key(unit: f64) -> u64 {
    KEYS.powf(unit) as u64
}

/// One-time keys that come in bursts between requests for popular ones.
fn with_scans(count: u64) -> impl Iterator<Item = u64> {
    let scanned = 1 << 40;
    requests(count)
        .enumerate()
        .map(move |(n, key)| if n / 5_000 % 3 == 2 { scanned + n as u64 } else { key })
}

/// The share of requests that hit, in the second half, and how many items there are at the end.
fn replayed(eviction: Eviction, requests: impl Iterator<Item = u64>, half: u64) -> (f64, usize) {
    let config = CacheConfig {
        memory_bytes: 1 << 20,
        eviction,
        hash_seed: Some(7),
        handles_max: 2,
        ..CacheConfig::default()
    };
    let cache = Cache::new(&config).expect("memory for it");
    let mut handle = cache.handle();
    let mut sweeper = cache.sweeper();
    sweeper.asleep(|| ());
    let mut hits = 0;
    for (n, key) in requests.enumerate() {
        let hit = accessed(&mut handle, key);
        hits += u64::from(hit && n as u64 >= half);
        if n % 64 == 0 {
            handle.asleep(|| sweeper.step(10));
        }
    }
    (hits as f64 / half as f64, cache.len())
}

fn accessed(handle: &mut Handle<'_>, key: u64) -> bool {
    let bytes = key.to_be_bytes();
    let hit = handle.get(&handle.key(&bytes), 10).is_ok();
    if !hit {
        stored(handle, &bytes);
    }
    handle.quiesce();
    hit
}

fn stored(handle: &mut Handle<'_>, key: &[u8]) {
    while let Err(no_room) = handle.store(&handle.key(key), &[b'v'; 32], &StoreTerms::default(), 10)
    {
        assert_eq!(no_room, NoRoom::Later);
        handle.quiesce();
    }
}

fn simulated(kind: PolicyKind, requests: impl Iterator<Item = u64>, half: u64, room: usize) -> f64 {
    let mut policy = kind.cache(room as u64);
    let mut hits = 0;
    for (n, key) in requests.enumerate() {
        hits += u64::from(policy.access(&Access::of(key)) && n as u64 >= half);
    }
    hits as f64 / half as f64
}

/// `points` of percent by which the cache may hit less or more.
fn agrees(eviction: Eviction, kind: PolicyKind, (less, more): (f64, f64)) {
    let count = if cfg!(debug_assertions) { 300_000 } else { 1_000_000 };
    for scans in [false, true] {
        let trace = || -> Box<dyn Iterator<Item = u64>> {
            if scans { Box::new(with_scans(count)) } else { Box::new(requests(count)) }
        };
        let (hits, items) = replayed(eviction, trace(), count / 2);
        let expected = simulated(kind, trace(), count / 2, items);
        let differs = (hits - expected) * 100.0;
        assert!(items > 10_000 && hits > 0.3, "{items} items, {hits}");
        assert!(
            -less < differs && differs < more,
            "{eviction}, scans {scans}: {hits:.4} of the requests hit, simulated {expected:.4} with {items} items"
        );
    }
}

#[test]
fn clock_hits_what_its_simulator_hits() {
    agrees(Eviction::Clock, PolicyKind::Clock, (1.0, 1.0));
}

#[test]
fn lru_hits_what_its_simulator_hits() {
    agrees(Eviction::Lru, PolicyKind::Lru, (1.0, 1.0));
}

#[test]
fn sieve_hits_what_its_simulator_hits() {
    agrees(Eviction::Sieve, PolicyKind::Sieve, (1.0, 1.0));
}

/// When the tuner decides differs by some thousand requests, and with bursts of scans it may decide otherwise.
#[test]
fn s3_clock_hits_what_its_simulator_hits() {
    agrees(Eviction::S3Clock, PolicyKind::S3Clock, (1.0, 3.0));
}

/// A regression test. In a full class all new items go on probation, even right after a turn has freed chunks. They
/// used to bypass it whenever the reserve was full, and a scan of one store per turn evicted items in use.
#[test]
fn a_scan_of_one_store_a_turn_pushes_out_nothing_that_passed_its_probation() {
    let config = CacheConfig { memory_bytes: 1 << 20, handles_max: 2, ..CacheConfig::default() };
    let cache = Cache::new(&config).unwrap();
    let mut handle = cache.handle();
    for key in 0..20_000 {
        accessed(&mut handle, key);
    }
    let used = 19_000..20_000;
    for _ in 0..3 {
        assert!(used.clone().all(|key| accessed(&mut handle, key)));
    }
    for scanned in 0..150_000 {
        accessed(&mut handle, (1 << 40) + scanned);
    }
    let left = used.filter(|key| handle.get(&handle.key(&key.to_be_bytes()), 10).is_ok()).count();
    assert!(left > 950, "{left} of 1000");
}

/// A probation that is never judged, or a list that loses an item, would end in a cache that can store nothing.
#[test]
fn every_policy_serves_on_while_items_of_all_sizes_come_go_and_are_replaced() {
    for eviction in Eviction::ALL {
        let config = CacheConfig { memory_bytes: 16 << 20, eviction, ..CacheConfig::default() };
        let cache = Cache::new(&config).unwrap();
        let mut handle = cache.handle();
        let value = vec![b'v'; 160_000];
        for n in 0..40_000u64 {
            let random = mix(n);
            let key = (random % 12_000).to_be_bytes();
            let bytes = match random >> 32 & 63 {
                0 => 80_000 + (random >> 40) as usize % 80_000,
                1..8 => (random >> 40) as usize % 20_000,
                _ => (random >> 40) as usize % 400,
            };
            match random >> 20 & 7 {
                0 => drop(handle.delete(&handle.key(&key), None, 10)),
                1..3 => drop(handle.get(&handle.key(&key), 10).map(|item| item.value_bytes())),
                _ => {
                    let stored = (0..1_000).any(|_| {
                        let key = handle.key(&key);
                        let done =
                            handle.store(&key, &value[..bytes], &StoreTerms::default(), 10).is_ok();
                        handle.quiesce();
                        done
                    });
                    assert!(stored, "{eviction}: {bytes} bytes found no room");
                }
            }
        }
        assert!(cache.totals().all(ClassCounter::Evicted) > 1_000);
        let on_probation = cache.totals().all(ClassCounter::OnProbation);
        assert!(on_probation <= cache.len() as u64, "{on_probation} of {}", cache.len());
    }
}

/// In a debug build this also checks the order of locks: each refusal is a use, which strict LRU notes under the class's.
#[test]
fn an_add_that_is_refused_counts_as_a_use() {
    for eviction in Eviction::ALL {
        let config = CacheConfig {
            memory_bytes: 1 << 20,
            eviction,
            handles_max: 1,
            ..CacheConfig::default()
        };
        let cache = Cache::new(&config).expect("memory for it");
        let mut handle = cache.handle();
        stored(&mut handle, b"asked for");
        for n in 0..30_000 {
            if n % 100 == 0 {
                let how = StoreTerms { mode: Mode::Add, ..StoreTerms::default() };
                let add = || handle.store(&handle.key(b"asked for"), b"other", &how, 10);
                let refused = match add() {
                    Err(NoRoom::Later) => None,
                    other => Some(other),
                };
                handle.quiesce();
                assert!(
                    matches!(refused, None | Some(Ok(Stored::NotStored))),
                    "{eviction}, {n}: {refused:?}"
                );
            }
            stored(&mut handle, format!("once only {n}").as_bytes());
        }
        assert!(cache.totals().all(ClassCounter::Evicted) > 1_000, "{eviction}");
    }
}

#[test]
fn while_there_is_room_only_a_share_of_what_comes_goes_on_probation() {
    let config = CacheConfig { memory_bytes: 16 << 20, handles_max: 1, ..CacheConfig::default() };
    let cache = Cache::new(&config).expect("memory for it");
    let mut handle = cache.handle();
    let count = 100_000;
    for n in 0..count {
        stored(&mut handle, format!("key-{n:012}").as_bytes());
    }
    let on_probation = cache.totals().all(ClassCounter::OnProbation);
    assert_eq!(cache.len(), count, "there is room");
    let share = on_probation as f64 / count as f64;
    assert!((0.23..0.27).contains(&share), "{share} of the items, of a share of 0.25");
}

/// Which items go is the policy's choice alone: the same requests, the same victims in the same order, whatever becomes of
/// the code.
#[test]
fn the_same_requests_have_the_same_victims_in_the_same_order() {
    let found = Eviction::ALL.map(victims);
    let recorded = [
        (49_686, 0xc21a_de2c_e891_579d),
        (53_985, 0x0175_fce6_da3f_10e5),
        (49_837, 0xb3f5_ffb5_e1e5_f573),
        (54_424, 0x87ac_6985_d5ba_b0cb),
    ];
    assert_eq!(found, recorded, "victims, and a digest of their keys in order");
}

/// How many victims 100,000 requests have, and a digest of their keys in order. Items of three classes, of which some expire
/// and some are deleted.
fn victims(eviction: Eviction) -> (u64, u64) {
    let config = CacheConfig {
        memory_bytes: 1 << 20,
        eviction,
        hash_seed: Some(7),
        handles_max: 2,
        ..CacheConfig::default()
    };
    let cache = Cache::new(&config).expect("memory for it");
    let mut handle = cache.handle();
    let mut sweeper = cache.sweeper();
    sweeper.asleep(|| ());
    let (mut count, mut digest) = (0, 0);
    for (n, key) in with_scans(100_000).enumerate() {
        let (random, now) = (mix(mix(n as u64)), 10 + u32::try_from(n / 1_000).expect("few"));
        let value_bytes = match key % 3 {
            0 => 32,
            1 => 100,
            _ => 600,
        };
        let (bytes, value) = (key.to_be_bytes(), &[b'v'; 600][..value_bytes]);
        let exptime = if random & 15 == 0 { now + (random >> 32) as u32 % 200 } else { 0 };
        let how = StoreTerms { exptime, ..StoreTerms::default() };
        handle.note_evictions(now);
        if random >> 8 & 63 == 0 {
            handle.delete(&handle.key(&bytes), None, now);
        } else if handle.get(&handle.key(&bytes), now).is_err() {
            while let Err(no_room) = handle.store(&handle.key(&bytes), value, &how, now) {
                assert_eq!(no_room, NoRoom::Later);
                handle.quiesce();
            }
        }
        for victim in handle.take_evictions() {
            let key = u64::from_be_bytes(victim.key[..].try_into().expect("eight bytes"));
            (count, digest) = (count + 1, mix(digest ^ key));
        }
        handle.quiesce();
        if n % 64 == 0 {
            handle.asleep(|| sweeper.step(now));
        }
    }
    (count, digest)
}
