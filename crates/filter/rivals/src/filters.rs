//! A common interface for all filters that are compared. Each is used in the way that its documentation recommends.

use guira_filter::{CuckooFilter, SortedCuckooFilter};
use std::hint::black_box;
use xorf::Filter as _;

/// A filter of 64-bit keys. Each call takes many keys, so that the cost of the call itself doesn't matter.
pub(crate) trait Rival {
    /// Inserts the keys. Returns how many were entered.
    fn insert(&mut self, keys: &[u64]) -> usize;
    /// Looks the keys up. Returns how many are found.
    fn contains(&self, keys: &[u64]) -> usize;
    /// Removes the keys. Returns how many were removed; `None` if the filter can't remove.
    fn remove(&mut self, keys: &[u64]) -> Option<usize>;
    fn bytes(&self) -> usize;
}

/// A filter's name, and a function that makes one for a number of keys at a rate. The function returns `None` if
/// there is no such filter.
pub(crate) type Maker = (&'static str, fn(usize, f64) -> Option<Box<dyn Rival>>);

pub(crate) const MAKERS: [Maker; 10] = [
    ("guira CuckooFilter", |n, rate| Some(Box::new(Ours(CuckooFilter::with_rate(n, rate))))),
    ("guira CuckooFilter, many", |n, rate| Some(Box::new(Many(CuckooFilter::with_rate(n, rate))))),
    ("guira SortedCuckooFilter", |n, rate| {
        Some(Box::new(Ours(SortedCuckooFilter::with_rate(n, rate))))
    }),
    ("guira SortedCuckooFilter, many", |n, rate| {
        Some(Box::new(Many(SortedCuckooFilter::with_rate(n, rate))))
    }),
    ("autoscale_cuckoo_filter", |n, rate| {
        Some(Box::new(Autoscale(autoscale_cuckoo_filter::CuckooFilter::new(n, rate))))
    }),
    ("autoscale_cuckoo_filter, batch", |n, rate| {
        Some(Box::new(AutoscaleBatch(autoscale_cuckoo_filter::CuckooFilter::new(n, rate))))
    }),
    ("scalable_cuckoo_filter", |n, rate| {
        Some(Box::new(Scalable(scalable_cuckoo_filter::ScalableCuckooFilter::new(n, rate))))
    }),
    ("cuckoofilter", |n, rate| {
        // Its fingerprints have eight bits, whatever the rate.
        (rate >= 0.03).then(|| Box::new(Eight(cuckoofilter::CuckooFilter::with_capacity(n))) as _)
    }),
    ("qfilter", |n, rate| {
        let filter = qfilter::Filter::new(n as u64, rate).ok()?;
        Some(Box::new(Quotient(filter)))
    }),
    ("fastbloom", |n, rate| {
        Some(Box::new(Bloom(fastbloom::BloomFilter::with_false_pos(rate).expected_items(n))))
    }),
];

pub(crate) const STATIC_MAKERS: [Maker; 2] = [
    ("xorf BinaryFuse8", |_, rate| (rate >= 0.0039).then(|| Box::new(Fuse8(None)) as _)),
    ("xorf BinaryFuse16", |_, rate| (rate < 0.0039).then(|| Box::new(Fuse16(None)) as _)),
];

struct Ours<F>(F);
struct Many<F>(F);
struct Autoscale(autoscale_cuckoo_filter::CuckooFilter<u64>);
struct AutoscaleBatch(autoscale_cuckoo_filter::CuckooFilter<u64>);
struct Scalable(scalable_cuckoo_filter::ScalableCuckooFilter<u64>);
struct Eight(cuckoofilter::CuckooFilter<std::hash::DefaultHasher>);
struct Quotient(qfilter::Filter);
struct Bloom(fastbloom::BloomFilter);
struct Fuse8(Option<xorf::BinaryFuse8>);
struct Fuse16(Option<xorf::BinaryFuse16>);

fn count(keys: &[u64], holds: impl FnMut(&&u64) -> bool) -> usize {
    keys.iter().filter(holds).count()
}

/// Makes lookups in batches of a thousand.
fn in_batches(keys: &[u64], mut look: impl FnMut(&[u64], &mut [bool])) -> usize {
    let mut found = [false; 1_000];
    let mut sum = 0;
    for keys in keys.chunks(found.len()) {
        let found = &mut found[..keys.len()];
        look(keys, found);
        sum += black_box(found).iter().filter(|&&found| found).count();
    }
    sum
}

macro_rules! ours {
    ($filter:ty) => {
        impl Rival for Ours<$filter> {
            fn insert(&mut self, keys: &[u64]) -> usize {
                count(keys, |key| self.0.insert(*key).is_ok())
            }
            fn contains(&self, keys: &[u64]) -> usize {
                count(keys, |key| self.0.contains(*key))
            }
            fn remove(&mut self, keys: &[u64]) -> Option<usize> {
                Some(count(keys, |key| self.0.remove(*key)))
            }
            fn bytes(&self) -> usize {
                self.0.table_bytes()
            }
        }

        impl Rival for Many<$filter> {
            fn insert(&mut self, keys: &[u64]) -> usize {
                self.0.insert_many(keys).map_or_else(|full| full.entered, |()| keys.len())
            }
            fn contains(&self, keys: &[u64]) -> usize {
                in_batches(keys, |keys, found| self.0.contains_many(keys, found))
            }
            fn remove(&mut self, keys: &[u64]) -> Option<usize> {
                Some(self.0.remove_many(keys))
            }
            fn bytes(&self) -> usize {
                self.0.table_bytes()
            }
        }
    };
}

ours!(CuckooFilter);
ours!(SortedCuckooFilter);

impl Rival for Autoscale {
    fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().for_each(|key| self.0.add(key));
        keys.len()
    }
    fn contains(&self, keys: &[u64]) -> usize {
        count(keys, |key| self.0.contains(*key))
    }
    fn remove(&mut self, keys: &[u64]) -> Option<usize> {
        Some(count(keys, |key| self.0.remove(*key)))
    }
    fn bytes(&self) -> usize {
        usize::try_from(self.0.bits() / 8).expect("in memory")
    }
}

impl Rival for AutoscaleBatch {
    fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().for_each(|key| self.0.add(key));
        keys.len()
    }
    fn contains(&self, keys: &[u64]) -> usize {
        in_batches(keys, |keys, found| self.0.contains_batch_into(keys, found))
    }
    fn remove(&mut self, keys: &[u64]) -> Option<usize> {
        Some(count(keys, |key| self.0.remove(*key)))
    }
    fn bytes(&self) -> usize {
        usize::try_from(self.0.bits() / 8).expect("in memory")
    }
}

impl Rival for Scalable {
    fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().for_each(|key| self.0.insert(key));
        keys.len()
    }
    fn contains(&self, keys: &[u64]) -> usize {
        count(keys, |key| self.0.contains(*key))
    }
    fn remove(&mut self, keys: &[u64]) -> Option<usize> {
        Some(count(keys, |key| self.0.remove(*key)))
    }
    fn bytes(&self) -> usize {
        usize::try_from(self.0.bits() / 8).expect("in memory")
    }
}

impl Rival for Eight {
    fn insert(&mut self, keys: &[u64]) -> usize {
        count(keys, |key| self.0.add(*key).is_ok())
    }
    fn contains(&self, keys: &[u64]) -> usize {
        count(keys, |key| self.0.contains(*key))
    }
    fn remove(&mut self, keys: &[u64]) -> Option<usize> {
        Some(count(keys, |key| self.0.delete(*key)))
    }
    fn bytes(&self) -> usize {
        self.0.memory_usage()
    }
}

impl Rival for Quotient {
    fn insert(&mut self, keys: &[u64]) -> usize {
        count(keys, |key| self.0.insert_duplicated(*key).is_ok())
    }
    fn contains(&self, keys: &[u64]) -> usize {
        count(keys, |key| self.0.contains(*key))
    }
    fn remove(&mut self, keys: &[u64]) -> Option<usize> {
        Some(count(keys, |key| self.0.remove(*key)))
    }
    fn bytes(&self) -> usize {
        self.0.memory_usage()
    }
}

impl Rival for Bloom {
    fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().for_each(|key| drop(black_box(self.0.insert(key))));
        keys.len()
    }
    fn contains(&self, keys: &[u64]) -> usize {
        count(keys, |key| self.0.contains(*key))
    }
    fn remove(&mut self, _: &[u64]) -> Option<usize> {
        None
    }
    fn bytes(&self) -> usize {
        self.0.num_bits() / 8
    }
}

macro_rules! fuse {
    ($rival:ty, $filter:ty, $width:expr) => {
        impl Rival for $rival {
            fn insert(&mut self, keys: &[u64]) -> usize {
                self.0 = <$filter>::try_from(keys).ok();
                keys.len()
            }
            fn contains(&self, keys: &[u64]) -> usize {
                let filter = self.0.as_ref().expect("built");
                count(keys, |key| filter.contains(*key))
            }
            fn remove(&mut self, _: &[u64]) -> Option<usize> {
                None
            }
            fn bytes(&self) -> usize {
                self.0.as_ref().expect("built").len() * $width
            }
        }
    };
}

fuse!(Fuse8, xorf::BinaryFuse8, 1);
fuse!(Fuse16, xorf::BinaryFuse16, 2);
