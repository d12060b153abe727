//! The keys that a cache should hold, chosen anew at the end of each window of gets.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::detector::Detector;

/// A detector and its windows.
pub(super) struct Chosen {
    detector: Detector,
    entries: usize,
    hashes: RandomState,
    window_ends: Option<Instant>,
    /// Gets in this window.
    gets: usize,
}

impl Chosen {
    pub(super) fn new(entries: usize) -> Chosen {
        Chosen {
            detector: Detector::new(entries),
            entries,
            hashes: RandomState::new(),
            window_ends: None,
            gets: 0,
        }
    }

    /// The hash that stands for a key.
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.hashes.hash_one(key)
    }

    /// Counts a get. Returns whether its key is chosen.
    pub(super) fn count(&mut self, hash: u64) -> bool {
        self.detector.count(hash)
    }

    /// Ends the window after its time, but not before there are enough gets to judge. Calls `leaves` for each key that is
    /// no longer chosen. Returns whether a window ended.
    pub(super) fn turn_window(&mut self, now: Instant, leaves: impl FnMut(u64)) -> bool {
        self.gets += 1;
        let ends = *self.window_ends.get_or_insert(now + WINDOW);
        if now < ends || self.gets < GETS_AN_ENTRY * self.entries {
            return false;
        }
        self.window_ends = Some(now + WINDOW);
        self.gets = 0;
        self.detector.end_window(leaves);
        true
    }
}

/// The shortest window of the detector.
const WINDOW: Duration = Duration::from_secs(1);
/// The minimum number of gets in a window, per entry.
const GETS_AN_ENTRY: usize = 8;
