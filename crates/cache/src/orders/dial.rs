//! S3-CLOCK's current parameters, in one word that every eviction reads and the tuner writes.

use guira_policy::Tuning;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The parameters, and whether any class evicts by them.
#[derive(Default)]
pub(crate) struct Dial {
    tuning: Packed,
    switches: AtomicU64,
    /// Whether any class has evicted: before that there is nothing to tune.
    is_wanted: AtomicBool,
}

/// S3-CLOCK's current parameters, for statistics.
#[derive(Clone, Copy, Debug)]
pub struct Tuned {
    /// The target share of a class's items on probation.
    pub small: f32,
    /// The number of hits with which an item passes its probation.
    pub promote: u8,
    /// How often the parameters changed.
    pub switches: u64,
}

impl Dial {
    /// The parameters to evict by.
    pub(crate) fn tuning(&self) -> Tuning {
        self.tuning.load()
    }

    /// Sets the parameters, and the number of changes so far.
    pub(crate) fn set(&self, tuning: Tuning, switches: u64) {
        self.tuning.store(tuning);
        self.switches.store(switches, Relaxed);
    }

    /// The parameters and the number of changes, for statistics.
    pub(crate) fn read(&self) -> Tuned {
        let Tuning { small, promote } = self.tuning();
        Tuned { small, promote, switches: self.switches.load(Relaxed) }
    }

    /// Whether any class has evicted so far.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Relaxed)
    }

    /// Records that a class evicts.
    pub(crate) fn want(&self) {
        if !self.is_wanted.load(Relaxed) {
            self.is_wanted.store(true, Relaxed);
        }
    }
}

/// The parameters in one word: hits to pass in the upper half, the share of probation in millionths in the lower.
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
