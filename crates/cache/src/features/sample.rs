//! Sampled requests, on their way from the serving threads to the tuner.
//!
//! Requests for a fixed share of the keys are recorded during the turn, and handed on when it ends.
//!
//! # Costs
//! One load and one comparison per request. In a cache of a million items, three requests in ten thousand are
//! recorded. Samples are lost if they come faster than they are replayed; those requests are then not counted.

use crate::locks::{LEAF, Lock};
use guira_index::Hash;
use guira_policy::Tuner;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The samples that threads have recorded for the tuner.
#[derive(Default)]
pub(crate) struct Samples {
    /// The share of the keys that is sampled, in the tuner's unit; 0 while sampling is off.
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
    /// Whether requests for keys with this hash are sampled.
    #[inline(always)]
    pub(crate) fn has(&self, hash: Hash) -> bool {
        let threshold = self.threshold.load(Relaxed);
        threshold != 0 && Tuner::is_sampled(hash.0, threshold)
    }

    /// Sets the share of the keys that is sampled.
    pub(crate) fn set_threshold(&self, threshold: u32) {
        self.threshold.store(threshold, Relaxed);
    }

    /// Takes over the samples that a thread recorded in its turn.
    pub(crate) fn hand_on(&self, noted: &mut Vec<Sample>) {
        if let Some(mut waiting) = self.waiting.try_lock() {
            let room = SAMPLES_MAX.saturating_sub(waiting.len());
            waiting.extend(noted.drain(..).take(room));
        }
        // Samples that found no room are lost.
        noted.clear();
    }

    /// Takes the samples, for the tuner.
    pub(crate) fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut *self.waiting.lock())
    }
}

/// How many samples may wait to be replayed.
pub(crate) const SAMPLES_MAX: usize = 1 << 16;
