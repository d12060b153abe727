//! S3-CLOCK: the server's rule over keys alone, with or without its tuner.

use super::Policy;
use guira_policy::{Access, Miniature, Tuner, Tuning};

/// A cache under S3-CLOCK.
pub(super) struct S3Clock {
    cache: Miniature,
    capacity: u64,
    is_tuned: bool,
    /// `None` until the cache is first full: before that no choice matters.
    tuner: Option<Tuner>,
}

impl S3Clock {
    /// Creates an empty cache with fixed parameters.
    pub(super) fn fixed(tuning: Tuning, capacity: u64) -> S3Clock {
        let cache = Miniature::new(tuning, capacity);
        S3Clock { cache, capacity, is_tuned: false, tuner: None }
    }

    /// Creates an empty cache whose parameters follow the workload.
    pub(super) fn tuned(capacity: u64) -> S3Clock {
        S3Clock { is_tuned: true, ..S3Clock::fixed(Tuning::START, capacity) }
    }

    /// The parameters in force.
    pub(super) fn tuning(&self) -> Tuning {
        self.cache.tuning()
    }

    /// Returns the tuner, if it must see the request.
    fn tuner(&mut self, request: &Access) -> Option<&mut Tuner> {
        let weight = self.weight() + u64::from(request.weight);
        if self.is_tuned && self.tuner.is_none() && weight > self.capacity {
            self.tuner = Some(Tuner::new(self.len(), self.capacity));
        }
        self.tuner.as_mut().filter(|tuner| tuner.samples(request.key))
    }
}

impl Policy for S3Clock {
    fn get(&mut self, request: &Access) -> bool {
        let hit = self.cache.get(request);
        if let Some(tuner) = self.tuner(request) {
            tuner.get(request, hit);
            let tuning = tuner.tuning();
            if tuning != self.tuning() {
                self.cache.tune(tuning);
            }
        }
        hit
    }

    fn insert(&mut self, request: &Access) {
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
        self.cache.objects().find(key).is_some()
    }

    fn len(&self) -> usize {
        self.cache.objects().len()
    }

    fn weight(&self) -> u64 {
        self.cache.objects().weight()
    }
}
