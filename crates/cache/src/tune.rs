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

use crate::features::{Sample, Sampled};
use crate::flush::Sweeper;
use guira_index::Index;
use guira_policy::{Request, Tuner};

impl<I: Index> Sweeper<'_, I> {
    /// Replays what was noted, and publishes the choice.
    pub(crate) fn tune(&mut self) {
        let (engine, samples) = (self.engine(), &self.handle.actor.features.samples);
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

/// The tuner samples another share of the keys when the number of items has changed by so much.
const RESIZE_SHARE: usize = 8;
