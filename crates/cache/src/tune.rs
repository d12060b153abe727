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
use guira_policy::{Request, Tuner, Tuning};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What handles and the sweeper share.
#[derive(Default)]
pub(crate) struct Tune {
    /// The share of the keys that is sampled, in the tuner's unit; 0 while nobody is to.
    threshold: AtomicU32,
    /// Whether a class has evicted, so that there is something to choose.
    is_wanted: AtomicBool,
    tuning: Packed,
    switches: AtomicU64,
    samples: Lock<Vec<Sample>, LEAF>,
}

/// The parameters in one word: hits to pass, and the share of probation in millionths.
struct Packed(AtomicU64);

impl Default for Packed {
    fn default() -> Self {
        let packed = Packed(AtomicU64::new(0));
        packed.store(Tuning::START);
        packed
    }
}

impl Packed {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "millionths")]
    fn store(&self, tuning: Tuning) {
        let small = (f64::from(tuning.small) * MILLION).round() as u64;
        self.0.store(u64::from(tuning.promote) << 32 | small, Relaxed);
    }

    fn load(&self) -> Tuning {
        let word = self.0.load(Relaxed);
        let small = (word & u64::from(u32::MAX)) as f64 / MILLION;
        #[expect(clippy::cast_possible_truncation, reason = "a share, and a small number of hits")]
        let tuning = Tuning { small: small as f32, promote: (word >> 32) as u8 };
        tuning
    }
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

/// S3-CLOCK's parameters as they are, for statistics.
#[derive(Clone, Copy, Debug)]
pub struct Tuned {
    /// The share of a class's items that is to be on probation.
    pub small: f32,
    /// Hits that it takes to pass.
    pub promote: u8,
    /// How often the choice changed.
    pub switches: u64,
}

impl Tune {
    /// The parameters to evict by.
    pub(crate) fn tuning(&self) -> Tuning {
        self.tuning.load()
    }

    /// For statistics.
    pub(crate) fn told(&self) -> Tuned {
        let Tuning { small, promote } = self.tuning();
        Tuned { small, promote, switches: self.switches.load(Relaxed) }
    }

    /// Whether any class evicted so far.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Relaxed)
    }

    /// A class evicts: from here on there is something to choose.
    pub(crate) fn want(&self) {
        if !self.is_wanted.load(Relaxed) {
            self.is_wanted.store(true, Relaxed);
        }
    }

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
        let tune = &cache.tune;
        if !tune.is_wanted.load(Relaxed) {
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
        if tuner.tuning() != tune.tuning() {
            tune.tuning.store(tuner.tuning());
            tune.switches.store(tuner.switches(), Relaxed);
        }
    }
}

/// Samples that wait to be replayed, at most.
const SAMPLES_MAX: usize = 1 << 16;
/// The tuner samples another share of the keys when the number of items has changed by so much.
const RESIZE_SHARE: usize = 8;
const MILLION: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_out_of_their_word_as_they_went_in() {
        let packed = Packed::default();
        for small in [0.01, 0.03, 0.1, 0.25, 0.5] {
            for promote in 0..3 {
                packed.store(Tuning { small, promote });
                assert_eq!(packed.load(), Tuning { small, promote });
            }
        }
    }
}
