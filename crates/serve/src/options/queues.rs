//! What memcached's `lru` commands set: its hot, warm, cold and temporary queues.
//!
//! Guira's policies have no such queues (`--eviction` chooses one), so the settings are kept and shown, and change
//! nothing else but which lines `stats` has: scripts that set them find what they set.

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Queues {
    /// The hot queue's share of a class.
    pub(crate) hot_percent: u32,
    /// The warm queue's.
    pub(crate) warm_percent: u32,
    /// The greatest age in the hot queue, over that in the cold one.
    pub(crate) hot_factor: f64,
    /// The same of the warm queue.
    pub(crate) warm_factor: f64,
    /// `lru mode segmented`, rather than `flat`.
    pub(crate) is_segmented: bool,
    /// Whether items of short life have a queue of their own.
    pub(crate) has_temporary: bool,
    /// Up to how many seconds a life is short.
    pub(crate) temporary_ttl_s: u32,
}

impl Default for Queues {
    fn default() -> Self {
        Queues {
            hot_percent: 20,
            warm_percent: 40,
            hot_factor: 0.2,
            warm_factor: 2.0,
            is_segmented: true,
            has_temporary: false,
            temporary_ttl_s: 61,
        }
    }
}
