//! Sampled requests, on their way from the threads that serve to the tuner.
//!
//! Requests for a share of the keys, always the same ones, are noted in the turn, and handed on when it ends.
//!
//! # Costs
//! A request: one load and one comparison. Three requests in ten thousand of a cache of a million items are noted.
//! Samples are lost when they come faster than they are replayed: then some requests fewer are counted.

use crate::locks::{LEAF, Lock};
use guira_index::Hash;
use guira_policy::Tuner;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What threads have noted for the tuner.
#[derive(Default)]
pub(crate) struct Samples {
    /// The share of the keys that is sampled, in the tuner's unit; 0 while nobody is to.
    threshold: AtomicU32,
    waiting: Lock<Vec<Sample>, LEAF>,
}

/// A request for a sampled key.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) hash: Hash,
    pub(crate) what: Sampled,
    pub(crate) now: u32,
}

/// What a sampled request was.
#[derive(Clone, Copy)]
pub(crate) enum Sampled {
    Hit,
    Miss,
    Stored { expires: u32 },
    Deleted,
}

impl Samples {
    /// Whether requests for the key of a hash are sampled.
    #[inline(always)]
    pub(crate) fn has(&self, hash: Hash) -> bool {
        let threshold = self.threshold.load(Relaxed);
        threshold != 0 && Tuner::is_sampled(hash.0, threshold)
    }

    /// Samples another share of the keys.
    pub(crate) fn set_threshold(&self, threshold: u32) {
        self.threshold.store(threshold, Relaxed);
    }

    /// Takes over what a thread has noted in its turn.
    pub(crate) fn hand_on(&self, noted: &mut Vec<Sample>) {
        if let Some(mut waiting) = self.waiting.try_lock() {
            let room = SAMPLES_MAX.saturating_sub(waiting.len());
            waiting.extend(noted.drain(..).take(room));
        }
        // What found no room is lost.
        noted.clear();
    }

    /// What was handed on, for the tuner.
    pub(crate) fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut *self.waiting.lock())
    }
}

/// Samples that wait to be replayed, at most.
pub(crate) const SAMPLES_MAX: usize = 1 << 16;
