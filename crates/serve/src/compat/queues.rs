//! What memcached's `lru` commands set: its hot, warm, cold and temporary queues.
//!
//! Guira's policies have no such queues (`--eviction` chooses one), so the settings are kept and shown, and change
//! nothing else but which lines `stats` has: scripts that set them find what they set.

use crate::options::Extended;
use parking_lot::Mutex;

/// The settings, as they are now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Queues {
    /// Shares of a class.
    pub(crate) hot_percent: u32,
    pub(crate) warm_percent: u32,
    /// Greatest ages over that of the cold queue.
    pub(crate) hot_factor: f64,
    pub(crate) warm_factor: f64,
    /// `lru mode segmented`, rather than `flat`.
    pub(crate) is_segmented: bool,
    /// Whether items of short life have a queue of their own.
    pub(crate) has_temporary: bool,
    /// Up to how many seconds a life is short.
    pub(crate) temporary_ttl_s: u32,
}

/// What all threads see of them.
pub(crate) struct QueueSettings(Mutex<Queues>);

impl QueueSettings {
    pub(crate) fn new(extended: &Extended) -> QueueSettings {
        QueueSettings(Mutex::new(Queues {
            hot_percent: extended.hot_lru_pct,
            warm_percent: extended.warm_lru_pct,
            hot_factor: extended.hot_max_factor,
            warm_factor: extended.warm_max_factor,
            is_segmented: extended.lru_segmented,
            has_temporary: extended.temporary_ttl_s.is_some(),
            temporary_ttl_s: extended.temporary_ttl_s.unwrap_or(TEMPORARY_TTL_S),
        }))
    }

    pub(crate) fn read(&self) -> Queues {
        *self.0.lock()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Queues)) {
        change(&mut self.0.lock());
    }
}

/// What memcached shows while it has no temporary queue.
const TEMPORARY_TTL_S: u32 = 61;
