//! Corrupt blocks that requests met: the log names each of them once.
//!
//! # Costs
//! Nothing while no block is corrupt. The named places are kept, [`PLACES_MAX`] at most.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use guira_log::Seldom;
use parking_lot::Mutex;

use crate::engine::EngineError;

/// The places that were named.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    told: Mutex<HashSet<String>>,
    /// Whether the process ends because of damage, and says so itself: a node of a cluster does.
    is_fatal: AtomicBool,
}

impl Damage {
    /// Logs a failure if it is corruption at a place that wasn't named yet.
    pub(crate) fn note(&self, failure: &EngineError) {
        if let EngineError::Corrupt(place) = failure
            && !self.is_fatal.load(Relaxed)
            && self.is_to_be_told(place)
        {
            tracing::error!(
                "damaged data: {place}. What lies there is refused, all else is served. \
                 Look at the device (dmesg), run guira store verify, and restore a copy"
            );
        }
    }

    /// The process ends because of damage from now on.
    pub(crate) fn end_process(&self) {
        self.is_fatal.store(true, Relaxed);
    }

    fn is_to_be_told(&self, place: &str) -> bool {
        static MORE: Seldom = Seldom::new();
        let mut told = self.told.lock();
        if told.contains(place) {
            return false;
        }
        if told.len() >= PLACES_MAX {
            return MORE.admits();
        }
        told.insert(place.to_owned())
    }
}

/// Most places that are kept. All others together have a line per minute.
const PLACES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_told_once_and_there_are_not_too_many() {
        let damage = Damage::default();
        let told = (0..1000).filter(|n| damage.is_to_be_told(&format!("R-1 at byte {n}"))).count();
        assert!((PLACES_MAX..=PLACES_MAX + 1).contains(&told), "{told}");
        assert!(!damage.is_to_be_told("R-1 at byte 7"));
    }
}
