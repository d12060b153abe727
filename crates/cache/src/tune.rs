//! S3-CLOCK's parameters, chosen while the cache runs: a sample of the requests is replayed in miniature caches.
//!
//! Requests for a share of the keys, always the same ones, are noted by the handles and handed on when a turn ends;
//! the sweeper's thread replays them through `guira-policy`'s [`Tuner`] and publishes what it chose. One choice for all
//! classes: a request that misses has no class yet, and what differs is the workload.
//!
//! # Costs
//! A request: one load and one comparison. Three requests in ten thousand of a cache of a million items are noted, and
//! cost that thread 150 ns each. 140 KB, from the first eviction on. Samples are lost when they come faster than they
//! are replayed: then some requests fewer are counted.

use crate::flush::Sweeper;
use crate::handle::Handle;
use crate::locks::{LEAF, Lock};
use guira_index::{Hash, Index};
use guira_policy::{Request, Tuner};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What handles and the sweeper share.
#[derive(Default)]
pub(crate) struct Tune {
    /// The share of the keys that is sampled, in the tuner's unit; 0 while nobody is to.
    threshold: AtomicU32,
    samples: Lock<Vec<Sample>, LEAF>,
}

/// A request for a sampled key.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    hash: Hash,
    what: Sampled,
    now: u32,
}

/// What a sampled request was.
#[derive(Clone, Copy)]
pub(crate) enum Sampled {
    Hit,
    Miss,
    Stored { expires: u32 },
    Deleted,
}

impl Tune {
    /// Takes over what a handle has noted in its turn.
    pub(crate) fn take(&self, noted: &mut Vec<Sample>) {
        if let Some(mut samples) = self.samples.try_lock() {
            let room = SAMPLES_MAX.saturating_sub(samples.len());
            samples.extend(noted.drain(..).take(room));
        }
        // What found no room is lost.
        noted.clear();
    }
}

impl<I: Index> Handle<'_, I> {
    /// Notes a request, if its key is one of those sampled.
    #[inline(always)]
    pub(crate) fn sample(&self, hash: Hash, now: u32, what: impl FnOnce() -> Sampled) {
        let threshold = self.cache.tune.threshold.load(Relaxed);
        if threshold != 0 && Tuner::is_sampled(hash.0, threshold) {
            self.note(Sample { hash, what: what(), now });
        }
    }

    #[cold]
    fn note(&self, sample: Sample) {
        let mut noted = self.noted.borrow_mut();
        if noted.len() < SAMPLES_MAX {
            noted.push(sample);
        }
    }
}

impl<I: Index> Sweeper<'_, I> {
    /// Replays what was noted, and publishes the choice.
    pub(crate) fn tune(&mut self) {
        let cache = self.handle.cache;
        let (tune, dial) = (&cache.tune, &cache.engine.dial);
        if !dial.is_wanted() {
            return;
        }
        let objects = cache.len().max(1);
        let (tuner, sized_for) =
            self.tuner.get_or_insert_with(|| (Tuner::new(objects, objects as u64), objects));
        if objects.abs_diff(*sized_for) > *sized_for / RESIZE_SHARE {
            tuner.resize(objects);
            *sized_for = objects;
        }
        tune.threshold.store(tuner.threshold(), Relaxed);
        let samples = std::mem::take(&mut *tune.samples.lock());
        for Sample { hash, what, now } in samples {
            let request = Request { key: hash.0, weight: 1, now, expires: 0 };
            match what {
                Sampled::Hit => tuner.get(&request, true),
                Sampled::Miss => tuner.get(&request, false),
                Sampled::Stored { expires } => tuner.set(&Request { expires, ..request }),
                Sampled::Deleted => tuner.delete(hash.0),
            }
        }
        if tuner.tuning() != dial.tuning() {
            dial.set(tuner.tuning(), tuner.switches());
        }
    }
}

/// Samples that wait to be replayed, at most.
const SAMPLES_MAX: usize = 1 << 16;
/// The tuner samples another share of the keys when the number of items has changed by so much.
const RESIZE_SHARE: usize = 8;
