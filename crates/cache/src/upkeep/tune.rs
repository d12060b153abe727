//! S3-CLOCK's parameters, chosen while the cache runs: a sample of the requests is replayed in miniature caches.
//!
//! The sweeper's thread replays the samples that other threads recorded (features/sample.rs) through `guira-policy`'s
//! [`Tuner`], and publishes the tuner's choice. All classes share one choice: a request that misses has no class yet,
//! and the choice depends on the workload, not on the class.
//!
//! # Costs
//! 150 ns of the sweeper's thread per sample. 140 KB, from the first eviction on.

use crate::commands::Actor;
use crate::features::{Sample, Sampled};
use guira_index::Index;
use guira_policy::{Access, Tuner};

/// The tuner, once any class evicts.
#[derive(Default)]
pub(crate) struct TuneTask {
    /// The tuner, and the number of items that its sample is sized for.
    tuner: Option<(Tuner, usize)>,
}

impl TuneTask {
    /// Replays the recorded samples, and publishes the choice.
    pub(crate) fn step(&mut self, actor: &Actor<'_>) {
        let (engine, samples) = (actor.local.engine, &actor.features.samples);
        let dial = &engine.dial;
        if !dial.is_wanted() {
            return;
        }
        let objects = engine.index.len().max(1);
        let (tuner, sized_for) =
            self.tuner.get_or_insert_with(|| (Tuner::new(objects, objects as u64), objects));
        if objects.abs_diff(*sized_for) > *sized_for / RESIZE_SHARE {
            tuner.resize(objects);
            *sized_for = objects;
        }
        samples.set_threshold(tuner.threshold());
        for Sample { hash, what, now } in samples.take() {
            let request = Access { key: hash.0, weight: 1, now, expires: 0 };
            match what {
                Sampled::Hit => tuner.get(&request, true),
                Sampled::Miss => tuner.get(&request, false),
                Sampled::Stored { expires } => tuner.set(&Access { expires, ..request }),
                Sampled::Deleted => tuner.delete(hash.0),
            }
        }
        if tuner.tuning() != dial.tuning() {
            dial.set(tuner.tuning(), tuner.switches());
        }
    }
}

/// The tuner's sample is resized when the number of items has changed by more than one part in this many.
const RESIZE_SHARE: usize = 8;
