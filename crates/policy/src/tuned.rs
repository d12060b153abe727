//! S3-CLOCK with its tuner: the cache and the miniature caches that choose its parameters.

use crate::miniature::{S3Clock, Tuning};
use crate::tuner::Tuner;
use crate::{Policy, Request};

/// A cache under S3-CLOCK whose parameters follow the workload.
pub struct Tuned {
    cache: S3Clock,
    capacity: u64,
    /// From the first full cache on: until then no choice matters.
    tuner: Option<Tuner>,
}

impl Tuned {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: u64) -> Tuned {
        Tuned { cache: S3Clock::new(Tuning::START, capacity), capacity, tuner: None }
    }

    /// The parameters in force.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        self.cache.tuning()
    }

    /// The tuner, if the cache has been full.
    fn tuner(&mut self, request: &Request) -> Option<&mut Tuner> {
        if self.tuner.is_none() && self.cache.weight() + u64::from(request.weight) > self.capacity {
            self.tuner = Some(Tuner::new(self.cache.len(), self.capacity));
        }
        self.tuner.as_mut().filter(|tuner| tuner.samples(request.key))
    }
}

impl Policy for Tuned {
    fn get(&mut self, request: &Request) -> bool {
        let hit = self.cache.get(request);
        if let Some(tuner) = self.tuner(request) {
            tuner.get(request, hit);
            let tuning = tuner.tuning();
            if tuning != self.cache.tuning() {
                self.cache.tune(tuning);
            }
        }
        hit
    }

    fn insert(&mut self, request: &Request) {
        if let Some(tuner) = self.tuner(request) {
            tuner.set(request);
        }
        self.cache.insert(request);
    }

    fn remove(&mut self, key: u64) -> bool {
        if let Some(tuner) = self.tuner.as_mut().filter(|tuner| tuner.samples(key)) {
            tuner.delete(key);
        }
        self.cache.remove(key)
    }

    fn contains(&self, key: u64) -> bool {
        self.cache.contains(key)
    }

    fn len(&self) -> usize {
        self.cache.len()
    }

    fn weight(&self) -> u64 {
        self.cache.weight()
    }
}
