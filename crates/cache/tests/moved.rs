//! An item that leaves memory while a reader holds it: the reader must not take it for one that a client is
//! refreshing.

use guira_cache::{Below, BelowMemory, Cache, CacheConfig, Claim, ItemRef, StoreTerms, Stored};
use std::sync::Arc;

const NOW: u32 = 100;

/// Takes every item, and finds none of them again.
struct TakesAll;

impl Below for TakesAll {
    fn may_have(&self, _: u64, _: &[u64]) -> bool {
        false
    }

    fn forget(&self, _: u64) {}

    fn remove(&self, _: u64, _: u64) -> bool {
        false
    }

    fn is_current(&self, _: u64, _: u64, _: u32) -> bool {
        false
    }

    fn take(
        &self,
        _: u64,
        _: &ItemRef<'_>,
        _: u32,
        commit: &mut dyn FnMut(&mut dyn FnMut()) -> bool,
    ) -> bool {
        commit(&mut || ())
    }

    fn flush(&self) {}
}

#[test]
fn an_item_that_goes_down_is_moved_and_not_won() {
    let below = Some(BelowMemory(Arc::new(TakesAll)));
    let cache = Cache::new(&CacheConfig { below, ..CacheConfig::default() }).unwrap();
    let (reader, mover) = (cache.handle(), cache.handle());
    let key = reader.key(b"key");
    let expiring = StoreTerms { exptime: NOW + 1000, ..StoreTerms::default() };
    let stored = reader.store(&key, b"value", &expiring, NOW);
    assert!(matches!(stored, Ok(Stored::Stored { .. })), "{stored:?}");

    let item = reader.get(&key, NOW).unwrap();
    assert_eq!(item.is_won(), Some(false));
    assert!(mover.sink(&mover.get(&key, NOW).unwrap()));
    assert_eq!(item.is_won(), None, "who moved it has closed it to claims");
    assert_eq!(item.claim(), Claim::Moved);
    assert!(reader.get(&key, NOW).is_err());
}

#[test]
fn an_item_that_is_replaced_after_a_claim_is_not_judged_by_it() {
    let cache = Cache::new(&CacheConfig::default()).unwrap();
    let (reader, writer) = (cache.handle(), cache.handle());
    let key = reader.key(b"key");
    let expiring = StoreTerms { exptime: NOW + 1000, ..StoreTerms::default() };
    writer.store(&key, b"old", &expiring, NOW).unwrap();
    let item = reader.get(&key, NOW).unwrap();
    assert_eq!((item.claim(), item.claim()), (Claim::Won, Claim::Taken));
    assert_eq!(item.is_won(), Some(true));
    writer.store(&key, b"new", &expiring, NOW).unwrap();
    assert_eq!((item.is_won(), item.claim()), (None, Claim::Moved));
    assert_eq!(reader.get(&key, NOW).unwrap().is_won(), Some(false));
}
